//! Finds the rules that might apply to a request without looking at the others.
//!
//! A rule is filed under each of its syscalls, and there under its most selective condition: path,
//! host, command, tool, plugin, tag, or none. A rule for many syscalls is filed once, in a bucket
//! every request looks into.
//!
//! Guarantee: every rule that matches is among the candidates; the candidates come sorted, so the
//! rules are asked in file order, each once.

use super::conditions::{Asked, HostPattern, Matcher, command_name};
use super::path_index::PathIndex;
use crate::glob::PathText;
use airlock_core::{Request, SYSCALLS, canonical_host};
use std::collections::HashMap;
use std::sync::Arc;

/// A rule for more syscalls than this is filed once instead of under each: the largest area has
/// six.
const FEW_SYSCALLS: u32 = 8;
/// Candidates beyond this many (and twice the rules) are sorted and deduplicated along the way, so
/// that a request with very many paths needs no more memory than the rules do.
const MANY_CANDIDATES: usize = 4_096;

type Ids = Vec<u32>;
type ByWord = HashMap<Arc<str>, Ids>;

/// Rules by what they ask for.
#[derive(Debug)]
pub(super) struct Index {
    by_syscall: Vec<Bucket>,
    wide: Bucket,
    rules: usize,
}

#[derive(Debug, Default)]
struct Bucket {
    paths: PathIndex,
    hosts: HashMap<Box<str>, Ids>,
    domains: HashMap<Box<str>, Ids>,
    commands: ByWord,
    tools: ByWord,
    plugins: ByWord,
    tags: ByWord,
    always: Ids,
}

impl Index {
    /// Files every rule by the position it has in `matchers`.
    pub(super) fn build<'a>(matchers: impl Iterator<Item = &'a Matcher>) -> Self {
        let mut index = Self {
            by_syscall: SYSCALLS.iter().map(|_| Bucket::default()).collect(),
            wide: Bucket::default(),
            rules: 0,
        };
        for (id, matcher) in (0..).zip(matchers) {
            index.insert(id, matcher);
            index.rules += 1;
        }
        index
    }

    fn insert(&mut self, id: u32, matcher: &Matcher) {
        if matcher.syscalls.len() > FEW_SYSCALLS {
            self.wide.insert(id, matcher);
            return;
        }
        for at in matcher.syscalls.positions() {
            if let Some(bucket) = self.by_syscall.get_mut(at as usize) {
                bucket.insert(id, matcher);
            }
        }
    }

    /// Every rule that might apply to the request, ascending, each once.
    pub(super) fn candidates(&self, asked: Asked<'_>) -> Vec<u32> {
        let own = asked
            .position()
            .and_then(|at| self.by_syscall.get(at as usize));
        let mut found = Vec::with_capacity(16);
        for bucket in own.into_iter().chain([&self.wide]) {
            bucket.collect(
                asked.request,
                &mut found,
                MANY_CANDIDATES.max(2 * self.rules),
            );
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Bucket {
    fn insert(&mut self, id: u32, matcher: &Matcher) {
        if let Some(paths) = &matcher.paths {
            for glob in paths.includes() {
                self.paths.insert(glob, id);
            }
        } else if let Some(hosts) = matcher.host.as_deref() {
            for host in hosts {
                self.host(host).push(id);
            }
        } else if let Some(words) = matcher.command.as_deref() {
            file(&mut self.commands, words, id);
        } else if let Some(words) = matcher.tool.as_deref() {
            file(&mut self.tools, words, id);
        } else if let Some(words) = matcher.plugin.as_deref() {
            file(&mut self.plugins, words, id);
        } else if let Some(words) = matcher.caller_tag.as_deref() {
            file(&mut self.tags, words, id);
        } else {
            self.always.push(id);
        }
    }

    fn host(&mut self, pattern: &HostPattern) -> &mut Ids {
        match pattern {
            HostPattern::Exact(host) => self.hosts.entry(host.clone()).or_default(),
            HostPattern::Below(domain) => self.domains.entry(domain.clone()).or_default(),
            HostPattern::Any => &mut self.always,
        }
    }

    fn collect(&self, request: &Request, found: &mut Ids, many: usize) {
        found.extend_from_slice(&self.always);
        for path in &request.paths {
            self.paths.visit(PathText::new(path.as_str()), |ids| {
                found.extend_from_slice(ids);
            });
            if found.len() > many {
                found.sort_unstable();
                found.dedup();
            }
        }
        if let Some(host) = request.host.as_deref() {
            self.collect_host(host, found);
        }
        let mut look = |index: &ByWord, word: &str| {
            if let Some(ids) = index.get(word) {
                found.extend_from_slice(ids);
            }
        };
        if let Some(name) = command_name(request) {
            look(&self.commands, name);
        }
        if let Some(tool) = request.tool.as_deref() {
            look(&self.tools, tool);
        }
        look(&self.plugins, request.caller.plugin.as_str());
        for tag in &request.caller.tags {
            look(&self.tags, tag.as_str());
        }
    }

    fn collect_host(&self, host: &str, found: &mut Ids) {
        if self.hosts.is_empty() && self.domains.is_empty() {
            return;
        }
        let Some(host) = canonical_host(host) else {
            // It fits every denial that asks for a host.
            let all = self.hosts.values().chain(self.domains.values());
            found.extend(all.flatten());
            return;
        };
        if let Some(ids) = self.hosts.get(&*host) {
            found.extend_from_slice(ids);
        }
        let mut below: &str = &host;
        while let Some((_, domain)) = below.split_once('.') {
            if let Some(ids) = self.domains.get(domain) {
                found.extend_from_slice(ids);
            }
            below = domain;
        }
    }
}

fn file(index: &mut ByWord, words: &[Arc<str>], id: u32) {
    for word in words {
        index.entry(Arc::clone(word)).or_default().push(id);
    }
}

//! Finds the rules that might apply to a request without looking at the others.
//!
//! A rule is filed under each of its syscalls, and there under its most selective condition: path,
//! host, command, tool, plugin, tag, or none. A rule for many syscalls is filed once, in a bucket
//! every request looks into.
//!
//! Guarantee: every rule that matches is among the candidates.

use super::candidates::Candidates;
use super::conditions::{Asked, HostPattern, Matcher, command_name};
use super::path_index::PathIndex;
use crate::glob::PathText;
use crate::hash::Seeded;
use airlock_core::{Request, SYSCALLS, canonical_host};
use std::collections::HashMap;
use std::sync::Arc;

/// A rule for more syscalls than this is filed once instead of under each: the largest area has
/// six.
const FEW_SYSCALLS: u32 = 8;
/// Candidates beyond this many (and twice the rules) are told apart along the way, so that a
/// request with very many paths needs no more memory than the rules do.
const MANY_CANDIDATES: usize = 4_096;

type Ids = Vec<u32>;
type ByWord = HashMap<Arc<str>, Ids, Seeded>;
type ByHost = HashMap<Box<str>, Ids, Seeded>;

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
    hosts: ByHost,
    domains: ByHost,
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

    /// Every rule that might apply to the request.
    pub(super) fn candidates(&self, asked: Asked<'_>) -> Candidates {
        let own = asked
            .position()
            .and_then(|at| self.by_syscall.get(at as usize));
        let mut found = Candidates::default();
        for bucket in own.into_iter().chain([&self.wide]) {
            bucket.collect(
                asked.request,
                &mut found,
                MANY_CANDIDATES.max(2 * self.rules),
            );
        }
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

    fn collect(&self, request: &Request, found: &mut Candidates, many: usize) {
        found.extend(&self.always);
        for path in &request.paths {
            self.paths.visit(PathText::new(path.as_str()), |ids| {
                found.extend(ids);
            });
            found.condense_beyond(many);
        }
        if let Some(host) = request.host.as_deref() {
            self.collect_host(host, found);
        }
        let mut look = |index: &ByWord, word: &str| {
            if let Some(ids) = index.get(word) {
                found.extend(ids);
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

    fn collect_host(&self, host: &str, found: &mut Candidates) {
        if self.hosts.is_empty() && self.domains.is_empty() {
            return;
        }
        let Some(host) = canonical_host(host) else {
            // It fits every denial that asks for a host.
            for ids in self.hosts.values().chain(self.domains.values()) {
                found.extend(ids);
            }
            return;
        };
        if let Some(ids) = self.hosts.get(&*host) {
            found.extend(ids);
        }
        let mut below: &str = &host;
        while let Some((_, domain)) = below.split_once('.') {
            if let Some(ids) = self.domains.get(domain) {
                found.extend(ids);
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

//! Steps as bytes. What [`super::read`] reads, field by field in the same order.

use super::{Entry, Op, Owner, Rules, Ruleset, Source};
use crate::seccomp::Instruction;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::ffi::CStr;
use std::io;

/// A filter as the kernel reads it.
pub(in super::super) fn filter_bytes(program: &[Instruction]) -> Vec<u8> {
    let bytes = program.iter().flat_map(|instruction| {
        let [code, more] = instruction.code.to_ne_bytes();
        let [a, b, c, d] = instruction.operand.to_ne_bytes();
        let (yes, no) = (instruction.jump_true, instruction.jump_false);
        [code, more, yes, no, a, b, c, d]
    });
    bytes.collect()
}

/// Rules of Landlock, to be part of a step.
#[derive(Debug, Default)]
pub(in super::super) struct RuleList(Writer);

impl RuleList {
    /// Allows `access` beneath `path`.
    pub(in super::super) fn allow(&mut self, path: &CStr, access: u64) {
        self.0.text(path);
        self.0.long(access);
    }

    /// As a step has them.
    pub(in super::super) fn rules(&self) -> Rules<'_> {
        Rules(&self.0.bytes)
    }
}

/// Writes steps.
#[derive(Debug, Default)]
pub(in super::super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Adds a step.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of step")]
    pub(in super::super) fn add(&mut self, op: Op<'_>) {
        match op {
            Op::Hostname => self.kind(1),
            Op::Private => self.kind(2),
            Op::Base { on } => {
                self.kind(3);
                self.text(on);
            }
            Op::NewRoot { options } => {
                self.kind(4);
                self.text(options);
            }
            Op::Scratch { options, owner } => {
                self.kind(5);
                self.text(options);
                self.owner(owner);
            }
            Op::Directory { entry } => {
                self.kind(6);
                self.entry(entry);
            }
            Op::File { entry, text } => {
                self.kind(7);
                self.entry(entry);
                self.block(text);
            }
            Op::Link { entry, target } => {
                self.kind(8);
                self.entry(entry);
                self.text(target);
            }
            Op::Text { name, text } => {
                self.kind(9);
                self.text(name);
                self.block(text);
            }
            Op::Ghost { name, owner } => {
                self.kind(10);
                self.text(name);
                self.owner(owner);
            }
            Op::Bind {
                source,
                place,
                attributes,
                map,
            } => {
                self.kind(11);
                self.source(source);
                self.bound(place, attributes, map);
            }
            Op::Keep {
                source,
                at,
                attributes,
                map,
            } => {
                self.kind(12);
                self.text(source);
                self.bound(at, attributes, map);
            }
            Op::Mount {
                kind,
                place,
                flags,
                options,
            } => {
                self.kind(13);
                self.text(kind);
                self.text(place);
                self.word(flags);
                self.options(options);
            }
            Op::Join { tasks } => {
                self.kind(14);
                self.text(tasks);
            }
            Op::Enter => self.kind(15),
            Op::Become => self.kind(16),
            Op::Limit {
                resource,
                soft,
                hard,
            } => {
                self.kind(17);
                self.word(resource);
                self.long(soft);
                self.long(hard);
            }
            Op::Powerless => self.kind(18),
            Op::Landlock {
                ruleset,
                known,
                rules,
            } => {
                self.kind(19);
                self.ruleset(ruleset);
                self.word(known);
                self.block(rules.0);
            }
            Op::Filter { program } => {
                self.kind(20);
                self.block(program);
            }
            Op::Ask { program, flags } => {
                self.kind(21);
                self.block(program);
                self.word(flags);
            }
            Op::Serve => self.kind(22),
            Op::Listen { entry } => {
                self.kind(23);
                self.entry(entry);
            }
            Op::Pick { place, read_only } => {
                self.kind(24);
                self.text(place);
                self.kind(u8::from(read_only));
            }
        }
    }

    /// The steps in a file that nobody can change any more: the child maps it.
    pub(in super::super) fn seal(&self) -> io::Result<OwnedFd> {
        sealed(c"steps", &self.bytes)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn kind(&mut self, kind: u8) {
        self.bytes.push(kind);
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    fn long(&mut self, long: u64) {
        self.bytes.extend(long.to_le_bytes());
    }

    fn block(&mut self, bytes: &[u8]) {
        self.long(bytes.len() as u64);
        self.bytes.extend(bytes);
    }

    fn text(&mut self, text: &CStr) {
        self.block(text.to_bytes_with_nul());
    }

    fn number(&mut self, number: Option<u32>) {
        self.kind(u8::from(number.is_some()));
        self.word(number.unwrap_or_default());
    }

    fn owner(&mut self, owner: Option<Owner>) {
        let (user, group) = owner.unwrap_or_default();
        self.number(owner.map(|_| user));
        self.word(group);
    }

    fn bound(&mut self, place: &CStr, attributes: u64, map: Option<u32>) {
        self.text(place);
        self.long(attributes);
        self.number(map);
    }

    fn options(&mut self, options: Option<&CStr>) {
        self.kind(u8::from(options.is_some()));
        if let Some(options) = options {
            self.text(options);
        }
    }

    fn entry(&mut self, entry: Entry<'_>) {
        self.text(entry.parent);
        self.text(entry.name);
        self.owner(entry.owner);
    }

    fn source(&mut self, source: Source<'_>) {
        let (kind, path) = match source {
            Source::Host(path) => (0, path),
            Source::Base(path) => (1, path),
            Source::New(path) => (2, path),
        };
        self.kind(kind);
        self.text(path);
    }

    fn ruleset(&mut self, ruleset: Ruleset) {
        let Ruleset {
            files,
            network,
            scoped,
        } = ruleset;
        for long in [files, network, scoped] {
            self.long(long);
        }
    }
}

/// A memory file with `bytes` in it that nobody can change any more.
pub(in super::super) fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut left = bytes;
    while !left.is_empty() {
        let written = rustix::io::write(&file, left)?;
        left = left.get(written..).unwrap_or_default();
    }
    // Whoever maps it relies on its length.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

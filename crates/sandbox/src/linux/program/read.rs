//! Steps from bytes. Nothing here allocates: what is read points into what was written.

use super::{Entry, Op, Owner, Ruleset, Source};
use rustix::io::Errno;
use std::ffi::CStr;

type Result<T> = std::result::Result<T, Errno>;

/// Reads steps one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Reader<'a> {
    left: &'a [u8],
}

/// Rules of Landlock: a path, and what may be done beneath it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Rules<'a>(pub(super) &'a [u8]);

impl<'a> Rules<'a> {
    /// The next rule.
    pub(in super::super) fn next(&mut self) -> Result<(&'a CStr, u64)> {
        let mut reader = Reader { left: self.0 };
        let rule = (reader.text()?, reader.long()?);
        self.0 = reader.left;
        Ok(rule)
    }

    /// Whether there is none left.
    pub(in super::super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Reader<'a> {
    pub(in super::super) const fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// Whether there is none left.
    pub(in super::super) const fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The next step.
    pub(in super::super) fn next(&mut self) -> Result<Op<'a>> {
        Ok(match self.kind()? {
            1 => Op::Hostname,
            2 => Op::Private,
            3 => Op::Base { on: self.text()? },
            4 => Op::NewRoot {
                options: self.text()?,
            },
            5 => Op::Scratch {
                options: self.text()?,
                owner: self.owner()?,
            },
            6 => Op::Directory {
                entry: self.entry()?,
            },
            7 => Op::File {
                entry: self.entry()?,
                text: self.block()?,
            },
            8 => Op::Link {
                entry: self.entry()?,
                target: self.text()?,
            },
            9 => Op::Text {
                name: self.text()?,
                text: self.block()?,
            },
            10 => Op::Ghost {
                name: self.text()?,
                owner: self.owner()?,
            },
            11 => Op::Bind {
                source: self.source()?,
                place: self.text()?,
                attributes: self.long()?,
                map: self.number()?,
            },
            12 => Op::Keep {
                source: self.text()?,
                at: self.text()?,
                attributes: self.long()?,
                map: self.number()?,
            },
            13 => Op::Mount {
                kind: self.text()?,
                place: self.text()?,
                flags: self.word()?,
                options: self.options()?,
            },
            14 => Op::Join {
                tasks: self.text()?,
            },
            15 => Op::Enter,
            16 => Op::Become,
            17 => Op::Limit {
                resource: self.word()?,
                soft: self.long()?,
                hard: self.long()?,
            },
            18 => Op::Powerless,
            19 => Op::Landlock {
                ruleset: self.ruleset()?,
                known: self.word()?,
                rules: Rules(self.block()?),
            },
            20 => Op::Filter {
                program: self.block()?,
            },
            21 => Op::Ask {
                program: self.block()?,
                flags: self.word()?,
            },
            22 => Op::Serve,
            23 => Op::Listen {
                entry: self.entry()?,
            },
            24 => Op::Pick {
                place: self.text()?,
                read_only: self.flag()?,
            },
            _ => return Err(Errno::INVAL),
        })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(Errno::INVAL)?;
        self.left = left;
        Ok(taken)
    }

    fn kind(&mut self) -> Result<u8> {
        self.take(1)?.first().copied().ok_or(Errno::INVAL)
    }

    fn flag(&mut self) -> Result<bool> {
        match self.kind()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Errno::INVAL),
        }
    }

    fn word(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        bytes
            .try_into()
            .map(u32::from_le_bytes)
            .map_err(|_| Errno::INVAL)
    }

    fn long(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        bytes
            .try_into()
            .map(u64::from_le_bytes)
            .map_err(|_| Errno::INVAL)
    }

    fn block(&mut self) -> Result<&'a [u8]> {
        let length = self.long()?;
        self.take(usize::try_from(length).map_err(|_| Errno::INVAL)?)
    }

    fn text(&mut self) -> Result<&'a CStr> {
        CStr::from_bytes_with_nul(self.block()?).map_err(|_| Errno::INVAL)
    }

    fn number(&mut self) -> Result<Option<u32>> {
        let there = self.kind()?;
        let number = self.word()?;
        match there {
            0 => Ok(None),
            1 => Ok(Some(number)),
            _ => Err(Errno::INVAL),
        }
    }

    fn owner(&mut self) -> Result<Option<Owner>> {
        let user = self.number()?;
        let group = self.word()?;
        Ok(user.map(|user| (user, group)))
    }

    fn options(&mut self) -> Result<Option<&'a CStr>> {
        match self.kind()? {
            0 => Ok(None),
            1 => Ok(Some(self.text()?)),
            _ => Err(Errno::INVAL),
        }
    }

    fn entry(&mut self) -> Result<Entry<'a>> {
        Ok(Entry {
            parent: self.text()?,
            name: self.text()?,
            owner: self.owner()?,
        })
    }

    fn source(&mut self) -> Result<Source<'a>> {
        let kind = self.kind()?;
        let path = self.text()?;
        match kind {
            0 => Ok(Source::Host(path)),
            1 => Ok(Source::Base(path)),
            2 => Ok(Source::New(path)),
            _ => Err(Errno::INVAL),
        }
    }

    fn ruleset(&mut self) -> Result<Ruleset> {
        Ok(Ruleset {
            files: self.long()?,
            network: self.long()?,
            scoped: self.long()?,
        })
    }
}

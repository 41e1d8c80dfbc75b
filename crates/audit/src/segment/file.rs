//! The archive file: one closed segment of the chain, compressed, able to vouch for itself.
//!
//! Layout: magic, log id, the previous segment's head; blocks (compressed length, record count,
//! deflated length-prefixed records); then the index, the last head, the SHA-256 of everything
//! before, the trailer's length, magic. Blocks let a reader start anywhere and go backwards with
//! the memory of one block.
//!
//! Non-guarantee: the checksum finds accidents; forgeries are the chain's to find.

use super::SegmentName;
use crate::chain::{Head, LogId};
use crate::encoding::MAX_BODY;
use crate::open::{nofollow, nonblocking};
use crate::writer::{decode_head, encode_head};
use airlock_core::Hashing;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const BEGIN: &[u8; 8] = b"ALSEG\0\0\x01";
const END: &[u8; 8] = b"ALSEGEND";
const HEAD: usize = 40;
const HEADER: usize = 8 + 16 + HEAD;
const ENTRY: usize = 8 + 8 + 4;
/// A block is closed at this many bytes of records.
const BLOCK_BYTES: usize = 512 * 1024;
/// No block inflates to more: one full block and one record of the largest kind.
const BLOCK_LIMIT: u64 = (BLOCK_BYTES + 2 * MAX_BODY) as u64;
/// No index is longer: a block for each record of a gigabyte's worth of small ones.
const TRAILER_LIMIT: u64 = 64 * 1024 * 1024;

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file cannot be read or written.
    #[error("the archive `{path}` cannot be used: {source}")]
    Io {
        /// The archive.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is not what was written.
    #[error("the archive `{path}` is damaged: {detail}")]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
}

#[derive(Debug, Clone, Copy)]
struct Block {
    offset: u64,
    first: u64,
    count: u32,
}

/// Writes one archive; nothing counts until [`SegmentWriter::finish`].
pub(super) struct SegmentWriter {
    file: BufWriter<File>,
    hash: Hashing,
    offset: u64,
    last: Head,
    blocks: Vec<Block>,
    records: Vec<u8>,
    block: Block,
}

impl SegmentWriter {
    pub(super) fn create(path: &Path, log: &LogId, previous: Head) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut writer = Self {
            file: BufWriter::new(file),
            hash: Hashing::new(),
            offset: 0,
            last: previous,
            blocks: Vec::new(),
            records: Vec::new(),
            block: Block {
                offset: 0,
                first: 0,
                count: 0,
            },
        };
        writer.put(BEGIN)?;
        writer.put(log.as_bytes())?;
        writer.put(&encode_head(&previous))?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.offset += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Adds the next record. The caller has verified that it continues the chain.
    pub(super) fn push(&mut self, stored: &[u8], head: Head) -> io::Result<()> {
        if self.block.count == 0 {
            self.block.first = head.seq;
        }
        let length = u32::try_from(stored.len()).map_err(io::Error::other)?;
        self.records.extend_from_slice(&length.to_be_bytes());
        self.records.extend_from_slice(stored);
        self.block.count += 1;
        self.last = head;
        if self.records.len() >= BLOCK_BYTES {
            self.close_block()?;
        }
        Ok(())
    }

    fn close_block(&mut self) -> io::Result<()> {
        if self.block.count == 0 {
            return Ok(());
        }
        self.block.offset = self.offset;
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.records)?;
        let packed = encoder.finish()?;
        let length = u32::try_from(packed.len()).map_err(io::Error::other)?;
        self.put(&length.to_be_bytes())?;
        self.put(&packed)?;
        self.blocks.push(self.block);
        self.block.count = 0;
        self.records.clear();
        Ok(())
    }

    /// Closes the archive and waits until it is on disk.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.close_block()?;
        let start = self.offset;
        for block in std::mem::take(&mut self.blocks) {
            self.put(&block.offset.to_be_bytes())?;
            self.put(&block.first.to_be_bytes())?;
            self.put(&block.count.to_be_bytes())?;
        }
        let last = encode_head(&self.last);
        self.put(&last)?;
        let digest = self.hash.clone().finish();
        self.put(digest.as_bytes())?;
        let length = self.offset - start;
        self.put(&length.to_be_bytes())?;
        self.put(END)?;
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }
}

/// An archive, opened for reading block by block.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    file: File,
    blocks: Vec<Block>,
    pub(crate) log: LogId,
    /// The head before the first record.
    pub(crate) previous: Head,
    /// The head after the last record.
    pub(crate) last: Head,
}

impl Segment {
    pub(crate) fn open(path: &Path) -> Result<Self, SegmentError> {
        let io = |source| SegmentError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(nofollow() | nonblocking())
            .open(path)
            .map_err(io)?;
        let damaged = |detail: &str| SegmentError::Damaged {
            path: path.to_owned(),
            detail: detail.to_owned(),
        };
        if !file.metadata().map_err(io)?.is_file() {
            return Err(damaged("it is not a regular file"));
        }
        let mut header = [0; HEADER];
        file.read_exact(&mut header)
            .map_err(|_| damaged("it is cut off"))?;
        let (log, previous) = parse_header(&header).ok_or_else(|| damaged("it has no header"))?;
        let trailer = read_trailer(&mut file).ok_or_else(|| damaged("it has no trailer"))?;
        let (blocks, last) =
            parse_trailer(&trailer).ok_or_else(|| damaged("its index is wrong"))?;
        if end_of(&blocks, previous.seq) != Some(last.seq) {
            return Err(damaged("its index is wrong"));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            blocks,
            log,
            previous,
            last,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The block that would hold record `seq`.
    pub(crate) fn block_of(&self, seq: u64) -> usize {
        self.blocks
            .partition_point(|block| block.first <= seq)
            .saturating_sub(1)
    }

    /// Itself, if it holds what its name says.
    pub(crate) fn named(self, name: &SegmentName) -> Result<Self, SegmentError> {
        if (name.first, name.last) == (self.previous.seq.saturating_add(1), self.last.seq) {
            return Ok(self);
        }
        Err(SegmentError::Damaged {
            path: self.path,
            detail: "it does not hold the records it is named after".to_owned(),
        })
    }

    /// The numbers of the records that one block would hold.
    pub(crate) fn numbers_of(&self, index: usize) -> Range<u64> {
        let first = |block: &Block| block.first;
        let end = self.last.seq.saturating_add(1);
        let from = self.blocks.get(index).map_or(end, first);
        from..self.blocks.get(index + 1).map_or(end, first)
    }

    /// The stored records of one block, in order, as they are in the file: unverified.
    pub(crate) fn block(&mut self, index: usize) -> Result<Vec<Vec<u8>>, SegmentError> {
        let damaged = |detail: String| SegmentError::Damaged {
            path: self.path.clone(),
            detail,
        };
        let Some(block) = self.blocks.get(index).copied() else {
            return Ok(Vec::new());
        };
        let wrong = |error: io::Error| damaged(format!("block {index} cannot be read: {error}"));
        self.file
            .seek(SeekFrom::Start(block.offset))
            .map_err(wrong)?;
        let mut length = [0; 4];
        self.file.read_exact(&mut length).map_err(wrong)?;
        let packed = (&self.file).take(u64::from(u32::from_be_bytes(length)));
        let mut records = Vec::new();
        DeflateDecoder::new(packed)
            .take(BLOCK_LIMIT)
            .read_to_end(&mut records)
            .map_err(wrong)?;
        let split = split_records(&records)
            .filter(|split| split.len() == usize::try_from(block.count).unwrap_or(usize::MAX));
        split.ok_or_else(|| damaged(format!("block {index} does not hold what the index says")))
    }

    /// Checks the file's own checksum.
    pub(crate) fn check(&mut self) -> Result<(), SegmentError> {
        let sum = checksum(&mut self.file).map_err(|source| SegmentError::Io {
            path: self.path.clone(),
            source,
        })?;
        if sum {
            return Ok(());
        }
        Err(SegmentError::Damaged {
            path: self.path.clone(),
            detail: "its checksum does not match".to_owned(),
        })
    }
}

fn checksum(file: &mut File) -> io::Result<bool> {
    const TAIL: u64 = 32 + 8 + 8;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Hashing::new();
    let mut body = (&*file).take(length.saturating_sub(TAIL));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = body.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        hash.update(bytes);
    }
    let mut found = [0; 32];
    (&*file).read_exact(&mut found)?;
    Ok(hash.finish().as_bytes() == &found)
}

fn parse_header(header: &[u8; HEADER]) -> Option<(LogId, Head)> {
    let rest = header.strip_prefix(BEGIN)?;
    let (log, rest) = rest.split_first_chunk::<16>()?;
    Some((LogId::from_bytes(*log), decode_head(rest)?))
}

fn read_trailer(file: &mut File) -> Option<Vec<u8>> {
    let end = file.seek(SeekFrom::End(-16)).ok()?;
    let mut tail = [0; 16];
    file.read_exact(&mut tail).ok()?;
    let (length, magic) = tail.split_first_chunk::<8>()?;
    let length = u64::from_be_bytes(*length);
    if magic != END || length > TRAILER_LIMIT || length > end {
        return None;
    }
    file.seek(SeekFrom::Start(end - length)).ok()?;
    let mut trailer = Vec::new();
    (&*file).take(length).read_to_end(&mut trailer).ok()?;
    Some(trailer)
}

fn parse_trailer(trailer: &[u8]) -> Option<(Vec<Block>, Head)> {
    let (rest, _digest) = trailer.split_last_chunk::<32>()?;
    let (index, last) = rest.split_last_chunk::<HEAD>()?;
    let last = decode_head(last)?;
    let (entries, odd) = index.as_chunks::<ENTRY>();
    if !odd.is_empty() {
        return None;
    }
    let blocks: Option<Vec<_>> = entries.iter().map(parse_block).collect();
    let blocks = blocks?;
    let ordered = blocks.is_sorted_by(|a, b| a.first < b.first && a.offset < b.offset);
    ordered.then_some((blocks, last))
}

/// The last number of `blocks`, if each begins where the one before it ends, and the first behind `previous`.
fn end_of(blocks: &[Block], previous: u64) -> Option<u64> {
    blocks.iter().try_fold(previous, |last, block| {
        let follows = last.checked_add(1) == Some(block.first) && block.count > 0;
        follows.then(|| last.checked_add(u64::from(block.count)))?
    })
}

fn parse_block(entry: &[u8; ENTRY]) -> Option<Block> {
    let (offset, rest) = entry.split_first_chunk::<8>()?;
    let (first, count) = rest.split_first_chunk::<8>()?;
    Some(Block {
        offset: u64::from_be_bytes(*offset),
        first: u64::from_be_bytes(*first),
        count: u32::from_be_bytes(count.try_into().ok()?),
    })
}

fn split_records(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (record, rest) = rest.split_at_checked(length)?;
        records.push(record.to_vec());
        bytes = rest;
    }
    Some(records)
}

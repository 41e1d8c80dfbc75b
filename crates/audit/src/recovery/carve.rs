//! Finds rows in the pages of a database file, without the tree above them.
//!
//! SQLite keeps rows in leaf pages that describe themselves, so every leaf that survived can be
//! read even if the header, the schema or the pages above are gone. Whatever is found proves
//! itself by its digest; everything else is left alone. Lengths and pointers come from a damaged
//! or hostile file: each is checked against the page before it is followed.

use crate::chain::STORED_PREFIX;
use crate::encoding::MAX_BODY;
use crate::recovery::suffixed;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

const PAGE: usize = crate::open::PAGE_SIZE as usize;
/// The largest part of a payload that stays in its leaf page, as SQLite's format defines it.
const MAX_LOCAL: usize = PAGE - 35;
const MIN_LOCAL: usize = (PAGE - 12) * 32 / 255 - 23;
const LEAF: u8 = 0x0d;
const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

type Sink<'a> = dyn FnMut(&[u8]) -> rusqlite::Result<()> + 'a;

/// Hands every row-like blob in the database at `path`, and in its write-ahead log, to `sink`.
/// Files that cannot be read hold nothing.
pub(super) fn carve(path: &Path, sink: &mut Sink<'_>) -> rusqlite::Result<()> {
    if let Ok(mut file) = File::open(path) {
        carve_pages(&mut file, sink)?;
    }
    if let Ok(mut wal) = File::open(suffixed(path, "-wal")) {
        carve_wal(&mut wal, sink)?;
    }
    Ok(())
}

fn carve_pages(file: &mut File, sink: &mut Sink<'_>) -> rusqlite::Result<()> {
    let pages = file.metadata().map_or(0, |metadata| metadata.len()) / PAGE as u64;
    for number in 1..=pages {
        if let Ok(page) = read_page(file, number) {
            let mut overflow = |number| read_page(file, number).ok();
            carve_leaf(&page, number == 1, &mut overflow, sink)?;
        }
    }
    Ok(())
}

fn read_page(file: &mut File, number: u64) -> io::Result<Vec<u8>> {
    let start = number
        .checked_sub(1)
        .and_then(|index| index.checked_mul(PAGE as u64))
        .ok_or(io::ErrorKind::InvalidInput)?;
    file.seek(SeekFrom::Start(start))?;
    let mut page = vec![0; PAGE];
    file.read_exact(&mut page)?;
    Ok(page)
}

/// Committed frames only: what follows the last commit was never acknowledged.
fn carve_wal(wal: &mut File, sink: &mut Sink<'_>) -> rusqlite::Result<()> {
    let Ok(frames) = committed_frames(wal) else {
        return Ok(());
    };
    let latest: std::collections::HashMap<u32, u64> = frames.into_iter().collect();
    for offset in latest.values() {
        let Ok(page) = read_at(wal, *offset) else {
            continue;
        };
        let mut overflow = |number: u64| {
            let offset = latest.get(&u32::try_from(number).ok()?)?;
            read_at(wal, *offset).ok()
        };
        carve_leaf(&page, false, &mut overflow, sink)?;
    }
    Ok(())
}

fn read_at(file: &mut File, offset: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut page = vec![0; PAGE];
    file.read_exact(&mut page)?;
    Ok(page)
}

/// The numbers of the pages in the write-ahead log of the database at `path`; none if there is no such log.
pub(super) fn pages_ahead(path: &Path) -> Option<HashSet<u64>> {
    let mut wal = File::open(suffixed(path, "-wal")).ok()?;
    let frames = committed_frames(&mut wal).ok()?;
    Some(
        frames
            .into_iter()
            .map(|(page, _)| u64::from(page))
            .collect(),
    )
}

/// Page number and place of each committed frame, oldest first.
fn committed_frames(wal: &mut File) -> io::Result<Vec<(u32, u64)>> {
    let length = wal.metadata()?.len();
    let mut header = [0; WAL_HEADER];
    wal.read_exact(&mut header)?;
    let salt = header.get(16..24).map(<[u8]>::to_vec);
    let mut frames = Vec::new();
    let mut committed = 0;
    let mut offset = WAL_HEADER as u64;
    let step = (FRAME_HEADER + PAGE) as u64;
    while offset + step <= length {
        wal.seek(SeekFrom::Start(offset))?;
        let mut frame = [0; FRAME_HEADER];
        wal.read_exact(&mut frame)?;
        if frame.get(8..16).map(<[u8]>::to_vec) != salt {
            break;
        }
        let word = |at: usize| {
            frame
                .get(at..at + 4)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u32::from_be_bytes)
        };
        frames.push((word(0), offset + FRAME_HEADER as u64));
        if word(4) != 0 {
            committed = frames.len();
        }
        offset += step;
    }
    frames.truncate(committed);
    Ok(frames)
}

fn carve_leaf(
    page: &[u8],
    is_first: bool,
    overflow: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
    sink: &mut Sink<'_>,
) -> rusqlite::Result<()> {
    let start = if is_first { 100 } else { 0 };
    if page.get(start) != Some(&LEAF) {
        return Ok(());
    }
    let cells = short(page, start + 3).unwrap_or(0);
    for index in 0..cells {
        let Some(at) = short(page, start + 8 + 2 * index) else {
            break;
        };
        if let Some(stored) = read_cell(page, at, overflow) {
            sink(&stored)?;
        }
    }
    Ok(())
}

fn short(page: &[u8], at: usize) -> Option<usize> {
    let bytes = page.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_be_bytes(bytes.try_into().ok()?)))
}

/// The blob of a row of `records`: number in the key, a NULL in its place, then the blob.
fn read_cell(
    page: &[u8],
    at: usize,
    overflow: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let cell = page.get(at..)?;
    let (length, cell) = varint(cell)?;
    let (_rowid, cell) = varint(cell)?;
    let length = usize::try_from(length).ok()?;
    if !(STORED_PREFIX..=STORED_PREFIX + MAX_BODY + 32).contains(&length) {
        return None;
    }
    let payload = read_payload(cell, length, overflow)?;
    let (header, rest) = varint(&payload)?;
    let header = usize::try_from(header).ok()?;
    let (number_type, types) = varint(rest)?;
    let (blob_type, _) = varint(types)?;
    if number_type != 0 || blob_type < 12 || blob_type % 2 != 0 {
        return None;
    }
    let size = usize::try_from((blob_type - 12) / 2).ok()?;
    let blob = payload.get(header..header.checked_add(size)?)?;
    Some(blob.to_vec())
}

fn read_payload(
    cell: &[u8],
    length: usize,
    overflow: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    if length <= MAX_LOCAL {
        return cell.get(..length).map(<[u8]>::to_vec);
    }
    let surplus = MIN_LOCAL + (length - MIN_LOCAL) % (PAGE - 4);
    let local = if surplus <= MAX_LOCAL {
        surplus
    } else {
        MIN_LOCAL
    };
    let mut payload = cell.get(..local)?.to_vec();
    let mut next = word(cell, local)?;
    // Each page adds to the payload, so a loop of pages ends with it.
    while payload.len() < length {
        let page = overflow(next)?;
        next = word(&page, 0)?;
        let take = (length - payload.len()).min(PAGE - 4);
        payload.extend_from_slice(page.get(4..4 + take)?);
    }
    Some(payload)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u64::from(u32::from_be_bytes(bytes.try_into().ok()?)))
}

/// SQLite's variable-length integer: up to nine bytes, most significant first.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        if index == 8 {
            return Some((value << 8 | u64::from(*byte), bytes.get(9..)?));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

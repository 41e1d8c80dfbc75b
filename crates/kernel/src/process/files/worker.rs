//! What the file worker does: one operation, inside a sandbox, against the stage.

use super::operation::{
    Answer, Change, Changed, Code, Expected, FILE_BYTES, Operation, Place, Refusal,
};
use super::patch::{self, FilePatch};
use super::place::{Missing, Root, Spot, refused};
use airlock_core::Digest;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::path::Path;

/// The longest order that is read.
const ORDER_BYTES: u64 = 32 * 1024 * 1024;
/// Most entries of a directory that is moved or deleted as a whole, and its greatest depth.
const ENTRIES: usize = 20_000;
const DEPTH: usize = 128;

/// Reads one operation from `input`, carries it out beneath the directory `root`, and answers on
/// `output`. Only the kernel starts it, in a sandbox whose walls are what confines it.
pub fn serve_files(root: &Path, input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut order = Vec::new();
    input.take(ORDER_BYTES).read_to_end(&mut order)?;
    let operation: Operation = serde_json::from_slice(&order).map_err(io::Error::other)?;
    let answer = match Root::open(root).and_then(|root| carry_out(&root, &operation)) {
        Ok(files) => Answer::Done { files },
        Err(refusal) => Answer::Refused(refusal),
    };
    serde_json::to_writer(&mut output, &answer).map_err(io::Error::other)?;
    output.flush()
}

pub(super) fn carry_out(root: &Root, operation: &Operation) -> Result<Vec<Changed>, Refusal> {
    match operation {
        Operation::Write {
            path,
            text,
            expected,
        } => write(root, path, text, *expected).map(|changed| vec![changed]),
        Operation::Patch { text, places } => patch(root, text, places),
        Operation::Move { from, to, replace } => relocate(root, from, to, *replace),
        Operation::Delete {
            path,
            recursive,
            expected,
        } => delete(root, path, *recursive, *expected),
    }
}

fn write(root: &Root, path: &str, text: &str, expected: Expected) -> Result<Changed, Refusal> {
    let spot = root.spot(path, Missing::Make)?;
    let mode = spot.mode()?;
    meets(&spot, mode.is_some(), expected)?;
    spot.draft(text.as_bytes(), mode)?
        .publish(expected != Expected::Absent)?;
    Ok(Changed {
        path: path.to_owned(),
        change: if mode.is_some() {
            Change::Replaced
        } else {
            Change::Created
        },
        from: None,
        bytes: Some(text.len() as u64),
        digest: Some(Digest::of(text.as_bytes())),
    })
}

/// Whether the file is what the caller believes it to be.
fn meets(spot: &Spot<'_>, there: bool, expected: Expected) -> Result<(), Refusal> {
    let path = spot.path();
    match expected {
        Expected::Absent if there => Err(refused(path, Errno::EXIST)),
        Expected::Absent | Expected::Whatever => Ok(()),
        Expected::Content(_) if !there => Err(refused(path, Errno::NOENT)),
        Expected::Content(wanted) => {
            let found = Digest::of(&spot.read(FILE_BYTES)?);
            if found == wanted {
                return Ok(());
            }
            let what = format!("`{path}` has the digest {found}, not the expected one");
            Err(Refusal::new(Code::DigestDiffers, what))
        }
    }
}

/// A patched file, not yet in its place.
struct Patched<'a> {
    from: Option<Spot<'a>>,
    to: Option<Spot<'a>>,
    text: String,
    mode: Option<u32>,
}

/// Everything is worked out and written beside its place before the first file is replaced.
fn patch(root: &Root, text: &str, places: &[Place]) -> Result<Vec<Changed>, Refusal> {
    let files =
        patch::parse(text).map_err(|error| Refusal::new(Code::DoesNotApply, error.to_string()))?;
    if files.len() != places.len() {
        return Err(Refusal::new(
            Code::Io,
            "the patch is not the one that was judged",
        ));
    }
    let patched: Vec<Patched<'_>> = files
        .iter()
        .zip(places)
        .map(|(file, place)| patched(root, file, place))
        .collect::<Result<_, _>>()?;
    let mut drafts = Vec::new();
    for one in &patched {
        let draft = match &one.to {
            Some(spot) => Some(spot.draft(one.text.as_bytes(), one.mode)?),
            None => None,
        };
        drafts.push(draft);
    }
    let mut changed = Vec::new();
    for (one, draft) in patched.iter().zip(drafts) {
        changed.push(publish(one, draft)?);
    }
    Ok(changed)
}

fn patched<'a>(root: &Root, file: &FilePatch, place: &'a Place) -> Result<Patched<'a>, Refusal> {
    let from = place.from.as_deref();
    let from = from
        .map(|path| root.spot(path, Missing::Refuse))
        .transpose()?;
    let to = place.to.as_deref();
    let to = to.map(|path| root.spot(path, Missing::Make)).transpose()?;
    let (old, mode) = match &from {
        Some(spot) => (text_of(spot)?, spot.mode()?),
        None => (String::new(), None),
    };
    let shown = place
        .to
        .as_deref()
        .or(place.from.as_deref())
        .unwrap_or_default();
    let new = patch::apply(&old, &file.hunks).map_err(|error| Refusal {
        code: Code::DoesNotApply,
        what: format!("`{shown}`: {error}"),
        fix: Some(error.hint()),
    })?;
    if to.is_none() && !new.is_empty() {
        let what = format!("`{shown}` is to be deleted, and the patch leaves some of it");
        return Err(Refusal::new(Code::DoesNotApply, what));
    }
    if new.len() as u64 > FILE_BYTES {
        let what = format!("`{shown}` would be larger than {FILE_BYTES} bytes");
        return Err(Refusal::new(Code::TooLarge, what));
    }
    if let Some(spot) = to.as_ref().filter(|_| place.from != place.to)
        && spot.stat()?.is_some()
    {
        return Err(refused(spot.path(), Errno::EXIST));
    }
    let mode = match file.executable {
        Some(true) => Some(mode.unwrap_or(0o644) | 0o111),
        Some(false) => mode.map(|mode| mode & !0o111),
        None => mode,
    };
    Ok(Patched {
        from,
        to,
        text: new,
        mode,
    })
}

fn text_of(spot: &Spot<'_>) -> Result<String, Refusal> {
    let bytes = spot.read(FILE_BYTES)?;
    let binary = || Refusal::new(Code::Binary, format!("`{}` is a binary file", spot.path()));
    if bytes.contains(&0) {
        return Err(binary());
    }
    String::from_utf8(bytes).map_err(|_| binary())
}

fn publish(one: &Patched<'_>, draft: Option<super::place::Draft<'_>>) -> Result<Changed, Refusal> {
    let (from, to) = (one.from.as_ref(), one.to.as_ref());
    let same = from.map(Spot::path) == to.map(Spot::path);
    if let Some(draft) = draft {
        draft.publish(same)?;
    }
    if let Some(from) = from.filter(|_| !same) {
        from.unlink()?;
    }
    let written = to.map(|_| one.text.as_bytes());
    Ok(Changed {
        path: to.or(from).map(Spot::path).unwrap_or_default().to_owned(),
        change: match (from, to) {
            (None, _) => Change::Created,
            (Some(_), None) => Change::Deleted,
            (Some(_), Some(_)) if same => Change::Replaced,
            (Some(_), Some(_)) => Change::Moved,
        },
        from: from
            .filter(|_| !same && to.is_some())
            .map(|from| from.path().to_owned()),
        bytes: written.map(|bytes| bytes.len() as u64),
        digest: written.map(Digest::of),
    })
}

fn relocate(root: &Root, from: &str, to: &str, replace: bool) -> Result<Vec<Changed>, Refusal> {
    let source = root.spot(from, Missing::Refuse)?;
    let stat = source.stat()?.ok_or_else(|| refused(from, Errno::NOENT))?;
    if to == from || to.starts_with(&format!("{from}/")) {
        let what = format!("`{from}` cannot be moved into itself");
        return Err(Refusal::new(Code::AlreadyThere, what));
    }
    let target = root.spot(to, Missing::Make)?;
    match source.rename(&target, replace) {
        Ok(()) => {}
        // An overlay does not rename a directory of the real tree.
        Err(Errno::XDEV) => {
            if target.stat()?.is_some() {
                return Err(refused(to, Errno::EXIST));
            }
            measure(root, from, DEPTH, &mut { ENTRIES })?;
            copy(root, from, to)?;
            remove(root, from)?;
        }
        Err(errno) => return Err(refused(to, errno)),
    }
    let file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(vec![Changed {
        path: to.to_owned(),
        change: Change::Moved,
        from: Some(from.to_owned()),
        bytes: file.then(|| u64::try_from(stat.st_size).unwrap_or(0)),
        digest: None,
    }])
}

/// Counts the entries at `path`; too many are refused before any is touched.
fn measure(root: &Root, path: &str, depth: usize, left: &mut usize) -> Result<(), Refusal> {
    *left = left.saturating_sub(1);
    if depth == 0 || *left == 0 {
        let what = format!("`{path}`: over {ENTRIES} entries, or deeper than {DEPTH}");
        return Err(Refusal::new(Code::TooLarge, what));
    }
    let spot = root.spot(path, Missing::Refuse)?;
    let stat = spot.stat()?.ok_or_else(|| refused(path, Errno::NOENT))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        for name in spot.names()? {
            measure(root, &format!("{path}/{name}"), depth - 1, left)?;
        }
    }
    Ok(())
}

fn copy(root: &Root, from: &str, to: &str) -> Result<(), Refusal> {
    let source = root.spot(from, Missing::Refuse)?;
    let target = root.spot(to, Missing::Refuse)?;
    let stat = source.stat()?.ok_or_else(|| refused(from, Errno::NOENT))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            target.make_directory(stat.st_mode & 0o777)?;
            for name in source.names()? {
                copy(root, &format!("{from}/{name}"), &format!("{to}/{name}"))?;
            }
            Ok(())
        }
        FileType::RegularFile => {
            let bytes = source.read(FILE_BYTES)?;
            let mode = Some(stat.st_mode & 0o777);
            target.draft(&bytes, mode)?.publish(false)
        }
        FileType::Symlink => target.make_link(&source.link_target()?),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {
            let what = format!("`{from}` is neither a file nor a directory nor a link");
            Err(Refusal::new(Code::NotAFile, what))
        }
    }
}

fn delete(
    root: &Root,
    path: &str,
    recursive: bool,
    expected: Expected,
) -> Result<Vec<Changed>, Refusal> {
    let spot = root.spot(path, Missing::Refuse)?;
    let stat = spot.stat()?.ok_or_else(|| refused(path, Errno::NOENT))?;
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    match (directory, expected) {
        (_, Expected::Whatever) => {}
        (true, _) => {
            let what = format!("`{path}` is a directory, which has no digest");
            return Err(Refusal::new(Code::NotAFile, what));
        }
        (false, _) => {
            spot.mode()?;
            meets(&spot, true, expected)?;
        }
    }
    if directory && recursive {
        measure(root, path, DEPTH, &mut { ENTRIES })?;
        remove(root, path)?;
    } else if directory {
        spot.remove_directory()
            .map_err(|errno| refused(path, errno))?;
    } else {
        spot.unlink()?;
    }
    Ok(vec![Changed {
        path: path.to_owned(),
        change: Change::Deleted,
        from: None,
        bytes: None,
        digest: None,
    }])
}

fn remove(root: &Root, path: &str) -> Result<(), Refusal> {
    let spot = root.spot(path, Missing::Refuse)?;
    let stat = spot.stat()?.ok_or_else(|| refused(path, Errno::NOENT))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return spot.unlink();
    }
    for name in spot.names()? {
        remove(root, &format!("{path}/{name}"))?;
    }
    spot.remove_directory()
        .map_err(|errno| refused(path, errno))
}

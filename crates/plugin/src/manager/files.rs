//! A plugin's files: what is there, its digests, and a copy of exactly that.
//!
//! Guarantee: the digests are those of the bytes that were read, and a copy has those very bytes.
//! Everything is opened beneath the directory, one name at a time, and no link is followed; a link
//! is kept only if it stays within, whatever stands at its target. Devices, sockets and pipes are
//! refused, as is more than the bounds. Non-guarantee: the source may change meanwhile; whoever
//! approved a digest compares it with that of the copy.

use airlock_core::{Digest, Hashing};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Most files, links and directories of one plugin: those of a large npm package.
const ITEMS: usize = 20_000;
/// Most bytes of one plugin.
const BYTES: u64 = 512 << 20;
/// Deepest nesting.
const DEPTH: usize = 48;
/// Longest path of a file within a plugin, in bytes.
const PATH_BYTES: usize = 1_024;

/// Why a plugin's files cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Something cannot be read or written.
    #[error("cannot use `{path}`")]
    Io {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Neither a file, a directory nor a link.
    #[error("`{path}` is neither a file nor a directory")]
    Special {
        /// Which.
        path: String,
    },
    /// A link that leads elsewhere.
    #[error("the link `{path}` leads out of the plugin's directory")]
    LinkOut {
        /// Which.
        path: String,
    },
    /// A name that a terminal or another program could misread.
    #[error("a file name in `{path}` is not plain text")]
    Name {
        /// The directory it is in.
        path: String,
    },
    /// More than is taken.
    #[error("the plugin is too large: at most {ITEMS} files, {BYTES} bytes and {DEPTH} levels")]
    TooLarge,
}

impl FilesError {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "make the plugin's directory readable, and have room for a copy",
            Self::Special { .. } => "remove it",
            Self::LinkOut { .. } => "replace the link by the file it leads to",
            Self::Name { .. } => "rename it: UTF-8, without control characters",
            Self::TooLarge => "leave out what the plugin does not need to run",
        }
    }
}

/// A file as somebody approved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovedFile {
    /// Its content.
    pub digest: Digest,
    /// Whether it can be run.
    pub executable: bool,
}

/// One thing in a plugin's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Directory,
    File { digest: Digest, executable: bool },
    Link { target: String },
}

/// All a plugin's files, by their paths within its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<String, Item>);

impl Contents {
    /// Looks at everything below `directory`, which is no link itself.
    pub fn of(directory: &Path) -> Result<Self, FilesError> {
        take(directory, None)
    }

    /// Copies everything below `directory` to `target`, which must not exist yet.
    pub(crate) fn copy(directory: &Path, target: &Path) -> Result<Self, FilesError> {
        take(directory, Some(target))
    }

    /// The digest of the whole: paths, links, which files can be run, and every byte.
    pub fn digest(&self) -> Digest {
        let mut hash = Hashing::new();
        hash.update(b"airlock plugin directory 1\0");
        let mut text = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        for (path, item) in &self.0 {
            text(path);
            match item {
                Item::Directory => text("directory"),
                Item::File { digest, executable } => {
                    text(if *executable { "program" } else { "file" });
                    text(&digest.to_string());
                }
                Item::Link { target } => {
                    text("link");
                    text(target);
                }
            }
        }
        hash.finish()
    }

    /// The digest of the file at `path`; none for a link, whose target could be exchanged.
    pub fn file(&self, path: &str) -> Option<Digest> {
        match self.0.get(path)? {
            Item::File { digest, .. } => Some(*digest),
            Item::Directory | Item::Link { .. } => None,
        }
    }

    /// Whether these files are there as they were approved, and nothing else: no link, whose meaning
    /// is that of another name, and no file that can be run and could not be. Empty directories do
    /// not count.
    pub fn is_exactly(&self, approved: &BTreeMap<String, ApprovedFile>) -> bool {
        let is_approved = |path: &String, file: ApprovedFile| approved.get(path) == Some(&file);
        let mut items = self.0.iter();
        let fits = items.all(|(path, item)| match *item {
            Item::Directory => true,
            Item::File { digest, executable } => {
                is_approved(path, ApprovedFile { digest, executable })
            }
            Item::Link { .. } => false,
        });
        fits && self.files().count() == approved.len()
    }

    /// Every file with its digest, in the order of the paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, Digest)> {
        self.0.iter().filter_map(|(path, item)| match item {
            Item::File { digest, .. } => Some((path.as_str(), *digest)),
            Item::Directory | Item::Link { .. } => None,
        })
    }
}

fn take(directory: &Path, target: Option<&Path>) -> Result<Contents, FilesError> {
    let failed = |source: io::Error| FilesError::Io {
        path: directory.display().to_string(),
        source,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(directory, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let mut taker = Taker {
        contents: Contents::default(),
        bytes: 0,
        target,
    };
    if let Some(target) = target {
        new_directory(target).map_err(failed)?;
    }
    taker.directory(&root, "", 0)?;
    if let Some(target) = target {
        // One call for all files; each by itself would take milliseconds.
        let copy = File::open(target).map_err(failed)?;
        rustix::fs::syncfs(&copy).map_err(|e| failed(e.into()))?;
    }
    Ok(taker.contents)
}

/// Readable to whoever gets as far, whatever the umask: the plugin's sandbox may be another user.
fn new_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o755))
}

struct Taker<'t> {
    contents: Contents,
    bytes: u64,
    target: Option<&'t Path>,
}

impl Taker<'_> {
    fn directory(&mut self, at: &OwnedFd, path: &str, depth: usize) -> Result<(), FilesError> {
        if depth > DEPTH {
            return Err(FilesError::TooLarge);
        }
        for name in self.names(at, path)? {
            let below = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}/{name}")
            };
            if self.contents.0.len() >= ITEMS || below.len() > PATH_BYTES {
                return Err(FilesError::TooLarge);
            }
            let item = self.item(at, &name, &below, depth)?;
            self.contents.0.insert(below, item);
        }
        Ok(())
    }

    fn names(&self, at: &OwnedFd, path: &str) -> Result<Vec<String>, FilesError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(at).map_err(|e| io_at(path, e))? {
            let entry = entry.map_err(|e| io_at(path, e))?;
            let name = match entry.file_name().to_str() {
                Ok("." | "..") => continue,
                Ok(name) if !name.chars().any(misleads) => name.to_owned(),
                Ok(_) | Err(_) => {
                    let path = shown(path);
                    return Err(FilesError::Name { path });
                }
            };
            if names.len() + self.contents.0.len() >= ITEMS {
                return Err(FilesError::TooLarge);
            }
            names.push(name);
        }
        Ok(names)
    }

    fn item(
        &mut self,
        at: &OwnedFd,
        name: &str,
        path: &str,
        depth: usize,
    ) -> Result<Item, FilesError> {
        let failed = |e| io_at(path, e);
        let looked = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let kind = FileType::from_raw_mode(looked.st_mode);
        let open = |flags: OFlags| {
            let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(at, name, flags, Mode::empty()).map_err(failed)
        };
        if kind == FileType::Directory {
            let below = open(OFlags::DIRECTORY)?;
            if let Some(copy) = self.copy_of(path) {
                new_directory(&copy).map_err(|e| io_error(path, e))?;
            }
            self.directory(&below, path, depth + 1)?;
            return Ok(Item::Directory);
        }
        if kind == FileType::Symlink {
            let target = rustix::fs::readlinkat(at, name, Vec::new()).map_err(failed)?;
            return self.link(path, target.to_str().ok(), depth);
        }
        if kind != FileType::RegularFile {
            let path = shown(path);
            return Err(FilesError::Special { path });
        }
        // A pipe that took the file's place meanwhile must not hold us.
        let file = open(OFlags::NONBLOCK)?;
        let opened = rustix::fs::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(opened.st_mode) != FileType::RegularFile {
            let path = shown(path);
            return Err(FilesError::Special { path });
        }
        let executable = opened.st_mode & 0o100 != 0;
        let digest = self.file(File::from(file), path, executable)?;
        Ok(Item::File { digest, executable })
    }

    fn link(&self, path: &str, target: Option<&str>, depth: usize) -> Result<Item, FilesError> {
        let Some(target) = target.filter(|target| stays_within(target, depth)) else {
            let path = shown(path);
            return Err(FilesError::LinkOut { path });
        };
        if let Some(copy) = self.copy_of(path) {
            std::os::unix::fs::symlink(target, copy).map_err(|e| io_error(path, e))?;
        }
        Ok(Item::Link {
            target: target.to_owned(),
        })
    }

    /// Reads a file to its end, and writes what was read.
    fn file(&mut self, file: File, path: &str, executable: bool) -> Result<Digest, FilesError> {
        let failed = |e| io_error(path, e);
        let mut copy = match self.copy_of(path) {
            Some(copy) => {
                let mode = if executable { 0o755 } else { 0o644 };
                let mut options = OpenOptions::new();
                let options = options.write(true).create_new(true).mode(mode);
                let copy = options.open(copy).map_err(failed)?;
                let permissions = Permissions::from_mode(mode);
                copy.set_permissions(permissions).map_err(failed)?;
                Some(copy)
            }
            None => None,
        };
        let mut hash = Hashing::new();
        let mut buffer = vec![0; 64 * 1024];
        let mut file = file;
        loop {
            let read = file.read(&mut buffer).map_err(failed)?;
            let piece = buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                return Ok(hash.finish());
            }
            self.bytes += piece.len() as u64;
            if self.bytes > BYTES {
                return Err(FilesError::TooLarge);
            }
            hash.update(piece);
            if let Some(copy) = &mut copy {
                copy.write_all(piece).map_err(failed)?;
            }
        }
    }

    fn copy_of(&self, path: &str) -> Option<PathBuf> {
        self.target.map(|target| target.join(path))
    }
}

/// Whether a link in a directory `depth` levels down leads nowhere outside. Only leading `..` count:
/// behind a name that is a link itself, `..` is not the directory it seems to be.
fn stays_within(target: &str, depth: usize) -> bool {
    if target.is_empty() || target.starts_with('/') || target.chars().any(misleads) {
        return false;
    }
    let up = target.split('/').take_while(|part| *part == "..").count();
    let rest = target.split('/').skip(up);
    up <= depth && rest.into_iter().all(|part| part != "..")
}

fn io_at(path: &str, error: rustix::io::Errno) -> FilesError {
    io_error(path, error.into())
}

fn io_error(path: &str, source: io::Error) -> FilesError {
    let path = shown(path);
    FilesError::Io { path, source }
}

/// A path for a message: the whole plugin where it is empty.
fn shown(path: &str) -> String {
    if path.is_empty() {
        ".".to_owned()
    } else {
        airlock_yaml::shown(path)
    }
}

/// Whether a character of a name makes a terminal do something, or shows the name as another: whoever
/// approves a plugin has to see what is there.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().join("p");
        fs::create_dir_all(root.join("bin/deep")).unwrap();
        fs::write(root.join("plugin.yaml"), "name: x").unwrap();
        fs::write(root.join("bin/x"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(root.join("bin/x"), fs::Permissions::from_mode(0o4755)).unwrap();
        symlink("../../plugin.yaml", root.join("bin/deep/link")).unwrap();
        tree
    }

    #[test]
    fn a_copy_has_the_same_digests_and_no_special_bits() {
        let tree = tree();
        let (source, copy) = (tree.path().join("p"), tree.path().join("copy"));
        let taken = Contents::copy(&source, &copy).unwrap();
        assert_eq!(taken, Contents::of(&copy).unwrap());
        assert_eq!(taken.file("bin/x"), Some(Digest::of(b"#!/bin/sh\n")));
        assert_eq!(taken.file("bin/deep/link"), None);
        let mode = fs::metadata(copy.join("bin/x"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7000, 0, "{mode:o}");
        assert_eq!(mode & 0o100, 0o100);
        assert!(
            Contents::copy(&source, &copy).is_err(),
            "nothing is overwritten"
        );
    }

    #[test]
    fn every_change_changes_the_digest() {
        type Change = fn(&Path);
        let changes: &[Change] = &[
            |root| fs::write(root.join("bin/x"), "#!/bin/sh\n#").unwrap(),
            |root| fs::write(root.join("new"), "").unwrap(),
            |root| fs::create_dir(root.join("empty")).unwrap(),
            |root| fs::rename(root.join("bin/x"), root.join("bin/y")).unwrap(),
            |root| fs::remove_file(root.join("bin/deep/link")).unwrap(),
            |root| {
                fs::remove_file(root.join("bin/deep/link")).unwrap();
                symlink("../x", root.join("bin/deep/link")).unwrap();
            },
            |root| {
                let mode = fs::Permissions::from_mode(0o644);
                fs::set_permissions(root.join("bin/x"), mode).unwrap();
            },
        ];
        let untouched = Contents::of(&tree().path().join("p")).unwrap().digest();
        let mut seen = vec![untouched];
        for change in changes {
            let tree = tree();
            let root = tree.path().join("p");
            change(&root);
            let digest = Contents::of(&root).unwrap().digest();
            assert!(!seen.contains(&digest), "{:?}", Contents::of(&root));
            seen.push(digest);
        }
    }

    #[test]
    fn only_the_approved_files_as_they_were_approved_are_exactly_those() {
        type Change = fn(&Path);
        let approved = || {
            let file = |text: &str, executable| ApprovedFile {
                digest: Digest::of(text.as_bytes()),
                executable,
            };
            BTreeMap::from([
                ("plugin.yaml".to_owned(), file("name: x", false)),
                ("bin/x".to_owned(), file("#!/bin/sh\n", true)),
            ])
        };
        let changes: &[(&str, bool, Change)] = &[
            ("as it is", true, |_| {}),
            ("an empty directory", true, |root| {
                fs::create_dir(root.join("e")).unwrap();
            }),
            ("another byte", false, |root| {
                fs::write(root.join("plugin.yaml"), "name: y").unwrap();
            }),
            ("one more", false, |root| {
                fs::write(root.join("bin/json.py"), "").unwrap();
            }),
            ("one less", false, |root| {
                fs::remove_file(root.join("plugin.yaml")).unwrap();
            }),
            ("a link to an approved file", false, |root| {
                symlink("../plugin.yaml", root.join("bin/json.py")).unwrap();
            }),
            ("a link in the place of one", false, |root| {
                fs::remove_file(root.join("plugin.yaml")).unwrap();
                symlink("bin/x", root.join("plugin.yaml")).unwrap();
            }),
            ("one that can be run", false, |root| {
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(root.join("plugin.yaml"), mode).unwrap();
            }),
            ("one that cannot be run", false, |root| {
                let mode = fs::Permissions::from_mode(0o644);
                fs::set_permissions(root.join("bin/x"), mode).unwrap();
            }),
        ];
        for (case, want, change) in changes {
            let tree = tree();
            let root = tree.path().join("p");
            fs::remove_dir_all(root.join("bin/deep")).unwrap();
            change(&root);
            let found = Contents::of(&root).unwrap();
            assert_eq!(found.is_exactly(&approved()), *want, "{case}");
        }
    }

    #[test]
    fn what_leads_out_or_is_no_file_is_refused() {
        for target in [
            "/etc/passwd",
            "../../x",
            "../..",
            "a/../../..",
            "bin/../x",
            "",
        ] {
            assert!(!stays_within(target, 1), "{target:?}");
        }
        for (target, depth) in [("x", 0), ("..", 1), ("../../plugin.yaml", 2), ("a/b", 0)] {
            assert!(stays_within(target, depth), "{target:?}");
        }
        let out = tree();
        symlink("/etc/passwd", out.path().join("p/out")).unwrap();
        let error = Contents::of(&out.path().join("p")).unwrap_err();
        assert!(matches!(error, FilesError::LinkOut { .. }), "{error}");
        let pipe = tree();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pipe.path().join("p/pipe"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let error = Contents::of(&pipe.path().join("p")).unwrap_err();
        assert!(matches!(error, FilesError::Special { .. }), "{error}");
        let named = tree();
        for name in ["a\u{1b}[2J", "a\nb", "a\u{202e}txt.sh", "a\u{200b}b"] {
            let odd = named.path().join("p").join(name);
            fs::write(&odd, "").unwrap();
            let error = Contents::of(&named.path().join("p")).unwrap_err();
            assert!(
                matches!(error, FilesError::Name { .. }),
                "{name:?}: {error}"
            );
            fs::remove_file(odd).unwrap();
        }
        let linked = tree();
        symlink(linked.path().join("p"), linked.path().join("q")).unwrap();
        assert!(Contents::of(&linked.path().join("q")).is_err());
    }

    #[test]
    fn more_than_the_bounds_is_refused() {
        let tree = tree();
        let mut deep = tree.path().join("p");
        for _ in 0..=DEPTH + 1 {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        let error = Contents::of(&tree.path().join("p")).unwrap_err();
        assert!(matches!(error, FilesError::TooLarge), "{error}");
        let large = self::tree();
        let file = File::create(large.path().join("p/large")).unwrap();
        file.set_len(BYTES + 1).unwrap();
        let error = Contents::of(&large.path().join("p")).unwrap_err();
        assert!(matches!(error, FilesError::TooLarge), "{error}");
    }
}

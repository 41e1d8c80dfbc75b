//! Compiled code on disk, trusted only if this machine's own key made its authentication.
//!
//! Guarantees: what [`CodeCache::find`] gives is, byte for byte, what [`CodeCache::keep`] was given
//! for the same module and the same engine. An entry that was changed, cut, moved to another name,
//! made with another key, or that is not its owner's alone is as good as absent, and is replaced by
//! the next that is kept.
//!
//! Not guaranteed: that an entry is there. Whatever goes wrong here costs a compilation, no more.
//!
//! Invariant: the key is readable to the owner alone and never leaves this module.

use crate::message::CODE_BYTES;
use airlock_core::Digest;
use hmac::{Hmac, KeyInit, Mac};
use rustix::fs::{CWD, Mode, OFlags, openat};
use sha2::Sha256;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// What every entry begins with: another form of entries has another.
const MARK: &[u8; 16] = b"airlock wasm 1\r\n";
const MAC_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
/// The bits of a mode that say what the group and others may.
const OTHERS_BITS: u32 = 6;
/// Most entries; the oldest go first.
const ENTRIES: usize = 64;

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A directory or the key cannot be made or read.
    #[error("`{path}` cannot be used")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others than the owner can read or write the key, or it is no key.
    #[error("`{0}` is not a key that only its owner can read")]
    Key(PathBuf),
}

impl CacheError {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "make Airlock's state directory writable to yourself",
            Self::Key(_) => "remove the file; a new key is made, and code is compiled anew",
        }
    }
}

/// Compiled code by module and engine.
pub struct CodeCache {
    directory: PathBuf,
    keyed: Hmac<Sha256>,
}

impl CodeCache {
    /// The cache in `directory`, whose key is in the file `key`. Both are made if they are not there.
    pub fn open(directory: &Path, key: &Path) -> Result<Self, CacheError> {
        let parents = [Some(directory), key.parent()];
        for parent in parents.into_iter().flatten() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|source| failed(parent, source))?;
        }
        let bytes = read_or_make_key(key)?;
        let keyed = Hmac::<Sha256>::new_from_slice(&bytes);
        Ok(Self {
            directory: directory.to_owned(),
            keyed: keyed.map_err(|_| CacheError::Key(key.to_owned()))?,
        })
    }

    /// The code of `module` for `engine`, if it is here and as it was kept.
    pub fn find(&self, module: &Digest, engine: &Digest) -> Option<Vec<u8>> {
        let path = self.path(module, engine);
        let mut entry = Vec::new();
        let head = MARK.len() + MAC_BYTES;
        let file = open_file(&path).ok()?;
        // Its authentication would do; one that others could have written is not even read.
        if !is_private(&file.metadata().ok()?) {
            return None;
        }
        file.take((head + CODE_BYTES) as u64 + 1)
            .read_to_end(&mut entry)
            .ok()?;
        let (mark, rest) = entry.split_at_checked(MARK.len())?;
        let (mac, code) = rest.split_at_checked(MAC_BYTES)?;
        if mark != MARK || code.len() > CODE_BYTES {
            return None;
        }
        // Compared in constant time.
        self.mac(module, engine, code).verify_slice(mac).ok()?;
        entry.drain(..head);
        Some(entry)
    }

    /// Keeps `code` of `module` for `engine`.
    pub fn keep(&self, module: &Digest, engine: &Digest, code: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let draft = self.directory.join(format!("draft-{process}-{number}"));
        let mac = self.mac(module, engine, code).finalize().into_bytes();
        let written = make_file(&draft).and_then(|mut file| {
            for part in [&MARK[..], &mac, code] {
                file.write_all(part)?;
            }
            // Not synced: an entry that a crash cut short does not authenticate.
            fs::rename(&draft, self.path(module, engine))
        });
        if written.is_err() {
            let _absent = fs::remove_file(&draft);
        }
        self.make_room();
        written
    }

    fn path(&self, module: &Digest, engine: &Digest) -> PathBuf {
        let both = [module.as_bytes().as_slice(), engine.as_bytes()].concat();
        self.directory.join(Digest::of(&both).to_string())
    }

    /// Covers what the code is for, so that an entry is good under no other name.
    fn mac(&self, module: &Digest, engine: &Digest, code: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(MARK);
        mac.update(module.as_bytes());
        mac.update(engine.as_bytes());
        mac.update(code);
        mac
    }

    /// Removes the oldest entries, and drafts that a crash left, beyond the bound.
    fn make_room(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        let mut found: Vec<(SystemTime, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let modified = entry.metadata().ok()?.modified().ok()?;
                Some((modified, entry.path()))
            })
            .collect();
        found.sort();
        let over = found.len().saturating_sub(ENTRIES);
        for (_, path) in found.into_iter().take(over) {
            let _already_gone = fs::remove_file(path);
        }
    }
}

fn failed(path: &Path, source: io::Error) -> CacheError {
    CacheError::Io {
        path: path.to_owned(),
        source,
    }
}

/// A regular file to read, without following a link or waiting for a pipe's other end.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// Whether a file is our own, and nobody else may do anything with it.
fn is_private(file: &fs::Metadata) -> bool {
    let own = file.uid() == rustix::process::geteuid().as_raw();
    own && file.mode().trailing_zeros() >= OTHERS_BITS
}

fn make_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::from(0o600))?))
}

fn read_or_make_key(path: &Path) -> Result<[u8; KEY_BYTES], CacheError> {
    for _ in 0..2 {
        match open_file(path) {
            Ok(file) => return read_key(path, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(path)?,
            Err(error) => return Err(failed(path, error)),
        }
    }
    Err(failed(path, io::ErrorKind::NotFound.into()))
}

fn read_key(path: &Path, file: File) -> Result<[u8; KEY_BYTES], CacheError> {
    let found = file.metadata().map_err(|source| failed(path, source))?;
    let mut bytes = Vec::new();
    file.take(KEY_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| failed(path, source))?;
    let key = <[u8; KEY_BYTES]>::try_from(bytes).ok();
    key.filter(|_| is_private(&found))
        .ok_or_else(|| CacheError::Key(path.to_owned()))
}

/// Makes a key under another name and gives it its own: it is there whole or not at all. Who comes
/// second uses the first's.
fn make_key(path: &Path) -> Result<(), CacheError> {
    let process = std::process::id();
    let thread = std::thread::current().id();
    let draft = path.with_extension(format!("draft-{process}-{thread:?}"));
    let mut key = [0; KEY_BYTES];
    let made = fill_randomly(&mut key)
        .and_then(|()| make_file(&draft))
        .and_then(|mut file| {
            file.write_all(&key)?;
            file.sync_all()?;
            fs::hard_link(&draft, path)
        });
    let _removed = fs::remove_file(&draft);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(path, error)),
        _ => Ok(()),
    }
}

fn fill_randomly(key: &mut [u8; KEY_BYTES]) -> io::Result<()> {
    use rand::TryRng as _;
    rand::rngs::SysRng
        .try_fill_bytes(key)
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct World {
        home: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            Self { home }
        }

        fn directory(&self) -> PathBuf {
            self.home.path().join("code")
        }

        fn key(&self) -> PathBuf {
            self.home.path().join("keys/wasm")
        }

        fn open(&self) -> Result<CodeCache, CacheError> {
            CodeCache::open(&self.directory(), &self.key())
        }

        fn entries(&self) -> Vec<PathBuf> {
            let entries = fs::read_dir(self.directory()).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        }
    }

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    #[test]
    fn code_comes_back_for_the_same_module_and_engine_alone() {
        let world = World::new();
        let (module, engine) = (digest("module"), digest("engine"));
        world
            .open()
            .unwrap()
            .keep(&module, &engine, b"code")
            .unwrap();
        // Another process of the same user.
        let cache = world.open().unwrap();
        assert_eq!(cache.find(&module, &engine).as_deref(), Some(&b"code"[..]));
        assert_eq!(cache.find(&digest("other"), &engine), None);
        assert_eq!(cache.find(&module, &digest("newer")), None);
        assert_eq!(cache.find(&engine, &module), None);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&world.key()), 0o600);
        assert_eq!(mode(&world.directory()), 0o700);
        assert_eq!(mode(&world.entries()[0]), 0o600);
    }

    #[test]
    fn an_entry_with_any_byte_changed_is_absent() {
        let world = World::new();
        let cache = world.open().unwrap();
        let (module, engine) = (digest("module"), digest("engine"));
        cache.keep(&module, &engine, b"some code").unwrap();
        let path = world.entries().pop().unwrap();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert_eq!(cache.find(&module, &engine), None, "byte {at}");
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(cache.find(&module, &engine), None, "{length} bytes");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(cache.find(&module, &engine), None, "a byte more");
        fs::write(&path, &whole).unwrap();
        assert!(cache.find(&module, &engine).is_some(), "as it was");
    }

    #[test]
    fn an_entry_under_another_name_or_by_another_key_is_absent() {
        let world = World::new();
        let cache = world.open().unwrap();
        let (engine, one, two) = (digest("engine"), digest("one"), digest("two"));
        cache.keep(&one, &engine, b"code of one").unwrap();
        fs::copy(cache.path(&one, &engine), cache.path(&two, &engine)).unwrap();
        assert_eq!(cache.find(&two, &engine), None);
        fs::remove_file(world.key()).unwrap();
        assert_eq!(world.open().unwrap().find(&one, &engine), None);
    }

    #[test]
    fn an_entry_that_is_a_link_a_directory_or_a_pipe_is_absent() {
        let world = World::new();
        let cache = world.open().unwrap();
        let (module, engine) = (digest("module"), digest("engine"));
        cache.keep(&module, &engine, b"code").unwrap();
        let path = cache.path(&module, &engine);
        let elsewhere = world.home.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(cache.find(&module, &engine), None, "a link");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(cache.find(&module, &engine), None, "a directory");
        fs::remove_dir(&path).unwrap();
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::from(0o600), 0).unwrap();
        assert_eq!(cache.find(&module, &engine), None, "a pipe");
    }

    #[test]
    fn a_key_that_others_can_read_or_of_another_length_is_none() {
        for (case, mode, length) in [
            ("group", 0o640, KEY_BYTES),
            ("others", 0o604, KEY_BYTES),
            ("short", 0o600, KEY_BYTES - 1),
            ("long", 0o600, KEY_BYTES + 1),
            ("empty", 0o600, 0),
        ] {
            let world = World::new();
            world.open().unwrap();
            fs::write(world.key(), vec![7; length]).unwrap();
            fs::set_permissions(world.key(), fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(world.open(), Err(CacheError::Key(_))), "{case}");
        }
    }

    #[test]
    fn many_who_make_the_key_at_once_have_one() {
        let world = World::new();
        let (module, engine) = (digest("module"), digest("engine"));
        std::thread::scope(|scope| {
            for number in 0..8u8 {
                let (world, module, engine) = (&world, &module, &engine);
                scope.spawn(move || {
                    let cache = world.open().unwrap();
                    cache.keep(module, engine, &[number]).unwrap();
                });
            }
        });
        assert!(world.open().unwrap().find(&module, &engine).is_some());
        let keys = fs::read_dir(world.key().parent().unwrap()).unwrap();
        assert_eq!(keys.count(), 1, "no drafts are left");
    }

    #[test]
    fn the_oldest_entries_make_room() {
        let world = World::new();
        let cache = world.open().unwrap();
        let engine = digest("engine");
        for number in 0..=ENTRIES {
            let module = digest(&number.to_string());
            cache.keep(&module, &engine, b"code").unwrap();
            let file = File::open(cache.path(&module, &engine)).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
            file.set_modified(time).unwrap();
        }
        cache.keep(&digest("last"), &engine, b"code").unwrap();
        assert_eq!(world.entries().len(), ENTRIES);
        assert_eq!(cache.find(&digest("0"), &engine), None);
        assert!(cache.find(&digest("last"), &engine).is_some());
    }
}

//! The host as an attack finds it: a workspace, a home with secrets, things outside, victims.
//!
//! A scene is made anew for every run, in a directory of its own. Dropping it ends every victim.

use airlock_sandbox::launch::{LayersKind, TerminalSize};
use airlock_sandbox::stage::{DiffOptions, Setup, Stage, Stages};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The host uid and gid of sandboxes that root starts.
const HOST_USER: u32 = 1_879_048_192;

/// How long reading a stage may take, whatever is in it.
const READING: Duration = Duration::from_secs(10);

/// Directories no sandbox may change.
const KEPT: &[&str] = &["tree", "home", "outside", "readable", "state"];

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// What the plan has beyond workspace and probe.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) writes: Vec<PathBuf>,
    pub(crate) patterns: Vec<&'static str>,
    pub(crate) own: Vec<PathBuf>,
    pub(crate) limits: Limited,
    /// Whether programs of Airlock's own are run beside the command, one after the other.
    pub(crate) company: bool,
}

/// Limits lower than the template's.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Limited {
    pub(crate) mebibytes: Option<u64>,
    /// Thousandths of a processor.
    pub(crate) cpus: Option<u32>,
    pub(crate) pids: Option<u32>,
    pub(crate) millis: Option<u64>,
    pub(crate) output_kibibytes: Option<u64>,
    pub(crate) file_mebibytes: Option<u64>,
}

/// Whose set-user-id files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Anyone's: others can run what lies there.
    Anyone,
    /// Root's: the place is Airlock's own, and nothing with the bit is merged from it.
    Root,
}

/// The host around one run of an attack.
pub(crate) struct Scene {
    directory: TempDir,
    /// How the workspace is staged.
    pub(crate) layers: LayersKind,
    /// Whether the run is the confined one.
    pub(crate) confined: bool,
    /// A word that nobody else has: what is in the secrets.
    pub(crate) marker: String,
    pub(crate) probe: PathBuf,
    pub(crate) grants: Grants,
    /// Files whose existence is an effect.
    pub(crate) watched: Vec<PathBuf>,
    /// Whether processes that carry the marker are an effect.
    pub(crate) watches_processes: bool,
    /// Where set-user-id bits and device nodes are an effect, and whose.
    pub(crate) watches_bits: Vec<(PathBuf, Owner)>,
    /// Whether attributes that steer an overlay on these are an effect.
    pub(crate) watches_attributes: Vec<PathBuf>,
    /// Files the attack makes; one of root's is an effect, and so is none.
    pub(crate) watches_owners: Vec<PathBuf>,
    /// What to remove at the end.
    pub(crate) leftovers: Vec<PathBuf>,
    /// More that no sandbox may change.
    pub(crate) kept: Vec<PathBuf>,
    /// Whether the stage is read afterwards.
    reads_stage: bool,
    /// The stage that is.
    pub(crate) stage: Option<Stage>,
    /// A terminal of its own in place of pipes.
    pub(crate) terminal: Option<TerminalSize>,
    victims: Vec<Child>,
    before: Vec<(PathBuf, Snapshot)>,
}

/// What is known of a file: kind and mode, owner, size, content or target, time of change.
type Known = (u32, u32, u64, Vec<u8>, i64);
type Snapshot = BTreeMap<PathBuf, Known>;

impl Scene {
    /// A scene for `probe`, beneath `around`.
    pub(crate) fn new(
        around: &Path,
        probe: &Path,
        layers: LayersKind,
        confined: bool,
    ) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("s").tempdir_in(around)?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let scene = Self {
            marker: format!("canary-{}-{number}-end", std::process::id()),
            directory,
            layers,
            confined,
            probe: probe.to_owned(),
            grants: Grants::default(),
            watched: Vec::new(),
            watches_processes: false,
            watches_bits: Vec::new(),
            watches_attributes: Vec::new(),
            watches_owners: Vec::new(),
            leftovers: Vec::new(),
            kept: Vec::new(),
            reads_stage: false,
            stage: None,
            terminal: None,
            victims: Vec::new(),
            before: Vec::new(),
        };
        scene.furnish()?;
        Ok(scene)
    }

    fn furnish(&self) -> io::Result<()> {
        for name in [
            "tree/sub",
            "tree/nested",
            "tree/.git/hooks",
            "tree/.airlock",
            "home/.ssh",
            "outside",
            "readable/sub",
            "tree/private",
            "tree/tools",
            "shared",
            "state",
            "stage/upper",
            "stage/work",
            "run",
        ] {
            fs::create_dir_all(self.path(name))?;
        }
        let secret = format!("TOKEN={}\n", self.marker);
        for (name, content) in [
            ("tree/plain.txt", "plain\n"),
            ("tree/okay", "harmless\n"),
            ("tree/sub/keep.txt", "keep\n"),
            ("tree/.env", &secret),
            ("tree/nested/.env", &secret),
            ("tree/.git/config", "[core]\n"),
            ("tree/.git/hooks/pre-commit", "#!/bin/sh\n"),
            ("tree/.airlock/policy.yaml", "version: 1\n"),
            ("home/.ssh/id_ed25519", &secret),
            ("home/.bashrc", "# rc\n"),
            ("outside/target.txt", &secret),
            ("readable/file.txt", "readable\n"),
            ("readable/.env", &secret),
            ("tree/private/key", &secret),
            ("state/audit.db", &secret),
            ("state/signing.key", &secret),
        ] {
            fs::write(self.path(name), content)?;
        }
        symlink(".env", self.path("tree/planted"))?;
        symlink(
            self.path("outside/target.txt"),
            self.path("tree/planted-out"),
        )?;
        fs::set_permissions(self.path("tree/.env"), fs::Permissions::from_mode(0o755))?;
        if is_root() {
            let owner = Some(HOST_USER);
            std::os::unix::fs::chown(self.path("stage/upper"), owner, owner)?;
        }
        Ok(())
    }

    /// A path of the scene.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A path of the scene as the probe is told it.
    pub(crate) fn told(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Remembers the host as it is now.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        let kept = KEPT.iter().map(|name| self.path(name));
        let kept: Vec<PathBuf> = kept.chain(self.kept.iter().cloned()).collect();
        self.before = kept
            .into_iter()
            .map(|path| snapshot(&path).map(|found| (path, found)))
            .collect::<io::Result<_>>()?;
        Ok(())
    }

    /// What changed on the host since then.
    pub(crate) fn changes(&self) -> Vec<String> {
        let mut changes = Vec::new();
        // In that control the tree itself is what is written.
        let before = self
            .before
            .iter()
            .filter(|_| self.confined || !self.reads_stage);
        for (path, before) in before {
            let after = snapshot(path).unwrap_or_default();
            let paths = before.keys().chain(after.keys());
            let differ = paths.filter(|path| before.get(*path) != after.get(*path));
            changes.extend(differ.map(|path| format!("{} changed", path.display())));
        }
        let there = self
            .watched
            .iter()
            .filter(|path| path.symlink_metadata().is_ok());
        changes.extend(there.map(|path| format!("{} exists", path.display())));
        changes.extend(
            self.watches_bits
                .iter()
                .flat_map(|(root, owner)| privileged_below(root, *owner)),
        );
        changes.extend(self.watches_owners.iter().filter_map(|path| of_root(path)));
        if self.reads_stage {
            changes.extend(self.misread());
        }
        // A copy is never mounted as a layer: what steers one means nothing in it.
        let steered = self
            .watches_attributes
            .iter()
            .filter(|_| self.layers == LayersKind::Overlay || !self.confined)
            .flat_map(|path| steering(path));
        changes.extend(steered);
        if self.watches_processes && !processes_with(&self.marker).is_empty() {
            changes.push("a process of it lives".to_owned());
        }
        changes.sort();
        changes.dedup();
        changes
    }

    /// Keeps writes in a stage that is read afterwards.
    pub(crate) fn keep_stage(&mut self) {
        self.reads_stage = true;
        if self.confined {
            let setup = match self.layers {
                LayersKind::Overlay | LayersKind::Trial => Setup::OVERLAY,
                LayersKind::Copy => Setup::COPY,
            };
            let stages = Stages::open(&self.path("stages"));
            let (tree, owner) = (self.path("tree"), airlock_sandbox::stage_owner());
            let made =
                stages.and_then(|stages| stages.open_or_create_as("default", &tree, owner, setup));
            self.stage = made.ok();
            if self.layers == LayersKind::Copy {
                // Bubblewrap is another user where root starts it, and looks the copy up by its path.
                for passed in ["stages", "stages/default"] {
                    let enter = fs::Permissions::from_mode(0o711);
                    let _ = fs::set_permissions(self.path(passed), enter);
                }
            }
        }
    }

    /// What reading the stage gave away, or how long it took. In the control nobody takes care.
    fn misread(&self) -> Option<String> {
        if !self.confined {
            let text = fs::read_to_string(self.path("tree/plain.txt")).unwrap_or_default();
            let leaked = text.contains(&self.marker);
            return leaked.then(|| "a careless reader was led outside".to_owned());
        }
        let Some(stage) = &self.stage else {
            return Some("there is no stage".to_owned());
        };
        let began = Instant::now();
        let diff = stage.diff(&DiffOptions::default());
        let took = began.elapsed();
        match diff.map(|diff| diff.to_json()) {
            Ok(Ok(text)) if text.contains(&self.marker) => {
                Some("reading the stage followed a link out of it".to_owned())
            }
            Ok(Ok(_)) => (took > READING).then(|| format!("reading the stage took {took:?}")),
            Ok(Err(error)) => Some(format!("the changes cannot be told: {error}")),
            Err(error) => Some(format!("the stage cannot be read: {error}")),
        }
    }

    /// Someone to be attacked. Lives until the scene ends.
    pub(crate) fn victim(&mut self, kind: &str, given: &Value) -> Value {
        let started = self.start_victim(kind, given);
        started.unwrap_or_else(|error| json!({ "failed": error.to_string() }))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the suite starts its victims unconfined"
    )]
    fn start_victim(&mut self, kind: &str, given: &Value) -> io::Result<Value> {
        let mut child = Command::new(&self.probe)
            .args(["victim", kind, &given.to_string()])
            .env_clear()
            .env("VICTIM_SECRET", &self.marker)
            .current_dir(self.path("outside"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        self.victims.push(child);
        serde_json::from_str(&line).map_err(io::Error::from)
    }

    /// A listener for TCP over IPv4 or IPv6 that greets with the marker.
    pub(crate) fn tcp(&self, address: &str) -> u16 {
        let Ok(listener) = TcpListener::bind(address) else {
            return 0;
        };
        let port = listener.local_addr().map_or(0, |address| address.port());
        let greeting = self.marker.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().take(8).flatten() {
                let _ = stream.write_all(greeting.as_bytes());
            }
        });
        port
    }

    /// A port for UDP that answers with the marker.
    pub(crate) fn udp(&self) -> u16 {
        let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else {
            return 0;
        };
        let port = socket.local_addr().map_or(0, |address| address.port());
        let greeting = self.marker.clone();
        thread::spawn(move || {
            let mut bytes = [0_u8; 512];
            while let Ok((_, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(greeting.as_bytes(), from);
            }
        });
        port
    }

    /// A listener without a path.
    pub(crate) fn abstract_stream(&self, name: &str) {
        let address = SocketAddr::from_abstract_name(name);
        if let Ok(listener) = address.and_then(|address| UnixListener::bind_addr(&address)) {
            greet(listener, self.marker.clone());
        }
    }

    /// A listener at a path.
    pub(crate) fn stream_at(&self, path: &Path) {
        if let Ok(listener) = UnixListener::bind(path) {
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o777));
            greet(listener, self.marker.clone());
        }
    }

    /// What the command finds in its environment.
    pub(crate) fn environment(&self) -> BTreeMap<OsString, OsString> {
        let home = self.path("home").into_os_string();
        [
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), home),
        ]
        .into()
    }
}

fn greet(listener: UnixListener, greeting: String) {
    thread::spawn(move || {
        for mut stream in listener.incoming().take(8).flatten() {
            let _ = stream.write_all(greeting.as_bytes());
        }
    });
}

impl Drop for Scene {
    fn drop(&mut self) {
        for victim in &mut self.victims {
            // Its input ends, and it cleans up after itself.
            drop(victim.stdin.take());
            let until = Instant::now() + Duration::from_secs(1);
            while matches!(victim.try_wait(), Ok(None)) && Instant::now() < until {
                thread::sleep(Duration::from_millis(2));
            }
            // One that an attack has stopped never sees it.
            let _ = victim.kill();
            let _ = victim.wait();
        }
        if self.watches_processes {
            end_processes(&self.marker);
        }
        // Overlayfs keeps its work where even its owner may not look.
        for work in ["stage/work", "stages/default/work"] {
            open_up(&self.path(work));
        }
        for path in &self.leftovers {
            let _ = fs::remove_file(path);
        }
    }
}

/// Lets the owner into every directory beneath `root`.
pub(crate) fn open_up(root: &Path) {
    let _ = fs::set_permissions(root, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Copies a program by another one: a descriptor of ours that writes it would pass through whatever
/// other threads start meanwhile, and a program somebody may still write does not run.
#[expect(
    clippy::disallowed_methods,
    reason = "the suite furnishes its scenes unconfined"
)]
pub(crate) fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    let copied = Command::new("cp").arg("--").args([from, to]).status()?;
    if copied.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "cannot copy `{}`",
            from.display()
        )))
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn snapshot(root: &Path) -> io::Result<Snapshot> {
    let mut found = Snapshot::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let about = path.symlink_metadata()?;
        let content = if about.is_file() {
            fs::read(&path)?
        } else if about.is_symlink() {
            fs::read_link(&path)?.into_os_string().into_encoded_bytes()
        } else {
            Vec::new()
        };
        if about.is_dir() {
            for entry in fs::read_dir(&path)? {
                waiting.push(entry?.path());
            }
        }
        let size = if about.is_file() { about.len() } else { 0 };
        found.insert(
            path,
            (about.mode(), about.uid(), size, content, about.ctime()),
        );
    }
    Ok(found)
}

/// Set-user-id files, devices and files of root's beneath a place a sandbox wrote.
fn privileged_below(root: &Path, whose: Owner) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(about) = path.symlink_metadata() else {
            continue;
        };
        let kind = about.mode() & 0o170_000;
        let device = matches!(kind, 0o020_000 | 0o060_000) && about.rdev() != 0;
        if device {
            found.push(format!("{} is a device", path.display()));
        }
        let counts = whose == Owner::Anyone || about.uid() == 0;
        if counts && about.is_file() && about.mode() & 0o6000 != 0 {
            let owner = about.uid();
            found.push(format!("{} is set-user-id of {owner}", path.display()));
        }
        if about.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        }
    }
    found
}

fn of_root(path: &Path) -> Option<String> {
    match path.symlink_metadata() {
        Ok(about) => (about.uid() == 0).then(|| format!("{} is root's", path.display())),
        Err(_) => Some(format!("{} was not made", path.display())),
    }
}

/// Attributes by which the overlay of this user's stages would be steered. Overlayfs itself sets
/// `origin` and `impure`, which lead nowhere.
fn steering(path: &Path) -> Vec<String> {
    let prefix = if is_root() {
        "trusted.overlay."
    } else {
        "user.overlay."
    };
    let mut names = vec![0_u8; 4096];
    let length = rustix::fs::listxattr(path, names.as_mut_slice()).unwrap_or(0);
    let names = String::from_utf8_lossy(names.get(..length).unwrap_or_default()).into_owned();
    names
        .split('\0')
        .filter_map(|name| name.strip_prefix(prefix))
        .filter(|name| !matches!(*name, "origin" | "impure") && !name.starts_with("overlay."))
        .map(|name| format!("{} has {prefix}{name}", path.display()))
        .collect()
}

/// Processes that an attack left behind: they linger, with the marker among their arguments.
pub(crate) fn processes_with(marker: &str) -> Vec<i32> {
    let lingers = |line: &str| line.contains("linger");
    processes(marker, lingers)
}

fn processes(marker: &str, wanted: fn(&str) -> bool) -> Vec<i32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let found = line.contains(marker) && wanted(&line);
            (found && pid.unsigned_abs() != own).then_some(pid)
        })
        .collect()
}

/// Ends what was left behind, and whoever left it and waits.
fn end_processes(marker: &str) {
    for pid in processes(marker, |_| true) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

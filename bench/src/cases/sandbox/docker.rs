//! A container engine of the bench's own: private socket, data and state, gone afterwards.
//!
//! It has no bridge and touches no firewall. Its only image is a static busybox.

use super::peers::{IMAGE, address};
use super::person::{Person, plain_command};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const INSTALL: &str = "not installed: apt-get install docker.io busybox-static";
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Engine {
    daemon: Child,
    directory: PathBuf,
}

impl Engine {
    /// Starts one in `directory`, or says why there is none.
    pub(super) fn start(directory: &Path) -> Result<Self, String> {
        if Person::own() != Person::Root {
            return Err("its engine is started by root alone".to_owned());
        }
        let busybox = ["/bin/busybox", "/usr/bin/busybox"]
            .map(Path::new)
            .into_iter()
            .find(|path| path.is_file())
            .ok_or(INSTALL)?;
        let directory = directory.join("docker");
        let daemon = begin(&directory).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                INSTALL.to_owned()
            } else {
                format!("its engine does not start: {error}")
            }
        })?;
        let engine = Self { daemon, directory };
        engine.wait()?;
        let image = engine.import(busybox);
        image.map_err(|error| format!("its image cannot be made: {error}"))?;
        Ok(engine)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("docker.sock")
    }

    fn client(&self) -> std::process::Command {
        let mut client = plain_command("docker", &self.directory);
        client.arg("-H").arg(address(&self.socket()));
        client.stdout(Stdio::null()).stderr(Stdio::null());
        client
    }

    fn wait(&self) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let answers = self.client().arg("version").status();
            if answers.is_ok_and(|status| status.success()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let last = log.lines().last().unwrap_or_default();
        Err(format!("its engine does not answer: {last}"))
    }

    /// An image of nothing but a static busybox.
    fn import(&self, busybox: &Path) -> io::Result<()> {
        let root = self.directory.join("image");
        fs::create_dir_all(root.join("bin"))?;
        fs::copy(busybox, root.join("bin/busybox"))?;
        symlink("busybox", root.join("bin/true"))?;
        let packed = plain_command("tar", &self.directory)
            .arg("-C")
            .arg(&root)
            .args(["-c", "."])
            .output()?;
        let mut client = self.client();
        let mut client = client
            .args(["import", "-", IMAGE])
            .stdin(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = client.stdin.take() {
            input.write_all(&packed.stdout)?;
        }
        if client.wait()?.success() {
            Ok(())
        } else {
            Err(io::Error::other("`docker import` failed"))
        }
    }
}

fn begin(directory: &Path) -> io::Result<Child> {
    fs::create_dir_all(directory)?;
    let log = fs::File::create(directory.join("log"))?;
    plain_command("dockerd", directory)
        .args(["--iptables=false", "--bridge=none", "-H"])
        .arg(address(&directory.join("docker.sock")))
        .arg("--data-root")
        .arg(directory.join("data"))
        .arg("--exec-root")
        .arg(directory.join("exec"))
        .arg("--pidfile")
        .arg(directory.join("pid"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Asked, not killed: it has a daemon of its own to end.
        let pid = i32::try_from(self.daemon.id()).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _asked = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ended = self.daemon.wait();
    }
}

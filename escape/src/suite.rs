//! Runs attacks: the control unconfined, then the same confined.

use crate::attack::{Attack, Control, Judge};
use crate::confine::{NotStarted, fill, says_denials, standing, start, walls};
use crate::judge::{Problem, Said, complaint, word};
use crate::scene::{Scene, copy_program, is_root, open_up, processes_with};
use crate::table::attacks;
use airlock_sandbox::launch::{Command, Ended, LayersKind, RunError, Stdin, Streams};
use airlock_sandbox::{HostPath, Launcher, Sandbox, Wall};
use serde::Serialize;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a control may take, and a command that its limits end. Only one that never ends meets it, on a
/// machine that has much else to do.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long the host is given to end what a sandbox left behind.
const GRACE: Duration = Duration::from_secs(30);

/// What is met where the launcher refuses a plan.
const NOT_STARTED: &str = "does not start";

/// What became of an attack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The control succeeded, confined it was denied as expected.
    Held,
    /// It got through, as is stated among the limits.
    Limit(&'static str),
    /// Anything else, and what.
    Failed(String),
}

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The attack.
    pub attack: &'static str,
    /// Its class.
    pub class: &'static str,
    /// What is attempted.
    pub about: &'static str,
    /// What the control showed.
    pub control: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What the routes met, confined.
    pub met: Vec<String>,
    /// The walls that stop it.
    pub walls: Vec<&'static str>,
}

/// Everything needed to run attacks.
#[derive(Debug)]
pub struct Suite {
    launcher: Launcher,
    place: TempDir,
    probe: PathBuf,
    runner: PathBuf,
}

/// The launchers of this platform, by name.
pub const LAUNCHERS: &[(&str, Launcher)] =
    &[("native", Launcher::Native), ("bwrap", Launcher::Bwrap)];

fn name(launcher: Launcher) -> &'static str {
    let own = LAUNCHERS.iter().find(|(_, known)| *known == launcher);
    own.map_or("unknown", |(name, _)| *name)
}

/// What kind of stage a launcher can write.
const fn layers(launcher: Launcher) -> LayersKind {
    match launcher {
        Launcher::Bwrap => LayersKind::Copy,
        Launcher::Native | Launcher::Seatbelt => LayersKind::Overlay,
    }
}

/// What becomes of a row: getting through by the very route that is stated for this launcher is a
/// limit, and nothing else is.
fn verdict(launcher: Launcher, attack: &Attack, problem: &Problem) -> Verdict {
    // Root may always make one where there are any.
    let cgroup = is_root();
    let Problem::Through { route, .. } = problem else {
        return Verdict::Failed(problem.to_string());
    };
    let mut limits = attack.limits.iter();
    let limit = limits.find(|limit| limit.applies(launcher, cgroup) && limit.excuses(route));
    limit.map_or_else(
        || Verdict::Failed(problem.to_string()),
        |limit| Verdict::Limit(limit.why),
    )
}

impl Suite {
    /// A suite with a copy of `probe`; `runner` is the suite's own program.
    pub fn new(launcher: Launcher, probe: &Path, runner: &Path) -> io::Result<Self> {
        // Short, because a socket's path holds 108 bytes.
        let place = tempfile::Builder::new()
            .prefix("ae")
            .tempdir_in("/var/tmp")?;
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        let directory = place.path().join("bin");
        fs::create_dir(&directory)?;
        let copy = directory.join("airlock-probe");
        copy_program(probe, &copy)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        let (probe, runner) = (copy, runner.to_owned());
        Ok(Self {
            launcher,
            place,
            probe,
            runner,
        })
    }

    /// Runs every attack, or those whose name has `only` in it, several at a time. `watch` hears of
    /// each as it begins and as it ends.
    pub fn run(&self, only: Option<&str>, watch: &(dyn Fn(&str, Option<&Row>) + Sync)) -> Vec<Row> {
        let chosen: Vec<Attack> = attacks()
            .filter(|attack| only.is_none_or(|only| attack.name.contains(only)))
            .collect();
        let next = AtomicUsize::new(0);
        let rows = Mutex::new(Vec::new());
        let workers = thread::available_parallelism().map_or(2, |count| count.get() * 2);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(attack) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                        watch(attack.name, None);
                        let row = self.attempt(attack);
                        watch(attack.name, Some(&row));
                        if let Ok(mut rows) = rows.lock() {
                            rows.push(row);
                        }
                    }
                });
            }
        });
        let mut rows = rows.into_inner().unwrap_or_default();
        let place = |row: &Row| chosen.iter().position(|attack| attack.name == row.attack);
        rows.sort_by_key(place);
        rows
    }

    fn attempt(&self, attack: &Attack) -> Row {
        let mut row = Row {
            attack: attack.name,
            class: attack.class.name(),
            about: attack.about,
            control: String::new(),
            verdict: Verdict::Held,
            met: Vec::new(),
            walls: walls(self.launcher, attack)
                .into_iter()
                .map(Wall::name)
                .collect(),
        };
        match self.control(attack) {
            Ok(shown) => row.control = shown,
            Err(problem) => {
                "FAILED".clone_into(&mut row.control);
                row.verdict = Verdict::Failed(format!("control: {problem}"));
                return row;
            }
        }
        let confined = if attack.orphaned {
            let orphaned = self.orphan(true).map(|()| vec!["killed".to_owned()]);
            orphaned.map_err(Problem::Otherwise)
        } else {
            self.confined(attack)
        };
        match confined {
            Ok(met) => {
                if met == [NOT_STARTED] && attack.refused.is_none() {
                    row.walls = vec![Wall::Denials.name()];
                }
                row.met = met;
            }
            Err(problem) => row.verdict = verdict(self.launcher, attack, &problem),
        }
        row
    }

    /// What the control showed, or why it did not succeed.
    fn control(&self, attack: &Attack) -> Result<String, String> {
        let missing = attack.target.filter(|path| !Path::new(path).exists());
        match missing {
            Some(_) if attack.rare => return Ok("the host has none".to_owned()),
            Some(path) => return Err(format!("the host has no `{path}`")),
            None => {}
        }
        if attack.control != Control::Anyone && !is_root() {
            return Ok("only as root".to_owned());
        }
        if attack.orphaned {
            let lives = self.orphan(false);
            return match lives {
                Err(_) => Ok("lives on".to_owned()),
                Ok(()) => Err("nothing lived on".to_owned()),
            };
        }
        let mut scene = self.scene(false)?;
        let given = (attack.scene)(&mut scene);
        scene.settle().map_err(|error| error.to_string())?;
        let output = self.unconfined(attack, &scene, &given.to_string())?;
        let said = Said::find(&output).ok_or("the probe said nothing")?;
        let achieved = match attack.judge {
            Judge::Probe => said.achieved,
            Judge::Host if attack.probe == "outlive" => {
                // What lives on may need its time to get there.
                let until = Instant::now() + PATIENCE;
                while scene.changes().is_empty() && Instant::now() < until {
                    thread::sleep(Duration::from_millis(20));
                }
                !scene.changes().is_empty()
            }
            Judge::Host => !scene.changes().is_empty(),
        };
        let denials = ["EPERM", "EACCES", "EMFILE", "ENOENT"];
        let kept = said
            .tried
            .iter()
            .all(|(_, answer)| denials.contains(&answer.as_str()));
        if !achieved && attack.control == Control::FullRoot && kept {
            return Ok("denied to root too".to_owned());
        }
        if !achieved {
            let tried = said
                .tried
                .iter()
                .map(|(step, answer)| format!("{step}: {answer}"));
            return Err(tried.collect::<Vec<_>>().join("; "));
        }
        Ok(if is_root() {
            "succeeds as root"
        } else {
            "succeeds"
        }
        .to_owned())
    }

    fn scene(&self, confined: bool) -> Result<Scene, String> {
        Scene::new(
            self.place.path(),
            &self.probe,
            layers(self.launcher),
            confined,
        )
        .map_err(|error| format!("cannot make a scene: {error}"))
    }

    #[expect(clippy::disallowed_methods, reason = "a control runs unconfined")]
    fn unconfined(&self, attack: &Attack, scene: &Scene, given: &str) -> Result<Vec<u8>, String> {
        let mut child = std::process::Command::new(&self.probe)
            .args([attack.probe, given])
            .env_clear()
            .envs(scene.environment())
            .current_dir(scene.path("tree"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start the probe: {error}"))?;
        let output = child.stdout.take();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut reader = output.map(BufReader::new);
            // A line is enough: something left behind may hold the pipe for ever.
            while let Some(reader) = &mut reader {
                let mut line = Vec::new();
                if reader.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                    break;
                }
                let last = line.starts_with(b"{");
                bytes.extend(line);
                if last {
                    break;
                }
            }
            bytes
        });
        let until = Instant::now() + PATIENCE;
        while !reader.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        let late = !reader.is_finished();
        if late || attack.probe == "outlive" {
            let _ = child.kill();
        }
        let _ = child.wait();
        if late {
            return Err("the probe did not end".to_owned());
        }
        reader.join().map_err(|_| "the reader failed".to_owned())
    }

    /// What the routes met, or why it is no denial.
    fn confined(&self, attack: &Attack) -> Result<Vec<String>, Problem> {
        let mut scene = self.scene(true)?;
        let given = (attack.scene)(&mut scene);
        scene.settle().map_err(|error| error.to_string())?;
        fill(&scene).map_err(|error| format!("cannot fill the stage: {error}"))?;
        let denies = says_denials(self.launcher, &scene);
        let mut sandbox = match (start(self.launcher, &scene), denies) {
            (Ok(sandbox), true) => sandbox,
            // Nothing foreign has run.
            (Err(NotStarted::Denials), false) => return Ok(vec![NOT_STARTED.to_owned()]),
            (Err(NotStarted::Otherwise(problem)), true)
                if attack.refused.is_some_and(|words| problem.contains(words)) =>
            {
                return match scene.changes().first() {
                    Some(change) => Err(format!("ESCAPED: on the host {change}").into()),
                    None => Ok(vec![NOT_STARTED.to_owned()]),
                };
            }
            (Ok(_), false) => {
                return Err("started without what the plan denies".to_owned().into());
            }
            (Err(refused), _) => return Err(refused.problem().into()),
        };
        standing(&sandbox, &walls(self.launcher, attack))?;
        let mut output = Vec::new();
        let mut complaints = Vec::new();
        let command = Command {
            arguments: [
                self.probe.as_os_str(),
                attack.probe.as_ref(),
                given.to_string().as_ref(),
            ]
            .map(std::ffi::OsStr::to_owned)
            .into(),
            environment: scene.environment(),
            ..Command::default()
        };
        let streams = Streams {
            stdin: Stdin::Empty,
            stdout: &mut output,
            stderr: &mut complaints,
            terminal: scene.terminal,
        };
        let began = Instant::now();
        let ended = run(&scene, &mut sandbox, &command, streams);
        let lasted = began.elapsed();
        drop(sandbox);
        let ended = match ended {
            Ok(ended) => word(ended.outcome),
            Err(error) => format!("gone: {error}"),
        };
        let changes = after_grace(&scene);
        let said = Said::find(&output);
        if lasted > PATIENCE {
            return Err(format!("the command was not ended for {lasted:?}").into());
        }
        match complaint(self.launcher, attack, said.as_ref(), &ended, &changes) {
            Some(Problem::Otherwise(what)) => {
                let errors = String::from_utf8_lossy(&complaints);
                let first = errors.lines().next().unwrap_or_default();
                Err(format!("{what} {first}").trim().to_owned().into())
            }
            Some(through @ Problem::Through { .. }) => Err(through),
            None => Ok(met(said.as_ref(), ended)),
        }
    }

    /// Starts a supervisor, kills it once its command has left someone behind, and waits until
    /// nobody is left.
    fn orphan(&self, confined: bool) -> Result<(), String> {
        let mut scene = self.scene(confined)?;
        scene.watches_processes = true;
        let marker = scene.marker.clone();
        let mut holder = self
            .holder(&scene, confined)
            .map_err(|error| error.to_string())?;
        let until = Instant::now() + PATIENCE;
        while processes_with(&marker).is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        let there = !processes_with(&marker).is_empty();
        let _ = holder.kill();
        let _ = holder.wait();
        if !there {
            return Err("nobody was left behind in the first place".to_owned());
        }
        thread::sleep(Duration::from_millis(100));
        let left = after_grace(&scene);
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("ESCAPED: {}", left.join(", ")))
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor to be killed is this program"
    )]
    fn holder(&self, scene: &Scene, confined: bool) -> io::Result<Child> {
        let mut child = std::process::Command::new(&self.runner)
            .arg("hold")
            .arg(self.place.path())
            .arg(&self.probe)
            .arg(&scene.marker)
            .arg(if confined {
                name(self.launcher)
            } else {
                "unconfined"
            })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut output) = child.stdout.take() {
            let _ = output.read(&mut [0_u8; 1]);
        }
        Ok(child)
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        // A supervisor that was killed could not clear up its scene.
        for entry in fs::read_dir(self.place.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            open_up(&entry.path().join("stage/work"));
        }
    }
}

/// What a supervisor does that will be killed: it runs a command that leaves others behind.
/// Without a launcher it is not confined.
pub fn hold(
    place: &Path,
    probe: &Path,
    marker: &str,
    launcher: Option<Launcher>,
) -> Result<(), String> {
    let kind = layers(launcher.unwrap_or(Launcher::Native));
    let mut scene =
        Scene::new(place, probe, kind, launcher.is_some()).map_err(|error| error.to_string())?;
    fill(&scene).map_err(|error| error.to_string())?;
    marker.clone_into(&mut scene.marker);
    let ways = [
        "double fork",
        "own group",
        "ignoring signals",
        "no death signal",
        "many",
        "waiting",
    ];
    let given = serde_json::json!({ "token": marker, "ways": ways }).to_string();
    let arguments = [probe.as_os_str(), "outlive".as_ref(), given.as_ref()];
    let _ = io::stdout().write_all(b"x");
    let _ = io::stdout().flush();
    let Some(launcher) = launcher else {
        #[expect(clippy::disallowed_methods, reason = "a control runs unconfined")]
        let mut command = std::process::Command::new(probe);
        let status = command
            .args(arguments.get(1..).unwrap_or_default())
            .stdout(Stdio::null())
            .status();
        return status.map(|_| ()).map_err(|error| error.to_string());
    };
    let mut sandbox = start(launcher, &scene).map_err(NotStarted::problem)?;
    let command = Command {
        arguments: arguments.map(std::ffi::OsStr::to_owned).into(),
        environment: scene.environment(),
        ..Command::default()
    };
    let (mut out, mut err) = (io::sink(), io::sink());
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let ended = sandbox.run(&command, streams);
    ended.map(|_| ()).map_err(|error| error.to_string())
}

fn met(said: Option<&Said>, ended: String) -> Vec<String> {
    match said {
        Some(said) if said.achieved => vec!["no effect outside".to_owned()],
        Some(said) => said.answers(),
        None => vec![ended],
    }
}

/// Runs `command`, in company where the scene has it.
fn run(
    scene: &Scene,
    sandbox: &mut Sandbox,
    command: &Command,
    streams: Streams<'_>,
) -> Result<Ended, RunError> {
    let (control, over) = (sandbox.control(), AtomicBool::new(false));
    let (company, directory) = (scene.grants.company, HostPath::new("/tmp"));
    let beside = Command {
        arguments: vec!["true".into()],
        environment: scene.environment(),
        ..Command::default()
    };
    thread::scope(|scope| {
        if company {
            scope.spawn(|| {
                while let (Ok(directory), false) = (&directory, over.load(Ordering::Relaxed)) {
                    // One is let in only while the command runs, and by bubblewrap never.
                    let _ = control.beside(&beside, directory, "", 0);
                    thread::sleep(Duration::from_micros(100));
                }
            });
        }
        let ended = sandbox.run(command, streams);
        over.store(true, Ordering::Relaxed);
        ended
    })
}

/// Changes on the host, once there was time to end what was left behind.
fn after_grace(scene: &Scene) -> Vec<String> {
    let until = Instant::now() + GRACE;
    loop {
        let changes = scene.changes();
        if changes.is_empty() || !scene.watches_processes || Instant::now() > until {
            return changes;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

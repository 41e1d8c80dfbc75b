//! Starts the sandbox an attack is run in, by either launcher.
//!
//! Guarantee: both get the same plan; what differs is how the workspace is staged - bubblewrap
//! writes a whole copy of it - and which walls there are. A sandbox that does not start because its
//! launcher cannot say what the plan denies has held; any other failure to start has not.

use crate::attack::Attack;
use crate::scene::{Scene, is_root};
use airlock_core::{ByteSize, Span};
use airlock_sandbox::launch::{Launch, Layers, LayersKind, StartError};
use airlock_sandbox::plan::Limits;
use airlock_sandbox::stage::Stage;
use airlock_sandbox::{
    HostPath, Launcher, Minimum, Plan, Sandbox, Shortfall, Surroundings, Template, View, Wall,
};
use std::fs;
use std::io;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;

/// Why there is no sandbox.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// Its launcher cannot deny what the plan denies, and says so.
    Denials,
    /// Anything else.
    Otherwise(String),
}

impl NotStarted {
    /// What is wrong with that.
    pub(crate) fn problem(self) -> String {
        match self {
            Self::Denials => "not started: the launcher cannot deny what the plan does".to_owned(),
            Self::Otherwise(problem) => problem,
        }
    }
}

impl From<String> for NotStarted {
    fn from(problem: String) -> Self {
        Self::Otherwise(problem)
    }
}

/// The walls that stop `attack` where `launcher` raises them.
pub(crate) fn walls(launcher: Launcher, attack: &Attack) -> Vec<Wall> {
    let raised = |wall: &Wall| launcher != Launcher::Bwrap || *wall != Wall::Landlock;
    attack.walls.iter().copied().filter(raised).collect()
}

/// Whether `launcher` can deny what the plan of `scene` denies. Bubblewrap knows paths alone.
pub(crate) fn says_denials(launcher: Launcher, scene: &Scene) -> bool {
    launcher != Launcher::Bwrap || scene.grants.patterns.is_empty()
}

/// Whether every one of `walls` stands, and there is one.
pub(crate) fn standing(sandbox: &Sandbox, walls: &[Wall]) -> Result<(), String> {
    if walls.is_empty() {
        return Err("no wall of this launcher stops it".to_owned());
    }
    let stands = |wall: &&Wall| sandbox.report().walls().contains_key(*wall);
    match walls.iter().find(|wall| !stands(wall)) {
        Some(wall) => Err(format!("the wall `{wall}` does not stand")),
        None => Ok(()),
    }
}

/// Starts the sandbox of `scene`.
pub(crate) fn start(launcher: Launcher, scene: &Scene) -> Result<Sandbox, NotStarted> {
    let launch = launch(scene)?;
    airlock_sandbox::start_with(launcher, launch).map_err(|error| {
        if lacks_denials_alone(&error) {
            NotStarted::Denials
        } else {
            NotStarted::Otherwise(format!("not started: {error}"))
        }
    })
}

fn lacks_denials_alone(error: &StartError) -> bool {
    let StartError::NotEnforced(lacking) = error else {
        return false;
    };
    let denials = |shortfall: &Shortfall| matches!(shortfall, Shortfall::Wall { wall, .. } if *wall == Wall::Denials);
    !lacking.shortfalls().is_empty() && lacking.shortfalls().iter().all(denials)
}

/// Fills the stage of a launcher that cannot mount an overlay.
pub(crate) fn fill(scene: &Scene) -> io::Result<()> {
    let own_stage = scene.stage.is_some();
    if scene.layers != LayersKind::Copy || own_stage {
        return Ok(());
    }
    copy(&scene.path("tree"), &scene.path("stage/upper"))
}

/// Copies what a copy stage would: no sockets, pipes and devices.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(from)?;
    if about.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        fs::set_permissions(to, about.permissions())?;
    } else if about.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if about.is_file() {
        let _length = fs::copy(from, to)?;
    } else {
        return Ok(());
    }
    if is_root() {
        let owner = airlock_sandbox::stage_owner();
        lchown(to, Some(owner.uid), Some(owner.gid))?;
    }
    Ok(())
}

fn launch(scene: &Scene) -> Result<Launch, String> {
    let template = Template::find("code-executor").ok_or("no template")?;
    let host = |path: &Path| HostPath::new(path).map_err(|problem| problem.to_string());
    let own: Result<Vec<HostPath>, String> =
        scene.grants.own.iter().map(|path| host(path)).collect();
    let home = host(&scene.path("home"))?;
    let surroundings = Surroundings {
        own: own?,
        home: Some(home.clone()),
    };
    let mut builder = Plan::builder(template, &surroundings)
        .workspace(scene.path("tree"), View::Staged)
        .read(scene.probe.parent().unwrap_or(Path::new("/nowhere")))
        .limits(limits(template.limits, scene));
    for path in &scene.grants.reads {
        builder = builder.read(path);
    }
    for path in &scene.grants.writes {
        builder = builder.write(path);
    }
    for pattern in &scene.grants.patterns {
        builder = builder.deny_pattern(pattern);
    }
    let plan = builder.build().map_err(|problem| problem.to_string())?;
    let usual = Layers {
        kind: scene.layers,
        upper: scene.path("stage/upper"),
        work: scene.path("stage/work"),
        without: Vec::new(),
    };
    Ok(Launch {
        minimum: Minimum::of(&plan),
        plan,
        base: airlock_sandbox::base::detect(Path::new("/"), &home),
        home: Vec::new(),
        layers: Some(scene.stage.as_ref().map_or(usual, Stage::layers)),
        registry: scene.path("run"),
    })
}

fn limits(most: Limits, scene: &Scene) -> Limits {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    let lower = scene.grants.limits;
    let size = |asked: Option<u64>, unit: u64, most: ByteSize| {
        asked.map_or(most, |count| ByteSize::from_bytes(count * unit))
    };
    Limits {
        memory: size(lower.mebibytes, MIB, most.memory),
        cpus: lower.cpus.unwrap_or(most.cpus),
        pids: lower.pids.unwrap_or(most.pids),
        duration: Span::from_millis(lower.millis.unwrap_or(25_000)),
        stdout: size(lower.output_kibibytes, KIB, most.stdout),
        stderr: size(lower.output_kibibytes, KIB, most.stderr),
        file_size: size(lower.file_mebibytes, MIB, most.file_size),
    }
}

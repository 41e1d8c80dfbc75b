//! A workspace with a stage, and the launch of a sandbox on it with everything a real one has.

use crate::failure::Failure;
use airlock_sandbox::launch::{Command, Ended, Launch, Stdin, Streams};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::stage::{Claim, Stage, Stages};
use airlock_sandbox::{
    HostPath, Minimum, Plan, Sandbox, Surroundings, Template, View, stage_owner, start,
};
use std::path::{Path, PathBuf};

/// What every plan here denies; nobody can tell in advance where it will be.
pub(crate) const DENIED: &str = "**/.env";

/// A claimed stage of a workspace.
pub(crate) struct Place {
    tree: PathBuf,
    registry: PathBuf,
    pub(crate) stage: Stage,
    _claim: Claim,
}

impl Place {
    /// The stage `name` of `tree`, with everything else below `home`.
    pub(crate) fn new(home: &Path, tree: &Path, name: &str) -> Result<Self, Failure> {
        let registry = home.join("run");
        std::fs::create_dir_all(&registry)?;
        let stages = Stages::open(&home.join("stages"))?;
        let mut stage = stages.open_or_create(name, tree, stage_owner())?;
        let claim = stage.claim()?;
        Ok(Self {
            tree: stage.workspace().to_owned(),
            registry,
            stage,
            _claim: claim,
        })
    }

    /// A small workspace of its own.
    pub(crate) fn small(home: &Path, name: &str) -> Result<Self, Failure> {
        let tree = home.join("tree");
        std::fs::create_dir_all(&tree)?;
        std::fs::write(tree.join("README.md"), "# A workspace\n")?;
        Self::new(home, &tree, name)
    }

    pub(crate) fn launch(&self, denied: &[&str]) -> Result<Launch, Failure> {
        let template = Template::find("code-executor")
            .ok_or_else(|| Failure::new("there is no template `code-executor`"))?;
        let plan = Plan::builder(template, &Surroundings::default())
            .workspace(&self.tree, View::Staged)
            .directory(&self.tree);
        let plan = denied
            .iter()
            .fold(plan, |plan, pattern| plan.deny_pattern(pattern))
            .build()?;
        let home = HostPath::new("/home/alice")?;
        Ok(Launch {
            minimum: Minimum::of(&plan),
            plan,
            base: airlock_sandbox::base::detect(Path::new("/"), &home),
            home: Vec::new(),
            layers: Some(self.stage.layers()),
            registry: self.registry.clone(),
        })
    }

    pub(crate) fn start(&self, denied: &[&str]) -> Result<Sandbox, Failure> {
        Ok(start(self.launch(denied)?)?)
    }
}

/// Runs a command that must succeed.
pub(crate) fn run(sandbox: &mut Sandbox, arguments: &[&str]) -> Result<Ended, Failure> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let command = Command {
        arguments: arguments.iter().map(Into::into).collect(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        directory: None,
        lasting: false,
    };
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let ended = sandbox.run(&command, streams)?;
    if ended.outcome == Outcome::Exited(0) {
        Ok(ended)
    } else {
        let said = String::from_utf8_lossy(&err).into_owned();
        Err(Failure::new(format!("a command failed inside: {said}")))
    }
}

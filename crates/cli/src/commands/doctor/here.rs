//! Probing this machine, or remembering what that said.

use super::ladder::{keep, looked_twice};
use super::table;
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, shown};
use crate::place::{Place, variable};
use airlock_core::Tier;
use airlock_kernel::Workspace;
use airlock_policy::Policy;
use airlock_sandbox::plan::Classes;
use airlock_sandbox::probe::{
    self, CacheKey, Findings, Needed, ProbeOptions, TASK, act as act_inside, unmet,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where what was found out is kept, below the state home.
pub(super) const RECORD: &str = "doctor.json";
/// Where live sandboxes are noted, below the state home.
const REGISTRY: &str = "sandboxes";

/// Acts in a sandbox that is being tried; only a probe asks for that.
pub(super) fn act() -> Ending {
    let task = variable(TASK).and_then(|task| task.into_string().ok());
    let Some(task) = task else {
        return Err(Failure::new(Kind::Usage, "there is nothing to act on")
            .why("`--inside` is for Airlock itself")
            .fix("airlock doctor"));
    };
    Ok(act_inside(&task, &mut io::stdout()))
}

pub(super) fn run(global: &Global, cached: bool, output: &mut Output) -> Ending {
    let place = Place::find(global.workspace.as_deref())?;
    let site = Site::of(&place)?;
    let key = CacheKey::now(&site.program).ok();
    let record = site.state.join(RECORD);
    let remembered = key
        .as_ref()
        .filter(|_| cached)
        .and_then(|key| probe::cached(&record, key));
    let known = remembered.is_some();
    let findings = match remembered {
        Some(mut findings) => {
            probe::refresh(&mut findings, &site.options(&site.state, &site.state));
            findings
        }
        None => probed(&site)?,
    };
    if let (false, Some(key)) = (known, &key) {
        keep(&record, key, &findings);
    }
    let needed = needed(&place, output);
    let lacking = unmet(&findings, &needed);
    if output.is_json() {
        output.json(&json!({
            "findings": findings.findings,
            "ladder": findings.ladder,
            "rung": findings.rung,
            "cached": known,
            "minimum_tier": needed.tier.as_str(),
            "unmet": lacking,
        }));
        return Ok(if lacking.is_empty() {
            0
        } else {
            Kind::Unenforceable.code()
        });
    }
    for line in table::lines(&findings, table::width()) {
        output.line(line);
    }
    output.line(format!("Policy asks for the tier `{}`.", needed.tier));
    verdict(&findings, lacking, output)
}

fn verdict(findings: &Findings, lacking: Vec<String>, output: &mut Output) -> Ending {
    if let ([], Some(rung)) = (lacking.as_slice(), findings.rung) {
        output.line(format!(
            "Sandboxes can be enforced here, by `{}`.",
            rung.name()
        ));
        return Ok(0);
    }
    let failure = Failure::new(
        Kind::Unenforceable,
        "this machine cannot enforce what policy asks for",
    );
    let failure = lacking.into_iter().fold(failure, Failure::why);
    Err(failure.fix("do what is listed above, then: airlock doctor"))
}

/// What a probe needs to know of where it stands.
pub(super) struct Site {
    pub(super) state: PathBuf,
    workspace: PathBuf,
    /// The program that is to act inside: this one.
    pub(super) program: PathBuf,
    arguments: [OsString; 2],
    environment: BTreeMap<OsString, OsString>,
}

impl Site {
    pub(super) fn of(place: &Place) -> Result<Self, Failure> {
        let program = std::env::current_exe().and_then(|path| path.canonicalize());
        let program = program.map_err(|error| {
            Failure::new(Kind::Failed, "cannot find this program's own file")
                .why(format!("{error}; it may have been replaced while it runs"))
                .fix("start it again by its full path")
        })?;
        let workspace = place.workspace.canonicalize();
        Ok(Self {
            state: place.state_home.join("airlock"),
            workspace: workspace.unwrap_or_else(|_| place.workspace.clone()),
            program,
            arguments: ["doctor", "--inside"].map(OsString::from),
            environment: std::env::vars_os().collect(),
        })
    }

    fn options<'a>(&'a self, scratch: &'a Path, registry: &'a Path) -> ProbeOptions<'a> {
        ProbeOptions {
            scratch,
            registry,
            state: &self.state,
            program: &self.program,
            arguments: &self.arguments,
            workspace: &self.workspace,
            environment: &self.environment,
        }
    }
}

pub(super) fn probed(site: &Site) -> Result<Findings, Failure> {
    let state = site.state.as_path();
    // A state directory that cannot be made is a finding; the rest is tried elsewhere.
    let _made = DirBuilder::new().recursive(true).mode(0o700).create(state);
    let temporary = std::env::temp_dir();
    let directory = |parent: &Path| {
        tempfile::Builder::new()
            .prefix("doctor-")
            .tempdir_in(parent)
    };
    let scratch = directory(state).or_else(|_| directory(&temporary));
    let scratch = scratch.map_err(|error| {
        let places = format!("{} nor {}", shown(state), shown(&temporary));
        Failure::new(Kind::Failed, "there is nowhere to try a sandbox")
            .why(format!("neither {places} can be written: {error}"))
            .fix("point XDG_STATE_HOME at a directory you can write")
    })?;
    let registry = if scratch.path().starts_with(state) {
        state.join(REGISTRY)
    } else {
        scratch.path().join(REGISTRY)
    };
    // What an earlier probe that was killed left.
    let _collected = airlock_sandbox::collect(&registry);
    let options = site.options(scratch.path(), &registry);
    Ok(looked_twice(|| probe::probe(&options)))
}

/// What the policy in force asks for at least.
fn needed(place: &Place, output: &mut Output) -> Needed {
    let approved = Workspace::open(&place.workspace, &place.state_home)
        .ok()
        .and_then(|workspace| workspace.trust().ok())
        .and_then(|trust| trust.policy().map(<[u8]>::to_vec));
    let usual = Needed {
        tier: Tier::Process,
        classes: Classes::usual(),
    };
    match approved.map(|text| Policy::load(airlock_kernel::POLICY_FILE, &text)) {
        Some(Ok(loaded)) => {
            let document = loaded.policy.document();
            Needed {
                tier: document.workspace.minimum_tier,
                classes: airlock_kernel::required_classes(document),
            }
        }
        Some(Err(_)) => {
            output.warning("the policy does not load, so the usual minimum is shown");
            usual
        }
        None => usual,
    }
}

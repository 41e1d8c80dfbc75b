//! From a call to a request: the tool exists, its arguments fit, its files are open.

use super::Call;
use super::outcome::Invalid;
use super::record::Trail;
use super::turns::{Access, Touches, Turn};
use crate::beneath::Root;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::phases::Held;
use crate::process::{Changes, Job, Machine, ProcessFailure, PutBack, Within, judged_view, view};
use crate::tools::{Absent, InvalidArguments, Prepared, ToolSpec, lists};
use airlock_core::{ActionId, Caller, Request, RequestPath, Syscall, Tier};
use std::sync::Arc;

/// Areas whose tools show what is in a stage, or go by it.
const SHOWING: &[&str] = &["fs", "search", "phase", "plan", "merge"];

/// A call that is well formed, with everything it will read already open.
pub(super) struct Valid {
    pub(super) request: Request,
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) spec: &'static ToolSpec,
    /// The stage it sees and changes.
    pub(super) stage: String,
    /// Its place among calls that touch the same.
    pub(super) turn: Turn,
    /// The machine of whoever asks, where it is not the kernel's own.
    pub(super) machine: Option<Machine>,
    /// The command it comes out of, if one that is being run asks.
    pub(super) within: Option<Arc<Within>>,
    /// Whether what it runs may ask the kernel in turn.
    pub(super) may_ask: bool,
    /// What was put back of a run that was cut off, before it could be shown the stage.
    pub(super) earlier: Vec<PutBack>,
    /// Most bytes of its result, where the call says so.
    pub(super) room: Option<usize>,
}

impl Kernel {
    /// The tree that a tool is shown, and what was put back for it. What a program does in a stage is
    /// judged as it is raised; whoever is shown what is there must not be shown what nobody has judged.
    ///
    /// That comes before the decision, which may go by what is there, and has its own record first.
    fn seen(
        &self,
        syscall: Syscall,
        spec: &ToolSpec,
        caller: &Caller,
        stage: &str,
        action: &ActionId,
    ) -> Result<(Root, Vec<PutBack>), ProcessFailure> {
        let shows = SHOWING.contains(&syscall.area()) && spec.tier == Tier::Kernel;
        if !shows {
            return Ok((view(self.workspace(), stage)?, Vec::new()));
        }
        let mut earlier = Vec::new();
        let root = judged_view(self.workspace(), stage, &mut |stage| {
            let policy = self.policy();
            let enforcer = self.enforcer().snapshot();
            let request = Request::new(syscall, spec.tier, caller.clone());
            let held = Held::default();
            let changes = Changes::new(self, &policy, &enforcer, &request, action, held);
            changes.settle(stage)?;
            earlier.extend(changes.take_earlier());
            Ok(())
        })?;
        Ok((root, earlier))
    }

    pub(super) fn validate(
        &self,
        front: Front,
        whence: &Whence,
        call: &Call,
        caller: Caller,
        stage: &str,
        trail: &Trail<'_>,
    ) -> Result<Valid, Invalid> {
        let unknown = |suggestion| Invalid::UnknownTool {
            name: trail.name().to_owned(),
            suggestion,
        };
        let tool = self.registry().get(&call.name);
        let tool = tool.map_err(|_| match self.absent(front, &call.name) {
            Some(absent) => Invalid::Absent {
                name: trail.name().to_owned(),
                absent,
            },
            None => unknown(self.nearest(front, whence, &call.name)),
        })?;
        let spec = tool.spec();
        // The kernel's own loop asks for leave to ask, in the name of whoever it works for.
        let asks = call.asks && spec.name == "model.chat";
        if !tool.open_to(front) && !asks {
            return Err(unknown(None));
        }
        if let Some(agent) = &whence.agent
            && !asks
            && !agent.may_use(spec.name)
        {
            return Err(Invalid::NotTheAgents {
                tool: spec.name,
                agent: agent.name().to_owned(),
            });
        }
        if tool.needs_person() && !call.person {
            return Err(Invalid::NeedsPerson { tool: spec.name });
        }
        // A tool whose syscall is not in the table would be a bug of ours; it is refused all the
        // same, because what is unknown is denied.
        let syscall = Syscall::parse(spec.syscall).map_err(|_| Invalid::UnknownTool {
            name: spec.name.to_owned(),
            suggestion: None,
        })?;
        let refused = |source| Invalid::Arguments {
            tool: spec.name,
            source,
        };
        // A list would pass for an object with its fields in order, and no schema says that.
        if !call.arguments.is_object() {
            return Err(refused(InvalidArguments {
                at: String::new(),
                what: "the arguments are not an object".to_owned(),
                fix: None,
            }));
        }
        let seen = self.seen(syscall, spec, &caller, stage, trail.action());
        let (root, earlier) = seen.map_err(Invalid::Stage)?;
        let prepared = tool.prepare(&call.arguments, &root).map_err(refused)?;
        // The same holds within them.
        if let Some(at) = lists::misplaced(|| tool.schema(), &call.arguments) {
            return Err(refused(InvalidArguments {
                at,
                what: "a list stands where none belongs".to_owned(),
                fix: Some(format!("airlock tool show {}", spec.name)),
            }));
        }
        let mut request = Request::new(syscall, spec.tier, caller);
        request.paths = prepared.paths().to_vec();
        request.tool = Some(spec.name.into());
        request.arguments = call.arguments.clone();
        prepared.describe(&mut request);
        let touches = match prepared.has_to_itself() {
            Some(whole) => Touches::whole(whole),
            None => touches(&request, prepared.job(), stage),
        };
        let within = whence.within.as_deref();
        Ok(Valid {
            turn: self.turns().arrive(touches, within.map(Within::place)),
            request,
            prepared,
            spec,
            stage: stage.to_owned(),
            machine: None,
            within: whence.within.clone(),
            may_ask: self.reception().is_some() && may_ask(front),
            earlier,
            room: call.room,
        })
    }
}

impl Kernel {
    /// The tool probably meant by `name`, if whoever asks could use it.
    fn nearest(&self, front: Front, whence: &Whence, name: &str) -> Option<&'static str> {
        let near = self.registry().nearest(front, name);
        let agent = whence.agent.as_ref();
        near.filter(|near| agent.is_none_or(|agent| agent.may_use(near)))
    }

    /// Why a tool is not there that was, or may be. What a plugin may not call it hears nothing of.
    fn absent(&self, front: Front, name: &str) -> Option<Absent> {
        match front {
            Front::Cli | Front::Agent | Front::Mcp | Front::Server => self.registry().absent(name),
            Front::Plugin => None,
        }
    }
}

/// Whether programs that `front` has run may ask the kernel. A plugin asks by itself, under its own
/// name and what goes with that.
const fn may_ask(front: Front) -> bool {
    match front {
        Front::Cli | Front::Agent | Front::Mcp | Front::Server => true,
        Front::Plugin => false,
    }
}

/// What a call touches: its own paths, or for a program everything.
fn touches(request: &Request, job: Option<&Job>, stage: &str) -> Touches {
    let inside = request.paths.iter().filter_map(RequestPath::inside);
    let with = |does| {
        inside
            .map(|path| (path.as_str().to_owned(), does))
            .collect()
    };
    let paths = match job {
        None => with(Access::Read),
        Some(job) if job.changes_named_paths_only() => with(Access::Write),
        Some(_) => vec![(".".to_owned(), Access::Write)],
    };
    Touches {
        stage: job.and_then(Job::named_stage).unwrap_or(stage).to_owned(),
        paths,
        runs: job.is_some(),
    }
}

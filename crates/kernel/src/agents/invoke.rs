//! One invocation, from the definition to the answer.

use super::budget::{is_within, lacking, narrowed};
use super::child::{AgentCaller, DEEPEST, acts_as, whence_of};
use super::converse::{converse, refused, watched};
use super::hands::KernelHands;
use super::tool::Invocation;
use super::{NoModel, is_agents_work};
use crate::control::for_caller::{failure, unknown_session};
use crate::definitions::AgentEntry;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::sanitise::{sanitise_line, unusable};
use crate::tools::ToolFailure;
use airlock_agent::{Limits, Role, Setup, Tool};
use airlock_core::{ActionId, SessionId, Span, closest};
use airlock_definitions::Agent;
use airlock_model::Model;
use airlock_policy::approval::BudgetLeft;
use airlock_state::{NewSession, Owner, Session, SessionState, StateError};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The stage of an agent that works for no session, as of any call outside one.
const STAGE: &str = "default";

/// Who invokes an agent.
pub(crate) struct Invoker<'a> {
    pub(crate) front: Front,
    pub(crate) whence: &'a Whence,
    pub(crate) session: Option<&'a Session>,
    pub(crate) unattended: bool,
    /// The call that invokes it.
    pub(crate) action: &'a ActionId,
    /// How long policy lets that call take.
    pub(crate) limit: Option<Span>,
}

impl Invoker<'_> {
    /// The sessions of the agents that wait for this call.
    fn chain(&self) -> &[SessionId] {
        let agent = self.whence.agent.as_ref();
        agent.map_or(&[], |agent| &agent.chain)
    }
}

impl Kernel {
    /// Hands a task to an agent and waits for its answer.
    pub(crate) fn invoke(
        &self,
        invoker: &Invoker<'_>,
        asked: &Invocation,
    ) -> Result<Value, ToolFailure> {
        if invoker.chain().len() >= DEEPEST {
            let what = format!("agents work for each other {DEEPEST} deep at most");
            let fix = "let the outermost agent invoke it".to_owned();
            return Err(refused("agent_too_deep", what, Some(fix)));
        }
        let entry = self.agent_entry(&asked.agent)?;
        let agent = &*entry.agent;
        let model = self.model_for(agent)?;
        let (tools, withheld) = self.tools_for(invoker, agent);
        let session = self.begin_agent(invoker, asked, agent)?;
        let ended = self.work(invoker, asked, agent, &*model, tools, &session);
        let put_away = self.put_away(&session);
        let (answer, waiting) = ended?;
        let used = put_away.map_err(|error| failure(&error))?.used;
        let key = if agent.output.is_some() {
            "output"
        } else {
            "answer"
        };
        Ok(json!({
            "agent": agent.name,
            "session": session.id,
            key: answer,
            "waiting": waiting,
            "withheld_tools": withheld,
            "turns": used.turns,
            "calls": used.total_calls,
            "tokens": used.tokens,
            "cost_micros": used.cost_micros,
        }))
    }

    /// Puts an agent's session away, whatever came of it; it can be gone on in, unless somebody
    /// cancelled it meanwhile.
    fn put_away(&self, session: &Session) -> Result<Session, StateError> {
        let (state, owner) = (self.state()?, self.owner());
        let found = state.session(&owner, &session.id)?;
        let found = found.unwrap_or_else(|| session.clone());
        if found.state != SessionState::Active {
            return Ok(found);
        }
        let now = self.clock().now();
        let put = state.set_session_state(&owner, &session.id, SessionState::Archived, now)?;
        // What works for another session is copied with that one.
        if session.parent.is_none() {
            self.hold().session_ended();
        }
        Ok(put.unwrap_or(found))
    }

    /// The definition of `name`, if it is the person's own or still approved.
    fn agent_entry(&self, name: &str) -> Result<AgentEntry, ToolFailure> {
        let stands =
            |entry: &&AgentEntry| self.still_stands(entry.origin, &entry.file, entry.digest);
        let definitions = self.definitions();
        let found = definitions.agent_named(name).filter(stands);
        found.cloned().ok_or_else(|| {
            let agents = definitions.agents().iter().filter(stands);
            let names: Vec<&str> = agents.map(|entry| entry.agent.name.as_str()).collect();
            let fix = closest(name, names.iter().copied()).map_or_else(
                || "define it in `agents/` of your configuration or of the workspace".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            let what = format!("there is no agent `{}`", sanitise_line(name, 60));
            refused("unknown_agent", what, Some(fix))
        })
    }

    fn model_for(&self, agent: &Agent) -> Result<Arc<dyn Model>, ToolFailure> {
        let Some(models) = self.agents().models() else {
            return Err(ToolFailure::Unavailable {
                tool: "agent.invoke".to_owned(),
                why: "this kernel has no models to ask".to_owned(),
                fix: "configure `models:`, and let `airlock` open the kernel",
            });
        };
        models.find(&agent.model).map_err(|error| {
            let NoModel { what, fix } = error;
            let what = format!("agent `{}` has no model: {what}", agent.name);
            refused("no_model", what, fix)
        })
    }

    /// The tools an agent gets: those its definition names and whoever invokes it may use. And those
    /// it names and does not get.
    fn tools_for(&self, invoker: &Invoker<'_>, agent: &Agent) -> (Vec<Tool>, Vec<String>) {
        let own = acts_as(invoker.front);
        let above = invoker.whence.agent.as_ref();
        let listed = self.registry().list().filter(|tool| {
            let name = tool.spec().name;
            agent.tools.iter().any(|wanted| wanted == name)
                && is_agents_work(name)
                && tool.open_to(own)
                && tool.open_to(invoker.front)
                && !tool.needs_person()
                && above.is_none_or(|above| above.may_use(name))
        });
        let tools: Vec<Tool> = listed
            .map(|tool| Tool {
                name: tool.spec().name.to_owned(),
                summary: tool.spec().summary.to_owned(),
                schema: tool.schema().into_owned(),
                read_only: tool.spec().read_only,
            })
            .collect();
        let got = |name: &String| tools.iter().any(|tool| tool.name == *name);
        let withheld = agent.tools.iter().filter(|name| !got(name));
        let withheld = withheld.cloned().collect();
        (tools, withheld)
    }

    /// What is left to each session above an agent.
    fn left_above(&self, invoker: &Invoker<'_>) -> Result<Vec<BudgetLeft>, ToolFailure> {
        let state = self.state().map_err(|error| failure(&error))?;
        let owner = self.owner();
        let mut left: Vec<BudgetLeft> = invoker.session.iter().map(|above| above.left()).collect();
        for id in invoker.chain() {
            let found = state.session(&owner, id);
            let found = found.map_err(|error| failure(&error))?;
            left.extend(found.map(|above| above.left()));
        }
        Ok(left)
    }

    /// The agent's own session: a new one, or an earlier one of the same agent and invoker.
    fn begin_agent(
        &self,
        invoker: &Invoker<'_>,
        asked: &Invocation,
        agent: &Agent,
    ) -> Result<Session, ToolFailure> {
        let budget = narrowed(agent.budget, invoker.front, &self.left_above(invoker)?);
        if let Some(what) = lacking(&budget) {
            let what = format!("no {what} are left for agent `{}` to spend", agent.name);
            let fix = "begin another session, or ask a person for more".to_owned();
            return Err(refused("agent_budget", what, Some(fix)));
        }
        let state = self.state().map_err(|error| failure(&error))?;
        let (owner, now) = (self.owner(), self.clock().now());
        let above = invoker.session.map(|session| session.id.clone());
        let parent = invoker.chain().last().cloned().or(above);
        if let Some(id) = &asked.session {
            let found = state.session(&owner, id).map_err(|error| failure(&error))?;
            match found {
                Some(found) => {
                    let same = found.agent.as_deref() == Some(&*agent.name)
                        && found.parent == parent
                        && is_within(&found.budget, agent.budget, invoker.front);
                    if !same {
                        return Err(unknown_session(id));
                    }
                    let active = SessionState::Active;
                    let put = state.set_session_state(&owner, id, active, now);
                    let put = put.map_err(|error| failure(&error))?;
                    return put.ok_or_else(|| unknown_session(id));
                }
                // A person's own command may say what it is to be called.
                None if invoker.front == Front::Cli && invoker.chain().is_empty() => {}
                None => return Err(unknown_session(id)),
            }
        }
        let fresh = || SessionId::new(&uuid::Uuid::now_v7().to_string());
        let id = asked.session.clone().map_or_else(fresh, Ok);
        let id = id.map_err(|_| ToolFailure::Cancelled)?;
        let policy = self.policy();
        let sanitiser = self.sanitisers().of(Some(&id), &policy);
        let sanitiser = sanitiser.map_err(|refused| unusable(&refused))?;
        let policy = policy.policy();
        let phases = &policy.document().phases;
        let new = NewSession {
            id,
            owner,
            workspace: self.workspace().id().clone(),
            title: Some(sanitiser.line(&asked.task, 120)),
            agent: Some(agent.name.clone()),
            parent,
            mode: phases.mode,
            disciplined: phases.every_session,
            stage: invoker
                .session
                .map_or_else(|| STAGE.to_owned(), |above| above.stage.clone()),
            budget,
        };
        let session = state.create_session(new, now);
        session.map_err(|error| failure(&error))
    }

    /// Lets the agent do it; gives its answer, and which of its calls wait for a person.
    fn work(
        &self,
        invoker: &Invoker<'_>,
        asked: &Invocation,
        agent: &Agent,
        model: &dyn Model,
        tools: Vec<Tool>,
        session: &Session,
    ) -> Result<(Value, Vec<String>), ToolFailure> {
        let mut chain = invoker.chain().to_vec();
        chain.push(session.id.clone());
        let caller = Arc::new(AgentCaller {
            name: agent.name.clone(),
            tools: tools
                .iter()
                .map(|tool| tool.name.clone())
                .collect::<BTreeSet<_>>(),
            chain,
            within: invoker.action.clone(),
        });
        let whence = whence_of(invoker.whence, &caller);
        let acting = invoker.session.unwrap_or(session);
        let hands = KernelHands {
            kernel: self,
            acts: (acts_as(invoker.front), whence.clone()),
            asks: (invoker.front, whence),
            agent: caller,
            acting: acting.id.clone(),
            owner: Owner::clone(&session.owner),
            unattended: invoker.unattended,
            tools,
            under_way: Mutex::default(),
            waiting: Mutex::default(),
            refusal: Mutex::default(),
        };
        let left = session.left();
        let setup = Setup {
            workspace: self.workspace_name(),
            limits: Limits {
                calls: usize::try_from(left.calls.unwrap_or(u64::MAX)).unwrap_or(usize::MAX),
                turns: left.turns.unwrap_or(u64::MAX),
            },
            role: Some(Role {
                system: agent.system.clone(),
                for_person: invoker.front == Front::Cli,
                output: agent
                    .output
                    .as_ref()
                    .map(|schema| schema.to_json().to_string()),
            }),
        };
        let times = [left.time, invoker.limit].into_iter().flatten();
        let answer = watched(&hands, times.min(), |cancel| {
            converse(&setup, asked, agent, model, &hands, cancel)
        });
        let waiting =
            std::mem::take(&mut *hands.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let ids = waiting.iter().map(|one| one.approval.id.to_string());
        let ids = ids.collect();
        if let Some(first) = waiting.into_iter().next() {
            self.agents()
                .keep_question(invoker.action.clone(), Box::new(first));
        }
        answer.map(|answer| (answer, ids))
    }

    fn workspace_name(&self) -> String {
        let root = Path::new(self.workspace().root().path()).file_name();
        root.map_or_else(
            || "workspace".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    }
}

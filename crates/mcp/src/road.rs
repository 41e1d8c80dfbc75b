//! What the server needs of the kernel, wherever that runs.

use airlock_core::{EffectSet, SessionId, Syscall};
use airlock_kernel::tools::Found;
use airlock_kernel::{AnswerFailure, Call, Cancel, Front, Kernel, Outcome, Review};
use airlock_policy::approval::{Channel, Gate, may_answer};
use serde_json::{Value, json};

/// A tool as the kernel describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Its name, `area.verb`.
    pub name: String,
    /// One line for people and models.
    pub summary: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// Argument objects, as JSON text, that are valid.
    pub examples: Vec<String>,
    /// Whether it is said to change nothing: a hint, and no promise.
    pub read_only: bool,
    /// What the syscall behind it does.
    pub effects: EffectSet,
}

/// Why there is no outcome: the kernel could not be reached, or did not answer. Whether the call had
/// an effect is in its log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unanswered {
    /// What happened.
    pub what: String,
    /// How to go on.
    pub fix: String,
}

/// The one entry to the kernel, for the front `mcp`. Every method may block.
pub trait Road: Send + Sync + 'static {
    /// A session for a client that begins to work; none where policy lets it have none. Whatever
    /// else keeps it from one keeps it from working.
    fn begin(&self) -> Result<Option<SessionId>, Unanswered>;

    /// Puts the session of a client away that is gone. Where policy does not let it, the session
    /// stays until its time.
    fn end(&self, session: &SessionId);

    /// The tools this front may know of, in an order that does not change.
    fn tools(&self) -> Result<Vec<ToolInfo>, Unanswered>;

    /// Takes `call` down the road, until `cancel` takes it back.
    fn call(&self, call: &Call, cancel: &Cancel) -> Result<Outcome, Unanswered>;

    /// Whether policy lets `gate` be answered through the client.
    fn opened_to_client(&self, gate: Gate) -> bool;

    /// Takes the answer of the person behind the client. The same call, made again, then has it.
    fn answer(&self, review: &mut Review, approved: bool) -> Result<(), AnswerFailure>;
}

impl Road for Kernel {
    fn begin(&self) -> Result<Option<SessionId>, Unanswered> {
        begun(&self.submit(Front::Mcp, &begin()))
    }

    fn end(&self, session: &SessionId) {
        let _ended = self.submit(Front::Mcp, &end(session));
    }

    fn tools(&self) -> Result<Vec<ToolInfo>, Unanswered> {
        let tools = self.registry().list();
        Ok(tools
            .filter(|tool| tool.open_to(Front::Mcp))
            .filter_map(|tool| info(&tool))
            .collect())
    }

    fn call(&self, call: &Call, cancel: &Cancel) -> Result<Outcome, Unanswered> {
        if call.name == "session.log" {
            // What a client was just told is in it; where it cannot be, the call itself will say so.
            let _flushed = self.log().flush();
        }
        Ok(cancel.cover(|| self.submit(Front::Mcp, call)))
    }

    fn opened_to_client(&self, gate: Gate) -> bool {
        let rules = self.policy().answer_rules();
        may_answer(gate, &Channel::McpElicitation, &rules).is_ok()
    }

    fn answer(&self, review: &mut Review, approved: bool) -> Result<(), AnswerFailure> {
        self.answer_client(review, approved)
    }
}

/// The call by which a client's session begins.
pub fn begin() -> Call {
    Call::new("session.create", json!({ "title": "an MCP client" }))
}

/// The call by which it ends.
pub fn end(session: &SessionId) -> Call {
    let mut call = Call::new("session.archive", json!({}));
    call.session = Some(session.clone());
    call
}

/// The session that came of [`begin`]; none where policy denies the front one. Its calls are decided
/// all the same, each by itself.
///
/// Only that is leave to work without: a session that could not be made, or that a person has yet to
/// allow, would have had a budget and gates.
pub fn begun(outcome: &Outcome) -> Result<Option<SessionId>, Unanswered> {
    let unbegun = |why: &str, fix: Option<String>| Unanswered {
        what: format!("this client has no session to work in: {why}"),
        fix: fix.unwrap_or_else(|| "call again".to_owned()),
    };
    match outcome {
        Outcome::Done(done) => {
            let id = done.value.get("id").and_then(Value::as_str);
            let id = id.and_then(|id| SessionId::new(id).ok());
            id.map(Some)
                .ok_or_else(|| unbegun("the kernel named none", None))
        }
        Outcome::Denied(_) => Ok(None),
        Outcome::NeedsReview(review) => {
            let fix = format!("answer, then call again: {}", review.how_to_answer());
            let why = "it needs a person's approval";
            Err(unbegun(why, Some(fix)))
        }
        Outcome::Failed(failed) => Err(unbegun(&failed.what, failed.fix.clone())),
    }
}

/// The tool, unless no policy could ever let this front use it.
fn info(tool: &Found<'_>) -> Option<ToolInfo> {
    let spec = tool.spec();
    let info = ToolInfo {
        name: spec.name.to_owned(),
        summary: spec.summary.to_owned(),
        schema: tool.schema().into_owned(),
        examples: spec.examples.iter().map(ToString::to_string).collect(),
        read_only: tool.says_read_only(),
        effects: EffectSet::of(&[]),
    };
    info.offered(spec.syscall)
}

impl ToolInfo {
    /// The tool, if the front `mcp` could ever be allowed its `syscall`; with what that does.
    #[must_use]
    pub fn offered(mut self, syscall: &str) -> Option<Self> {
        let syscall = Syscall::parse(syscall).ok()?;
        self.effects = syscall.spec().effects;
        Front::Mcp.could_use(syscall).then_some(self)
    }
}

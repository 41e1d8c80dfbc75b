//! Agents: who a model is to be, with which tools, for how much.

use airlock_core::Span;
use airlock_yaml::{
    DefinitionError, Mapping, Names, Node, Problems, Schema, code, documents, read, text,
};

/// Longest system part.
const SYSTEM_CHARS: usize = 32_000;

/// A named agent.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// One line on it.
    pub summary: String,
    /// The version of the definition.
    pub version: String,
    /// The model.
    pub model: String,
    /// What the model is told to be.
    pub system: String,
    /// The only tools it may call.
    pub tools: Vec<String>,
    /// What it may spend.
    pub budget: Budget,
    /// What its answer has to be; none: text.
    pub output: Option<Schema>,
}

/// What an agent may spend; what is absent is the session's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// Turns.
    pub turns: Option<u32>,
    /// Tool calls of one turn.
    pub calls_a_turn: Option<u32>,
    /// Tokens.
    pub tokens: Option<u32>,
    /// Hundredths of a dollar.
    pub cents: Option<u32>,
    /// Time.
    pub wall_time: Option<Span>,
}

impl Agent {
    /// Reads a definition.
    pub fn read(bytes: &[u8]) -> Result<Self, DefinitionError> {
        let mut problems = Problems::default();
        let agent = text(bytes, &mut problems)
            .and_then(|text| {
                let (before, first) = documents(text).next()?;
                (documents(text).count() == 1).then(|| read(first, before, &mut problems))?
            })
            .and_then(|node| parse(&node, &mut problems));
        if agent.is_none() && problems.errors() == 0 {
            let what = "an agent is one YAML document that is not empty";
            problems.error(
                code::MISSING,
                airlock_yaml::Spot::default(),
                what,
                "begin with `agent: 1`",
            );
        }
        problems.settle(agent)
    }
}

fn parse(node: &Node, problems: &mut Problems) -> Option<Agent> {
    let mut fields = Mapping::of(node, "an agent", problems)?;
    let format = fields
        .need("agent", problems)
        .and_then(|node| node.number(1..=1, problems));
    let name = fields
        .need("name", problems)
        .and_then(|node| node.name(Names::Id, problems));
    let summary = fields
        .need("summary", problems)
        .and_then(|node| node.line(problems));
    let version = fields
        .need("version", problems)
        .and_then(|node| node.name(Names::Version, problems));
    let model = fields
        .need("model", problems)
        .and_then(|node| node.name(Names::Model, problems));
    let system = fields
        .need("system", problems)
        .and_then(|node| system(node, problems));
    let nodes = fields
        .need("tools", problems)
        .and_then(|node| node.list(200, problems));
    let mut tools = Vec::new();
    for node in nodes.unwrap_or_default() {
        let Some(tool) = node.name(Names::Tool, problems) else {
            continue;
        };
        if tools.contains(&tool) {
            problems.error(
                code::DUPLICATE,
                node.spot,
                format!("`{tool}` is there twice"),
                "keep one",
            );
        }
        tools.push(tool);
    }
    let budget = fields
        .get("budget")
        .map_or(Some(Budget::default()), |node| budget(node, problems));
    let output = fields
        .get("output")
        .map(|node| Schema::parse(node, problems));
    fields.close(problems);
    format?;
    Some(Agent {
        name: name?,
        summary: summary?,
        version: version?,
        model: model?,
        system: system?,
        tools,
        budget: budget?,
        output: output.map_or(Some(None), |schema| schema.map(Some))?,
    })
}

fn system(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = node.text(problems)?;
    if text.chars().count() > SYSTEM_CHARS {
        let what = format!("the system part has more than {SYSTEM_CHARS} characters");
        problems.error(code::TOO_LARGE, node.spot, what, "shorten it");
        return None;
    }
    Some(text.to_owned())
}

fn budget(node: &Node, problems: &mut Problems) -> Option<Budget> {
    let mut fields = Mapping::of(node, "`budget`", problems)?;
    let mut amount = |key, most, problems: &mut Problems| {
        let number = fields
            .get(key)
            .and_then(|node| node.number(1..=most, problems));
        number.and_then(|number| u32::try_from(number).ok())
    };
    let turns = amount("turns", 10_000, problems);
    let calls_a_turn = amount("calls_a_turn", 1_000, problems);
    let tokens = amount("tokens", 100_000_000, problems);
    let cents = amount("cents", 1_000_000, problems);
    let (least, most) = (Span::from_secs(1), Span::from_secs(24 * 3_600));
    let wall_time = fields
        .get("wall_time")
        .and_then(|node| node.unit(&least, &most, problems));
    fields.close(problems);
    Some(Budget {
        turns,
        calls_a_turn,
        tokens,
        cents,
        wall_time,
    })
}

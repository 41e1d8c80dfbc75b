//! The steps of a workflow, each checked where it stands.

use super::STEPS;
use super::condition::Condition;
use super::expression::{Expression, Known};
use airlock_core::programs::{Input, Word, exposed};
use airlock_yaml::{Mapping, Names, Node, Problems, Tree, code};
use serde_json::Value;
use std::collections::BTreeSet;

/// Deepest nesting of steps within steps.
const DEPTH: usize = 4;
/// Tools that a step may not be: what they would be for has a kind of step of its own, or would let
/// a workflow start workflows.
const OTHER_WAYS: &[(&str, &str)] = &[
    (
        "exec.run",
        "use `execute_code`, which keeps values from becoming options",
    ),
    ("exec.own", "use `execute_code`"),
];

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its name within the workflow.
    pub id: String,
    /// What it does.
    pub kind: StepKind,
    /// Whether the run goes on if it fails.
    pub may_fail: bool,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum StepKind {
    /// Calls a tool.
    Tool {
        /// The tool.
        tool: String,
        /// Its arguments.
        with: Expression,
    },
    /// Runs a program in a sandbox: a call of `exec.run`.
    Code {
        /// The arguments of `exec.run`.
        with: Expression,
    },
    /// Hands a task to an agent.
    Agent {
        /// Its name.
        agent: String,
        /// The task.
        task: Expression,
    },
    /// Waits for a person's yes.
    Approval {
        /// What they are asked.
        question: Expression,
    },
    /// Steps at the same time.
    Parallel(Vec<Step>),
    /// Steps if something holds, and others if not.
    If {
        /// What is asked.
        condition: Condition,
        /// If it holds.
        then: Vec<Step>,
        /// If not.
        otherwise: Vec<Step>,
    },
}

impl Step {
    /// The steps within it.
    pub(super) fn within(&self) -> Box<dyn DoubleEndedIterator<Item = &Self> + '_> {
        match &self.kind {
            StepKind::Parallel(steps) => Box::new(steps.iter()),
            StepKind::If {
                then, otherwise, ..
            } => Box::new(then.iter().chain(otherwise)),
            StepKind::Tool { .. }
            | StepKind::Code { .. }
            | StepKind::Agent { .. }
            | StepKind::Approval { .. } => Box::new(std::iter::empty()),
        }
    }

    /// A word for what it does.
    pub const fn word(&self) -> &'static str {
        match self.kind {
            StepKind::Tool { .. } => "tool",
            StepKind::Code { .. } => "execute_code",
            StepKind::Agent { .. } => "invoke_agent",
            StepKind::Approval { .. } => "approval",
            StepKind::Parallel(_) => "parallel",
            StepKind::If { .. } => "if",
        }
    }
}

/// Reads steps in order, and knows which may be referred to.
pub(super) struct Reader<'a> {
    pub(super) inputs: BTreeSet<&'a str>,
    pub(super) seen: BTreeSet<String>,
    pub(super) count: usize,
}

impl Reader<'_> {
    pub(super) fn steps(
        &mut self,
        node: &Node,
        depth: usize,
        problems: &mut Problems,
    ) -> Option<Vec<Step>> {
        let nodes = node.list(STEPS, problems)?;
        if nodes.is_empty() {
            problems.error(
                code::VALUE,
                node.spot,
                "there are no steps",
                "add one, or remove the list",
            );
        }
        let mut steps = Vec::new();
        for node in nodes {
            match self.step(node, depth, problems) {
                Some(step) => {
                    self.note(&step.id, node, problems);
                    steps.push(step);
                }
                // What is wrong with it was told; that later steps refer to it is not wrong, too.
                None => self.seen.extend(named(node)),
            }
        }
        Some(steps)
    }

    fn note(&mut self, id: &str, node: &Node, problems: &mut Problems) {
        if !self.seen.insert(id.to_owned()) {
            let what = format!("two steps are called `{id}`");
            problems.error(code::DUPLICATE, node.spot, what, "give one another `id`");
        }
    }

    fn step(&mut self, node: &Node, depth: usize, problems: &mut Problems) -> Option<Step> {
        self.count += 1;
        if self.count > STEPS || depth > DEPTH {
            let what = format!("more than {STEPS} steps, or steps nested more than {DEPTH} deep");
            problems.error(code::TOO_LARGE, node.spot, what, "split the workflow");
            return None;
        }
        let mut fields = Mapping::of(node, "a step", problems)?;
        let id = fields
            .need("id", problems)
            .and_then(|node| node.name(Names::Id, problems));
        let may_fail = fields
            .get("may_fail")
            .map_or(Some(false), |node| node.truth(problems));
        let forms = [
            "tool",
            "execute_code",
            "invoke_agent",
            "approval",
            "parallel",
            "if",
        ];
        let found: Vec<(&str, &Node)> = forms
            .into_iter()
            .filter_map(|form| fields.get(form).map(|node| (form, node)))
            .collect();
        let [(form, first)] = found.as_slice() else {
            let what = "a step is one of `tool`, `execute_code`, `invoke_agent`, `approval`, `parallel` and `if`";
            problems.error(code::VALUE, node.spot, what, "keep one of them");
            return None;
        };
        let kind = match *form {
            "tool" => {
                let with = fields.get("with");
                self.tool(first, with, problems)
            }
            "execute_code" => self.code(first, problems),
            "invoke_agent" => self.agent(first, problems),
            "approval" => {
                let question = self.expression(first, problems);
                question.map(|question| StepKind::Approval { question })
            }
            "parallel" => self.parallel(first, depth, problems),
            _ => {
                let then = fields.need("then", problems);
                let otherwise = fields.get("else");
                self.branch(first, then, otherwise, depth, problems)
            }
        };
        fields.close(problems);
        Some(Step {
            id: id?,
            kind: kind?,
            may_fail: may_fail?,
        })
    }

    fn known(&self) -> Known<'_> {
        Known {
            inputs: self.inputs.clone(),
            steps: &self.seen,
        }
    }

    fn expression(&self, node: &Node, problems: &mut Problems) -> Option<Expression> {
        Expression::parse(node, &self.known(), problems)
    }

    fn tool(&self, node: &Node, with: Option<&Node>, problems: &mut Problems) -> Option<StepKind> {
        let tool = node.name(Names::Tool, problems)?;
        let other = OTHER_WAYS.iter().find(|(name, _)| *name == tool);
        if let Some((_, fix)) = other {
            let what = format!("`{tool}` cannot be called by a `tool` step");
            problems.error(code::VALUE, node.spot, what, *fix);
            return None;
        }
        if tool.starts_with("workflow.") {
            let what = "a workflow cannot start or answer workflows";
            problems.error(code::VALUE, node.spot, what, "put the steps here");
            return None;
        }
        let with = match with {
            None => Expression::object([]),
            Some(node) => self.expression(node, problems)?,
        };
        // A value in a shell line could be anything the shell can do.
        if tool == "shell.run" && with.refers() {
            let what = "`shell.run` takes no references: a value would become part of a shell line";
            problems.error(code::UNSAFE_ARGUMENT, node.spot, what, "use `execute_code`");
            return None;
        }
        Some(StepKind::Tool { tool, with })
    }

    fn code(&self, node: &Node, problems: &mut Problems) -> Option<StepKind> {
        let mut fields = Mapping::of(node, "`execute_code`", problems)?;
        let mut pairs = Vec::new();
        let words = fields.need("command", problems);
        let command = words.and_then(|node| self.command(node, problems));
        for key in [
            "stdin",
            "directory",
            "environment",
            "timeout",
            "memory",
            "child_processes",
        ] {
            let value = fields.get(key).map(|node| self.expression(node, problems));
            if let Some(value) = value {
                pairs.push((key.to_owned(), value?));
            }
        }
        fields.close(problems);
        let command = command?;
        let reads = pairs.iter().find(|(key, _)| key == "stdin");
        let input = match reads {
            Some((_, value)) if value.refers() => Input::Open,
            Some(_) | None => Input::Fixed,
        };
        if let Some(node) = words {
            harmless(node, &command, input, problems)?;
        }
        pairs.push(("command".to_owned(), command));
        Some(StepKind::Code {
            with: Expression::object(pairs),
        })
    }

    /// An argument vector whose program the author chose.
    fn command(&self, node: &Node, problems: &mut Problems) -> Option<Expression> {
        let command = self.expression(node, problems)?;
        let fixed = command
            .elements()
            .and_then(<[Expression]>::first)
            .and_then(Expression::fixed);
        if fixed.is_none() {
            let what = "`command` is a list whose first word, the program, is fixed";
            problems.error(
                code::UNSAFE_ARGUMENT,
                node.spot,
                what,
                "write `[program, \"${inputs.x}\"]`",
            );
            return None;
        }
        Some(command)
    }

    fn agent(&self, node: &Node, problems: &mut Problems) -> Option<StepKind> {
        let mut fields = Mapping::of(node, "`invoke_agent`", problems)?;
        let agent = fields
            .need("agent", problems)
            .and_then(|node| node.name(Names::Id, problems));
        let task = fields
            .need("task", problems)
            .and_then(|node| self.expression(node, problems));
        fields.close(problems);
        Some(StepKind::Agent {
            agent: agent?,
            task: task?,
        })
    }

    /// Steps that run at once cannot refer to each other.
    fn parallel(&mut self, node: &Node, depth: usize, problems: &mut Problems) -> Option<StepKind> {
        let nodes = node.list(STEPS, problems)?;
        let mut steps: Vec<(Step, &Node)> = Vec::new();
        let mut within: BTreeSet<String> = BTreeSet::new();
        for node in nodes {
            let before = self.seen.clone();
            if let Some(step) = self.step(node, depth + 1, problems) {
                steps.push((step, node));
            }
            let after = std::mem::replace(&mut self.seen, before);
            for id in after.difference(&self.seen) {
                if !within.insert(id.clone()) {
                    let what = format!("two steps are called `{id}`");
                    problems.error(code::DUPLICATE, node.spot, what, "give one another `id`");
                }
            }
        }
        self.seen.extend(within);
        for (step, node) in &steps {
            self.note(&step.id, node, problems);
        }
        Some(StepKind::Parallel(
            steps.into_iter().map(|(step, _)| step).collect(),
        ))
    }

    fn branch(
        &mut self,
        node: &Node,
        then: Option<&Node>,
        otherwise: Option<&Node>,
        depth: usize,
        problems: &mut Problems,
    ) -> Option<StepKind> {
        let condition = Condition::parse(node, &self.known(), problems);
        let then = then.and_then(|node| self.steps(node, depth + 1, problems));
        let otherwise = match otherwise {
            None => Some(Vec::new()),
            Some(node) => self.steps(node, depth + 1, problems),
        };
        Some(StepKind::If {
            condition: condition?,
            then: then?,
            otherwise: otherwise?,
        })
    }
}

/// Fails where a reference in `command`, written at `node`, would be a program or code, whatever
/// wrapper or interpreter it is handed to.
fn harmless(
    node: &Node,
    command: &Expression,
    input: Input,
    problems: &mut Problems,
) -> Option<()> {
    let words = command.elements().unwrap_or_default();
    let words: Vec<Word<'_>> = words.iter().map(Expression::word).collect();
    let Some(found) = exposed(&words, input) else {
        return Some(());
    };
    let place = match &node.tree {
        Tree::List(nodes) => nodes.get(found.at),
        Tree::Scalar { .. } | Tree::Map(_) => None,
    };
    let spot = place.map_or(node.spot, |node| node.spot);
    problems.error(code::UNSAFE_ARGUMENT, spot, found.what, found.fix);
    None
}

/// The id a step gives itself, whatever else is wrong with it.
fn named(node: &Node) -> Option<String> {
    let Tree::Map(entries) = &node.tree else {
        return None;
    };
    let entry = entries.iter().find(|entry| entry.key == "id")?;
    match &entry.value.tree {
        Tree::Scalar { text, .. } => Some(text.clone()),
        Tree::List(_) | Tree::Map(_) => None,
    }
}

/// Whether a resolved command would give a value where an option could stand.
pub(crate) fn option_in(with: &Expression, resolved: &Value) -> Option<String> {
    let words = with.field("command").and_then(Expression::elements)?;
    let values = resolved.get("command").and_then(Value::as_array)?;
    let mut closed = false;
    for (word, value) in words.iter().zip(values) {
        closed |= word.fixed() == Some("--");
        let text = value.as_str().unwrap_or_default();
        if word.begins_open() && text.starts_with('-') && !closed {
            return Some(text.to_owned());
        }
    }
    None
}

impl StepKind {
    /// The value that would be read as an option, in the resolved arguments of `execute_code`.
    pub fn option_in(&self, resolved: &Value) -> Option<String> {
        match self {
            Self::Code { with } => option_in(with, resolved),
            Self::Tool { .. }
            | Self::Agent { .. }
            | Self::Approval { .. }
            | Self::Parallel(_)
            | Self::If { .. } => None,
        }
    }
}

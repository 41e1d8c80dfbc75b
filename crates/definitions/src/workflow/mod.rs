//! Workflows: named jobs of several steps, each of which is an ordinary call.
//!
//! Guarantee: a workflow that loads ends. There is no loop and no way to call another workflow, the
//! number of its steps, how many run at once and how deep they nest are bounded, and every
//! reference leads to an input or to a step before it.

mod condition;
mod expression;
mod step;

pub use condition::Condition;
pub use expression::{Expression, LookupError, Scope};
pub use step::{Step, StepKind};

use airlock_core::Span;
use airlock_yaml::{
    DefinitionError, Mapping, Names, Node, Problems, Schema, Spot, code, documents, read, text,
};
use expression::Known;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Most steps of one workflow, those within others counted.
pub(crate) const STEPS: usize = 200;

/// What a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkflowLimits {
    /// Steps that are run.
    pub steps: u32,
    /// Steps at once.
    pub parallel: u32,
    /// Time, waiting for people not counted.
    pub timeout: Span,
}

/// A result of a workflow.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    from: Expression,
    schema: Schema,
}

/// A named job.
#[derive(Debug, Clone)]
pub struct Workflow {
    /// Its name.
    pub name: String,
    /// One line on it.
    pub summary: String,
    /// The version of the definition.
    pub version: String,
    /// What it takes.
    pub inputs: Schema,
    outputs: BTreeMap<String, Product>,
    /// What a run may use.
    pub limits: WorkflowLimits,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

impl Workflow {
    /// Reads a definition.
    pub fn read(bytes: &[u8]) -> Result<Self, DefinitionError> {
        let mut problems = Problems::default();
        let node = text(bytes, &mut problems).and_then(|text| {
            let (before, first) = documents(text).next()?;
            (documents(text).count() == 1).then(|| read(first, before, &mut problems))?
        });
        let workflow = node.and_then(|node| parse(&node, &mut problems));
        if workflow.is_none() && problems.errors() == 0 {
            let what = "a workflow is one YAML document that is not empty";
            problems.error(
                code::MISSING,
                Spot::default(),
                what,
                "begin with `workflow: 1`",
            );
        }
        problems.settle(workflow)
    }

    /// What it gives, as JSON Schema.
    pub fn outputs_schema(&self) -> Value {
        let pairs = self
            .outputs
            .iter()
            .map(|(name, one)| (name.clone(), one.schema.to_json()));
        serde_json::json!({ "type": "object", "properties": Value::Object(pairs.collect()) })
    }

    /// Its results; an error names the one that is not what it should be.
    pub fn outputs(&self, scope: Scope<'_>) -> Result<Value, String> {
        let mut out = serde_json::Map::new();
        for (name, one) in &self.outputs {
            let value = one
                .from
                .resolve(scope)
                .map_err(|error| format!("output `{name}`: {error}"))?;
            if let Some(mismatch) = one.schema.check(&value).into_iter().next() {
                return Err(format!(
                    "output `{name}` does not fit its schema: {mismatch}"
                ));
            }
            out.insert(name.clone(), value);
        }
        Ok(Value::Object(out))
    }

    /// Every step, those within others included, in the order they stand.
    pub fn all_steps(&self) -> Vec<&Step> {
        let mut found = Vec::new();
        let mut waiting: Vec<&Step> = self.steps.iter().rev().collect();
        while let Some(step) = waiting.pop() {
            found.push(step);
            waiting.extend(step.within().rev());
        }
        found
    }
}

fn parse(node: &Node, problems: &mut Problems) -> Option<Workflow> {
    let mut fields = Mapping::of(node, "a workflow", problems)?;
    let format = fields
        .need("workflow", problems)
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
    let inputs = fields.get("inputs").map_or_else(
        || Some(Schema::nothing()),
        |node| Schema::parse_inputs(node, problems),
    );
    let limits = fields.get("limits");
    let limits = limits.map_or(
        Some(WorkflowLimits {
            steps: 100,
            parallel: 4,
            timeout: Span::from_secs(600),
        }),
        |node| limits_of(node, problems),
    );
    let steps_node = fields.need("steps", problems);
    let outputs_node = fields.get("outputs");
    fields.close(problems);
    let inputs = inputs?;
    let names: BTreeSet<&str> = inputs.names().collect();
    let mut reader = step::Reader {
        inputs: names.clone(),
        seen: BTreeSet::new(),
        count: 0,
    };
    let steps = steps_node.and_then(|node| reader.steps(node, 0, problems));
    let known = Known {
        inputs: names,
        steps: &reader.seen,
    };
    let outputs = outputs_node.map_or_else(
        || Some(BTreeMap::new()),
        |node| outputs(node, &known, problems),
    );
    format?;
    Some(Workflow {
        name: name?,
        summary: summary?,
        version: version?,
        outputs: outputs?,
        limits: limits?,
        steps: steps?,
        inputs: inputs.clone(),
    })
}

fn limits_of(node: &Node, problems: &mut Problems) -> Option<WorkflowLimits> {
    let mut fields = Mapping::of(node, "`limits`", problems)?;
    let mut count = |key, default, most, problems: &mut Problems| {
        let number = fields
            .get(key)
            .map_or(Some(default), |node| node.number(1..=most, problems));
        number.and_then(|number| u32::try_from(number).ok())
    };
    let steps = count("steps", 100, 1_000, problems);
    let parallel = count("parallel", 4, 16, problems);
    let (least, most) = (Span::from_secs(1), Span::from_secs(24 * 3_600));
    let timeout = fields
        .get("timeout")
        .map_or(Some(Span::from_secs(600)), |node| {
            node.unit(&least, &most, problems)
        });
    fields.close(problems);
    Some(WorkflowLimits {
        steps: steps?,
        parallel: parallel?,
        timeout: timeout?,
    })
}

fn outputs(
    node: &Node,
    known: &Known<'_>,
    problems: &mut Problems,
) -> Option<BTreeMap<String, Product>> {
    let mut out = BTreeMap::new();
    for (name, node) in node.pairs(Names::Field, 50, problems)? {
        let Some(mut fields) = Mapping::of(node, "an output", problems) else {
            continue;
        };
        let from = fields
            .need("from", problems)
            .and_then(|node| Expression::parse(node, known, problems));
        let schema = fields
            .need("schema", problems)
            .and_then(|node| Schema::parse(node, problems));
        fields.close(problems);
        if let (Some(from), Some(schema)) = (from, schema) {
            out.insert(name.to_owned(), Product { from, schema });
        }
    }
    Some(out)
}

//! Rego in `regorus`, in three ways: each rule as a Rego rule, and the rules as data indexed by
//! syscall and directory, interpreted and on the virtual machine.
//!
//! Indexed data is how Rego is written for many rules: the policy then costs the depth of the path,
//! not the number of rules. The list of a path's directories is in the input, which the other
//! engines find for themselves. Everything is compiled, and every input parsed, before the clock
//! runs.

use super::{Ask, Peer, Spec};
use crate::failure::Failure;
use airlock_policy::{Action, Verdict};
use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::vm::RegoVM;
use regorus::utils::limits::PolicyLengthConfig;
use regorus::{CompiledPolicy, Engine, Value};
use serde_json::json;
use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroUsize};

const ENTRY: &str = "data.bench.verdict";

/// Deny wins, then review, then allow; nothing is a denial.
const COMBINE: &str = r#"
verdict := "deny" if "deny" in opinions
else := "require_review" if "require_review" in opinions
else := "allow" if "allow" in opinions
else := "deny"
"#;

const HEAD: &str = "package bench\nimport rego.v1\n";

const INDEXED: &str = "
opinions contains rule.action if {
    some directory in input.directories
    some rule in data.rules[input.syscall][directory]
    rule.tag in input.tags
}
";

pub(super) fn peers(specs: &[Spec], asked: &[Ask]) -> Result<Vec<Peer>, Failure> {
    let written = compile(&one_by_one(specs), None)?;
    let data = Value::from_json_str(&indexed_data(specs).to_string()).map_err(said)?;
    let indexed = compile(&format!("{HEAD}{COMBINE}{INDEXED}"), Some(&data))?;
    let mut machine = RegoVM::new();
    machine.load_program(Compiler::compile_from_policy(&indexed, &[ENTRY]).map_err(said)?);
    machine.set_data(data).map_err(said)?;
    let for_machine = inputs(asked)?;
    Ok(vec![
        interpreted("Rego, a rule each", written, inputs(asked)?),
        interpreted("Rego, indexed data", indexed, inputs(asked)?),
        Peer {
            name: "Rego, indexed data, virtual machine",
            answer: Box::new(move |number| {
                machine.set_input(input(&for_machine, number)?);
                verdict(&machine.execute().map_err(said)?)
            }),
        },
    ])
}

fn interpreted(name: &'static str, policy: CompiledPolicy, inputs: Vec<Value>) -> Peer {
    Peer {
        name,
        answer: Box::new(move |number| {
            let found = policy.eval_with_input(input(&inputs, number)?);
            verdict(&found.map_err(said)?)
        }),
    }
}

fn compile(text: &str, data: Option<&Value>) -> Result<CompiledPolicy, Failure> {
    let mut engine = Engine::new();
    engine.set_policy_length_config(PolicyLengthConfig {
        max_col: NonZeroU32::MAX,
        max_file_bytes: NonZeroUsize::MAX,
        max_lines: NonZeroUsize::MAX,
    });
    engine
        .add_policy("bench.rego".to_owned(), text.to_owned())
        .map_err(said)?;
    if let Some(data) = data {
        engine.add_data(data.clone()).map_err(said)?;
    }
    engine.compile_with_entrypoint(&ENTRY.into()).map_err(said)
}

fn said(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("regorus: {error}"))
}

fn input(inputs: &[Value], number: usize) -> Result<Value, Failure> {
    inputs
        .get(number)
        .cloned()
        .ok_or_else(|| Failure::new("no such request"))
}

fn verdict(value: &Value) -> Result<Verdict, Failure> {
    match &**value.as_string().map_err(said)? {
        "allow" => Ok(Verdict::Allow),
        "deny" => Ok(Verdict::Deny),
        "require_review" => Ok(Verdict::RequireReview),
        other => Err(Failure::new(format!("regorus answers `{other}`"))),
    }
}

const fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Deny => "deny",
        Action::RequireReview => "require_review",
    }
}

fn one_by_one(specs: &[Spec]) -> String {
    let mut text = format!("{HEAD}{COMBINE}");
    for spec in specs {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "opinions contains \"{}\" if {{ input.syscall == \"fs.write\"; \
             startswith(input.path, \"{}/\"); \"{}\" in input.tags }}",
            word(spec.action),
            spec.directory,
            spec.tag
        );
    }
    text
}

fn indexed_data(specs: &[Spec]) -> serde_json::Value {
    let mut directories = serde_json::Map::new();
    for spec in specs {
        let rule = json!({"tag": spec.tag, "action": word(spec.action)});
        let rules = directories
            .entry(spec.directory.clone())
            .or_insert_with(|| json!([]));
        if let Some(rules) = rules.as_array_mut() {
            rules.push(rule);
        }
    }
    json!({"rules": {"fs.write": directories}})
}

fn inputs(asked: &[Ask]) -> Result<Vec<Value>, Failure> {
    let mut inputs = Vec::with_capacity(asked.len());
    for ask in asked {
        let mut directories = Vec::new();
        let mut path = ask.path.as_str();
        while let Some((directory, _)) = path.rsplit_once('/') {
            directories.push(directory);
            path = directory;
        }
        let input = json!({
            "syscall": ask.syscall,
            "path": ask.path,
            "tags": ask.tags,
            "directories": directories,
        });
        inputs.push(Value::from_json_str(&input.to_string()).map_err(said)?);
    }
    Ok(inputs)
}

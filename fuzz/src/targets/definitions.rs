//! Adapters, workflows and agents: any bytes give an answer, with every problem at a place that
//! exists; what loads never makes an option or a second word of a value.

use super::{Target, text};
use airlock_definitions::{
    AdapterFile, Agent, CODES, DefinitionError, How, Scope, StepKind, Workflow, check_samples,
};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) const TARGET: Target = Target {
    name: "definitions",
    run,
    seeds: &[
        b"adapter: 1\nid: a\nname: a\ntool: a.b\ntype: cli\n---\nsummary: s\nversion: 1.0.0\nstatus: active\n---\ninterface: { idempotent: true, input: { type: object, properties: { p: { type: string }, l: { type: array, items: { type: string } } } } }\ncli: { command: [x], arguments: [{ value: p }, { option: --o, from: p }, { each: l }] }\noutput: { parse: json, extract: { pointer: /a } }\nerrors: [{ exit: 1, code: c, summary: s }]\nsandbox: { timeout: 5s }\nretry: { on: [c], attempts: 2 }\n---\nexamples: [{ name: n, arguments: { p: x } }]\nfixtures: [{ name: n, stdout: '{}', error: output_invalid }]\n",
        b"adapter: 1\nid: a\nname: a\ntool: a.b\ntype: api\n---\nsummary: s\nversion: 1.0.0\nstatus: active\n---\ninterface: { input: { type: object, properties: { p: { type: string } } } }\napi: { method: GET, url: 'https://h.example/{p}', query: { q: p } }\n",
        b"workflow: 1\nname: w\nsummary: s\nversion: 1.0.0\ninputs: { type: object, properties: { p: { type: string } } }\nsteps:\n  - { id: a, execute_code: { command: [x, '${inputs.p}'] } }\n  - { id: b, if: '${steps.a.ok} == true', then: [{ id: c, tool: fs.read, with: { path: '${inputs.p}' } }] }\n  - { id: d, parallel: [{ id: e, approval: 'x ${inputs.p}' }] }\noutputs: { o: { from: '${steps.a.value}', schema: { type: string } } }\n",
        b"agent: 1\nname: a\nsummary: s\nversion: 1.0.0\nmodel: m\nsystem: x\ntools: [fs.read]\nbudget: { turns: 1 }\n",
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        b"---\n---\n---\n",
        b"",
    ],
    dictionary: &[
        "---\n", "${inputs.p}", "${steps.a.value.x}", "$${", "${secrets.x}", "leading_dash: true",
        "joined: true", "word: --", "type: mcp", "additionalProperties: true", "pattern: '(a+)+'",
        "enum: [", "extract: { regex: '", "from: stderr", "&a ", "*a", "!!str ", "<<: ", "\u{202e}",
    ],
    iterations: 1_500,
};

/// A value no mapping may turn into anything but itself.
const VALUE: &str = "--evil x;$(y)";

fn run(input: &[u8]) {
    if let Ok(file) = AdapterFile::new(input) {
        adapter(&file);
    }
    match Workflow::read(input) {
        Ok(workflow) => steps(&workflow),
        Err(error) => sound(&error, &text(input)),
    }
    if let Err(error) = Agent::read(input) {
        sound(&error, &text(input));
    }
}

/// Problems are few, have a known code and stand where the text is.
fn sound(error: &DefinitionError, text: &str) {
    assert!(!error.problems().is_empty() && error.problems().len() <= 50);
    let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
    for problem in error.problems() {
        assert!(CODES.contains(&problem.code), "{}", problem.code);
        assert!(problem.place.line <= lines.saturating_add(1), "{problem:?}");
    }
    let _ = error.render(text, "fuzzed.yaml");
}

fn adapter(file: &AdapterFile) {
    let header = file.header();
    let adapter = match file.adapter() {
        Ok(adapter) => adapter,
        Err(error) => return sound(&error, file.text()),
    };
    assert_eq!(
        header.as_ref().ok(),
        Some(&adapter.header),
        "a level means the same alone"
    );
    if let Ok(samples) = file.samples() {
        let _ = check_samples(&adapter, &samples);
    }
    let given = json!({ "p": VALUE, "l": [VALUE] });
    let Ok(arguments) = adapter.interface.arguments(&given) else {
        return;
    };
    match &adapter.how {
        How::Cli(cli) => {
            let saying = ["leading_dash", "--"]
                .iter()
                .any(|word| file.text().contains(word));
            if let Ok(made) = cli.invocation(&arguments) {
                let alone = made.command.iter().any(|word| word == VALUE);
                assert!(!alone || saying, "{:?}", made.command);
            }
        }
        How::Api(api) => {
            if let Ok(call) = api.call(&arguments) {
                assert!(
                    !call.target.contains([' ', ';', '$', '\n']),
                    "{}",
                    call.target
                );
            }
        }
        How::Mcp(_) => {}
    }
    let _ = adapter.output.shape("{\"a\": 1}", "");
}

fn steps(workflow: &Workflow) {
    assert!(workflow.all_steps().len() <= 200);
    let (inputs, steps) = (json!({ "p": VALUE }), BTreeMap::new());
    let scope = Scope {
        inputs: &inputs,
        steps: &steps,
    };
    for step in workflow.all_steps() {
        match &step.kind {
            StepKind::Tool { tool, with } => {
                assert!(tool != "exec.run" && !tool.starts_with("workflow."));
                let _ = with.resolve(scope);
            }
            StepKind::Code { with } => {
                if let Ok(resolved) = with.resolve(scope) {
                    let _ = step.kind.option_in(&resolved);
                }
            }
            StepKind::Approval { question } => {
                let _ = question.resolve(scope);
            }
            StepKind::If { condition, .. } => {
                let _ = condition.holds(scope);
            }
            StepKind::Agent { .. } | StepKind::Parallel(_) => {}
        }
    }
    let _ = workflow.outputs(scope);
}

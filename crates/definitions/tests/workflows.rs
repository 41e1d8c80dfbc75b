//! Workflows and agents: what loads, what is refused, what references lead to.

#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use airlock_definitions::{Agent, Scope, StepKind, Workflow};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const FLOW: &str = "\
workflow: 1
name: count-words
summary: Count a word and ask
version: 1.0.0
inputs:
  type: object
  required: [word]
  properties: { word: { type: string }, most: { type: integer } }
limits: { steps: 20, parallel: 2, timeout: 1m }
steps:
  - id: find
    tool: search.grep
    with: { pattern: '${inputs.word}', limit: 5 }
  - id: both
    parallel:
      - { id: read, tool: fs.read, with: { path: a.txt }, may_fail: true }
      - { id: run, execute_code: { command: [echo, 'n ${inputs.word}', '${inputs.word}'] } }
  - id: many
    if: ${steps.find.value.total} > 3
    then:
      - { id: ask, approval: 'Really ${steps.find.value.total} times?' }
    else:
      - { id: agent, invoke_agent: { agent: reviewer, task: 'look at ${steps.find.value}' } }
outputs:
  total: { from: '${steps.find.value.total}', schema: { type: integer, minimum: 0 } }
";

fn flow(from: &str, to: &str) -> Result<Workflow, String> {
    assert!(FLOW.contains(from), "{from}");
    Workflow::read(FLOW.replacen(from, to, 1).as_bytes())
        .map_err(|error| format!("{} {error}", error.problems()[0].code))
}

#[test]
fn a_workflow_reads_as_it_is_written() {
    let flow = flow("word", "word").unwrap();
    let ids: Vec<&str> = flow
        .all_steps()
        .iter()
        .map(|step| step.id.as_str())
        .collect();
    assert_eq!(ids, ["find", "both", "read", "run", "many", "ask", "agent"]);
    let words: Vec<&str> = flow.all_steps().iter().map(|step| step.word()).collect();
    assert_eq!(
        words,
        [
            "tool",
            "parallel",
            "tool",
            "execute_code",
            "if",
            "approval",
            "invoke_agent"
        ]
    );
    assert_eq!(flow.inputs.check(&json!({"word": 1})).len(), 1);
    assert_eq!(flow.outputs_schema()["properties"]["total"]["minimum"], 0);
}

#[test]
fn references_are_values_and_never_code() {
    let flow = flow("word", "word").unwrap();
    let inputs = json!({"word": "x'; rm -rf / #"});
    let steps = BTreeMap::from([(
        "find".to_owned(),
        json!({"ok": true, "value": {"total": 4}}),
    )]);
    let scope = Scope {
        inputs: &inputs,
        steps: &steps,
    };
    let StepKind::Tool { with, .. } = &flow.steps[0].kind else {
        panic!("{:?}", flow.steps[0]);
    };
    assert_eq!(
        with.resolve(scope).unwrap(),
        json!({"pattern": "x'; rm -rf / #", "limit": 5})
    );
    let StepKind::If {
        condition, then, ..
    } = &flow.steps[2].kind
    else {
        panic!("{:?}", flow.steps[2]);
    };
    assert!(condition.holds(scope).unwrap());
    let StepKind::Approval { question } = &then[0].kind else {
        panic!("{:?}", then[0]);
    };
    assert_eq!(question.resolve(scope).unwrap(), json!("Really 4 times?"));
    assert_eq!(flow.outputs(scope).unwrap(), json!({"total": 4}));
    let nothing = BTreeMap::new();
    let error = flow
        .outputs(Scope {
            inputs: &inputs,
            steps: &nothing,
        })
        .unwrap_err();
    assert_eq!(
        error,
        "output `total`: `${steps.find.value.total}` did not run"
    );
    let odd = BTreeMap::from([("find".to_owned(), json!({"value": {"total": -1}}))]);
    assert!(
        flow.outputs(Scope {
            inputs: &inputs,
            steps: &odd
        })
        .is_err()
    );
}

#[test]
fn values_do_not_become_options() {
    let flow = flow("word", "word").unwrap();
    let StepKind::Parallel(steps) = &flow.steps[1].kind else {
        panic!("{:?}", flow.steps[1]);
    };
    let StepKind::Code { with } = &steps[1].kind else {
        panic!("{:?}", steps[1]);
    };
    let steps_so_far = BTreeMap::new();
    for (word, want) in [("x", None), ("-rf", Some("-rf".to_owned()))] {
        let inputs = json!({ "word": word });
        let resolved = with
            .resolve(Scope {
                inputs: &inputs,
                steps: &steps_so_far,
            })
            .unwrap();
        assert_eq!(steps[1].kind.option_in(&resolved), want);
    }
}

#[test]
fn a_value_is_never_a_program_or_code() {
    const COMMAND: &str = "command: [echo, 'n ${inputs.word}', '${inputs.word}']";
    for (command, place, what) in [
        (
            "[env, '${inputs.word}', file]",
            "'${inputs.word}'",
            "which one is run",
        ),
        (
            "[timeout, '5', '${inputs.word}']",
            "'${inputs.word}'",
            "which one is run",
        ),
        ("[xargs, '${inputs.word}']", "'${inputs.word}'", "`xargs`"),
        ("[sh, -c, 'id ${inputs.word}']", "'id ${", "code of `sh`"),
        (
            "[python3, -c, 'print(\"${inputs.word}\")']",
            "'print(",
            "code of `python3`",
        ),
        (
            "[perl, -ne, '${inputs.word}', a.txt]",
            "'${inputs.word}'",
            "code of `perl`",
        ),
        (
            "[awk, '${inputs.word}', a.txt]",
            "'${inputs.word}'",
            "code of `awk`",
        ),
        (
            "[sed, -n, 's/a/${inputs.word}/', a.txt]",
            "'s/a/",
            "code of `sed`",
        ),
        ("[python3, -u], stdin: '${inputs.word}'", "-u", "reads code"),
    ] {
        let text = FLOW.replacen(COMMAND, &format!("command: {command}"), 1);
        let error = Workflow::read(text.as_bytes()).unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(problem.code, "definition/unsafe-argument", "{command}");
        assert!(problem.what.contains(what), "{command}: {}", problem.what);
        let wrong = text.lines().find(|line| line.contains(command)).unwrap();
        let (before, _) = wrong.split_once(command).unwrap();
        let column = before.len() + command.find(place).unwrap() + 1;
        assert_eq!(
            usize::try_from(problem.place.column),
            Ok(column),
            "{command}"
        );
    }
    for command in [
        "[env, cargo, test, '${inputs.word}']",
        "[sh, run.sh, '${inputs.word}']",
        "[python3, run.py, -c, '${inputs.word}']",
        "[python3, -c, 'import sys; print(sys.argv[1])', '${inputs.word}']",
        "[awk, -v, 'w=${inputs.word}', '{print w}', a.txt]",
        "[python3, run.py], stdin: '${inputs.word}'",
        "[sh, -c, id]",
    ] {
        let text = FLOW.replacen(COMMAND, &format!("command: {command}"), 1);
        let read = Workflow::read(text.as_bytes());
        assert!(read.is_ok(), "{command}: {}", read.unwrap_err());
    }
}

#[test]
fn what_is_too_large_is_not_passed_on() {
    let flow = flow("word", "word").unwrap();
    let inputs = json!({"word": "x".repeat(2_000_000)});
    let steps = BTreeMap::new();
    let StepKind::Tool { with, .. } = &flow.steps[0].kind else {
        panic!("{:?}", flow.steps[0]);
    };
    let error = with
        .resolve(Scope {
            inputs: &inputs,
            steps: &steps,
        })
        .unwrap_err();
    assert_eq!(error.why, "is too large to be passed on");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn mistakes_are_refused_with_their_reason() {
    let deep = "{ id: a0, if: '${inputs.most} > 1', then: [".to_owned();
    let mut nested = String::new();
    for level in 0..6 {
        nested.push_str(&deep.replace("a0", &format!("a{level}")));
    }
    nested.push_str("{ id: leaf, tool: fs.list }");
    nested.push_str(&"] }".repeat(6));
    let step = |number| format!("  - {{ id: s{number}, tool: fs.list }}\n");
    let many = (0..300).map(step).collect::<Vec<_>>().concat();
    for (from, to, want) in [
        ("${inputs.word}", "${inputs.wrod}", "unknown input `wrod`"),
        (
            "${inputs.word}",
            "${secrets.token}",
            "secrets and variables cannot be referred to",
        ),
        (
            "${inputs.word}",
            "${env.HOME}",
            "secrets and variables cannot be referred to",
        ),
        (
            "${inputs.word}",
            "${steps.both.value}",
            "unknown earlier step `both`",
        ),
        (
            "${inputs.word}",
            "${steps.find.value}",
            "unknown earlier step `find`",
        ),
        ("${inputs.word}", "${process.exit()}", "is no reference"),
        ("${inputs.word}", "${inputs.word + 1}", "is no reference"),
        ("${inputs.word}", "${inputs.word", "is not closed"),
        (
            "path: a.txt",
            "path: '${steps.run.value}'",
            "unknown earlier step `run`",
        ),
        (
            "${steps.find.value.total} > 3",
            "rm -rf /",
            "cannot be compared",
        ),
        (
            "${steps.find.value.total} > 3",
            "${steps.find.value.total} > [1]",
            "cannot be compared",
        ),
        (
            "${steps.find.value.total} > 3",
            "true",
            "this is no question",
        ),
        (
            "tool: search.grep",
            "tool: exec.run",
            "cannot be called by a `tool` step",
        ),
        (
            "tool: search.grep",
            "tool: workflow.run",
            "cannot start or answer workflows",
        ),
        (
            "tool: search.grep",
            "tool: shell.run",
            "takes no references",
        ),
        (
            "[echo, 'n ${inputs.word}', '${inputs.word}']",
            "['${inputs.word}', x]",
            "the program, is fixed",
        ),
        (
            "[echo, 'n ${inputs.word}', '${inputs.word}']",
            "'${inputs.word}'",
            "the program, is fixed",
        ),
        ("id: read", "id: run", "two steps are called `run`"),
        ("id: read", "id: find", "two steps are called `find`"),
        (
            "tool: fs.read, with",
            "tool: fs.read, approval: x, with",
            "a step is one of",
        ),
        ("steps: 20", "steps: 100000", "is no number"),
        ("parallel: 2", "parallel: 64", "is no number"),
        ("    then:\n", "    them:\n", "`then` is missing"),
        (
            "  - id: find\n",
            &format!("  - {nested}\n  - id: find\n"),
            "nested more than 4 deep",
        ),
        ("steps:\n", &format!("steps:\n{many}"), "the limit is 200"),
        (
            "outputs:",
            "outputs: &a {}\nothers: *a\nx:",
            "cannot be used here",
        ),
        (
            "name: count-words",
            "name: ../../etc",
            "cannot be a name here",
        ),
    ] {
        let error = flow(from, to).unwrap_err();
        assert!(error.contains(want), "{to}: {error}");
    }
    for text in ["", "---\n---\n", "[]", "workflow: 1", "\0"] {
        assert!(Workflow::read(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn comparisons_compare_numbers_as_numbers_and_the_rest_as_it_is() {
    for (condition, inputs, want) in [
        ("${inputs.most} == 3", json!(3.0), Some(true)),
        ("${inputs.most} != 3", json!(3), Some(false)),
        ("${inputs.most} <= 3", json!(3), Some(true)),
        ("${inputs.most} < 3", json!("2"), None),
        ("${inputs.most} == \"a\"", json!("a"), Some(true)),
        ("${inputs.most} == null", json!(null), Some(true)),
        ("${inputs.most}", json!(true), Some(true)),
        ("${inputs.most}", json!(1), None),
    ] {
        let flow = flow(
            "if: ${steps.find.value.total} > 3",
            &format!("if: '{condition}'"),
        )
        .unwrap();
        let StepKind::If {
            condition: parsed, ..
        } = &flow.steps[2].kind
        else {
            panic!("{:?}", flow.steps[2]);
        };
        let (inputs, steps) = (json!({ "most": inputs }), BTreeMap::new());
        let held = parsed.holds(Scope {
            inputs: &inputs,
            steps: &steps,
        });
        assert_eq!(held.ok(), want, "{condition}");
    }
}

const AGENT: &str = "\
agent: 1
name: reviewer
summary: Reads and comments
version: 1.0.0
model: local/small-7b
system: |
  You review code.
  Be short.
tools: [fs.read, search.grep]
budget: { turns: 5, tokens: 20000, wall_time: 5m }
";

#[test]
fn agents_are_read_and_checked() {
    let agent = Agent::read(AGENT.as_bytes()).unwrap();
    assert_eq!((agent.tools.len(), agent.budget.turns), (2, Some(5)));
    for (from, to, want) in [
        (
            "[fs.read, search.grep]",
            "[fs.read, fs.read]",
            "is there twice",
        ),
        ("[fs.read, search.grep]", "['*']", "cannot be a name here"),
        ("turns: 5", "turn: 5", "unknown field"),
        ("turns: 5", "turns: 0", "is no number"),
        (
            "model: local/small-7b",
            "model: 'a; b'",
            "cannot be a name here",
        ),
        ("agent: 1", "agent: 2", "is no number"),
    ] {
        let error = Agent::read(AGENT.replace(from, to).as_bytes()).unwrap_err();
        assert!(error.to_string().contains(want), "{to}: {error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..1_000) {
        let _ = Workflow::read(&bytes);
        let mut text = FLOW.as_bytes().to_vec();
        text.truncate(cut);
        text.extend(bytes);
        let _ = Workflow::read(&text);
    }

    #[test]
    fn a_whole_reference_keeps_its_value(value in any::<i64>(), text in ".{0,20}") {
        let flow = flow("word", "word").unwrap();
        let inputs: Value = json!({"word": text, "most": value});
        let steps = BTreeMap::new();
        let StepKind::Tool { with, .. } = &flow.steps[0].kind else {
            panic!("{:?}", flow.steps[0]);
        };
        let resolved = with.resolve(Scope { inputs: &inputs, steps: &steps }).unwrap();
        prop_assert_eq!(&resolved["pattern"], &inputs["word"]);
    }
}

//! What came with a workspace beside its policy, as a person should see it before trusting it: the
//! configuration, what plugins ask for, what definitions run and reach.
//!
//! Every word of it is somebody else's, so what a terminal would obey, or not show, is written out. What
//! does not load is said to: it is not used either. Not shown are limits, the schemas of adapters, and
//! how output is read.

use crate::commands::plugin;
use crate::config::{self, Unusable};
use crate::failure::Failure;
use crate::output::{Output, Tone, styled};
use crate::visible::visible;
use airlock_definitions::{Adapter, AdapterFile, Agent, DefinitionError, How, StepKind, Workflow};
use airlock_kernel::{CONFIG_FILE, PLUGINS_DIR, Trust, sanitise_line};
use airlock_plugin::Manifest;

/// Shows all of it. A configuration that does not load is a failure: with it no command would run.
pub(super) fn show(trust: &Trust, output: &mut Output) -> Result<(), Failure> {
    for (path, bytes) in trust.untrusted_files() {
        let lines = lines(path, bytes)?;
        let path = clean(path);
        output.note(styled(Tone::Heading, &format!("{path} says")));
        for line in lines {
            output.note(format!("  {}", clean(&line)));
        }
    }
    Ok(())
}

/// `text` on one line, whole: who approves it has seen all of it.
fn clean(text: &str) -> String {
    sanitise_line(&visible(&text.replace('\n', " ")), usize::MAX)
}

fn lines(path: &str, bytes: &[u8]) -> Result<Vec<String>, Failure> {
    let read = if path == CONFIG_FILE {
        return settings(bytes);
    } else if path.starts_with(PLUGINS_DIR) {
        Manifest::parse(bytes).map(|manifest| plugin::request(&manifest))
    } else if path.starts_with(".airlock/adapters/") {
        AdapterFile::new(bytes)
            .and_then(|file| file.adapter())
            .map(|adapter| self::adapter(&adapter))
    } else if path.starts_with(".airlock/workflows/") {
        Workflow::read(bytes).map(|workflow| self::workflow(&workflow))
    } else {
        Agent::read(bytes).map(|agent| self::agent(&agent))
    };
    Ok(read.unwrap_or_else(|error: DefinitionError| vec![format!("does not load: {error}")]))
}

fn settings(bytes: &[u8]) -> Result<Vec<String>, Failure> {
    let values = config::workspace_values(bytes).map_err(Unusable::failure)?;
    let line = |(key, value): (&String, &String)| {
        let counts = config::is_a_workspaces(key);
        let note = if counts {
            ""
        } else {
            " (not used: yours alone)"
        };
        format!("{key}: {value}{note}")
    };
    Ok(values.iter().map(line).collect())
}

fn adapter(adapter: &Adapter) -> Vec<String> {
    let header = &adapter.header;
    let mut lines = vec![
        format!("adapter {} for the tool {}", header.id, header.tool),
        format!("is described as: {}", adapter.summary.summary),
    ];
    match &adapter.how {
        How::Cli(cli) => {
            lines.push(format!("runs {}", cli.pattern().join(" ")));
            let variables = cli.variables();
            lines.extend(variables.map(|set| format!("with the variable {set}")));
            let directory = cli.directory();
            lines.extend(directory.map(|directory| format!("in the directory {directory}")));
            let stdin = cli.stdin();
            lines.extend(stdin.map(|input| format!("reading <{input}> on its standard input")));
        }
        How::Api(api) => {
            let (method, host, port) = (api.method, &api.host, api.port);
            lines.push(format!("asks {method} at {host}:{port}{}", api.pattern()));
            if api.has_body() {
                lines.push("sends its arguments as the body".to_owned());
            }
        }
        How::Mcp(mcp) => {
            let command = mcp.command.join(" ");
            lines.push(format!("runs {command} for its tool {}", mcp.tool));
        }
    }
    let defaults = adapter.interface.defaults().iter();
    lines.extend(defaults.map(|(name, value)| format!("takes {value} for <{name}> if not given")));
    let fallback = adapter.fallback.iter();
    lines.extend(fallback.map(|other| format!("if it fails, {other} does it")));
    lines
}

fn workflow(workflow: &Workflow) -> Vec<String> {
    let steps = workflow.all_steps().into_iter();
    let steps = steps.filter_map(|step| {
        let what = match &step.kind {
            StepKind::Tool { tool, with } => format!("calls {tool} with {with}"),
            StepKind::Code { with } => format!("runs {with}"),
            StepKind::Agent { agent, task } => format!("hands to agent {agent}: {task}"),
            StepKind::Approval { question } => format!("asks a person: {question}"),
            StepKind::Parallel(_) | StepKind::If { .. } => return None,
        };
        Some(format!("step {} {what}", step.id))
    });
    let name = format!("workflow {}", workflow.name);
    [name].into_iter().chain(steps).collect()
}

fn agent(agent: &Agent) -> Vec<String> {
    vec![
        format!("agent {} on model {}", agent.name, agent.model),
        format!("has the tools {}", agent.tools.join(", ")),
        format!("is told: {}", agent.system),
    ]
}

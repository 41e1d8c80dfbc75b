//! `exec.own`: a command the person typed, which `airlock exec` asks for.
//!
//! It needs no entry in the policy's `commands`, since the person's typing it is the word for it,
//! and may be granted more of the machine, as far as workspace and person have the capabilities. So
//! no other front can call it.

use super::exec_run::{
    Boxed, LEAST_MEMORY, TEMPLATE, check_environment, check_own, directory, invalid, template, unit,
};
use super::failure::CheckId;
use super::grants;
use super::job::{Asked, Job, Listing, Staging};
use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{InvalidArguments, Keep, Prepared, Tool, ToolSchema, ToolSpec};
use airlock_core::{ByteSize, Request, RequestPath, Span, Tier, programs};
use airlock_sandbox::plan::Pattern;
use airlock_sandbox::stage::StageName;
use airlock_sandbox::{HostPath, Template};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The program and its arguments.
    command: Vec<String>,
    /// The sandbox template. Absent: `code-executor`.
    #[serde(default)]
    template: Option<String>,
    /// Where to start, beneath the workspace.
    #[serde(default)]
    directory: Option<String>,
    /// Paths it may read besides the workspace.
    #[serde(default)]
    allow_read: Vec<String>,
    /// Paths it may read and write besides the workspace.
    #[serde(default)]
    allow_write: Vec<String>,
    /// Patterns of what it may not read or write.
    #[serde(default)]
    deny: Vec<String>,
    /// Variables to set.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Variables to pass on.
    #[serde(default)]
    inherit: Vec<String>,
    /// Longest run. Absent: the template's.
    #[serde(default)]
    timeout: Option<String>,
    /// Most memory. Absent: the template's.
    #[serde(default)]
    memory: Option<String>,
    /// Most processes and threads. Absent: the template's.
    #[serde(default)]
    pids: Option<u32>,
    /// The stage. Absent: `default`.
    #[serde(default)]
    stage: Option<String>,
    /// Whether to show the workspace read-only instead of a stage.
    #[serde(default)]
    no_stage: bool,
}

/// The templates that commands run under; the others are for workers of Airlock's own.
const FOR_COMMANDS: [&str; 2] = [TEMPLATE, "integration-test"];
/// The least time a sandbox can be given.
const LEAST_TIMEOUT: Span = Span::from_millis(10);

static SPEC: ToolSpec = ToolSpec {
    name: "exec.own",
    summary: "Run a command the person typed, in a sandbox",
    syscall: "exec.run",
    tier: Tier::Process,
    read_only: false,
    keep: Keep::Middle,
    schema: ToolSchema::of::<Arguments>(),
    examples: &[r#"{"command": ["make", "test"]}"#],
};

pub(super) struct Own;

impl Tool for Own {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn open_to(&self, front: Front) -> bool {
        match front {
            Front::Cli => true,
            Front::Agent | Front::Mcp | Front::Server | Front::Plugin => false,
        }
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: Arguments =
            serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
                at: error.path().to_string().trim_start_matches('.').to_owned(),
                what: error.inner().to_string(),
                fix: None,
            })?;
        if asked.command.first().is_none_or(String::is_empty) {
            let fix = "name a program after `--`";
            return Err(invalid(
                CheckId::Arguments,
                "command",
                "no program is named",
                fix,
            ));
        }
        let template = for_commands(asked.template.as_deref().unwrap_or(TEMPLATE))?;
        check_environment(&asked.environment)?;
        check_own("inherit", &asked.inherit)?;
        let limits = limits(&asked, template)?;
        let grants = |at: &str, paths: Vec<String>| -> Result<Vec<String>, InvalidArguments> {
            paths.iter().map(|path| absolute(at, path, root)).collect()
        };
        let reads = grants("allow_read", asked.allow_read)?;
        let writes = grants("allow_write", asked.allow_write)?;
        // A command that cannot be looked through is the person's own business.
        let inner = programs::inner(&asked.command).unwrap_or(0);
        let denials = asked.deny.iter().map(|glob| denial(glob, root));
        let denials = denials.collect::<Result<Vec<String>, _>>()?;
        let job = Job {
            template,
            inner,
            directory: directory(asked.directory.as_deref(), root)?,
            denials,
            inherited: asked.inherit,
            environment: asked.environment,
            limits,
            staging: match (asked.no_stage, asked.stage) {
                (true, _) => Staging::None,
                (false, None) => Staging::Session,
                (false, Some(name)) => Staging::Stage(chosen(name)?),
            },
            listing: Listing::Person,
            ..Job::of(asked.command)?
        };
        Ok(Box::new(Boxed(job.granted(reads, writes))))
    }
}

/// A stage that somebody names: never one that is there for some runs of Airlock's own.
fn chosen(name: String) -> Result<String, InvalidArguments> {
    if StageName::is_passing(&name) {
        let (what, fix) = ("it is the name of no stage of yours", "choose another one");
        return Err(invalid(CheckId::Arguments, "stage", what, fix));
    }
    Ok(name)
}

/// The capabilities that the grants `request` asks for take, for whoever only wants to know.
pub(crate) fn needs_of(request: &Request, root: &Root) -> BTreeSet<String> {
    let named = |name: &str| -> Vec<String> {
        let listed = request.arguments.get(name).and_then(Value::as_array);
        let paths = listed.into_iter().flatten().filter_map(Value::as_str);
        let paths = paths.filter_map(|path| absolute(name, path, root).ok());
        paths.collect()
    };
    if request.tool.as_deref() != Some(SPEC.name) {
        return BTreeSet::new();
    }
    grants::needs(&named("allow_read"), &named("allow_write"))
}

/// The template `name`, if commands can run under it.
fn for_commands(name: &str) -> Result<&'static Template, InvalidArguments> {
    let template = template(name)?;
    if FOR_COMMANDS.contains(&template.name) {
        return Ok(template);
    }
    Err(InvalidArguments {
        at: "template".to_owned(),
        what: format!("the template `{name}` is for Airlock's own workers"),
        fix: Some(format!("use one of {}", FOR_COMMANDS.join(", "))),
    })
}

fn limits(asked: &Arguments, template: &'static Template) -> Result<Asked, InvalidArguments> {
    let most = template.limits;
    let below = |at: &'static str, least: String| {
        let what = "nothing can run with so little";
        invalid(CheckId::Sizes, at, what, &format!("give at least {least}"))
    };
    let above = |at: &'static str, most: String| {
        let what = format!("it is above the {most} of the template `{}`", template.name);
        invalid(CheckId::Sizes, at, &what, &format!("give at most {most}"))
    };
    let duration: Option<Span> = unit("timeout", asked.timeout.as_deref())?;
    let memory: Option<ByteSize> = unit("memory", asked.memory.as_deref())?;
    if duration.is_some_and(|asked| asked < LEAST_TIMEOUT) {
        return Err(below("timeout", LEAST_TIMEOUT.to_string()));
    }
    if memory.is_some_and(|asked| asked < LEAST_MEMORY) {
        return Err(below("memory", LEAST_MEMORY.to_string()));
    }
    if asked.pids == Some(0) {
        return Err(below("pids", "1".to_owned()));
    }
    if duration > Some(most.duration) {
        return Err(above("timeout", most.duration.to_string()));
    }
    if memory > Some(most.memory) {
        return Err(above("memory", most.memory.to_string()));
    }
    if asked.pids > Some(most.pids) {
        return Err(above("pids", most.pids.to_string()));
    }
    Ok(Asked {
        duration,
        memory,
        cpus: None,
        pids: asked.pids,
    })
}

fn absolute(at: &str, path: &str, root: &Root) -> Result<String, InvalidArguments> {
    RequestPath::parse(path, root.path())
        .map(|parsed| parsed.absolute(root.path()))
        .map_err(|error| {
            let fix = "name an existing file or directory";
            invalid(CheckId::Paths, at, &error.to_string(), fix)
        })
}

/// A pattern as the plan reads it: what begins nowhere in particular is beneath the workspace.
fn denial(glob: &str, root: &Root) -> Result<String, InvalidArguments> {
    let refused = |what: &str, fix: &str| invalid(CheckId::Paths, "deny", what, fix);
    if glob.is_empty() {
        let fix = "name what to keep it from, such as `**/*.csv`";
        return Err(refused("the pattern is empty", fix));
    }
    let text = if ["/", "~/", "**/"]
        .iter()
        .any(|from| glob.starts_with(*from))
    {
        glob.to_owned()
    } else {
        let special = |c: char| if "*?[]{}\\!".contains(c) { '?' } else { c };
        let root: String = root.path().chars().map(special).collect();
        format!("{root}/{glob}")
    };
    // Whose home `~` is, the plan knows; whether it is a pattern does not depend on that.
    let home = HostPath::new("/").ok();
    match Pattern::new(&text, home.as_ref()) {
        Ok(_) => Ok(text),
        Err(problem) => Err(refused(&problem.to_string(), problem.hint())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_nothing_can_run_with_is_a_wrong_argument_and_not_a_lack_of_the_machine() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(place.path()).unwrap();
        let prepared = |name: &str, value: Value| {
            let arguments = json!({ "command": ["true"], (name): value });
            Own.prepare(&arguments, &root).map(drop)
        };
        for (name, value) in [
            ("timeout", json!("0s")),
            ("timeout", json!("9ms")),
            ("timeout", json!("6m")),
            ("memory", json!("1")),
            ("memory", json!("63MiB")),
            ("memory", json!("2GiB")),
            ("pids", json!(0)),
            ("pids", json!(101)),
            ("deny", json!([""])),
            ("deny", json!(["a**b"])),
            ("deny", json!(["~/a**b"])),
            ("deny", json!(["**/[ab]"])),
            ("deny", json!(["../x"])),
            ("template", json!("ai-provider")),
            ("template", json!("policy-sandbox")),
            ("template", json!("no-such")),
        ] {
            let shown = format!("{name} {value}");
            let refused = prepared(name, value).unwrap_err();
            assert_eq!(refused.at, name, "{shown}");
            assert!(refused.fix.is_some(), "{shown}: {refused}");
        }
        for (name, value) in [
            ("timeout", json!("10ms")),
            ("memory", json!("64MiB")),
            ("pids", json!(1)),
            ("deny", json!(["**/*.md", "~/x", "/x", "x", "a/*"])),
            ("template", json!("code-executor")),
            ("template", json!("integration-test")),
        ] {
            let shown = format!("{name} {value}");
            assert_eq!(prepared(name, value), Ok(()), "{shown}");
        }
    }
}

//! `airlock plugin`: third-party tools, boxed in by a manifest.
//!
//! What changes something is a syscall like any other, decided, recorded and, where policy says so,
//! put to a person. Only `new` and `check` stay here: they look at files of the person's own.

#[cfg(target_os = "linux")]
mod hosts;
mod new;
mod show;
mod words;

#[cfg(target_os = "linux")]
pub(super) use hosts::hosting;
pub(super) use show::request;

use super::reach::Reach;
use super::{open, tool};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, shown, styled};
use crate::place::Place;
use crate::plugin_settings;
use airlock_core::Digest;
use airlock_kernel::{Call, Outcome};
use airlock_plugin::{Contents, Kind as PluginKind, MANIFEST, Manifest, Reason, Tier};
use airlock_policy::capability::known_family;
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// What to do with plugins.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Arguments {
    /// List plugins
    #[command(after_help = "Examples:
  airlock plugin list
  airlock plugin list --tag vcs
  airlock plugin list --rejected")]
    List {
        /// Only those with this tag
        #[arg(long, value_name = "TAG", conflicts_with = "rejected")]
        tag: Option<String>,
        /// What looks like a plugin and is none, with the reason
        #[arg(long)]
        rejected: bool,
    },
    /// Show a plugin: its manifest in force, its tools, what confines it
    #[command(after_help = "Example:\n  airlock plugin show ticket-tools")]
    Show {
        /// The plugin
        name: String,
    },
    /// Write a plugin to begin with: it works, and has tests
    #[command(after_help = "Examples:
  airlock plugin new word-count --lang python
  airlock plugin new word-count --lang rust --tier process")]
    New(new::Arguments),
    /// Check a plugin's manifest, and tell every problem at once
    #[command(after_help = "Examples:
  airlock plugin check word-count
  airlock plugin check word-count/plugin.yaml")]
    Check {
        /// The plugin's directory, or its manifest
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Install a plugin from a directory, after review
    #[command(after_help = "Example:\n  airlock plugin install ./word-count --trust process")]
    Install {
        /// The plugin's directory
        path: PathBuf,
        /// Trust it to run nearer than in a container
        #[arg(long, value_name = "TIER", value_enum)]
        trust: Option<Trusted>,
    },
    /// Remove an installed plugin with its data
    #[command(after_help = "Example:\n  airlock plugin remove word-count")]
    Remove {
        /// The plugin
        name: String,
    },
    /// Switch a plugin on, or approve its tools as it describes them now
    #[command(after_help = "Examples:
  airlock plugin enable word-count
  airlock plugin enable word-count --tools DIGEST")]
    Enable {
        /// The plugin
        name: String,
        /// Approve the tools that `airlock plugin show` gives this digest for
        #[arg(long, value_name = "DIGEST")]
        tools: Option<String>,
    },
    /// Switch a plugin off, and stop it
    #[command(after_help = "Example:\n  airlock plugin disable word-count")]
    Disable {
        /// The plugin
        name: String,
    },
    /// Start a plugin anew from its files, in the place of what runs
    #[command(after_help = "Example:\n  airlock plugin reload word-count")]
    Reload {
        /// The plugin
        name: String,
    },
    /// Call a tool of a plugin
    #[command(after_help = "Examples:
  airlock plugin call word-count count text='one two'
  airlock plugin call word-count count '{\"text\": \"one two\"}'")]
    Call {
        /// The plugin
        name: String,
        /// The tool
        tool: String,
        /// NAME=VALUE pairs, or one JSON object
        arguments: Vec<String>,
    },
}

/// Where a plugin of unknown origin may run if a person says so. Wasm runs in a boxed process, so it
/// counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Trusted {
    /// As a process in its sandbox, or as Wasm in a worker
    Process,
}

impl Trusted {
    const fn tier(self) -> Tier {
        match self {
            Self::Process => Tier::Process,
        }
    }
}

pub(super) fn run(global: &Global, arguments: Arguments, output: &mut Output) -> Ending {
    match arguments {
        Arguments::List { tag, rejected } => list(global, tag.as_deref(), rejected, output),
        Arguments::Show { name } => look(global, &name, output),
        Arguments::New(arguments) => new::run(&arguments, output),
        Arguments::Check { path } => check(&path, output),
        Arguments::Install { path, trust } => install(global, &path, trust, output),
        Arguments::Remove { name } => steer(global, Steer::Remove, &name, None, output),
        Arguments::Enable { name, tools } => {
            steer(global, Steer::Enable, &name, tools.as_deref(), output)
        }
        Arguments::Disable { name } => steer(global, Steer::Disable, &name, None, output),
        Arguments::Reload { name } => {
            let mut reach = Reach::new(global, output)?;
            let done = reach.value("plugin.reload", json!({ "name": name }), output)?;
            told(&done, "reloaded", &name, output);
            tell_words(&mut reach, &done, &name, output)?;
            Ok(0)
        }
        Arguments::Call {
            name,
            tool,
            arguments,
        } => tool::call_as_person(global, format!("{name}.{tool}"), &arguments, output),
    }
}

/// Shows a plugin. The words of its tools come from this process: in an answer they would be cut.
fn look(global: &Global, name: &str, output: &mut Output) -> Ending {
    let mut reach = Reach::new(global, output)?;
    let found = reach.value("plugin.show", json!({ "name": name }), output)?;
    let words = if show::is_built_in(&found) {
        None
    } else {
        reach.kernel(output)?.plugin_words(name)
    };
    show::one(&found, words.as_ref(), output);
    if let Some(words) = words
        && show::is_unseen(&found)
        && !output.is_json()
        && std::io::stdout().is_terminal()
    {
        words::were_shown(reach.kernel(output)?, name, &words);
    }
    Ok(0)
}

/// As many plugins as fit one answer, with what there is to say of each.
const PAGE: usize = 20;

/// Lists page by page: an answer holds only so much.
fn list(global: &Global, tag: Option<&str>, rejected: bool, output: &mut Output) -> Ending {
    let mut after: Option<String> = None;
    loop {
        let asked = json!({
            "tag": tag,
            "rejected": rejected,
            "after": after,
            "limit": (!rejected).then_some(PAGE),
        });
        let found = ask(global, "plugin.list", asked, output)?;
        show::list(&found, (tag, rejected), after.is_none(), output);
        let more = found
            .get("more")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let last = found.get("plugins").and_then(Value::as_array);
        let last = last.and_then(|page| page.last()?.get("name")?.as_str());
        match last {
            Some(last) if more > 0 => after = Some(last.to_owned()),
            Some(_) | None => return Ok(0),
        }
    }
}

/// Asks whichever kernel there is: plugins run in the one that stays.
fn ask(
    global: &Global,
    name: &str,
    arguments: Value,
    output: &mut Output,
) -> Result<Value, Failure> {
    Reach::new(global, output)?.value(name, without_nulls(arguments), output)
}

/// An argument that was not given is not there, rather than nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect(),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => other,
    }
}

/// Submits a call that may need a person, and puts it to the one who is there, with all that was looked
/// at for them: the plugin's files and words, and where its paths lead.
fn reviewed(
    reach: &mut Reach<'_>,
    call: &Call,
    what: &str,
    output: &mut Output,
) -> Result<Value, Failure> {
    let outcome = reach.submit(call, output)?;
    if let Outcome::NeedsReview(review) = &outcome {
        for line in show::leads(&review.request.arguments) {
            output.note(line);
        }
    }
    let done = reach.answered(outcome, call, what, None, output)?;
    Ok(done.value)
}

/// Has the kernel that runs for this workspace, if one does that was not asked, run what was approved
/// here.
fn take_over(global: &Global, reach: &Reach<'_>, name: &str, output: &mut Output) {
    if !reach.is_embedded() {
        return;
    }
    let call = Call::new("plugin.reload", json!({ "name": name }));
    match open::ask_running(global, &call) {
        None | Some(Outcome::Done(_)) => {}
        Some(Outcome::Failed(failed)) => {
            let why = airlock_kernel::sanitise_line(&failed.what, 400);
            output.warning(&format!(
                "the kernel that runs has not taken it over: {why}"
            ));
        }
        Some(Outcome::Denied(_) | Outcome::NeedsReview(_)) => {
            output.warning("the kernel that runs has not taken it over: policy says no");
        }
    }
}

fn install(global: &Global, path: &Path, trust: Option<Trusted>, output: &mut Output) -> Ending {
    let full = std::fs::canonicalize(path).map_err(|error| cannot_read(path, &error))?;
    // First: of what is shown below it is known then whether it belongs to these files.
    let files = Contents::of(&full);
    let (manifest, _, text) = read(path)?;
    let Some(full) = full.to_str() else {
        let what = format!("{} is not UTF-8", shown(path));
        return Err(Failure::new(Kind::Usage, what).fix("rename it"));
    };
    // What cannot be looked at here has no digest that files could have: the kernel, which cannot
    // either, says why.
    let digest = match &files {
        Ok(files) if files.file(MANIFEST) != Some(Digest::of(&text)) => {
            return Err(changing(path));
        }
        Ok(files) => files.digest(),
        Err(_) => Digest::of(&[]),
    };
    for line in show::request(&manifest) {
        output.note(line);
    }
    warn(&manifest, output);
    let set = Place::find(global.workspace.as_deref())
        .map(|place| plugin_settings::names_of(&place, &manifest.name))?;
    if !set.is_empty() {
        let set = airlock_kernel::sanitise_line(&set.join(", "), 200);
        output.note(format!("is given what is set for its name: {set}"));
    }
    let name = manifest.name.as_str();
    needs_trust(&manifest, trust)?;
    let tier = trust.map(|trust| trust.tier().as_str());
    let asked = without_nulls(json!({ "path": full, "digest": digest, "tier": tier }));
    let call = Call::new("plugin.install", asked);
    let mut reach = Reach::new(global, output)?;
    let what = format!("installing `{name}`");
    let done = reviewed(&mut reach, &call, &what, output)?;
    told(&done, "installed", name, output);
    tell_words(&mut reach, &done, name, output)?;
    take_over(global, &reach, name, output);
    Ok(0)
}

/// That somebody writes to what is being installed.
fn changing(path: &Path) -> Failure {
    let what = format!(
        "the files in {} change while they are looked at",
        shown(path)
    );
    Failure::new(Kind::Failed, what)
        .why("what is installed has to be what was shown to you")
        .fix("copy them to where nobody else writes, and install that")
}

/// Says at once what the kernel would say after the review: of what is of unknown origin nothing runs
/// outside a container unless the person said so.
fn needs_trust(manifest: &Manifest, trust: Option<Trusted>) -> Result<(), Failure> {
    let wants = manifest.execution.tier;
    let approved = trust.map_or(Tier::Container, Trusted::tier);
    if manifest.kind == PluginKind::Skill || wants.satisfies(approved) {
        return Ok(());
    }
    let what = format!(
        "`{}` is of unknown origin and wants to run as `{wants}`",
        manifest.name
    );
    Err(Failure::new(Kind::NeedsReview, what)
        .why("what nobody vouched for runs in a container only, and there is no container engine yet")
        .fix("look at it, and if you trust it: add `--trust process`"))
}

/// Ways to change how an installed plugin stands.
#[derive(Clone, Copy)]
enum Steer {
    Remove,
    Enable,
    Disable,
}

fn steer(
    global: &Global,
    how: Steer,
    name: &str,
    tools: Option<&str>,
    output: &mut Output,
) -> Ending {
    let (syscall, doing, done) = match how {
        Steer::Remove => ("plugin.remove", "removing", "removed"),
        Steer::Enable => ("plugin.enable", "enabling", "enabled"),
        Steer::Disable => ("plugin.disable", "disabling", "disabled"),
    };
    let asked = without_nulls(json!({ "name": name, "tools": tools }));
    let call = Call::new(syscall, asked);
    let shown = airlock_kernel::sanitise_line(name, 64);
    let mut reach = Reach::new(global, output)?;
    // What is no digest is for the kernel to refuse.
    if let Some(digest) = tools.and_then(|tools| tools.parse().ok()) {
        words::before_question(reach.kernel(output)?, name, digest, output)?;
    }
    let what = format!("{doing} `{shown}`");
    let result = reviewed(&mut reach, &call, &what, output)?;
    told(&result, done, name, output);
    match how {
        Steer::Enable => {
            tell_words(&mut reach, &result, name, output)?;
            take_over(global, &reach, name, output);
        }
        // What runs elsewhere is seen to by who runs it: the next look, or the next call.
        Steer::Remove | Steer::Disable => {}
    }
    Ok(0)
}

/// Shows what a plugin that was started says of its tools, as far as nobody was shown it yet.
fn tell_words(
    reach: &mut Reach<'_>,
    started: &Value,
    name: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let is_news = show::is_unseen(started) || show::is_withheld(started);
    if is_news && !output.is_json() {
        words::after_start(reach.kernel(output)?, name, started, output);
    }
    Ok(())
}

fn told(result: &Value, done: &str, name: &str, output: &mut Output) {
    if output.is_json() {
        output.json(result);
    } else {
        let name = airlock_kernel::sanitise_line(name, 64);
        output.note(styled(Tone::Good, &format!("{name} is {done}")));
        if let Some(problem) = result.get("problem").and_then(Value::as_str) {
            output.warning(&airlock_kernel::sanitise_line(problem, 400));
        }
        for warning in show::texts(result, "warnings") {
            output.warning(&warning);
        }
    }
}

/// The manifest in `path`, a plugin's directory or the file itself, where it is, and its text.
fn read(path: &Path) -> Result<(Manifest, PathBuf, Vec<u8>), Failure> {
    let file = if path.is_dir() {
        path.join(MANIFEST)
    } else {
        path.to_owned()
    };
    let bytes = airlock_plugin::manifest_text(&file).map_err(|reason| match reason {
        Reason::Unreadable(error) => cannot_read(&file, &error),
        Reason::NoManifest => {
            let absent = rustix::io::Errno::NOENT;
            cannot_read(&file, &absent.into())
        }
        odd @ (Reason::Link
        | Reason::TooMany
        | Reason::OddManifest
        | Reason::Manifest { .. }
        | Reason::Duplicate { .. }
        | Reason::Engine { .. }
        | Reason::ApiVersion(_)
        | Reason::Dependency(_)) => {
            Failure::new(Kind::Failed, format!("cannot read {}", shown(&file)))
                .why("it is a link, or no regular file")
                .fix(odd.hint())
        }
    })?;
    match Manifest::parse(&bytes) {
        Ok(manifest) => Ok((manifest, file, bytes)),
        Err(error) => {
            let text = String::from_utf8_lossy(&bytes);
            let problems = error.problems();
            let what = format!(
                "{} in {}",
                crate::output::count(problems.len() as u64, "problem"),
                shown(&file)
            );
            Err(Failure::new(Kind::Failed, what)
                .details(error.render(&text, &shown(&file)))
                .fix("mend them and check again")
                .json("problems", json!(problems)))
        }
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Kind::Failed, format!("cannot read {}", shown(path)))
        .why(crate::failure::cause(error))
        .fix("give the directory that has the plugin's plugin.yaml")
}

/// A capability that nothing needs is legal, and more often a slip than a plan.
fn warn(manifest: &Manifest, output: &mut Output) {
    for capability in &manifest.capabilities {
        if !known_family(capability) {
            let capability = airlock_kernel::sanitise_line(capability, 100);
            output.warning(&format!(
                "nothing needs the capability `{capability}`; files are read with `filesystem.read./**`"
            ));
        }
    }
}

fn check(path: &Path, output: &mut Output) -> Ending {
    let (manifest, file, _) = read(path)?;
    warn(&manifest, output);
    if output.is_json() {
        output.json(&manifest.effective());
    } else {
        output.line(format!(
            "{} holds: {} {}",
            shown(&file),
            manifest.name,
            manifest.version
        ));
    }
    Ok(0)
}

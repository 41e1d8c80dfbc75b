//! `airlock policy explain`: what would be decided, by which rules, and what would change it.

use super::super::open;
use super::load;
use crate::args::{ExplainArgs, Global};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_core::{ByteSize, closest};
use airlock_kernel::{Explained, Kernel, strip_control};
use airlock_policy::{ExampleFields, Verdict};
use serde_json::{Value, json};
use std::str::FromStr;
use std::sync::Arc;

pub(super) fn run(global: &Global, args: &ExplainArgs, output: &mut Output) -> Ending {
    let fields = fields(args)?;
    let kernel = open::kernel(global, output)?;
    let explained = explained(&kernel, args, &fields)?;
    if output.is_json() {
        output.json(&json!({
            "request": explained.request,
            "decision": explained.decision,
            "explanation": explained.explanation,
            "knows_manifest": explained.knows_manifest,
            "refused": explained.refused.as_ref().map(|refused| json!({
                "code": refused.code(), "what": refused.to_string(), "fix": refused.hint(),
            })),
        }));
    } else {
        show(&explained, output);
    }
    Ok(match explained.decision.verdict {
        _ if explained.refused.is_some() => Kind::Denied.code(),
        Verdict::Allow => 0,
        Verdict::Deny => Kind::Denied.code(),
        Verdict::RequireReview => Kind::NeedsReview.code(),
    })
}

fn explained(
    kernel: &Kernel,
    args: &ExplainArgs,
    fields: &ExampleFields,
) -> Result<Explained, Failure> {
    let policy = match &args.policy {
        Some(path) => Some(load(path)?.1.policy),
        None => None,
    };
    kernel
        .explain(fields, policy)
        .map_err(|error| Failure::new(Kind::Usage, error))
}

fn show(explained: &Explained, output: &mut Output) {
    let explanation = &explained.explanation;
    let tone = match explained.decision.verdict {
        Verdict::Allow => Tone::Good,
        Verdict::Deny => Tone::Bad,
        Verdict::RequireReview => Tone::Warn,
    };
    if let Some(refused) = &explained.refused {
        let told = format!("{}: {refused}", styled(Tone::Bad, "refused"));
        output.line(strip_control(&told));
        if let Some(fix) = refused.hint() {
            output.line(strip_control(&format!("  fix: {fix}")));
        }
        output.line("before it is refused, rules and capabilities say:");
    }
    let verdict = styled(tone, explained.decision.verdict.as_str());
    output.line(format!(
        "{verdict}: {}",
        strip_control(explanation.headline())
    ));
    for line in explanation.body() {
        output.line(strip_control(&line));
    }
    if !explained.knows_manifest {
        output.note(format!(
            "no plugin `{}` runs here, so what its manifest asks for was not looked at",
            explained.request.caller.plugin
        ));
    }
}

/// The request as the flags describe it.
fn fields(args: &ExplainArgs) -> Result<ExampleFields, Failure> {
    if let Err(unknown) = airlock_core::Syscall::parse(&args.syscall) {
        let failure = Failure::new(Kind::Usage, unknown.to_string());
        return Err(match unknown.suggestion() {
            Some(near) => failure.fix(format!("did you mean `{near}`?")),
            None => failure.fix(format!("syscalls begin with one of {}", areas().join(", "))),
        });
    }
    let text = |value: &Option<String>| value.as_deref().map(Arc::from);
    let texts = |values: &[String]| {
        values
            .iter()
            .map(|value| Arc::from(value.as_str()))
            .collect()
    };
    Ok(ExampleFields {
        syscall: args.syscall.as_str().into(),
        path: texts(&args.path),
        effect: None,
        caller_tag: texts(&args.tag),
        plugin: Some(args.plugin.as_str().into()),
        tool: text(&args.tool),
        mode: word(args.mode.as_deref(), "mode")?,
        state: word(args.state.as_deref(), "state")?,
        tier: word(args.tier.as_deref(), "tier")?,
        template: text(&args.template),
        host: text(&args.host),
        port: args.port,
        command: args
            .command
            .iter()
            .flat_map(|c| c.split_whitespace())
            .map(Arc::from)
            .collect(),
        secret: text(&args.secret),
        user: None,
        workspace: None,
        arg: arguments(&args.arg)?,
        file_size: args.file_size.as_deref().map(size).transpose()?,
    })
}

/// The first words of all syscalls.
fn areas() -> Vec<&'static str> {
    let mut areas: Vec<&str> = airlock_core::Syscall::all()
        .map(airlock_core::Syscall::area)
        .collect();
    areas.sort_unstable();
    areas.dedup();
    areas
}

/// A word of one of the closed lists, or the nearest one suggested.
fn word<T>(text: Option<&str>, flag: &str) -> Result<Option<T>, Failure>
where
    T: FromStr<Err = airlock_core::UnknownWord>,
{
    let Some(text) = text else { return Ok(None) };
    text.parse()
        .map(Some)
        .map_err(|error: airlock_core::UnknownWord| {
            let fix = match closest(&error.word, error.known.iter().copied()) {
                Some(near) => format!("did you mean `--{flag} {near}`?"),
                None => format!("use one of {}", error.known.join(", ")),
            };
            Failure::new(Kind::Usage, error.to_string()).fix(fix)
        })
}

fn size(text: &str) -> Result<u64, Failure> {
    text.parse::<ByteSize>()
        .map(ByteSize::as_bytes)
        .map_err(|error| Failure::new(Kind::Usage, error.to_string()).fix("write it as 20KiB"))
}

fn arguments(pairs: &[String]) -> Result<Value, Failure> {
    if pairs.is_empty() {
        return Ok(Value::Null);
    }
    let mut object = serde_json::Map::new();
    for pair in pairs {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            let pair = airlock_kernel::sanitise_line(pair, 60);
            Failure::new(Kind::Usage, format!("`{pair}` is not NAME=VALUE"))
                .fix("write it as --arg depth=2")
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        object.insert(name.to_owned(), value);
    }
    Ok(Value::Object(object))
}

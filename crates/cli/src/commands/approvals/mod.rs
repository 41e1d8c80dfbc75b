//! `airlock approvals`: what waits for an answer, answering it at a terminal, and taking it back.

mod answer;
mod show;

use super::reach::Reach;
use super::{open, outcome};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use crate::review::{Terminal, nobody};
use airlock_kernel::{Call, Front};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Arguments {
    /// List what waits for an answer
    #[command(after_help = "Examples:
  airlock approvals list
  airlock approvals list --status closed
  airlock approvals list --all --json
  airlock approvals list --all --after 1f2e3d4c")]
    List {
        /// Answered and expired ones, too
        #[arg(long, conflicts_with = "status")]
        all: bool,
        /// Only those that stand so; default: open
        #[arg(long, value_enum)]
        status: Option<Standing>,
        /// The next page: go on after the last of the one before
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
    /// Show one request: what would be done, why it is asked, how risky it is
    #[command(after_help = "Example:
  airlock approvals show 1f2e3d4c")]
    Show {
        /// The request, or the end of its name
        id: String,
    },
    /// Say yes, at a terminal
    #[command(after_help = "Examples:
  airlock approvals approve 1f2e3d4c
  airlock approvals approve 1f2e3d4c --uses 5 --dir src
  airlock approvals approve 1f2e3d4c --verb --until 2h")]
    Approve(ApproveArgs),
    /// Say no, at a terminal
    #[command(after_help = "Example:
  airlock approvals deny 1f2e3d4c --because 'use the staging host'")]
    Deny(AnswerArgs),
    /// Leave it open, with a reason, at a terminal
    #[command(after_help = "Example:
  airlock approvals defer 1f2e3d4c --because 'after lunch'")]
    Defer(AnswerArgs),
    /// List what was approved and can still be used
    #[command(after_help = "Examples:
  airlock approvals grants
  airlock approvals grants --after 1f2e3d4c")]
    Grants {
        /// The next page: go on after the last of the one before
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
    /// Withdraw a grant
    #[command(after_help = "Example:
  airlock approvals revoke 1f2e3d4c")]
    Revoke {
        /// The grant, or the end of its name
        id: String,
    },
    /// Set or change the passphrase that policies may ask for, at a terminal
    #[command(after_help = "Example:
  airlock approvals passphrase")]
    Passphrase,
}

/// How requests stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Standing {
    /// They wait for an answer
    Open,
    /// They were approved, and can still be used
    Granted,
    /// They were denied, used up or withdrawn, or are over
    Closed,
}

impl Standing {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Granted => "granted",
            Self::Closed => "closed",
        }
    }

    /// That there are none.
    const fn none(self) -> &'static str {
        match self {
            Self::Open => "nothing waits for an answer",
            Self::Granted => "nothing is granted",
            Self::Closed => "nothing was answered, and nothing is over",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The request, or the end of its name
    id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    answer: AnswerArgs,
    /// For this one time; so it is without any condition
    #[arg(long, conflicts_with = "uses")]
    once: bool,
    /// For so many uses
    #[arg(long, value_name = "N")]
    uses: Option<u32>,
    /// Until then: a span such as 2h, or a time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// For the same on any path in this directory of the workspace
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,
    /// For the same syscall, whatever its paths or command
    #[arg(long)]
    verb: bool,
    /// For the same host
    #[arg(long)]
    host: bool,
}

pub(super) fn run(global: &Global, command: Arguments, output: &mut Output) -> Ending {
    match command {
        Arguments::List { all, status, after } => {
            let status = status.unwrap_or(Standing::Open);
            let status = (!all).then_some(status);
            list(global, status, after.as_deref(), output)
        }
        Arguments::Show { id } => show_one(global, &id, output),
        Arguments::Approve(args) => answer::approve(global, &args, output),
        Arguments::Deny(args) => answer::deny(global, args, output),
        Arguments::Defer(args) => answer::defer(global, args, output),
        Arguments::Grants { after } => {
            list(global, Some(Standing::Granted), after.as_deref(), output)
        }
        Arguments::Revoke { id } => revoke(global, &id, output),
        Arguments::Passphrase => passphrase(global, output),
    }
}

/// Asks the road for one question.
fn read(reach: &mut Reach<'_>, id: &str, output: &mut Output) -> Result<Value, Failure> {
    reach.value("approval.read", json!({ "approval": id }), output)
}

/// Lists a page of the questions that stand so, or of all of them.
fn list(
    global: &Global,
    status: Option<Standing>,
    after: Option<&str>,
    output: &mut Output,
) -> Ending {
    let asked = json!({ "status": status.map(Standing::as_str), "after": after });
    let found = Reach::new(global, output)?.value("approval.read", asked, output)?;
    let page = found.get("approvals").and_then(Value::as_array);
    let page: &[Value] = page.map_or(&[], Vec::as_slice);
    if page.is_empty() && !output.is_json() {
        output.note(match (status, after) {
            (_, Some(_)) => "nothing comes after that",
            (Some(status), None) => status.none(),
            (None, None) => "nothing was ever asked",
        });
    }
    for one in page {
        if output.is_json() {
            output.json(one);
        } else {
            output.line(show::line(one));
        }
    }
    let more = found.get("more").and_then(Value::as_u64).unwrap_or(0);
    if let Some(last) = page.last().filter(|_| more > 0 && !output.is_json()) {
        output.note(format!(
            "{more} more: go on with `--after {}`",
            text(last, "id")
        ));
    }
    Ok(0)
}

/// A text field of a value; empty where there is none.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn show_one(global: &Global, id: &str, output: &mut Output) -> Ending {
    let one = read(&mut Reach::new(global, output)?, id, output)?;
    if output.is_json() {
        output.json(&one);
    } else {
        for line in show::lines(&one) {
            output.line(line);
        }
    }
    Ok(0)
}

fn revoke(global: &Global, id: &str, output: &mut Output) -> Ending {
    let asked = json!({ "approval": id });
    let revoked = Reach::new(global, output)?.value("approval.revoke", asked, output)?;
    if output.is_json() {
        output.json(&revoked);
    } else {
        output.note(format!("grant {} is withdrawn", text(&revoked, "id")));
    }
    Ok(0)
}

/// Sets the passphrase: typed twice, after the old one.
fn passphrase(global: &Global, output: &mut Output) -> Ending {
    let kernel = open::kernel(global, output)?;
    let Some(mut terminal) = Terminal::open() else {
        return Err(nobody("a passphrase is set by a person")
            .fix("run `airlock approvals passphrase` in a terminal"));
    };
    let file = kernel.passphrase();
    let old = file
        .is_set()
        .then(|| terminal.secret("passphrase so far, to approve the change:"))
        .flatten();
    let failed = |error: airlock_state::PassphraseError| {
        Failure::of(Kind::Failed, &error).maybe_fix(error.hint())
    };
    if let Some(old) = &old {
        file.check(old).map_err(failed)?;
    }
    let new = terminal
        .secret("new passphrase, to approve with:")
        .unwrap_or_default();
    let again = terminal
        .secret("the same again, to approve with:")
        .unwrap_or_default();
    if new != again {
        return Err(Failure::new(Kind::Failed, "the two are not the same")
            .fix("nothing was changed; run the command again"));
    }
    let leave = Call::new("approval.passphrase", json!({}));
    outcome::done(kernel.submit(Front::Cli, &leave))?;
    file.set(old.as_deref(), &new).map_err(failed)?;
    output.note(styled(Tone::Good, "the passphrase is set"));
    Ok(0)
}

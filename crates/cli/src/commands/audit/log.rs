//! `airlock audit log`: records, filtered, newest last; `--follow` goes on as they arrive.

use super::{read_failure, when};
use crate::args::LogArgs;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, styled};
use crate::terminal::Watch;
use airlock_audit::{EventType, Filter, Log, ReadError, Record, Stage};
use airlock_core::{Timestamp, closest};
use airlock_kernel::Kernel;
use std::time::Duration;

/// How often `--follow` looks again: soon enough for a person, rarely enough to cost nothing.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn run(kernel: &Kernel, args: &LogArgs, output: &mut Output) -> Ending {
    let log = kernel.log();
    // An interrupt is how a person ends it: the log is closed as after any command.
    let watch = args.follow.then(Watch::begin).transpose();
    let watch = watch.map_err(Failure::unwatched)?;
    let filter = filter(args, kernel.clock().now())?;
    // What comes later is for following, whether or not anything matches until then.
    let mut seen = head(log)?;
    let newest = Filter {
        last: Some(seen),
        newest_first: true,
        limit: Some(args.limit as u64),
        ..filter.clone()
    };
    let mut damaged = Damaged::default();
    let mut records = Vec::new();
    for record in log.read(newest).map_err(|error| read_failure(&error))? {
        records.extend(damaged.pass(record)?);
    }
    records.reverse();
    for record in &records {
        show(record, output);
    }
    if !args.follow && records.is_empty() && !output.is_json() {
        output.note("no record matches");
    }
    if args.follow {
        damaged.tell(output);
    }
    while let Some(watch) = &watch
        && !output.is_closed()
    {
        std::thread::sleep(PAUSE);
        if watch.last().is_some() {
            break;
        }
        let last = head(log)?;
        let new = Filter {
            last: Some(last),
            ..filter.clone()
        };
        for record in log
            .follow(seen, new)
            .map_err(|error| read_failure(&error))?
        {
            if let Some(record) = damaged.pass(record)? {
                show(&record, output);
            }
            damaged.tell(output);
        }
        seen = last;
    }
    damaged.end()
}

/// Records that cannot be read: they keep nobody from those that can.
#[derive(Default)]
struct Damaged {
    first: Option<ReadError>,
    more: u64,
}

impl Damaged {
    /// Notes a record that cannot be read; anything else that is wrong ends the reading.
    fn pass(&mut self, record: Result<Record, ReadError>) -> Result<Option<Record>, Failure> {
        match record {
            Ok(record) => Ok(Some(record)),
            Err(error @ ReadError::Record { .. }) => {
                if self.first.is_none() {
                    self.first = Some(error);
                } else {
                    self.more += 1;
                }
                Ok(None)
            }
            Err(error) => Err(read_failure(&error)),
        }
    }

    /// Says so now, and not again.
    fn tell(&mut self, output: &mut Output) {
        if let Some(first) = std::mem::take(self).first {
            output.warning(&first.to_string());
        }
    }

    /// What was shown is not all there is.
    fn end(self) -> Ending {
        let Some(first) = self.first else {
            return Ok(0);
        };
        let failure = read_failure(&first);
        Err(match self.more {
            0 => failure,
            more => failure.why(format!("nor can {} more", count(more, "record"))),
        })
    }
}

/// The number of the last record.
fn head(log: &Log) -> Result<u64, Failure> {
    let newest = Filter {
        newest_first: true,
        limit: Some(1),
        ..Filter::default()
    };
    let mut records = log.read(newest).map_err(|error| read_failure(&error))?;
    match records.next() {
        None => Ok(0),
        Some(Ok(record)) => Ok(record.sealed.seq()),
        Some(Err(ReadError::Record { seq, .. })) => Ok(seq),
        Some(Err(error)) => Err(read_failure(&error)),
    }
}

fn filter(args: &LogArgs, now: Timestamp) -> Result<Filter, Failure> {
    let time = |text: &Option<String>| {
        text.as_deref()
            .map(|text| when::parse(text, now))
            .transpose()
    };
    Ok(Filter {
        session: args.session.clone(),
        event: args.event.as_deref().map(event).transpose()?,
        verdict: args.decision.as_deref().map(verdict).transpose()?,
        plugin: args.plugin.clone(),
        path: args.path.clone(),
        host: args.host.clone(),
        since: time(&args.since)?,
        until: time(&args.until)?,
        text: args.text.clone(),
        ..Filter::default()
    })
}

fn event(name: &str) -> Result<EventType, Failure> {
    EventType::ALL
        .iter()
        .copied()
        .find(|event| event.as_str() == name)
        .ok_or_else(|| {
            unknown(
                "event type",
                name,
                EventType::ALL.iter().map(|e| e.as_str()),
            )
        })
}

fn verdict(name: &str) -> Result<String, Failure> {
    let known = ["allow", "deny", "require_review"];
    if known.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(unknown("decision", name, known))
    }
}

fn unknown<'a>(
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Failure {
    let fix = match closest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "use one of {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        ),
    };
    let name = airlock_kernel::sanitise_line(name, 60);
    Failure::new(Kind::Usage, format!("unknown {kind} `{name}`")).fix(fix)
}

fn show(record: &Record, output: &mut Output) {
    if output.is_json() {
        output.json(&super::show::json(record));
        return;
    }
    output.line(line(record));
}

/// One record on one line: number, time, event, what, decision.
fn line(record: &Record) -> String {
    let entry = &record.entry;
    let seq = styled(Tone::Faint, &format!("{:>6}", record.sealed.seq()));
    let stage = match entry.stage {
        Stage::Attempt => ">",
        Stage::Outcome => "<",
        Stage::Note => "-",
    };
    // A log somebody else wrote to is still shown on this person's terminal.
    let syscall = entry.syscall.as_deref().unwrap_or("-");
    let syscall = airlock_kernel::sanitise_line(syscall, 40);
    let mut parts = vec![
        seq,
        when::show(entry.time),
        format!("{stage} {:<16}", entry.event.as_str()),
        format!("{:<12}", syscall),
    ];
    if let Some(decision) = &entry.decision {
        let tone = match decision.verdict.as_str() {
            "allow" => Tone::Good,
            "deny" => Tone::Bad,
            _ => Tone::Warn,
        };
        parts.push(styled(tone, &decision.verdict));
    }
    let paths = entry.request.iter().flat_map(|request| &request.paths);
    parts.extend(
        paths
            .take(3)
            .map(|path| airlock_kernel::sanitise_line(path.as_str(), 80)),
    );
    for name in [
        "capability",
        "result",
        "failed",
        "refused",
        "answer",
        "place",
        "flags",
    ] {
        let value = entry.metadata.get(name);
        parts.extend(value.map(|value| airlock_kernel::sanitise_line(value, 80)));
    }
    if let (Some(from), Some(to)) = (entry.metadata.get("from"), entry.metadata.get("to")) {
        let moved = format!("{from} -> {to}");
        parts.push(airlock_kernel::sanitise_line(&moved, 80));
    }
    if entry.stage == Stage::Note {
        let sandbox = entry.sandbox.as_ref();
        parts.extend(sandbox.map(|sandbox| airlock_kernel::sanitise_line(sandbox.as_str(), 80)));
    }
    parts.join("  ").trim_end().to_owned()
}

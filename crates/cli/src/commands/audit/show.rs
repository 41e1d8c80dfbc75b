//! `airlock audit show`: one record, whole.

use super::{read_failure, when};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_audit::{Filter, Record};
use airlock_kernel::{Kernel, strip_control};
use serde_json::{Value, json};

pub(super) fn run(kernel: &Kernel, seq: u64, output: &mut Output) -> Ending {
    let filter = Filter {
        first: Some(seq),
        last: Some(seq),
        ..Filter::default()
    };
    let mut records = kernel
        .log()
        .read(filter)
        .map_err(|error| read_failure(&error))?;
    let record = match records.next() {
        Some(record) => record.map_err(|error| read_failure(&error))?,
        None => {
            return Err(
                Failure::new(Kind::Failed, format!("there is no record {seq}"))
                    .fix("`airlock audit log` lists the newest records with their numbers"),
            );
        }
    };
    if output.is_json() {
        output.json(&json(&record));
        return Ok(0);
    }
    output.line(format!(
        "{} {} at {}",
        styled(Tone::Heading, &format!("record {seq}")),
        record.entry.event.as_str(),
        when::show(record.entry.time)
    ));
    if let Value::Object(fields) = json(&record) {
        for (name, value) in fields {
            let text = match value.as_str() {
                Some(text) => text.to_owned(),
                None => serde_json::to_string_pretty(&value).unwrap_or_default(),
            };
            let text = strip_control(&text);
            let text = text.lines().collect::<Vec<_>>().join("\n    ");
            output.line(format!("  {}: {text}", styled(Tone::Label, &name)));
        }
    }
    Ok(0)
}

/// A record with its place in the chain, as one JSON object.
pub(super) fn json(record: &Record) -> Value {
    let mut value = json!({
        "seq": record.sealed.seq(),
        "at": when::show(record.entry.time),
        "previous": record.sealed.previous(),
        "digest": record.sealed.digest(),
    });
    if let (Some(object), Ok(Value::Object(entry))) =
        (value.as_object_mut(), serde_json::to_value(&record.entry))
    {
        object.extend(entry);
    }
    value
}

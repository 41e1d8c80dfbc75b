//! `airlock audit show`: one record, whole.

use super::{read_failure, when};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_audit::{Filter, Record};
use airlock_core::Digest;
use airlock_kernel::{Kernel, strip_control};
use serde_json::{Value, json};

pub(super) fn run(kernel: &Kernel, seq: u64, content: bool, output: &mut Output) -> Ending {
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
    let mut shown = json(&record);
    if content && let Some(fields) = shown.as_object_mut() {
        fields.insert("content".to_owned(), contents(kernel, &record)?);
    }
    if output.is_json() {
        output.json(&shown);
        return Ok(0);
    }
    output.line(format!(
        "{} {} at {}",
        styled(Tone::Heading, &format!("record {seq}")),
        record.entry.event.as_str(),
        when::show(record.entry.time)
    ));
    if let Value::Object(fields) = shown {
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

/// Whole arguments and result, as far as the record names them.
fn contents(kernel: &Kernel, record: &Record) -> Result<Value, Failure> {
    let mut found = serde_json::Map::new();
    for (name, shown) in [("content_input", "input"), ("content_output", "output")] {
        let digest = record.entry.metadata.get(name);
        let Some(Ok(digest)) = digest.map(|digest| digest.parse::<Digest>()) else {
            continue;
        };
        let text = kernel.content(digest).map_err(|error| {
            Failure::new(Kind::Failed, format!("the {shown} of this call is not kept any more"))
                .why(error.to_string())
                .fix("contents go with the age and size of the log: `audit` in the policy says how much is kept")
        })?;
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        found.insert(shown.to_owned(), value);
    }
    if found.is_empty() {
        return Err(Failure::new(
            Kind::Failed,
            "this record has no content beside its summaries",
        )
        .fix("contents are kept where the policy says `audit: { keep_content: true }`"));
    }
    Ok(Value::Object(found))
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

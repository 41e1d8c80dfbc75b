//! The formats for other tools: what they look like, and that hostile text stays text.

use crate::common::{LOG, at, entry, header};
use airlock_audit::{DecisionSummary, Entry, EventType, ExportFormat, Exporter, Head, Stage, seal};
use serde_json::Value;

fn write(format: ExportFormat, entries: &[Entry]) -> String {
    let mut head = Head::genesis(&LOG);
    let header = header(head, entries.len() as u64);
    let mut exporter = Exporter::new(Vec::new(), format, header).unwrap();
    for entry in entries {
        let sealed = seal(&head, entry).unwrap();
        exporter.record(sealed.stored()).unwrap();
        head = sealed.head();
    }
    String::from_utf8(exporter.finish().unwrap()).unwrap()
}

fn ocsf(entry: &Entry) -> Value {
    serde_json::from_str(&write(ExportFormat::Ocsf, std::slice::from_ref(entry))).unwrap()
}

#[test]
fn a_record_in_each_format_looks_like_this() {
    let entries = [entry(1)];
    insta::assert_snapshot!("csv", write(ExportFormat::Csv, &entries));
    insta::assert_json_snapshot!("ocsf", ocsf(&entries[0]));
}

#[test]
fn every_ocsf_event_has_what_its_class_requires() {
    for event in EventType::ALL {
        let value = ocsf(&Entry::new(at(1), *event, Stage::Note));
        let required = match value["class_uid"].as_u64().unwrap() {
            6002 => vec!["app"],
            _ => vec!["actor", "api", "src_endpoint"],
        };
        let common = [
            "activity_id",
            "category_uid",
            "metadata",
            "severity_id",
            "time",
        ];
        for name in required.into_iter().chain(common) {
            assert!(!value[name].is_null(), "{event:?} lacks {name}");
        }
        let type_uid = value["class_uid"].as_u64().unwrap() * 100;
        let type_uid = type_uid + value["activity_id"].as_u64().unwrap();
        assert_eq!(value["type_uid"], type_uid, "{event:?}");
        assert_eq!(value["metadata"]["version"], "1.3.0");
    }
}

#[test]
fn ocsf_says_what_was_asked_and_what_came_of_it() {
    for (syscall, verdict, stage, activity, status, action) in [
        ("fs.read", "allow", Stage::Outcome, 2, 1, 1),
        ("fs.read", "allow", Stage::Attempt, 2, 0, 1),
        ("fs.write", "deny", Stage::Attempt, 3, 2, 2),
        ("fs.delete", "deny", Stage::Attempt, 4, 2, 2),
        ("fs.move", "require_review", Stage::Attempt, 3, 0, 99),
        ("exec.run", "allow", Stage::Outcome, 99, 1, 1),
        ("no.such", "deny", Stage::Attempt, 99, 2, 2),
    ] {
        let mut entry = Entry::new(at(1), EventType::Syscall, stage);
        entry.syscall = Some(syscall.to_owned());
        entry.decision = Some(DecisionSummary {
            verdict: verdict.to_owned(),
            rules: Vec::new(),
            generation: String::new(),
        });
        let value = ocsf(&entry);
        let seen = ["activity_id", "status_id", "action_id"].map(|name| value[name].as_u64());
        let want = [Some(activity), Some(status), Some(action)];
        assert_eq!(seen, want, "{syscall} {verdict}");
        assert_eq!(value["api"]["operation"], syscall);
    }
}

#[test]
fn ocsf_tells_outcomes_apart_though_they_carry_no_verdict() {
    for (stage, note, status, word) in [
        (Stage::Outcome, None, 1, "Success"),
        (Stage::Outcome, Some("failed"), 2, "Failure"),
        (Stage::Outcome, Some("refused"), 2, "Failure"),
        (Stage::Outcome, Some("exit"), 1, "Success"),
        (Stage::Attempt, None, 0, "Unknown"),
        (Stage::Attempt, Some("failed"), 2, "Failure"),
        (Stage::Note, None, 0, "Unknown"),
        (Stage::Note, Some("failed"), 0, "Unknown"),
    ] {
        let mut entry = Entry::new(at(1), EventType::Syscall, stage);
        let noted = note.map(|name| (name.to_owned(), "not_found".to_owned()));
        entry.metadata.extend(noted);
        let value = ocsf(&entry);
        assert_eq!(
            (value["status_id"].as_u64(), value["status"].as_str()),
            (Some(status), Some(word)),
            "{stage:?} {note:?}"
        );
    }
}

#[test]
fn every_csv_row_has_the_same_cells_whatever_the_text() {
    let mut hostile = Entry::new(at(1), EventType::Syscall, Stage::Note);
    hostile.reason = Some("=1+1\",\"\r\nforged,row".to_owned());
    hostile.metadata.insert("a\",b".to_owned(), "\n".to_owned());
    let table = write(ExportFormat::Csv, &[hostile, entry(3)]);
    let rows = rows(&table);
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row.len(), rows[0].len(), "{row:?}");
    }
    let reason = rows[0].iter().position(|name| name == "reason").unwrap();
    assert_eq!(rows[1][reason], "'=1+1\",\"\r\nforged,row");
}

/// A reader of RFC 4180, to read back what was written.
fn rows(table: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = table.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '"' if quoted && rest.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {
                assert_eq!(rest.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(!quoted && row.is_empty() && cell.is_empty());
    rows
}

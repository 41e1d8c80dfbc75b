//! Memory stays flat however long the log is. Alone in its process, so that nothing else counts.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use airlock_audit::{
    Depth, Entry, EventType, ExportFormat, ExportHeader, Exporter, Head, LogId, Stage, Trust,
    Verifier, seal, verify_export,
};
use airlock_core::Timestamp;
use std::io::{self, BufReader, Read, Write};

const LOG: LogId = LogId::from_bytes([1; 16]);
const RECORDS: u64 = 8_000;

fn entry(seq: u64) -> Entry {
    let time = Timestamp::from_micros(i64::try_from(seq).unwrap());
    let mut entry = Entry::new(time, EventType::ToolResult, Stage::Outcome);
    entry.output = Some("x".repeat(2_000));
    entry
}

/// The largest this process has been, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line
        .expect("Linux reports the peak")
        .split_whitespace()
        .nth(1);
    number.unwrap().parse().unwrap()
}

/// What an exporter wrote since it was last asked.
#[derive(Clone, Default)]
struct Pipe(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An export that is made as it is read, so that only the verifier's own memory counts.
struct Endless {
    exporter: Exporter<Pipe>,
    pipe: Pipe,
    head: Head,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.pipe.0.borrow().is_empty() && self.head.seq < RECORDS {
            let sealed = seal(&self.head, &entry(self.head.seq)).unwrap();
            self.head = sealed.head();
            self.exporter.record(sealed.stored()).unwrap();
        }
        let mut written = self.pipe.0.borrow_mut();
        let count = written.as_slice().read(buffer)?;
        written.drain(..count);
        Ok(count)
    }
}

#[test]
fn verifying_tens_of_megabytes_takes_next_to_no_memory() {
    let start = Head::genesis(&LOG);
    let before = peak();
    let (log, last, key) = (LOG, RECORDS, None);
    let header = ExportHeader {
        log,
        start,
        last,
        key,
    };
    let pipe = Pipe::default();
    let exporter = Exporter::new(pipe.clone(), ExportFormat::Jsonl, header).unwrap();
    let head = start;
    let export = BufReader::new(Endless {
        exporter,
        pipe,
        head,
    });
    let (_, whole) = verify_export(export, Trust::default()).unwrap();
    assert_eq!(whole.records, RECORDS);

    let mut verifier = Verifier::new(LOG, start, Depth::Digests, Trust::default()).unwrap();
    let mut head = start;
    for seq in 0..RECORDS {
        let sealed = seal(&head, &entry(seq)).unwrap();
        head = sealed.head();
        verifier.push(sealed.stored()).unwrap();
    }
    assert_eq!(verifier.finish().unwrap().head, whole.head);

    let grown = peak() - before;
    assert!(
        grown < 8 * 1024,
        "memory grew by {grown} KiB over 32 MB of records"
    );
}

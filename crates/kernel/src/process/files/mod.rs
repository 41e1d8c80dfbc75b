//! `fs.write`, `fs.patch`, `fs.move` and `fs.delete`: changes to the stage, made by a worker of
//! Airlock's own inside a sandbox.
//!
//! Guarantee: the kernel itself writes nothing. The decision sees every path that is named and
//! where it really leads; the worker follows no symlink, so it changes those paths or nothing. A
//! file is replaced as a whole, keeps its mode, and, where the caller says what it takes it for, is
//! only replaced if it is that. What a worker wrote that was ended before a file was replaced goes
//! with the check of the stage.
//!
//! Non-guarantee: what lies in a directory that is moved or deleted is not among the decision's
//! paths. It is judged by the check of the stage that follows every run.

mod operation;
mod patch;
mod place;
mod target;
mod tools;
mod worker;
#[cfg(test)]
mod worker_tests;

pub use operation::Refusal;
pub(super) use place::is_draft;
pub(crate) use tools::{Delete, Move, Patch, Write};
pub use worker::serve_files;

use super::failure::ProcessFailure;
use super::ran::Ran;
use operation::{ANSWER_BYTES, Answer};
use serde_json::{Value, json};

/// What the worker said, as a result.
pub(super) fn answer(stdout: &str, ran: &Ran) -> Result<Value, ProcessFailure> {
    let lost = || {
        let how = ran.word();
        ProcessFailure::Sandbox(format!(
            "the file worker gave no answer: {how} {}",
            ran.exit()
        ))
    };
    if stdout.len() > ANSWER_BYTES {
        return Err(lost());
    }
    match serde_json::from_str(stdout).map_err(|_| lost())? {
        Answer::Done { files } => Ok(json!({
            "files": files,
            "stage": ran.stage,
            "put_back": ran.put_back,
        })),
        Answer::Refused(refusal) => Err(ProcessFailure::Files(refusal)),
    }
}

/// What `patch` makes of the file `path`, which holds `old`; none if it does not fit or is about
/// more than that file alone.
pub(crate) fn patched(text: &str, path: &str, old: &str) -> Option<String> {
    let files = patch::parse(text).ok()?;
    let about = |name: &Option<String>| name.as_deref() == Some(path);
    let file = files.iter().find(|file| about(&file.to))?;
    (about(&file.from) || file.from.is_none())
        .then(|| patch::apply(old, &file.hunks).ok())
        .flatten()
}

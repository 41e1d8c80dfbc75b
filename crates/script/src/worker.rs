//! The worker: confines itself, loads one script, then answers requests until its input ends.
//!
//! Guarantee: no byte of the script is looked at before `confine` succeeded. Everything after that
//! needs memory, the monotonic clock and the two open descriptors, and nothing else of the system.

use crate::engine::Engine;
use crate::erase::erase;
use crate::problem::Problem;
use crate::wire::{Load, Loaded, read_frame, write_frame};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::time::Duration;

/// How often a script may be too slow to load before it is refused.
const LOAD_TRIES: usize = 3;

/// How serving ended, without error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// The host closed the input.
    Closed,
    /// The script could not be used, and the host was told why.
    Refused,
}

/// Why a worker ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The host cannot be heard or told.
    #[error("the worker lost its host")]
    Pipe(#[from] io::Error),
    /// What the host sent is no script.
    #[error("the host sent no script first")]
    NotLoaded(#[from] serde_json::Error),
    /// The worker could not confine itself. Nothing was run.
    #[error("the worker cannot confine itself")]
    Confine(#[source] io::Error),
}

/// Serves one script over `input` and `output`.
///
/// `confine` is called once, after the first frame arrived and before it is looked at; it must
/// restrict the calling thread, on which everything runs. If it fails nothing is run.
pub fn serve(
    mut input: impl Read,
    mut output: impl Write,
    confine: impl FnOnce() -> io::Result<()>,
) -> Result<Served, ServeError> {
    let Some(first) = read_frame(&mut input)? else {
        return Ok(Served::Closed);
    };
    if let Err(error) = confine() {
        say(&mut output, &Loaded::Unconfined(error.to_string()))?;
        return Err(ServeError::Confine(error));
    }
    let load: Load = serde_json::from_slice(&first)?;
    drop(first);
    let erased = erase(&load.file, &load.source, load.language);
    let limit = Duration::from_micros(load.limit_micros);
    let mut engine = match erased {
        Ok(source) => Engine::new(&load.file, source, limit),
        Err(problem) => return refuse(&mut output, problem),
    };
    drop(load);
    // A script refused for its time stays refused, so one slow moment must not be enough.
    for _ in 0..LOAD_TRIES {
        engine.prepare();
        if !engine.is_late() {
            break;
        }
    }
    if let Some(problem) = engine.problem() {
        return refuse(&mut output, problem);
    }
    say(&mut output, &Loaded::Ready)?;
    while let Some(request) = read_frame(&mut input)? {
        say(&mut output, &engine.judge(&request))?;
        engine.prepare();
    }
    Ok(Served::Closed)
}

fn refuse(output: &mut impl Write, problem: Problem) -> Result<Served, ServeError> {
    say(output, &Loaded::Refused(problem))?;
    Ok(Served::Refused)
}

fn say(output: &mut impl Write, message: &impl Serialize) -> Result<(), ServeError> {
    Ok(write_frame(output, &serde_json::to_vec(message)?)?)
}

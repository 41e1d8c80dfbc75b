//! `airlock exec` in the small program: handed to the kernel that runs, if it plainly can be.
//!
//! Guarantee: whatever is not done here to the end is handed on to the whole program: as it is, where no
//! command was begun, or with what the kernel answered, so that none is run twice. What there is to be said
//! of a command, the whole program says.
//!
//! Not guaranteed: that a signal sent while the whole program is loaded, when the command is over, leaves
//! it the time to say so.

use super::ahead::Hail;
use super::passing::Passing;
use super::running::{self, There, heard};
use super::sinks::Captured;
use super::{Target, report};
use crate::args::{Cli, ExecArgs, Global};
use crate::commands::open;
use crate::config::{Config, is_plain_variable};
use crate::failure::{Ending, Failure, Kind};
use crate::output::Output;
use crate::place::{Place, environment};
use airlock_kernel::Outcome;
use airlock_service::{CallResult, FRAME_BYTES, Program};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// How far the small program came with a command line.
pub(crate) enum Small {
    /// To its end, which is this exit code.
    Done(u8),
    /// The command ran, and something is to be said of it.
    Ran(Handed),
    /// Nothing was done.
    Untouched,
}

/// What the whole program has to know of a command that ran.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handed {
    call: Value,
    answer: Result<Value, Unanswered>,
    passing: Passing,
}

/// Why there is no answer.
#[derive(Debug, Serialize, Deserialize)]
struct Unanswered {
    what: String,
    why: Vec<String>,
    fix: Vec<String>,
}

impl Small {
    /// Does what `line` says, as far as that can be done by asking a kernel that the program at `whole`
    /// opened.
    pub(crate) fn of(line: &[OsString], whole: &Path) -> Self {
        // Others say where one is, or were mistyped.
        if !environment().keys().all(|name| is_plain_variable(name)) {
            return Self::Untouched;
        }
        // Those have the whole program say everything, and nobody is greeted for nothing.
        let spoken = |word: &OsString| word == "--json" || word == "--tty";
        if line.iter().take_while(|word| *word != "--").any(spoken) {
            return Self::Untouched;
        }
        let Some(hail) = Hail::of(line) else {
            return Self::Untouched;
        };
        let Some((_, args)) = Cli::read_exec(line) else {
            return Self::Untouched;
        };
        Self::ran(&args, hail, whole).unwrap_or(Self::Untouched)
    }

    /// A failure is one from before anything was asked.
    fn ran(args: &ExecArgs, hail: Hail, whole: &Path) -> Result<Self, Failure> {
        let Ok(config) = Config::gather(&hail.place, None, None) else {
            return Ok(Self::Untouched);
        };
        let Some(there) = There::found(hail, &config, || Program::at(whole)) else {
            return Ok(Self::Untouched);
        };
        let put = there.put(args, false)?;
        let (call, told) = (put.call.clone(), put.answer.as_ref().ok().cloned());
        let (heard, passing) = (heard(put.answer, &call), put.passing);
        Ok(match heard {
            Ok(None) => Self::Untouched,
            Ok(Some(result)) => match silent(&result, &passing) {
                Some(exit) => Self::Done(exit),
                None => Self::Ran(Handed {
                    call,
                    answer: Ok(told.unwrap_or_default()),
                    passing,
                }),
            },
            Err(failure) => Self::Ran(Handed {
                call,
                answer: Err(Unanswered::of(&failure)),
                passing,
            }),
        })
    }
}

/// The exit code of a command of which there is nothing to be said.
fn silent(result: &CallResult, passing: &Passing) -> Option<u8> {
    let standing = result.untrusted || result.broken.is_some();
    let Outcome::Done(done) = &result.outcome else {
        return None;
    };
    let ran = done.ran.as_deref()?;
    let silent = !standing && *passing == Passing::default() && report::is_silent(ran);
    silent.then(|| ran.exit())
}

impl Handed {
    /// Makes it what this process reads as standard input, which no command needs any more.
    pub(crate) fn hand_on(&self) -> io::Result<()> {
        let mut file = File::from(memfd_create("handed", MemfdFlags::CLOEXEC)?);
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        file.rewind()?;
        Ok(rustix::stdio::dup2_stdin(&file)?)
    }

    fn taken() -> io::Result<Self> {
        // No answer is longer than a frame, nor a call; what they are in as text is a little more.
        let most = 4 * u64::try_from(*FRAME_BYTES.end()).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Says in the whole program what came of a command that ran.
pub(super) fn tell(global: &Global, args: &ExecArgs, output: &mut Output) -> Ending {
    let handed = Handed::taken().map_err(|error| {
        Failure::new(Kind::Usage, "there is nothing to say of a command")
            .why(error)
            .fix("only `airlock` itself calls this; run a command by `airlock exec -- COMMAND`")
    })?;
    let place = Place::find(global.workspace.as_deref());
    if let Ok(config) = place.and_then(|place| open::configuration(global, &place)) {
        open::apply_color(&config);
    }
    let answer = handed.answer.map_err(Unanswered::failure)?;
    let result = heard(Ok(answer), &handed.call)?
        .ok_or_else(|| Failure::new(Kind::NeedsReview, "the command waits for a person"))?;
    let nothing = Target::Captured(Captured::new(0), Captured::new(0));
    running::tell(result, args, (&nothing, &handed.passing), output)
}

impl Unanswered {
    fn of(failure: &Failure) -> Self {
        let owned = |text: &str| text.to_owned();
        Self {
            what: failure.what().to_owned(),
            why: failure.reasons().map(owned).collect(),
            fix: failure.fixes().map(owned).collect(),
        }
    }

    fn failure(self) -> Failure {
        let failure = Failure::new(Kind::Failed, self.what);
        let failure = self.why.into_iter().fold(failure, Failure::why);
        self.fix.into_iter().fold(failure, Failure::fix)
    }
}

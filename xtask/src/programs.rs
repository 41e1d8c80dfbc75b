//! Test programs: cargo builds them and knows how each is run, and two of them run at a time.
//!
//! Cargo itself runs one after the other, and most end with a test that only waits. So it is told to
//! run each by `xtask note-test FILE`, which does not run it but writes down what, where and with
//! which environment; then [`Programs::run`] does.

use crate::shell::{Failure, command, complain, here, say, whole_environment};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The subcommand cargo runs test programs by.
pub(crate) const NOTE: &str = "note-test";

/// How many run at once. A program has as many tests at work as there are processors; with a second
/// one nobody waits for the last test of the first.
const AT_ONCE: usize = 2;

/// Those that take longest begin first, so that none of them is alone in the end.
const LONGEST: &[&str] = &["tools", "cli", "served", "plugins", "crash"];

/// How one test program is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    directory: OsString,
    /// The program first.
    line: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// What a program's run gave.
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) output: String,
    pub(crate) status: ExitStatus,
    pub(crate) seconds: f64,
}

/// What cargo is told, so that programs are written down in `file` by `noting`, this very program.
pub(crate) fn runner(noting: &Path, file: &Path) -> String {
    let words = [noting.as_os_str(), OsStr::new(NOTE), file.as_os_str()];
    let quoted = words.map(|word| format!("{:?}", word.to_string_lossy()));
    format!("target.'cfg(all())'.runner=[{}]", quoted.join(", "))
}

/// Writes down, as the last entry of the file named first, how this process was told to run a
/// program, which follows.
pub(crate) fn note(arguments: &[String]) -> Result<(), Failure> {
    let Some((file, line)) = arguments.split_first().filter(|(_, line)| !line.is_empty()) else {
        return Err(Failure::usage(format!("{NOTE} is for cargo to call")));
    };
    let failed = |error: io::Error| Failure::new(format!("cannot write {file}: {error}"));
    let program = Program {
        directory: here().map_err(failed)?.into_os_string(),
        line: line.iter().map(OsString::from).collect(),
        environment: whole_environment(),
    };
    // For nobody else to read: an environment has secrets.
    let noted = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(file);
    noted
        .and_then(|mut noted| noted.write_all(&program.written()))
        .map_err(failed)
}

impl Program {
    /// Fields that are never empty, each ended by a zero, and one more at the end.
    fn written(&self) -> Vec<u8> {
        let count = OsString::from(self.line.len().to_string());
        let variables = self.environment.iter().map(|(name, value)| {
            let mut both = name.clone();
            both.push("=");
            both.push(value);
            both
        });
        let fields = [self.directory.clone(), count].into_iter();
        let fields = fields.chain(self.line.iter().cloned()).chain(variables);
        let mut bytes = Vec::new();
        for field in fields {
            bytes.extend_from_slice(field.as_bytes());
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    fn read<'a>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let directory = fields.next().filter(|field| !field.is_empty()).map(text)?;
        let count = fields.next().map(String::from_utf8_lossy)?.parse().ok()?;
        let line: Vec<OsString> = fields.by_ref().take(count).map(text).collect();
        let variables = fields.take_while(|field| !field.is_empty());
        let environment = variables.filter_map(|field| {
            let at = field.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (field.get(..at)?, field.get(at + 1..)?);
            Some((text(name), text(value)))
        });
        Some(Self {
            directory,
            environment: environment.collect(),
            line,
        })
    }

    /// Its name without what cargo adds to tell builds apart.
    fn name(&self) -> String {
        let path = self.line.first().map_or(Path::new(""), Path::new);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match name.rsplit_once('-') {
            Some((name, _)) => name.to_owned(),
            None => name.into_owned(),
        }
    }

    /// Runs it to its end; what it says goes to `output`.
    fn run(&self, output: &Path) -> io::Result<Ran> {
        let said = File::create(output)?;
        let (program, arguments) = self.line.split_first().ok_or(io::ErrorKind::NotFound)?;
        let begun = Instant::now();
        let status = command(program)
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .status()?;
        let seconds = begun.elapsed().as_secs_f64();
        let output = std::fs::read(output)?;
        Ok(Ran {
            name: self.name(),
            output: String::from_utf8_lossy(&output).into_owned(),
            status,
            seconds,
        })
    }
}

/// The programs that were written down, in the order they are begun.
pub(crate) struct Programs(VecDeque<Program>);

impl Programs {
    /// Reads what [`note`] wrote, and takes it away.
    pub(crate) fn take(file: &Path) -> Result<Self, Failure> {
        let noted = std::fs::read(file)
            .and_then(|noted| std::fs::remove_file(file).map(|()| noted))
            .map_err(|error| Failure::new(format!("cargo ran no test program: {error}")))?;
        Ok(Self::of(&noted))
    }

    fn of(noted: &[u8]) -> Self {
        let mut fields = noted.split(|byte| *byte == 0);
        let mut all: Vec<Program> = std::iter::from_fn(|| Program::read(&mut fields)).collect();
        all.sort_by_key(|program| {
            let name = program.name();
            let place = LONGEST.iter().position(|longest| *longest == name);
            place.unwrap_or(LONGEST.len())
        });
        Self(all.into())
    }

    /// Runs all, and tells `done` of each in the order they end.
    pub(crate) fn run(self, place: &Path, done: impl FnMut(Ran) + Send) -> Result<(), Failure> {
        let (waiting, done) = (Mutex::new(self.0), Mutex::new(done));
        let unrun = Mutex::new(Vec::new());
        let lone = |number: usize| {
            let output = place.join(format!("test-output-{number}"));
            loop {
                let next = locked(&waiting).pop_front();
                let Some(program) = next else { break };
                match program.run(&output) {
                    Ok(ran) => locked(&done)(ran),
                    Err(error) => {
                        complain(&format!("error: cannot run {}: {error}", program.name()));
                        locked(&unrun).push(program.name());
                    }
                }
            }
            // What is left of it is only in the way.
            let _gone = std::fs::remove_file(&output);
        };
        std::thread::scope(|scope| {
            for number in 0..AT_ONCE {
                let lone = &lone;
                scope.spawn(move || lone(number));
            }
        });
        let unrun = unrun.into_inner().unwrap_or_else(PoisonError::into_inner);
        if unrun.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("not run: {}", unrun.join(", "))))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ran {
    /// Shows what it said, and how long that took.
    pub(crate) fn show(&self) {
        say(&format!("     Ran {} in {:.1} s", self.name, self.seconds));
        say(self.output.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &str) -> Program {
        Program {
            directory: "/a b".into(),
            line: vec![path.into(), "--quiet".into()],
            environment: vec![
                ("EMPTY".into(), "".into()),
                ("LINES".into(), "a\nb=c".into()),
            ],
        }
    }

    #[test]
    fn what_is_written_down_is_read_again_longest_first() {
        let (short, long) = (program("/t/deps/policy-1f"), program("/t/deps/tools-2e"));
        let noted = [short.written(), long.written()].concat();
        let read = Programs::of(&noted).0;
        assert_eq!(read, [long, short]);
        assert!(Programs::of(b"").0.is_empty());
    }

    #[test]
    fn every_program_is_run_and_told_of() {
        let place = std::env::temp_dir().join(format!("xtask-programs-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let shell = |script: &str| Program {
            directory: "/".into(),
            line: ["/bin/sh", "-c", script].map(OsString::from).into(),
            environment: vec![("WORD".into(), "said".into())],
        };
        let all = ["echo one $WORD", "echo two >&2; exit 3", "pwd"].map(shell);
        let mut ran = Vec::new();
        let run = Programs(all.into()).run(&place, |one| {
            ran.push((one.output.trim().to_owned(), one.status.code()));
        });
        run.unwrap();
        ran.sort();
        let want = [("/", Some(0)), ("one said", Some(0)), ("two", Some(3))];
        assert_eq!(ran, want.map(|(said, code)| (said.to_owned(), code)));
        let gone = Program {
            line: vec!["/no/such/program".into()],
            ..shell("")
        };
        let missing = Programs(VecDeque::from([gone])).run(&place, |_| {});
        assert!(missing.unwrap_err().to_string().contains("program"));
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn cargo_is_told_of_paths_with_blanks() {
        let told = runner(Path::new("/a b/xtask"), Path::new("/c/\"d\""));
        let want = r#"target.'cfg(all())'.runner=["/a b/xtask", "note-test", "/c/\"d\""]"#;
        assert_eq!(told, want);
    }
}

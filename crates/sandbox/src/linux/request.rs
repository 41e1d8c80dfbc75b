//! A command as init reads it: counts and texts in a sealed memory file.

use super::program::sealed;
use crate::launch::{Command, RunError};
use crate::plan::HostPath;
use rustix::fd::OwnedFd;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Where programs are looked for when the environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Writes `command` down for init.
pub(super) fn write(command: &Command, directory: &HostPath) -> Result<OwnedFd, RunError> {
    let bytes = encode(command, directory)?;
    let io = |source: io::Error| RunError::Io {
        what: "cannot hand over the command",
        source,
    };
    // Init maps it: nobody may shorten it under its feet.
    sealed(c"command", &bytes).map_err(io)
}

fn encode(command: &Command, directory: &HostPath) -> Result<Vec<u8>, RunError> {
    let program = command.arguments.first().filter(|text| !text.is_empty());
    let programs = candidates(program.ok_or(RunError::Empty)?, command);
    let environment: Vec<OsString> = command
        .environment
        .iter()
        .map(|(name, value)| {
            let mut text = name.clone();
            text.push("=");
            text.push(value);
            text
        })
        .collect();
    let directory = command.directory.as_ref().unwrap_or(directory);
    let mut bytes = Vec::new();
    for count in [programs.len(), command.arguments.len(), environment.len()] {
        let count = u32::try_from(count).map_err(|_| too_many())?;
        bytes.extend(count.to_le_bytes());
    }
    let texts = [directory.as_os_str()]
        .into_iter()
        .chain(programs.iter().map(OsString::as_os_str))
        .chain(command.arguments.iter().map(OsString::as_os_str))
        .chain(environment.iter().map(OsString::as_os_str));
    for text in texts {
        if text.as_bytes().contains(&0) {
            return Err(RunError::Nul);
        }
        bytes.extend(text.as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

fn too_many() -> RunError {
    RunError::Io {
        what: "cannot hand over the command",
        source: io::ErrorKind::ArgumentListTooLong.into(),
    }
}

/// The paths at which the program may be found inside. An empty part of `PATH` would mean the
/// working directory, which is the agent's: it means nothing here.
fn candidates(program: &OsStr, command: &Command) -> Vec<OsString> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    let path = command.environment.get(OsStr::new("PATH"));
    let path = path.map_or(USUAL_PATH.as_bytes(), |path| path.as_bytes());
    path.split(|byte| *byte == b':')
        .filter(|part| part.starts_with(b"/"))
        .map(|part| OsStr::from_bytes(&[part, b"/", program.as_bytes()].concat()).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(arguments: &[&str], path: Option<&str>) -> Command {
        let environment = path.map(|path| ("PATH".into(), path.into()));
        Command {
            arguments: arguments.iter().map(Into::into).collect(),
            environment: environment.into_iter().collect(),
            directory: None,
            lasting: false,
        }
    }

    #[test]
    fn a_program_without_a_slash_is_looked_for_in_absolute_parts_of_path_alone() {
        for (path, want) in [
            (None, vec!["/usr/local/bin/x", "/usr/bin/x", "/bin/x"]),
            (Some("/a:/b"), vec!["/a/x", "/b/x"]),
            (Some(":.:bin:/a"), vec!["/a/x"]),
            (Some(""), vec![]),
        ] {
            let command = command(&["x"], path);
            assert_eq!(candidates(OsStr::new("x"), &command), want, "{path:?}");
        }
        let command = command(&["./x"], Some("/a"));
        assert_eq!(candidates(OsStr::new("./x"), &command), ["./x"]);
    }

    #[test]
    fn what_cannot_be_said_to_the_kernel_is_refused() {
        let root = HostPath::new("/").unwrap();
        assert!(matches!(
            encode(&command(&[], None), &root),
            Err(RunError::Empty)
        ));
        assert!(matches!(
            encode(&command(&[""], None), &root),
            Err(RunError::Empty)
        ));
        let nul = command(&["a", "b\0c"], None);
        assert!(matches!(encode(&nul, &root), Err(RunError::Nul)));
    }
}

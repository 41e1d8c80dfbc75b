//! The command line that starts the kernel: as it is, or inside a container.
//!
//! Guarantee: an argument vector, never a shell line, and no setting can become a word of its own
//! or a part of another option. Which walls a container has is fixed here and no setting widens it:
//! no network, nothing mounted but workspace and state, no capabilities, no new privileges.
//! Non-guarantee: it sees the processes of the machine, because a kernel answers nobody whom the
//! operating system does not name to it, and names mean nothing from one process namespace to another.
//! In the machine's user namespace (docker's default) the files of the user's processes are so within
//! reach, by `/proc/PID/root`, unless AppArmor or SELinux keeps containers from that.

use crate::config::Config;
use crate::problem::Problem;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Engines whose command lines are alike, in the order they are looked for.
const KNOWN: [&str; 2] = ["podman", "docker"];
/// What every container gets.
const WALLS: &str = "run --rm --interactive --pull=never --network=none --pid=host --read-only \
    --cap-drop=ALL --security-opt=no-new-privileges --pids-limit=256 --memory=1g --memory-swap=1g \
    --tmpfs=/tmp:rw,noexec,nosuid,nodev,size=64m --entrypoint=airlock";
/// What every kernel is told.
const KERNEL: &str = "kernel --foreground --until-closed --idle=0s";

/// What to run, and the arguments with which the same program ends a container.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) kill: Option<[OsString; 2]>,
}

/// The command line for `config`; `number` tells one start from the next.
pub(crate) fn line(config: &Config, number: u32) -> Result<Line, Problem> {
    let mut kernel: Vec<OsString> = KERNEL.split(' ').map(OsString::from).collect();
    kernel.push(joined("--workspace=", config.workspace.as_os_str()));
    let Some(program) = find(config)? else {
        let program = config.kernel.clone();
        return Ok(Line { program, arguments: kernel, kill: None });
    };
    let name: OsString = format!("airlock-kernel-{}-{number}", std::process::id()).into();
    let mut arguments = walls(config, &name, program.ends_with("podman"))?;
    arguments.extend(kernel);
    let kill = Some(["kill".into(), name]);
    Ok(Line { program, arguments, kill })
}

fn walls(config: &Config, name: &OsStr, is_podman: bool) -> Result<Vec<OsString>, Problem> {
    let image = config.image.as_bytes();
    if image.is_empty() || image.starts_with(b"-") {
        return Err(unusable("image", &config.image));
    }
    // Without it, the container's own default would be root.
    let own = std::fs::metadata("/proc/self").map_err(|_| unusable("user", OsStr::new("?")))?;
    let mut words: Vec<OsString> = WALLS.split(' ').map(OsString::from).collect();
    words.push(format!("--user={}:{}", own.uid(), own.gid()).into());
    // Without root, its numbers inside are other users' outside unless it is told to keep them.
    if is_podman && own.uid() != 0 {
        words.push("--userns=keep-id".into());
    }
    words.push(joined("--name=", name));
    words.push(joined("--env=XDG_STATE_HOME=", config.state.as_os_str()));
    words.push(joined("--workdir=", config.workspace.as_os_str()));
    for path in [&config.workspace, &config.state] {
        // Engines read the option as a row of a table, in which these characters mean something.
        let odd = |byte: &u8| b",\"\\:".contains(byte) || byte.is_ascii_control();
        if path.as_os_str().as_bytes().iter().any(odd) {
            return Err(unusable("path", path.as_os_str()));
        }
        let source = joined("--mount=type=bind,source=", path.as_os_str());
        words.push(joined(&format!("{},target=", source.display()), path.as_os_str()));
    }
    words.push(config.image.clone());
    Ok(words)
}

fn unusable(kind: &str, value: &OsStr) -> Problem {
    let what = format!("the {kind} `{}` cannot be given to an engine", value.display());
    Problem::config(what, "use names without commas, colons, quotes or a dash in front")
}

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(option);
    word.push(value);
    word
}

/// The engine's program; none if the kernel is a plain process.
fn find(config: &Config) -> Result<Option<PathBuf>, Problem> {
    let names = match config.engine.to_str() {
        Some("none") => return Ok(None),
        Some("auto") => KNOWN.map(PathBuf::from).to_vec(),
        _ => vec![config.engine.clone()],
    };
    // A relative entry of PATH, or a relative name with a slash, would find what lies in the
    // workspace. An absolute name replaces the directory it is joined to.
    let plain = |name: &&PathBuf| name.is_absolute() || name.components().count() == 1;
    let directories: Vec<PathBuf> = std::env::split_paths(&config.search).collect();
    let directories = directories.iter().filter(|path| path.is_absolute());
    let mut programs =
        directories.flat_map(|path| names.iter().filter(plain).map(|name| path.join(name)));
    programs.find(|path| is_program(path)).map(Some).ok_or_else(|| Problem {
        code: "no_engine",
        exit: 5,
        what: "there is no container engine".to_owned(),
        why: format!("no directory of PATH has one of {names:?}"),
        fix: "install podman or docker, name its path in `engine`, or set `engine=none`",
    })
}

fn is_program(path: &Path) -> bool {
    let runs =
        |found: std::fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    std::fs::metadata(path).is_ok_and(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[(&str, &str)]) -> Config {
        let find = |name: &str| {
            let found = settings.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Config::gather(None, &find).unwrap()
    }

    fn contained(settings: &[(&str, &str)]) -> Result<Line, Problem> {
        let mut all = vec![
            ("PATH", "/bin"),
            ("AIRLOCK_ENGINE", "/bin/sh"),
            ("AIRLOCK_WORKSPACE", "/w"),
            ("AIRLOCK_STATE", "/s"),
        ];
        all.extend(settings);
        line(&config(&all), 1)
    }

    #[test]
    fn a_plain_process_gets_three_words_and_its_workspace() {
        let line =
            line(&config(&[("AIRLOCK_KERNEL", "/k"), ("AIRLOCK_WORKSPACE", "/a b;c")]), 1).unwrap();
        assert_eq!(line.program, Path::new("/k"));
        assert_eq!(
            line.arguments,
            ["kernel", "--foreground", "--until-closed", "--idle=0s", "--workspace=/a b;c"]
        );
        assert_eq!(line.kill, None);
    }

    #[test]
    fn every_wall_of_a_container_stands_whatever_the_settings() {
        for image in ["airlock", "airlock --network=host --privileged"] {
            let line = contained(&[("AIRLOCK_IMAGE", image)]).unwrap();
            for wall in [
                "--network=none",
                "--pid=host",
                "--read-only",
                "--cap-drop=ALL",
                "--security-opt=no-new-privileges",
                "--pull=never",
                "--mount=type=bind,source=/w,target=/w",
                "--mount=type=bind,source=/s,target=/s",
            ] {
                assert_eq!(line.arguments.iter().filter(|word| *word == wall).count(), 1, "{wall}");
            }
            let mounts =
                line.arguments.iter().filter(|word| word.to_string_lossy().starts_with("--mount"));
            assert_eq!(mounts.count(), 2);
            for started in ["--user=", "--pids-limit=", "--memory="] {
                assert!(
                    line.arguments.iter().any(|word| word.to_string_lossy().starts_with(started))
                );
            }
            let image = line.arguments.iter().position(|word| word == image).unwrap();
            assert_eq!(
                line.arguments[image + 1..],
                ["kernel", "--foreground", "--until-closed", "--idle=0s", "--workspace=/w"]
            );
            assert!(
                !line
                    .arguments
                    .iter()
                    .any(|word| word == "--privileged" || word == "--network=host")
            );
        }
    }

    #[test]
    fn podman_keeps_the_user_who_it_is_and_docker_is_not_asked_to() {
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        for (podman, kept) in [(true, own != 0), (false, false)] {
            let config = config(&[("AIRLOCK_WORKSPACE", "/w"), ("AIRLOCK_STATE", "/s")]);
            let words = walls(&config, OsStr::new("name"), podman).unwrap();
            assert_eq!(words.iter().any(|word| word == "--userns=keep-id"), kept, "{podman}");
        }
    }

    #[test]
    fn values_that_would_be_read_as_something_else_are_refused() {
        for (key, value) in [
            ("AIRLOCK_IMAGE", "--privileged"),
            ("AIRLOCK_IMAGE", ""),
            ("AIRLOCK_WORKSPACE", "/w,readonly=false,source=/"),
            ("AIRLOCK_WORKSPACE", "/w\",source=/"),
            ("AIRLOCK_STATE", "/s:/etc"),
            ("AIRLOCK_STATE", "/s\n--privileged"),
        ] {
            assert_eq!(contained(&[]).unwrap().kill.unwrap().len(), 2);
            let find = |name: &str| {
                let all = [(key, value), ("AIRLOCK_ENGINE", "/bin/sh"), ("PATH", "/bin")];
                all.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            let problem = line(&Config::gather(None, &find).unwrap(), 1).unwrap_err();
            assert_eq!((problem.code, problem.exit), ("config", 2), "{value:?}");
        }
    }

    #[test]
    fn an_engine_is_found_in_absolute_directories_only() {
        for (path, found) in [("/usr/bin:/bin", true), (".:bin:../../bin", false), ("", false)] {
            let config = config(&[("AIRLOCK_ENGINE", "sh"), ("PATH", path)]);
            assert_eq!(find(&config).is_ok(), found, "{path}");
        }
        for name in ["no-such-engine", "/etc/passwd", "../bin/sh", "/"] {
            let config = config(&[("AIRLOCK_ENGINE", name), ("PATH", "/usr/bin:/bin")]);
            assert_eq!(find(&config).unwrap_err().exit, 5, "{name}");
        }
    }
}

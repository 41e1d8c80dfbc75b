//! The command line that starts the kernel: as it is, or inside a container.
//!
//! Guarantee: an argument vector, never a shell line, and no setting can become a word of its own
//! or a part of another option. Which walls a container has is fixed here and no setting widens it:
//! no network, nothing mounted but workspace and state, no capabilities, no new privileges.
//! Non-guarantee: it sees the machine's processes, because a kernel answers only whom the system can
//! name to it. In the machine's user namespace (docker's default) the files of the user's processes
//! are so within reach, by `/proc/PID/root`, unless AppArmor or SELinux keeps containers from that.

use crate::Problem;
use crate::config::Config;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every container gets.
const WALLS: &str = "run --rm --interactive --pull=never --network=none --pid=host --read-only \
    --cap-drop=ALL --security-opt=no-new-privileges --pids-limit=256 --memory=1g --memory-swap=1g \
    --tmpfs=/tmp:rw,noexec,nosuid,nodev,size=64m --entrypoint=airlock";
/// What every kernel is told.
const KERNEL: &str = "kernel --foreground --until-closed --idle=0s";

/// What starts the kernel, in a container of that name if there is an engine.
#[expect(clippy::disallowed_methods, reason = "starts the kernel or its engine, and no shell")]
pub(crate) fn line(config: &Config, name: &str) -> Result<Command, Problem> {
    let mut command = Command::new(config.engine.as_ref().unwrap_or(&config.kernel));
    if config.engine.is_some() {
        wall_in(&mut command, config, name)?;
    } else if config.state_is_set {
        command.env("XDG_STATE_HOME", &config.state);
    }
    command.args(KERNEL.split(' ')).arg(joined("--workspace=", &config.workspace));
    Ok(command)
}

fn wall_in(command: &mut Command, config: &Config, name: &str) -> Result<(), Problem> {
    if config.image.is_empty() || config.image.as_bytes().starts_with(b"-") {
        return Err(unusable("image", &config.image));
    }
    // Without it, the container's own default would be root.
    let own = std::fs::metadata("/proc/self").map_err(|_| unusable("user", "?".as_ref()))?;
    command.args(WALLS.split(' ')).arg(format!("--user={}:{}", own.uid(), own.gid()));
    // Without root, its numbers inside are other users' outside unless it is told to keep them.
    if Path::new(command.get_program()).ends_with("podman") && own.uid() != 0 {
        command.arg("--userns=keep-id");
    }
    command.arg(joined("--name=", name)).arg(joined("--workdir=", &config.workspace));
    command.arg(joined("--env=XDG_STATE_HOME=", &config.state));
    for path in [&config.workspace, &config.state] {
        // Engines read the option as a row of a table, in which these characters mean something.
        let odd = |byte: &u8| b",\"\\:".contains(byte) || byte.is_ascii_control();
        if path.as_os_str().as_bytes().iter().any(odd) {
            return Err(unusable("path", path.as_os_str()));
        }
        command.arg(joined(joined("--mount=type=bind,source=", path), joined(",target=", path)));
    }
    command.arg(&config.image);
    Ok(())
}

fn unusable(kind: &str, value: &OsStr) -> Problem {
    let what = format!("the {kind} `{}` cannot be given to an engine", value.display());
    Problem::config(what, "use names without commas, colons, quotes or a dash in front")
}

fn joined(option: impl Into<OsString>, value: impl AsRef<OsStr>) -> OsString {
    let mut word = option.into();
    word.push(value);
    word
}

/// The program of `engine`: `none`, a name, a path, or `auto`, which is podman wherever it is found.
pub(crate) fn find(engine: &Path, search: &OsStr) -> Result<Option<PathBuf>, Problem> {
    let names = match engine.to_str() {
        Some("none") => return Ok(None),
        Some("auto") => vec![Path::new("podman"), Path::new("docker")],
        _ => vec![engine],
    };
    // A relative entry of PATH, or a relative name with a slash, would find what lies in the
    // workspace. An absolute name replaces the directory it is joined to.
    let directories = || std::env::split_paths(search).filter(|path| path.is_absolute());
    let plain = names.iter().filter(|name| name.is_absolute() || name.components().count() == 1);
    let mut programs = plain.flat_map(|name| directories().map(move |path| path.join(name)));
    let is_program = |found: std::fs::Metadata| found.is_file() && found.mode() & 0o111 != 0;
    let found = programs.find(|path| std::fs::metadata(path).is_ok_and(is_program));
    found.map(Some).ok_or_else(|| {
        let what = "there is no container engine".to_owned();
        let why = format!("no directory of PATH has one of {names:?}");
        let fix = "install podman or docker, name its path in `engine`, or set `engine=none`";
        Problem { code: "no_engine", exit: 5, what, why, fix }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::gather;
    use std::os::unix::fs::PermissionsExt as _;

    const TOLD: [&str; 4] = ["kernel", "--foreground", "--until-closed", "--idle=0s"];

    fn config(settings: &[(&str, &str)]) -> Config {
        let find = |name: &str| {
            let found = settings.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        gather(None, &find).unwrap()
    }

    fn words(command: &Command) -> Vec<OsString> {
        command.get_args().map(OsStr::to_owned).collect()
    }

    fn contained(settings: &[(&str, &str)]) -> Result<Command, Problem> {
        let defaults = [
            ("PATH", "/bin"),
            ("AIRLOCK_ENGINE", "/bin/sh"),
            ("AIRLOCK_WORKSPACE", "/w"),
            ("AIRLOCK_STATE", "/s"),
        ];
        line(&config(&[settings, &defaults[..]].concat()), "name")
    }

    /// A directory of its own with these programs in it.
    fn directory(name: &str, programs: &[&str]) -> PathBuf {
        let name = format!("airlock-bootstrap-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        for program in programs.iter().map(|program| directory.join(program)) {
            std::fs::write(&program, "").unwrap();
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&program, executable).unwrap();
        }
        directory
    }

    #[test]
    fn a_plain_process_gets_four_words_and_its_workspace() {
        let config = config(&[("AIRLOCK_KERNEL", "/k"), ("AIRLOCK_WORKSPACE", "/a b;c")]);
        let line = line(&config, "name").unwrap();
        assert_eq!(line.get_program(), "/k");
        assert_eq!(words(&line), [&TOLD[..], &["--workspace=/a b;c"]].concat());
        assert_eq!(line.get_envs().count(), 0);
    }

    #[test]
    fn the_setting_for_state_reaches_the_kernel_in_either_place() {
        let plain = contained(&[("AIRLOCK_ENGINE", "none")]).unwrap();
        let told: Vec<_> = plain.get_envs().collect();
        assert_eq!(told, [(OsStr::new("XDG_STATE_HOME"), Some(OsStr::new("/s")))]);
        let contained = contained(&[]).unwrap();
        assert_eq!(contained.get_envs().count(), 0, "it is the kernel's, not the engine's");
        assert!(words(&contained).iter().any(|word| word == "--env=XDG_STATE_HOME=/s"));
    }

    #[test]
    fn every_wall_of_a_container_stands_whatever_the_settings() {
        for image in ["airlock", "airlock --network=host --privileged"] {
            let words = words(&contained(&[("AIRLOCK_IMAGE", image)]).unwrap());
            for wall in [
                "--network=none",
                "--pid=host",
                "--read-only",
                "--cap-drop=ALL",
                "--security-opt=no-new-privileges",
                "--pull=never",
                "--name=name",
                "--mount=type=bind,source=/w,target=/w",
                "--mount=type=bind,source=/s,target=/s",
            ] {
                assert_eq!(words.iter().filter(|word| *word == wall).count(), 1, "{wall}");
            }
            let start = |start: &str| {
                words.iter().filter(|word| word.to_string_lossy().starts_with(start)).count()
            };
            assert_eq!(start("--mount"), 2);
            for option in ["--user=", "--pids-limit=", "--memory="] {
                assert_eq!(start(option), 1, "{option}");
            }
            let image = words.iter().position(|word| word == image).unwrap();
            assert_eq!(words[image + 1..], [&TOLD[..], &["--workspace=/w"]].concat());
            assert!(!words.iter().any(|word| word == "--privileged" || word == "--network=host"));
        }
    }

    #[test]
    fn podman_keeps_the_user_who_it_is_and_docker_is_not_asked_to() {
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        let directory = directory("kept", &["podman", "docker"]);
        for (engine, kept) in [("podman", own != 0), ("docker", false)] {
            let path = directory.to_str().unwrap();
            let line = contained(&[("AIRLOCK_ENGINE", engine), ("PATH", path)]).unwrap();
            let is_told = words(&line).iter().any(|word| word == "--userns=keep-id");
            assert_eq!(is_told, kept, "{engine}");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn values_that_would_be_read_as_something_else_are_refused() {
        assert!(contained(&[]).is_ok());
        for (key, value) in [
            ("AIRLOCK_IMAGE", "--privileged"),
            ("AIRLOCK_IMAGE", ""),
            ("AIRLOCK_WORKSPACE", "/w,readonly=false,source=/"),
            ("AIRLOCK_WORKSPACE", "/w\",source=/"),
            ("AIRLOCK_STATE", "/s:/etc"),
            ("AIRLOCK_STATE", "/s\n--privileged"),
        ] {
            let problem = contained(&[(key, value)]).unwrap_err();
            assert_eq!((problem.code, problem.exit), ("config", 2), "{value:?}");
        }
    }

    #[test]
    fn an_engine_is_found_in_absolute_directories_only() {
        for (path, found) in [("/usr/bin:/bin", true), (".:bin:../../bin", false), ("", false)] {
            assert_eq!(find(Path::new("sh"), OsStr::new(path)).is_ok(), found, "{path}");
        }
        for name in ["no-such-engine", "/etc/passwd", "../bin/sh", "/"] {
            let problem = find(Path::new(name), OsStr::new("/usr/bin:/bin")).unwrap_err();
            assert_eq!(problem.exit, 5, "{name}");
        }
    }

    #[test]
    fn podman_is_taken_before_docker_wherever_they_are() {
        let (first, second) = (directory("first", &["docker"]), directory("second", &["podman"]));
        let (docker, podman) = (first.join("docker"), second.join("podman"));
        for (directories, want) in [
            (vec![&first, &second], &podman),
            (vec![&second, &first], &podman),
            (vec![&first], &docker),
        ] {
            let search = std::env::join_paths(directories).unwrap();
            let found = find(Path::new("auto"), &search).unwrap();
            assert_eq!(found.as_ref(), Some(want), "{}", search.display());
        }
        std::fs::remove_dir_all(first).unwrap();
        std::fs::remove_dir_all(second).unwrap();
    }
}

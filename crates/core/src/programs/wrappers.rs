//! Programs that run another program: looked through, or refused where that cannot be done. Pure.
//!
//! A list of allowed commands means what is really run. `env cargo test` is `cargo test`; what
//! `xargs`, `find -exec` or a shell without a script ([`shells`]) will run stands in text or input,
//! and so cannot be told.

use super::shells;

/// Directories whose programs are the system's own, so that a name in them means that program.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
];

/// Whether what lies in `directory` is the system's own.
pub fn is_system(directory: &str) -> bool {
    SYSTEM.contains(&directory)
}

/// Why a wrapper cannot be looked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// What is the matter.
    pub what: String,
    /// How to mend it.
    pub fix: &'static str,
}

/// How a wrapper is written: its flags, those that take a value, and words before the command.
struct Wrapper {
    name: &'static str,
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    /// Words of its own between the flags and the command, as `timeout`'s duration.
    words: usize,
}

const fn wrapper(
    name: &'static str,
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    words: usize,
) -> Wrapper {
    Wrapper {
        name,
        flags,
        valued,
        words,
    }
}

/// Wrappers that say plainly what they run. A flag that is not listed makes one opaque.
const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "env",
        &["-i", "-", "--ignore-environment"],
        &["-u", "--unset"],
        0,
    ),
    wrapper("time", &["-p", "-v"], &[], 0),
    wrapper("nice", &[], &["-n", "--adjustment"], 0),
    wrapper("nohup", &[], &[], 0),
    wrapper("setsid", &["-f", "-w"], &[], 0),
    wrapper("stdbuf", &[], &["-i", "-o", "-e"], 0),
    wrapper("ionice", &["-t"], &["-c", "-n"], 0),
    wrapper(
        "timeout",
        &["--foreground", "--preserve-status", "-v"],
        &["-k", "-s"],
        1,
    ),
    wrapper("command", &[], &[], 0),
    wrapper("exec", &[], &[], 0),
];

/// Programs whose command stands in input, text or another user's rights.
const OPAQUE: &[&str] = &[
    "xargs", "parallel", "busybox", "toybox", "sudo", "doas", "su", "script", "eval", "chroot",
    "unshare", "nsenter", "setpriv", "flock", "watch", "ssh", "chrt", "taskset", "strace", "gdb",
];

const VECTOR: &str = "name the program itself and its arguments, one element each";

/// Where in `command` the program begins that is really run.
pub fn inner(command: &[String]) -> Result<usize, Opaque> {
    let mut at = 0;
    while let Some(program) = command.get(at) {
        let rest = command.get(at + 1..).unwrap_or_default();
        match step(program, rest)? {
            Some(ahead) => at += 1 + ahead,
            None => return Ok(at),
        }
    }
    Err(Opaque {
        what: "a wrapper such as `env` runs nothing here".to_owned(),
        fix: VECTOR,
    })
}

/// The last name of a path.
pub fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// How far after `program` the one begins that it runs; none if it runs none, or is not the system's
/// own.
pub(super) fn step(program: &str, rest: &[String]) -> Result<Option<usize>, Opaque> {
    let name = base_name(program);
    // A file of that name somewhere else is a program of its own, whatever it does.
    let known = program
        .rsplit_once('/')
        .is_none_or(|(place, _)| is_system(place));
    let mut wrappers = WRAPPERS.iter().filter(|_| known);
    if let Some(wrapper) = wrappers.find(|wrapper| wrapper.name == name) {
        return through(wrapper, rest).map(Some);
    }
    let opaque = |why: &str| {
        Err(Opaque {
            what: format!("`{name}` {why}"),
            fix: VECTOR,
        })
    };
    if shells::is_shell(name) {
        return shells::check(name, rest).map(|()| None);
    }
    if OPAQUE.contains(&name) {
        return opaque("runs another program that cannot be told from its arguments");
    }
    let executes = |word: &String| word.starts_with("-exec") || word.starts_with("-ok");
    if name == "find" && rest.iter().any(executes) {
        return opaque("is told to run another program for what it finds");
    }
    Ok(None)
}

fn through(wrapper: &Wrapper, rest: &[String]) -> Result<usize, Opaque> {
    let mut at = 0;
    while let Some(word) = rest.get(at).filter(|word| word.starts_with('-')) {
        if word == "--" {
            at += 1;
            break;
        }
        let (flag, joined) = match word.split_once('=') {
            Some((flag, _)) => (flag, true),
            None => (word.as_str(), false),
        };
        let glued = wrapper
            .valued
            .iter()
            .any(|known| known.len() == 2 && word.len() > 2 && word.starts_with(known));
        at += if wrapper.flags.contains(&word.as_str()) || glued {
            1
        } else if wrapper.valued.contains(&flag) {
            if joined { 1 } else { 2 }
        } else {
            return Err(Opaque {
                what: format!("`{}` with `{flag}` cannot be looked through", wrapper.name),
                fix: "leave the flag out, or name the program itself",
            });
        };
    }
    if wrapper.name == "env" {
        let assignments = rest.get(at..).unwrap_or_default().iter();
        let assigned = assignments.take_while(|word| word.contains('=')).count();
        if assigned > 0 {
            return Err(Opaque {
                what: "`env` is given variables".to_owned(),
                fix: "give them in `environment`, where they are checked",
            });
        }
    }
    Ok(at + wrapper.words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner_of(line: &str) -> Result<String, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        inner(&words)
            .map(|at| words[at..].join(" "))
            .map_err(|opaque| opaque.what)
    }

    #[test]
    fn wrappers_are_looked_through() {
        for (line, want) in [
            ("cargo test", "cargo test"),
            ("env cargo test", "cargo test"),
            ("/usr/bin/env -i cargo", "cargo"),
            ("env -u A -- cargo", "cargo"),
            ("nice -n 5 time -p cargo test", "cargo test"),
            ("nice -n5 cargo", "cargo"),
            ("nice --adjustment=5 cargo", "cargo"),
            ("timeout -k 1 10s cargo", "cargo"),
            ("stdbuf -oL cargo", "cargo"),
            ("nohup setsid -f make", "make"),
            ("./env cargo test", "./env cargo test"),
            ("tools/timeout 5 cargo", "tools/timeout 5 cargo"),
            ("/tmp/bin/nice cargo", "/tmp/bin/nice cargo"),
            ("env ./env cargo", "./env cargo"),
            ("sh build.sh", "sh build.sh"),
            ("bash scripts/build.sh -c x", "bash scripts/build.sh -c x"),
            ("env -i /bin/sh -e ./run.sh", "/bin/sh -e ./run.sh"),
            (
                "timeout 5 nice -n 5 bash -euo pipefail run.sh",
                "bash -euo pipefail run.sh",
            ),
        ] {
            assert_eq!(inner_of(line).as_deref(), Ok(want), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_looked_through_is_refused() {
        for line in [
            "sh -c true",
            "bash -lc true",
            "/bin/dash -ec true",
            "env sh -c true",
            "sh",
            "/bin/sh",
            "bash +c true",
            "bash -s",
            "bash /dev/stdin",
            "bash --init-file file -i",
            "env bash +ec true",
            "env -i sh",
            "nice bash -s",
            "nice -n 5 yash",
            "timeout 5 bash +c true",
            "timeout -k 1 5 env rbash -",
            "time -p ksh /dev/fd/0",
            "nohup setsid -w dash",
            "stdbuf -oL zsh -o shinstdin run.sh",
            "ionice -c 3 mksh -s",
            "command sh",
            "exec ash +c true",
            "xargs sh run.sh",
            "busybox sh run.sh",
            "env -S cargo",
            "env A=1 cargo",
            "env LD_PRELOAD=x cargo",
            "xargs rm",
            "nice xargs rm",
            "find . -exec rm {} +",
            "find . -okdir rm",
            "busybox sh",
            "sudo cargo",
            "timeout --unknown 5 cargo",
            "env",
            "timeout 5",
            "nice -n 5",
        ] {
            assert!(inner_of(line).is_err(), "{line}");
        }
    }
}

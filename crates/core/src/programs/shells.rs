//! What a shell will run, by its arguments: a script they name, or what cannot be told. Pure.
//!
//! A shell takes commands from a word (`-c`, also `+c`), from its input (`-s`, `/dev/stdin`, or no
//! script at all) and from files that options name. All of that is a command line, which has a
//! capability of its own: `shell.run`.
//!
//! Guarantee: [`check`] passes a shell only with a script that its arguments name, behind options
//! that say how it is run and never what. An option that is not listed is refused.
//! Non-guarantee: what is in the script, or where a link of that name leads.

use super::wrappers::Opaque;

/// Shells that read their options as POSIX says.
const POSIX: &[&str] = &[
    "sh", "bash", "rbash", "dash", "ash", "hush", "ksh", "rksh", "mksh", "lksh", "pdksh", "oksh",
    "posh", "bosh", "yash", "zsh", "rzsh",
];

/// Shells with options of their own, of which none is taken.
const OTHERS: &[&str] = &[
    "fish", "csh", "tcsh", "nu", "elvish", "xonsh", "pwsh", "osh", "ysh",
];

/// Letters that mean nothing but how a script is run, in every shell of [`POSIX`].
const LETTERS: &str = "efnuvx";

/// Names after `-o` that mean nothing else either. Of the others some shells take `stdin` and
/// `cmdline`.
const NAMES: &[&str] = &[
    "allexport",
    "errexit",
    "noclobber",
    "noexec",
    "noglob",
    "nounset",
    "pipefail",
    "posix",
    "verbose",
    "xtrace",
];

/// Words of bash's that mean nothing else either. Other shells may read them as letters.
const BASH: &[&str] = &["bash", "rbash"];
const BASH_WORDS: &[&str] = &["--noprofile", "--norc", "--posix"];

/// Shells that print something and end when given one of these words alone. Others, such as the
/// `sh` of busybox, pass over it and read their input.
const TELLERS: &[&str] = &["bash", "rbash", "fish", "yash", "zsh"];
const TELLING: &[&str] = &["--help", "--version"];

const FIX: &str =
    "name a script file of the workspace, or use `shell.run` where policy allows a command line";

/// As much of a word as is repeated.
const SHOWN: usize = 60;

/// Whether `name` is a shell's, of whatever version.
pub(super) fn is_shell(name: &str) -> bool {
    let shell = plain(name);
    POSIX.contains(&shell) || OTHERS.contains(&shell)
}

/// Fails unless the shell `name` with `arguments` runs a script that they name.
pub(super) fn check(name: &str, arguments: &[String]) -> Result<(), Opaque> {
    let shell = plain(name);
    if let [word] = arguments
        && TELLERS.contains(&shell)
        && TELLING.contains(&word.as_str())
    {
        return Ok(());
    }
    let why = match script(shell, arguments.iter().map(String::as_str)) {
        Ok(script) if is_file_name(script) => return Ok(()),
        Ok(script) => format!("is given `{}`, which is no script file", shown(script)),
        Err(why) => why,
    };
    Err(Opaque {
        what: format!("`{name}` {why}"),
        fix: FIX,
    })
}

/// What a word would be to a shell that has read others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The script, or an option.
    Script,
    /// Commands, or something that cannot be told.
    Commands,
    /// An argument of what it runs.
    Argument,
}

/// What a word after `arguments` would be to the shell `name`.
pub(super) fn next(name: &str, arguments: &[String]) -> Next {
    let shell = plain(name);
    let mut words = arguments.iter().map(String::as_str);
    let mut harmless = true;
    while let Some(word) = words.next() {
        let ends = word == "--";
        if !ends && is_option(word) {
            harmless &= is_harmless(shell, word, &mut words);
            continue;
        }
        if !ends || words.next().is_some() {
            return Next::Argument;
        }
    }
    if harmless {
        Next::Script
    } else {
        Next::Commands
    }
}

/// The name without what tells builds apart: `bash-static`, `zsh-5.9` and `ksh93` are shells too.
pub(super) fn plain(name: &str) -> &str {
    let name = name.strip_suffix("-static").unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
}

/// The script among `words`, or why there is none that can be told.
fn script<'a>(shell: &str, mut words: impl Iterator<Item = &'a str>) -> Result<&'a str, String> {
    let none = || "is given no script, so it takes its commands from its input".to_owned();
    loop {
        let word = words.next().ok_or_else(none)?;
        if word == "--" && POSIX.contains(&shell) {
            return words.next().ok_or_else(none);
        }
        if !is_option(word) {
            return Ok(word);
        }
        if !is_harmless(shell, word, &mut words) {
            let word = shown(word);
            return Err(format!(
                "is given `{word}`, and what it will run cannot be told"
            ));
        }
    }
}

/// Whether a shell may take `word` for an option. Those of POSIX are turned off with a `+`.
pub(super) fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+'])
}

/// Whether the option `word`, with the name behind it if it takes one, says only how a script is run.
fn is_harmless<'a>(shell: &str, word: &str, behind: &mut impl Iterator<Item = &'a str>) -> bool {
    if BASH.contains(&shell) && BASH_WORDS.contains(&word) {
        return true;
    }
    let letters = word.get(1..).unwrap_or_default();
    let known = |letters: &str| letters.chars().all(|letter| LETTERS.contains(letter));
    if letters.is_empty() || !POSIX.contains(&shell) {
        return false;
    }
    // Elsewhere than at the end shells do not agree on what the name is.
    match letters.strip_suffix('o') {
        Some(before) => known(before) && behind.next().is_some_and(|name| NAMES.contains(&name)),
        None => known(letters),
    }
}

/// Whether `word` can be the name of a script: no option, and nothing that leads to the input.
fn is_file_name(word: &str) -> bool {
    !word.is_empty() && !is_option(word) && !may_be_device(word)
}

/// Whether `path` is, or with its `..` may be, beneath `/dev` or `/proc`.
pub(super) fn may_be_device(path: &str) -> bool {
    let parts = || path.split('/').filter(|part| !matches!(*part, "" | "."));
    let looked_at = if parts().any(|part| part == "..") {
        usize::MAX
    } else {
        usize::from(path.starts_with('/'))
    };
    parts()
        .take(looked_at)
        .any(|part| matches!(part, "dev" | "proc"))
}

fn shown(word: &str) -> String {
    word.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(line: &str) -> Result<(), Opaque> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (name, arguments) = words.split_first().unwrap();
        assert!(is_shell(name), "{name}");
        check(name, arguments)
    }

    #[test]
    fn a_shell_runs_a_script_that_is_named() {
        for line in [
            "sh build.sh",
            "sh ./run.sh",
            "sh build.sh -c x",
            "bash scripts/build.sh -c x",
            "bash scripts/build.sh -s +c --rcfile x",
            "sh -e ./run.sh",
            "bash -eux run.sh",
            "bash +e run.sh",
            "bash -euo pipefail run.sh",
            "bash -e -o pipefail +o posix run.sh",
            "bash --norc --noprofile --posix run.sh",
            "bash -- run.sh -c",
            "zsh -f run.zsh",
            "ksh93 run.sh",
            "bash-static run.sh",
            "fish run.fish -c",
            "csh run.csh",
            "sh dev/setup.sh",
            "sh ./proc/setup.sh",
            "sh /home/me/dev/setup.sh",
            "sh ../setup.sh",
            "bash --version",
            "zsh --help",
        ] {
            assert_eq!(checked(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn a_command_line_is_refused_however_a_shell_is_given_it() {
        for line in [
            "sh -c id",
            "bash -lc id",
            "bash -ec id",
            "bash +c id",
            "bash +ec id",
            "bash -e +c id",
            "bash -o errexit -c id",
            "bash -o",
            "bash -o pipefail",
            "bash -oe pipefail run.sh",
            "bash -o errexit",
            "zsh -o shinstdin run.sh",
            "yash -o cmdline id",
            "dash -o stdin run.sh",
            "dash -s",
            "bash -s run.sh",
            "bash +s run.sh",
            "bash -es run.sh",
            "bash -i run.sh",
            "bash -l run.sh",
            "bash +O extglob run.sh",
            "bash --init-file file -i",
            "bash --init-file=file run.sh",
            "bash --rcfile file run.sh",
            "bash --login run.sh",
            "bash --norc",
            "bash --version -c id",
            "bash --vers",
            "sh --version",
            "sh --norc run.sh",
            "csh --version",
            "bash -",
            "bash - run.sh",
            "bash +",
            "bash --",
            "bash -- -",
            "bash -- -c",
            "bash -e",
            "bash ",
            "bash /dev/stdin",
            "bash -e /dev/stdin",
            "bash -- /dev/fd/0",
            "bash //dev/./stdin",
            "bash /./dev/stdin",
            "bash /tmp/../dev/stdin",
            "bash ../../../../dev/stdin",
            "bash a/../../dev/stdin",
            "bash /proc/self/fd/0",
            "fish -c id",
            "fish -f x",
            "fish -C id",
            "fish -e run.fish",
            "fish -- run.fish",
            "csh -f run.csh",
            "tcsh -c id",
            "nu -c id",
            "pwsh -Command id",
            "zsh-5.9 -c id",
            "zsh5-static -c id",
            "ksh93 -c id",
        ] {
            let refused = checked(line).unwrap_err();
            let name = line.split(' ').next().unwrap();
            assert!(
                refused.what.starts_with(&format!("`{name}` is given ")),
                "{line}: {}",
                refused.what
            );
            assert!(refused.fix.contains("`shell.run`"), "{line}");
        }
        for name in POSIX.iter().chain(OTHERS) {
            let refused = check(name, &[]).unwrap_err();
            assert!(
                refused.what.ends_with("takes its commands from its input"),
                "{}",
                refused.what
            );
        }
    }

    #[test]
    fn what_stands_after_a_script_or_its_commands_is_an_argument() {
        for (line, want) in [
            ("", Next::Script),
            ("-e", Next::Script),
            ("-euo pipefail", Next::Script),
            ("--", Next::Script),
            ("run.sh", Next::Argument),
            ("-e run.sh", Next::Argument),
            ("-- run.sh", Next::Argument),
            ("run.sh -c", Next::Argument),
            ("-c", Next::Commands),
            ("-e -c", Next::Commands),
            ("-lc", Next::Commands),
            ("+c", Next::Commands),
            ("-c --", Next::Commands),
            ("-o", Next::Commands),
            ("--rcfile", Next::Commands),
            ("-c id", Next::Argument),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(next("bash", &words), want, "{line}");
        }
    }

    #[test]
    fn what_is_no_shell_is_none() {
        for name in [
            "",
            "-",
            "93",
            "bashful",
            "shellcheck",
            "python3",
            "Sh",
            "nu-static-x",
        ] {
            assert!(!is_shell(name), "{name}");
        }
    }
}

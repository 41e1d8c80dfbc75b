//! How pytest is started: as `-m pytest` says, and faster.

/// Python without what it compiled before of the project: that goes by size and seconds, and a
/// change of one character right after a run would be passed over.
pub(super) const COMMAND: &[&str] = &[
    "python3",
    "-B",
    "-X",
    "pycache_prefix=/dev/null/none",
    "-m",
    "pytest",
];

/// Loads pytest itself from what was compiled of it.
pub(super) const OUTSIDE: &str = include_str!("outside.py");

const RUN: &str = include_str!("pytest.py");

/// `command` with the same done by a script where it runs `COMMAND`, alone or behind a wrapper.
pub(super) fn started(command: &[String]) -> Vec<String> {
    let mut words = command.to_vec();
    let begins = |window: &[String]| window.iter().zip(COMMAND).all(|(own, word)| own == word);
    if let Some(first) = words.windows(COMMAND.len()).position(begins) {
        let module = first + COMMAND.len() - 2;
        let script = ["-c".to_owned(), format!("{OUTSIDE}{RUN}")];
        words.splice(module..module + 2, script);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{COMMAND, started};
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Output};

    #[expect(
        clippy::disallowed_methods,
        reason = "what is tried is what the interpreter makes of a script"
    )]
    fn python(words: &[String], place: &Path) -> Output {
        Command::new(&words[0])
            .args(&words[1..])
            .current_dir(place)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap()
    }

    /// Runs the tests in `place`, all of which have to pass.
    fn passes(place: &Path, wrapper: &[&str]) {
        let words = [wrapper, COMMAND, &["-q", "-p", "no:cacheprovider"]].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let words = started(&words);
        assert!(!words.iter().any(|word| word == "-m"), "{words:?}");
        let ran = python(&words, place);
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "{told}");
        assert!(told.contains(" passed"), "{told}");
    }

    fn write(place: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
            fs::write(place.join(name), text).unwrap();
        }
    }

    #[test]
    fn of_the_project_nothing_is_taken_that_was_compiled_before_and_of_pytest_all() {
        let place = tempfile::tempdir().unwrap();
        let test = "import sys\nimport app\nimport _pytest.main\n\n\ndef test_it():\n    \
                    assert app.VALUE == 2\n    \
                    assert app.__cached__.startswith('/dev/null/none/')\n    \
                    assert '/__pycache__/' in _pytest.main.__cached__\n    \
                    assert sys.path[0].startswith('/') and '' not in sys.path\n";
        write(
            place.path(),
            &[("app.py", "VALUE = 1\n"), ("test_app.py", test)],
        );
        // Compiled, and then the same size at the same second.
        let compile = "import os, py_compile\nold = os.stat('app.py')\npy_compile.compile('app.py')\n\
                       open('app.py', 'w').write('VALUE = 2\\n')\n\
                       os.utime('app.py', ns=(old.st_atime_ns, old.st_mtime_ns))\n\
                       import app\nassert app.VALUE == 1\n";
        let words = ["python3", "-c", compile].map(str::to_owned);
        let compiled = python(&words, place.path());
        assert!(compiled.status.success(), "else nothing is passed over");
        passes(place.path(), &[]);
        passes(place.path(), &["env", "--"]);
    }

    #[test]
    fn a_module_of_the_project_stands_in_front_of_one_outside_that_pytest_needs() {
        for own in ["calendar.py", "calendar/__init__.py", "bz2.py"] {
            let place = tempfile::tempdir().unwrap();
            let name = own.split(['.', '/']).next().unwrap();
            let test = format!("import {name}\n\n\ndef test_it():\n    assert {name}.OWN\n");
            let files = [
                (own, "OWN = True\n"),
                ("__main__.py", ""),
                ("test_own.py", &test),
            ];
            write(place.path(), &files);
            passes(place.path(), &[]);
        }
    }
}

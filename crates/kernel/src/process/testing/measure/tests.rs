//! The scripts, run as a sandbox runs them, but for the walls.

use super::*;
use airlock_core::ByteSize;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn reading(framework: Framework, plain: &[&str]) -> Job {
    Job {
        work: Work::Tests(super::super::Reading {
            framework,
            coverage: false,
            whole: true,
            said_by: super::super::SaidBy::Tree,
            others: Vec::new(),
            plain: words(plain),
            configured: false,
            mark: None,
        }),
        ..Job::of(words(plain)).unwrap()
    }
}

fn mark_of(job: &Job) -> &str {
    let Work::Tests(reading) = &job.work else {
        panic!("it runs tests");
    };
    reading.mark.as_deref().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the scripts are what is tested")]
fn run(job: &Job, place: &Path, path: &str) -> Output {
    let (program, arguments) = job.command.split_first().unwrap();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(place)
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(job.stdin.as_deref().unwrap_or_default().as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn measured() -> Variation {
    Variation {
        measured: true,
        ..Variation::default()
    }
}

fn program(directory: &Path, name: &str, script: &str) {
    fs::create_dir_all(directory).unwrap();
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn files_are_other_for_one_run_and_afterwards_what_they_were() {
    let place = tempfile::tempdir().unwrap();
    let name = "a b\n-c";
    fs::write(place.path().join(name), "one\n").unwrap();
    fs::write(place.path().join("two"), [0xff, 0, 1]).unwrap();
    fs::set_permissions(place.path().join("two"), fs::Permissions::from_mode(0o751)).unwrap();
    let job = reading(
        Framework::Node,
        &["sh", "-c", "cat './a b\n-c' two; exit 7"],
    );
    let varied = job.varied(&Variation {
        measured: false,
        files: vec![
            (name.to_owned(), "other\n".to_owned()),
            ("two".to_owned(), String::new()),
        ],
        ..Variation::default()
    });
    let ran = run(&varied, place.path(), PATH);
    assert_eq!(ran.stdout, b"other\n");
    assert_eq!(ran.status.code(), Some(7));
    assert_eq!(fs::read(place.path().join(name)).unwrap(), b"one\n");
    assert_eq!(fs::read(place.path().join("two")).unwrap(), [0xff, 0, 1]);
    let mode = fs::metadata(place.path().join("two"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o751);
    assert_eq!(job.varied(&Variation::default()).command, job.command);
}

#[test]
fn no_test_is_told_the_mark_and_what_it_prints_is_no_report() {
    let place = tempfile::tempdir().unwrap();
    // All that a test can see: its own and its parents' arguments and environment, and its input.
    let spy = "cat; for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/cmdline; tr '\\0' '\\n' <$p/environ; done 2>/dev/null; \
               printf '\\nSF:a\\nDA:1,1\\nend_of_record\\n'";
    let mut job = reading(Framework::Go, &["go", "test", "./..."]).varied(&measured());
    let end = job.command.iter().position(|word| word == "--").unwrap();
    job.command.truncate(end + 1);
    job.command.extend(words(&["sh", "-c", spy]));
    let ran = run(&job, place.path(), PATH);
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(printed.matches(mark_of(&job)).count(), 2, "{printed}");
    let (rest, report) = parted(&printed, mark_of(&job));
    assert_eq!(report, Err(Missing::Report));
    assert!(rest.contains("SF:a"), "what a test prints stays its output");
}

#[test]
fn a_report_is_what_stands_between_the_marks() {
    for (stdout, want) in [
        ("out\n\nM\nSF:a\n\nM\n", ("out\n", Ok("SF:a\n"))),
        ("out", ("out", Err(Missing::Report))),
        ("out\nM\nSF:a", ("out\nM\nSF:a", Err(Missing::Report))),
        ("out\nM\n\nM\n", ("out", Err(Missing::Report))),
        ("out\nM\nmissing:node\nM\n", ("out", Err(Missing::Node))),
        ("out\nM\nmissing:you\nM\n", ("out", Err(Missing::Report))),
    ] {
        let (printed, report) = parted(stdout, "M");
        let found = (
            printed.as_str(),
            report.as_deref().map_err(|missing| *missing),
        );
        assert_eq!(found, want, "{stdout:?}");
    }
    let long = format!("\nM\n{}\nM\n", "x".repeat(BYTES + 1));
    assert_eq!(parted(&long, "M").1, Err(Missing::Unreadable));
}

#[test]
fn rust_is_measured_with_the_toolchains_own_tools_or_says_which_are_missing() {
    let place = tempfile::tempdir().unwrap();
    let bin = place.path().join("bin");
    let sysroot = place.path().join("sys");
    let calls = place.path().join("calls");
    let path = format!("{}:{PATH}", bin.display());
    program(&bin, "rustc", &format!("echo '{}'", sysroot.display()));
    let cargo = format!(
        "echo \"cargo $* [${{RUSTFLAGS:-}}]\" >>'{}'\n\
         case \"$*\" in llvm-cov*) exit 101;; *json*) echo '{{\"executable\":\"/a b\"}}';; *) echo ran; exit 3;; esac",
        calls.display()
    );
    program(&bin, "cargo", &cargo);
    let job = reading(Framework::Cargo, &["cargo", "test", "--no-fail-fast"]);

    let bare = job.varied(&measured());
    let ran = run(&bare, place.path(), &path);
    let (printed, report) = parted(&String::from_utf8_lossy(&ran.stdout), mark_of(&bare));
    assert_eq!(
        (printed.as_str(), report),
        ("ran\n", Err(Missing::LlvmTools))
    );
    assert_eq!(
        ran.status.code(),
        Some(3),
        "the tests' own end is what counts"
    );
    assert!(
        Missing::LlvmTools
            .fix()
            .contains("rustup component add llvm-tools")
    );
    assert_eq!(
        fs::read_to_string(&calls).unwrap(),
        "cargo test --no-fail-fast []\n"
    );

    let tools = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin");
    program(
        &tools,
        "llvm-profdata",
        "while [ \"$1\" != -o ]; do shift; done; echo data >\"$2\"",
    );
    let cov = "for last; do :; done\nprintf 'SF:src/lib.rs\\nFN:1,x\\nDA:1,1\\nend_of_record\\n'; echo \"TN:$last\"";
    program(&tools, "llvm-cov", cov);
    let own = job.varied(&measured());
    let ran = run(&own, place.path(), &path);
    let (_, report) = parted(&String::from_utf8_lossy(&ran.stdout), mark_of(&own));
    assert_eq!(
        report.as_deref(),
        Ok("SF:src/lib.rs\nDA:1,1\nend_of_record\n")
    );
    assert_eq!(ran.status.code(), Some(3));
    let called = fs::read_to_string(&calls).unwrap();
    assert!(
        called.contains("cargo test --no-fail-fast [ -C instrument-coverage]"),
        "{called}"
    );
}

#[test]
fn python_is_measured_by_the_library_if_there_is_one_and_never_by_one_of_the_projects_own() {
    let place = tempfile::tempdir().unwrap();
    let library = "class Coverage:\n    def __init__(self, **named): self.named = named\n    \
                   def start(self): pass\n    def stop(self): pass\n    \
                   def lcov_report(self, outfile): open(outfile, 'w').write('SF:WHOSE\\nDA:1,1\\nend_of_record\\n')\n";
    fs::write(
        place.path().join("coverage.py"),
        library.replace("WHOSE", "project"),
    )
    .unwrap();
    fs::write(
        place.path().join("app.py"),
        "def add(a, b):\n    return a + b\n\n\ndef other():\n    return 1\n",
    )
    .unwrap();
    fs::write(
        place.path().join("test_app.py"),
        "import app\n\n\ndef test_add():\n    assert app.add(1, 2) == 3\n",
    )
    .unwrap();
    let plain = [
        "python3",
        "-B",
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
    ];
    let job = reading(Framework::Pytest, &plain);
    let own = job.varied(&measured());
    let ran = run(&own, place.path(), PATH);
    let output = String::from_utf8_lossy(&ran.stdout).into_owned();
    let (printed, report) = parted(&output, mark_of(&own));
    assert!(
        printed.contains("1 passed"),
        "{printed} {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let report = report.unwrap();
    assert!(!report.contains("SF:project"), "{report}");
    let lines = airlock_phases::parse_lcov(
        &report,
        place.path().canonicalize().unwrap().to_str().unwrap(),
    );
    let app: Vec<(u32, bool)> = lines.unwrap()["app.py"].clone().into_iter().collect();
    assert_eq!(app, [(1, true), (2, true), (5, true), (6, false)]);

    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(
        elsewhere.path().join("coverage.py"),
        library.replace("WHOSE", "library"),
    )
    .unwrap();
    let mut with = job.varied(&measured());
    with.command
        .insert(0, format!("PYTHONPATH={}", elsewhere.path().display()));
    with.command.insert(0, "env".to_owned());
    let ran = run(&with, place.path(), PATH);
    let (_, report) = parted(&String::from_utf8_lossy(&ran.stdout), mark_of(&with));
    assert_eq!(report.as_deref(), Ok("SF:library\nDA:1,1\nend_of_record\n"));
}

#[test]
fn a_variation_may_be_given_less_time_and_never_more() {
    let job = reading(Framework::Node, &["true"]);
    let minute = Some(Span::from_secs(60));
    let hour = Some(Span::from_secs(3_600));
    for (own, asked, want) in [
        (None, None, None),
        (None, minute, minute),
        (minute, None, minute),
        (minute, hour, minute),
        (hour, minute, minute),
    ] {
        let mut job = job.clone();
        job.limits.duration = own;
        for files in [Vec::new(), vec![("a".to_owned(), String::new())]] {
            let varied = job.varied(&Variation {
                measured: false,
                files,
                longest: asked,
                ..Variation::default()
            });
            assert_eq!(varied.limits.duration, want);
        }
    }
}

#[test]
fn single_tests_are_asked_for_by_the_filter_of_their_runner_and_never_by_an_option() {
    let narrowed = |framework, plain: &[&str], only: &[&str]| {
        let job = reading(framework, plain);
        let only = words(only);
        assert_eq!(
            job.is_filtered(&only),
            job.varied(&Variation {
                only: only.clone(),
                ..Variation::default()
            })
            .command
                != words(plain)
        );
        job.is_filtered(&only).then(|| {
            let varied = job.varied(&Variation {
                only,
                ..Variation::default()
            });
            varied.command.join(" ")
        })
    };
    let go = ["go", "test", "-v", "./..."];
    let node = ["node", "--test", "--test-reporter=tap"];
    for (found, want) in [
        (
            narrowed(
                Framework::Cargo,
                &["cargo", "test"],
                &["a::b", "--nocapture", "c"],
            ),
            Some("cargo test -- --exact a::b c"),
        ),
        (
            narrowed(
                Framework::Pytest,
                &["pytest"],
                &["t.py::test_a[1-x y]", "t.py::test_a[2]", "-x"],
            ),
            Some("pytest t.py::test_a"),
        ),
        (
            narrowed(Framework::Go, &go, &["TestA/x", "TestB"]),
            Some("go test -v -run ^(TestA|TestB)$ ./..."),
        ),
        (
            narrowed(Framework::Node, &node, &["adds a/b (twice)"]),
            Some(r"node --test --test-reporter=tap --test-name-pattern=/^adds a\/b \(twice\)$/"),
        ),
        (narrowed(Framework::Node, &["npm", "test"], &["a"]), None),
        (
            narrowed(Framework::Cargo, &["cargo", "test"], &["--list"]),
            None,
        ),
        (narrowed(Framework::Cargo, &["cargo", "test"], &[]), None),
    ] {
        assert_eq!(found.as_deref(), want);
    }
    let job = reading(Framework::Cargo, &["make", "check"]);
    let Work::Tests(mut own) = job.work.clone() else {
        panic!("it runs tests");
    };
    own.configured = true;
    let job = Job {
        work: Work::Tests(own),
        ..job
    };
    assert!(
        !job.is_filtered(&words(&["a"])),
        "a command of the project's own"
    );
}

#[test]
fn the_real_tree_is_tested_within_the_usual_limits_whatever_a_caller_asks_for() {
    let usual = (Span::from_secs(300), ByteSize::from_bytes(1 << 30));
    let least = (Span::from_secs(2), ByteSize::from_bytes(64 << 20));
    let most = (Span::from_secs(600), ByteSize::from_bytes(4 << 30));
    for (asked, want) in [(least, usual), (usual, usual), (most, most)] {
        let mut job = reading(Framework::Node, &["true"]);
        (job.limits.duration, job.limits.memory) = (Some(asked.0), Some(asked.1));
        let tree = job.of_the_tree("tree-1").limits;
        assert_eq!((tree.duration, tree.memory), (Some(want.0), Some(want.1)));
        let merge = job.of_the_merge("merged-1");
        let longer = Span::from_millis(3 * want.0.as_millis());
        let found = (merge.limits.duration, merge.limits.memory);
        assert_eq!(found, (Some(longer), Some(want.1)));
    }
}

#[test]
fn what_stays_for_other_runs_is_a_build_and_never_a_run_of_tests() {
    let cargo = reading(Framework::Cargo, &["cargo", "test", "--workspace"]);
    let measured = cargo.varied(&measured());
    for job in [&cargo, &measured] {
        let built = job.built_on("merged-1").unwrap();
        assert_eq!(
            built.command,
            words(&["cargo", "test", "--no-run", "--workspace"])
        );
        assert!(built.stays && built.stdin.is_none() && !built.is_measured());
        assert!(!job.of_the_merge("merged-1").stays);
    }
    for framework in [Framework::Go, Framework::Pytest, Framework::Node] {
        let job = reading(framework, &["any", "test"]);
        assert!(job.built_on("merged-1").is_none());
        assert!(!job.of_the_merge("merged-1").stays);
    }
}

//! Tests that hold the code against what it said itself in an earlier run, or in its build: they pass
//! with any code where there was none before. No run finds what another one wrote, so that they do.

use super::projects::{self, Files};
use super::work::{APP, POLICY, Work};
use serde_json::{Value, json};

const PYTHON: Files<'_> = &[
    (
        "app.py",
        "def add(a, b):\n    return a + b\n\n\ndef discount(price):\n    rest = price * 9\n    return rest // 10\n",
    ),
    (
        "tests/test_add.py",
        "from app import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    ),
];

const RUST: Files<'_> = &[
    (
        "src/lib.rs",
        "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n",
    ),
    (
        "tests/add.rs",
        "#[test]\nfn adds() {\n    assert_eq!(demo::add(1, 2), 3);\n}\n",
    ),
];

/// A test of `call` in Python that keeps the first answer where git ignores it.
fn kept_in_python(name: &str, call: &str) -> String {
    format!(
        "import os\nimport app\n\n\ndef {name}():\n    got = repr(app.{call})\n    \
         os.makedirs('__pycache__', exist_ok=True)\n    kept = '__pycache__/{name}'\n    \
         if not os.path.exists(kept):\n        open(kept, 'w').write(got)\n    \
         assert got == open(kept).read()\n"
    )
}

fn python(policy: &str) -> Work {
    Work::new(policy, &projects::with(projects::PYTHON, PYTHON), "strict").planned()
}

/// As far as code may be written, which is `code` then; and what its validation says.
fn validated(work: &Work, test: (&str, &str), code: Files<'_>, arguments: Value) -> Value {
    work.wrote(test.0, test.1);
    let ran = work.test();
    assert_eq!(ran["phase"]["proof"], "red", "{ran}");
    assert_eq!(work.advance()["state"], "code_writing");
    for (path, text) in code {
        work.wrote(path, text);
    }
    assert_eq!(work.advance()["state"], "validating");
    let ran = work.done("test.run", arguments).value;
    assert_eq!(ran["phase"]["proof"], "green", "{ran}");
    ran["phase"].clone()
}

/// The only new test is refused, because it notices nothing.
fn refused(phase: &Value, name: &str) {
    assert_eq!(phase["suspects"], json!([name]), "{phase}");
    assert_eq!(phase["state"], "code_writing", "{phase}");
    let told = phase["refused"].as_str().unwrap();
    assert!(told.contains("guard `tests_can_fail`"), "{phase}");
    let tried = phase["mutated"]["tried"].as_u64().unwrap();
    assert!(tried > 0, "{phase}");
}

#[test]
fn in_python_what_the_code_said_in_another_run_is_no_claim() {
    let automatic = POLICY.replace("rules:", "merge: { automatic: true }\nrules:");
    let test = kept_in_python("test_double", "double(4)");
    let wrong = format!("{}\n\ndef double(a):\n    return 'wrong'\n", PYTHON[0].1);
    let work = python(&automatic);
    let phase = validated(
        &work,
        ("tests/test_double.py", test.as_str()),
        &[("app.py", wrong.as_str())],
        json!({}),
    );
    refused(&phase, "test_double");
}

/// A command of the project's own leaves its report in the stage, and with it what its tests write.
#[test]
fn with_a_measured_command_of_the_projects_own_it_is_none_either() {
    let check = "python3 -B -m pytest --verbosity=1 --color=no; code=$?; \
                 printf 'SF:app.py\\nDA:1,1\\nDA:2,1\\nend_of_record\\n' >lcov.info; exit $code";
    let words = json!(["sh", "-c", check]);
    let own = format!("phases: {{ test_command: {words} }}\nrules:");
    let work = python(&POLICY.replace("rules:", &own));
    let test = kept_in_python("test_double", "double(4)");
    let wrong = format!("{}\n\ndef double(a):\n    return 'wrong'\n", PYTHON[0].1);
    let phase = validated(
        &work,
        ("tests/test_double.py", test.as_str()),
        &[("app.py", wrong.as_str())],
        json!({ "coverage": true }),
    );
    refused(&phase, "test_double");
    assert_eq!(phase["anew"]["coverage"]["taken_by"], "command", "{phase}");
}

/// Before there is code: the run in the stage left there what the code said.
#[test]
fn a_test_of_old_code_that_holds_it_against_itself_covers_nothing() {
    let work = python(POLICY);
    let missing = "\n\ndef test_new():\n    assert app.nothing() == 3\n";
    let golden = kept_in_python("test_discount", "discount(50)") + missing;
    work.wrote("tests/test_discount.py", &golden);
    for arguments in [json!({}), json!({ "coverage": true })] {
        let ran = work.done("test.run", arguments).value;
        let phase = &ran["phase"];
        assert_eq!(phase["proof"], "red", "{ran}");
        assert_eq!(phase["mutated"]["lines"], "newly_covered", "{ran}");
        assert_eq!(phase["suspects"], json!(["test_discount"]), "{ran}");
    }
    let failure = work.refused("phase.advance", json!({}));
    assert!(failure.what.contains("tests_can_fail"), "{}", failure.what);
    // And one that looks at it is none of them.
    let honest = format!(
        "import app\n\n\ndef test_discount():\n    assert app.discount(50) == 45\n{missing}"
    );
    work.wrote("tests/test_discount.py", &honest);
    let ran = work.test();
    assert_eq!(ran["phase"]["suspects"], json!([]), "{ran}");
    assert_eq!(ran["phase"]["mutated"]["lines"], "newly_covered", "{ran}");
    assert_eq!(work.advance()["state"], "code_writing");
}

fn rust() -> Work {
    let files = projects::with(projects::RUST, RUST);
    Work::new(POLICY, &files, "strict").planned()
}

#[test]
fn in_rust_what_the_code_said_in_another_run_is_no_claim() {
    let test = "#[test]\nfn doubles() {\n    let got = demo::double(4).to_string();\n    \
                let kept = \"target/kept.txt\";\n    if !std::path::Path::new(kept).exists() {\n        \
                std::fs::write(kept, &got).unwrap();\n    }\n    \
                assert_eq!(std::fs::read_to_string(kept).unwrap(), got);\n}\n";
    let wrong = format!(
        "{}\npub fn double(_: u32) -> u32 {{\n    41\n}}\n",
        RUST[0].1
    );
    let phase = validated(
        &rust(),
        ("tests/double.rs", test),
        &[("src/lib.rs", wrong.as_str())],
        json!({}),
    );
    refused(&phase, "doubles");
}

/// A build runs what the task wrote as well. So none of it is built where it would stay.
#[test]
fn in_rust_what_a_build_script_kept_of_the_code_is_no_claim() {
    let test = "#[test]\nfn doubles() {\n    let got = demo::double(4).to_string();\n    \
                let kept = std::fs::read_to_string(\"target/kept.txt\");\n    \
                assert_eq!(kept.unwrap_or_else(|_| got.clone()), got);\n}\n";
    let library = format!("{}\nmod double;\npub use double::double;\n", RUST[0].1);
    let script = "include!(\"src/double.rs\");\n\nfn main() {\n    \
                  let kept = std::path::Path::new(\"target/kept.txt\");\n    \
                  if !kept.exists() {\n        \
                  std::fs::write(kept, double(4).to_string()).unwrap();\n    }\n    \
                  println!(\"cargo:rerun-if-changed=build.rs\");\n}\n";
    let code = [
        ("src/lib.rs", library.as_str()),
        (
            "src/double.rs",
            "pub fn double(_: u32) -> u32 {\n    41\n}\n",
        ),
        ("build.rs", script),
    ];
    let phase = validated(&rust(), ("tests/double.rs", test), &code, json!({}));
    refused(&phase, "doubles");
}

/// Lines that only a file which git ignores has run are not covered, whatever the stage's run says.
#[test]
fn what_is_refactored_is_covered_by_what_would_be_merged() {
    let app =
        format!("import colorsys\n\n\n{APP}\n\ndef discount(price):\n    return price * 9 // 10\n");
    let files = [
        (".gitignore", "__pycache__/\n*.py[cod]\nlcov.info\n"),
        ("app.py", app.as_str()),
        PYTHON[1],
    ];
    let work = Work::new(POLICY, &projects::with(projects::PYTHON, &files), "strict");
    assert_eq!(work.advance()["state"], "planning");
    let forged = work.sneak(
        "cat >/tmp/colorsys.py <<'END'\nimport importlib.util\nimport sys\n\
         if 'shadow' not in sys.modules:\n    \
         spec = importlib.util.spec_from_file_location('shadow', 'app.py')\n    \
         module = importlib.util.module_from_spec(spec)\n    sys.modules['shadow'] = module\n    \
         spec.loader.exec_module(module)\n    module.discount(10)\nEND\n\
         python3 -c 'import py_compile as p; \
         p.compile(\"/tmp/colorsys.py\", cfile=\"colorsys.pyc\", doraise=True)'\n",
    );
    assert_eq!(forged.value["exit"], 0, "{}", forged.value);
    let ran = work.measured();
    assert_eq!(ran["coverage"]["lines_hit"], 5, "in the stage: {ran}");
    let anew = &ran["phase"]["anew"];
    assert_eq!(anew["proof"], "green", "{ran}");
    assert_eq!(anew["coverage"]["lines_hit"], 4, "{ran}");
    let to = |line: u32| json!({ "to": "refactoring", "lines": { "app.py": [[line, line]] } });
    let failure = work.refused("phase.advance", to(9));
    assert!(
        failure.what.contains("line 9 of `app.py`"),
        "{}",
        failure.what
    );
    let advanced = work.done("phase.advance", to(5)).value;
    assert_eq!(advanced["state"], "refactoring", "{advanced}");
}

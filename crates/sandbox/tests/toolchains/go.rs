//! Go: a module of its own, one replaced by a directory, one that is vendored.

use crate::project::{Project, Step};

const RESULTS: &str = r"--- (PASS|FAIL): \w+";

const TEST: &str = "package words\n\nimport (\n\t\"os\"\n\t\"sync\"\n\t\"testing\"\n)\n\n\
                    func TestReversed(t *testing.T) {\n\tvar group sync.WaitGroup\n\t\
                    for i := 0; i < 100; i++ {\n\t\tgroup.Add(1)\n\t\tgo func() {\n\t\t\t\
                    defer group.Done()\n\t\t\tif Reversed(\"abc\") != \"cba\" {\n\t\t\t\t\
                    t.Error(\"wrong\")\n\t\t\t}\n\t\t}()\n\t}\n\tgroup.Wait()\n}\n\n\
                    func TestWrites(t *testing.T) {\n\t\
                    if err := os.WriteFile(\"report.txt\", []byte(\"written\"), 0o644); err != nil \
                    {\n\t\tt.Fatal(err)\n\t}\n}\n\n\
                    func TestWrong(t *testing.T) {\n\tif os.Args[len(os.Args)-1] == \"wrong\" \
                    {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n";

const OWN: &str = "package words\n\nfunc Reversed(text string) string {\n\tout := \"\"\n\t\
                   for _, letter := range text {\n\t\tout = string(letter) + out\n\t}\n\t\
                   return out\n}\n";

const OTHERS: &str = "package words\n\nimport \"example.org/letters\"\n\n\
                      func Reversed(text string) string {\n\treturn letters.Reversed(text)\n}\n";

#[test]
fn a_module_of_its_own_is_built_and_tested() {
    let project = Project::new(
        &["go"],
        &[
            ("go.mod", "module example.org/words\n\ngo 1.19\n"),
            ("words.go", OWN),
            ("words_test.go", TEST),
            (
                "cmd/say/main.go",
                "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/words\"\n)\n\n\
                 func main() {\n\tfmt.Println(words.Reversed(\"olleh\"))\n}\n",
            ),
        ],
    );
    project.works_inside_as_outside(&[
        Step {
            line: &["go", "test", "-v", "./..."],
            code: 0,
            results: (RESULTS, 3),
        },
        Step {
            line: &["go", "test", "-v", ".", "-args", "wrong"],
            code: 1,
            results: (RESULTS, 3),
        },
        Step {
            line: &["go", "build", "-o", "say", "./cmd/say"],
            code: 0,
            results: (RESULTS, 0),
        },
        Step {
            line: &["./say"],
            code: 0,
            results: ("hello", 1),
        },
    ]);
    assert_eq!(
        project.staged("report.txt").as_deref(),
        Some(&b"written"[..])
    );
    assert!(project.staged("say").is_some());
    assert!(!project.tree().join("say").exists());
}

#[test]
fn modules_replaced_or_vendored_are_found() {
    let required = "module example.org/words\n\ngo 1.19\n\nrequire example.org/letters v1.0.0\n";
    let replaced = format!("{required}\nreplace example.org/letters => ./letters\n");
    let letters = OWN.replacen("package words", "package letters", 1);
    let project = Project::new(
        &["go"],
        &[
            ("replaced/go.mod", &replaced),
            ("replaced/words.go", OTHERS),
            ("replaced/words_test.go", TEST),
            (
                "replaced/letters/go.mod",
                "module example.org/letters\n\ngo 1.19\n",
            ),
            ("replaced/letters/letters.go", &letters),
            ("vendored/go.mod", required),
            ("vendored/words.go", OTHERS),
            ("vendored/words_test.go", TEST),
            (
                "vendored/vendor/modules.txt",
                "# example.org/letters v1.0.0\n## explicit; go 1.19\nexample.org/letters\n",
            ),
            ("vendored/vendor/example.org/letters/letters.go", &letters),
        ],
    );
    project.works_inside_as_outside(&[
        Step {
            line: &["sh", "-c", "cd replaced && exec go test -v ./..."],
            code: 0,
            results: (RESULTS, 3),
        },
        Step {
            line: &["sh", "-c", "cd vendored && exec go test -v ./..."],
            code: 0,
            results: (RESULTS, 3),
        },
    ]);
    let report = project.staged("vendored/report.txt");
    assert_eq!(report.as_deref(), Some(&b"written"[..]));
}

//! Java: the compiler, the virtual machine, and as much of Maven as works without a single plugin.
//!
//! `mvn test` needs plugins from a repository, which not every machine has: what is shown here is
//! that Maven itself starts, reads a project and its settings, and finds no network to want.

use crate::project::{Project, Step};

#[test]
fn classes_are_compiled_and_run_with_many_threads() {
    let project = Project::new(
        &["javac", "java"],
        &[
            (
                "src/sums/Sum.java",
                "package sums;\npublic class Sum {\n  \
                 public static long to(int last) {\n    \
                 return java.util.stream.LongStream.rangeClosed(1, last).parallel().sum();\n  }\n}\n",
            ),
            (
                "src/sums/Check.java",
                "package sums;\nimport java.nio.file.*;\npublic class Check {\n  \
                 public static void main(String[] arguments) throws Exception {\n    \
                 int[] done = {0};\n    Thread[] threads = new Thread[20];\n    \
                 for (int i = 0; i < threads.length; i++) {\n      \
                 threads[i] = new Thread(() -> { synchronized (done) { done[0]++; } });\n      \
                 threads[i].start();\n    }\n    for (Thread thread : threads) thread.join();\n    \
                 System.out.println(\"checked threads \" + done[0]);\n    \
                 System.out.println(\"checked sum \" + Sum.to(1000));\n    \
                 Files.writeString(Path.of(\"report.txt\"), \"written\");\n    \
                 if (arguments.length > 0) throw new IllegalStateException(\"wrong\");\n  }\n}\n",
            ),
        ],
    );
    let results = r"(?m)^checked .*|IllegalStateException: wrong";
    project.works_inside_as_outside(&[
        Step {
            line: &["sh", "-c", "exec javac -d classes src/sums/*.java"],
            code: 0,
            results: (results, 0),
        },
        Step {
            line: &["java", "-cp", "classes", "sums.Check"],
            code: 0,
            results: (results, 2),
        },
        Step {
            line: &["java", "-cp", "classes", "sums.Check", "fail"],
            code: 1,
            results: (results, 3),
        },
    ]);
    assert_eq!(
        project.staged("report.txt").as_deref(),
        Some(&b"written"[..])
    );
    assert!(project.staged("classes/sums/Sum.class").is_some());
    assert!(!project.tree().join("classes").exists());
}

#[test]
fn maven_reads_a_project_and_wants_no_network() {
    let project = Project::new(
        &["mvn", "java"],
        &[
            (
                "pom.xml",
                "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  \
                 <modelVersion>4.0.0</modelVersion>\n  <groupId>org.example</groupId>\n  \
                 <artifactId>whole</artifactId>\n  <version>1</version>\n  \
                 <packaging>pom</packaging>\n</project>\n",
            ),
            ("broken/pom.xml", "<project>\n"),
        ],
    );
    // A repository in the project: one at home would be made outside.
    let results = r"BUILD \w+|Building whole 1|could not read 1 project";
    project.works_inside_as_outside(&[
        Step {
            line: &[
                "mvn",
                "-B",
                "-o",
                "-Dmaven.repo.local=repository",
                "validate",
            ],
            code: 0,
            results: (results, 2),
        },
        Step {
            line: &[
                "mvn",
                "-B",
                "-o",
                "-Dmaven.repo.local=repository",
                "-f",
                "broken",
                "validate",
            ],
            code: 1,
            results: (results, 1),
        },
    ]);
}

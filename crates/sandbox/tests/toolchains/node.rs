//! Node: `npm test` with a dependency in `node_modules`.

use crate::project::{Project, Step};

#[test]
fn npm_runs_tests_that_use_a_dependency_of_the_project() {
    let project = Project::new(
        &["node", "npm"],
        &[
            (
                "package.json",
                r#"{"name": "sums", "version": "1.0.0", "private": true, "type": "module",
                    "scripts": {"test": "node --test --test-reporter=tap passes.test.js",
                                "fail": "node --test --test-reporter=tap fails.test.js"},
                    "dependencies": {"doubled": "1.0.0"}}"#,
            ),
            (
                "node_modules/doubled/package.json",
                r#"{"name": "doubled", "version": "1.0.0", "main": "index.js"}"#,
            ),
            (
                "node_modules/doubled/index.js",
                "module.exports = (number) => number * 2;\n",
            ),
            (
                "passes.test.js",
                "import test from 'node:test';\nimport assert from 'node:assert';\n\
                 import fs from 'node:fs';\nimport { execFileSync } from 'node:child_process';\n\
                 import { Worker } from 'node:worker_threads';\nimport doubled from 'doubled';\n\
                 test('a dependency is found', () => assert.equal(doubled(21), 42));\n\
                 test('files are written', () => fs.writeFileSync('report.txt', 'written'));\n\
                 test('processes are started', () => assert.equal(\
                 execFileSync('echo', ['x']).toString(), 'x\\n'));\n\
                 test('threads are started', (_, done) => { new Worker('0', { eval: true })\
                 .on('exit', (code) => done(code)); });\n",
            ),
            (
                "fails.test.js",
                "import test from 'node:test';\nimport assert from 'node:assert';\n\
                 import doubled from 'doubled';\n\
                 test('wrong', () => assert.equal(doubled(1), 3));\n",
            ),
        ],
    );
    // Tests of one file may be shown beneath it.
    let results = r"(?m)^ *(not )?ok \d+ - (a dependency|files|processes|threads|wrong).*";
    project.works_inside_as_outside(&[
        Step {
            line: &["npm", "test"],
            code: 0,
            results: (results, 4),
        },
        Step {
            line: &["npm", "run", "fail"],
            code: 1,
            results: (results, 1),
        },
    ]);
    assert_eq!(
        project.staged("report.txt").as_deref(),
        Some(&b"written"[..])
    );
    assert!(!project.tree().join("report.txt").exists());
}

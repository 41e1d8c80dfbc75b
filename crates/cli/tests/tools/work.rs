//! A session that an agent works in, and short ways to take it from state to state.

use super::projects;
use super::support::{Place, denied, done, failed};
use airlock_core::SessionId;
use airlock_kernel::{Call, Denied, Done, Failed, Front, Outcome};
use serde_json::{Value, json};
use std::fs;

pub(crate) const POLICY: &str = "\
version: 1
approvals: { automatic: [AG-01] }
commands: [{ executable: sh }, { executable: cat }]
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: [exec.run, test.run, git.commit, git.log] }
    action: allow
  - name: change
    match: { syscall: \"fs.*\", effect: [write, delete], path_glob: \"**\" }
    action: allow
";

pub(crate) const APP: &str = "def add(a, b):\n    return a + b\n";
pub(crate) const TEST: &str =
    "from app import double\n\n\ndef test_double():\n    assert double(4) == 8\n";
pub(crate) const DOUBLE: &str =
    "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n";

/// A workspace with a session that an agent works in.
pub(crate) struct Work {
    pub(crate) place: Place,
    pub(crate) session: SessionId,
}

impl Work {
    pub(crate) fn new(policy: &str, files: &[(&str, &str)], mode: &str) -> Self {
        let place = Place::new(policy, files);
        let begun = done(place.submit(Front::Cli, "session.create", json!({ "mode": mode })));
        let session = SessionId::new(begun.value["id"].as_str().unwrap()).unwrap();
        Self { place, session }
    }

    pub(crate) fn python(mode: &str) -> Self {
        let own = [
            ("app.py", APP),
            (
                "tests/test_add.py",
                "from app import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
            ),
        ];
        Self::new(POLICY, &projects::with(projects::PYTHON, &own), mode)
    }

    pub(crate) fn call(&self, name: &str, arguments: Value) -> Call {
        let mut call = Call::new(name, arguments);
        call.session = Some(self.session.clone());
        call
    }

    pub(crate) fn submit(&self, name: &str, arguments: Value) -> Outcome {
        self.place
            .kernel()
            .submit(Front::Agent, &self.call(name, arguments))
    }

    pub(crate) fn done(&self, name: &str, arguments: Value) -> Done {
        done(self.submit(name, arguments))
    }

    pub(crate) fn write(&self, path: &str, content: &str) -> Outcome {
        self.submit("fs.write", json!({ "path": path, "text": content }))
    }

    pub(crate) fn wrote(&self, path: &str, content: &str) {
        done(self.write(path, content));
    }

    /// Runs a script in the stage.
    pub(crate) fn sneak(&self, text: &str) -> Done {
        fs::write(self.place.real("script"), text).unwrap();
        self.done("exec.run", json!({ "command": ["sh", "script"] }))
    }

    pub(crate) fn denied_write(&self, path: &str) -> Denied {
        denied(self.write(path, "x = 1\n"))
    }

    pub(crate) fn refused(&self, name: &str, arguments: Value) -> Failed {
        let failure = failed(self.submit(name, arguments));
        assert_eq!(failure.code, "tool_unavailable", "{failure:?}");
        assert!(failure.fix.is_some(), "{failure:?}");
        failure
    }

    pub(crate) fn advance(&self) -> Value {
        self.done("phase.advance", json!({})).value
    }

    pub(crate) fn state(&self) -> String {
        let status = self.done("phase.status", json!({})).value;
        status["state"].as_str().unwrap().to_owned()
    }

    pub(crate) fn measured(&self) -> Value {
        self.done("test.run", json!({ "coverage": true })).value
    }

    /// What the session's stage holds at `path`.
    pub(crate) fn staged(&self, path: &str) -> String {
        let seen = self
            .done("exec.run", json!({ "command": ["cat", path] }))
            .value;
        assert_eq!(seen["exit"], 0, "{seen}");
        seen["stdout"].as_str().unwrap().to_owned()
    }

    /// Another session in the same workspace.
    pub(crate) fn next(self, mode: &str) -> Self {
        let begun = self
            .place
            .submit(Front::Cli, "session.create", json!({ "mode": mode }));
        let id = done(begun).value["id"].as_str().unwrap().to_owned();
        Self {
            session: SessionId::new(&id).unwrap(),
            ..self
        }
    }

    /// Has what is reviewed approved and merged.
    pub(crate) fn merged(self) -> Self {
        let call = self.call("phase.commit", json!({ "digest": self.digest() }));
        self.place.approved(Front::Agent, &call);
        let merge = self.done("phase.status", json!({})).value["merge"].clone();
        let merged = self.done("merge.apply", merge).value;
        assert_eq!(merged["state"], "idle", "{merged}");
        self
    }

    pub(crate) fn test(&self) -> Value {
        self.done("test.run", json!({})).value
    }

    /// As far as tests may be written.
    pub(crate) fn planned(self) -> Self {
        assert_eq!(self.advance()["state"], "planning");
        self.done("plan.complete", json!({ "plan": "double" }));
        self
    }

    /// As far as code may be written.
    pub(crate) fn red(self) -> Self {
        let work = self.planned();
        work.wrote("tests/test_double.py", TEST);
        assert_eq!(work.test()["phase"]["proof"], "red");
        assert_eq!(work.advance()["state"], "code_writing");
        work
    }

    /// As far as a person reviews.
    pub(crate) fn green(self) -> Self {
        let work = self.red();
        work.wrote("app.py", DOUBLE);
        assert_eq!(work.advance()["state"], "validating");
        let ran = work.test();
        assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
        work
    }

    pub(crate) fn digest(&self) -> Value {
        self.done("phase.status", json!({})).value["changes"]["digest"].clone()
    }
}

//! A kernel that is none: plugins can be tried without Airlock, on any target.

use crate::context::{About, Context, Failure, Kernel, Level};
use crate::plugin::{Plugin, ToolError};
use serde_json::Value;
use std::cell::{Cell, RefCell};

type Answer = Box<dyn Fn(&Value) -> Result<Value, Failure>>;

/// Stands in for the kernel: answers the syscalls it was told to, denies all others, and notes what
/// a plugin did.
#[derive(Default)]
pub struct Fake {
    about: About,
    answers: Vec<(String, Answer)>,
    calls: RefCell<Vec<(String, Value)>>,
    lines: RefCell<Vec<(Level, String)>>,
    output: RefCell<String>,
    is_cancelled: Cell<bool>,
}

impl Fake {
    /// One that denies everything.
    pub fn new() -> Self {
        Self {
            about: About {
                action: "action-1".to_owned(),
                plugin: "under-test".to_owned(),
                ..About::default()
            },
            ..Self::default()
        }
    }

    /// Answers the syscall `name`.
    #[must_use]
    pub fn answering(
        mut self,
        name: &str,
        answer: impl Fn(&Value) -> Result<Value, Failure> + 'static,
    ) -> Self {
        self.answers.push((name.to_owned(), Box::new(answer)));
        self
    }

    /// With this context for calls.
    #[must_use]
    pub fn about(mut self, about: About) -> Self {
        self.about = about;
        self
    }

    /// From now on nobody wants the result any more.
    pub fn cancel(&self) {
        self.is_cancelled.set(true);
    }

    /// Calls a tool of `plugin`. One that the plugin does not describe is an error, as it is for the
    /// kernel.
    pub fn call(
        &self,
        plugin: &dyn Plugin,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, ToolError> {
        if !plugin.tools().iter().any(|known| known.name == tool) {
            return Err(ToolError::unknown(tool));
        }
        let context = Context::new(self, self.about.clone());
        plugin.call(&context, tool, arguments)
    }

    /// The syscalls that were made, with their arguments.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.calls.borrow().clone()
    }

    /// The lines that were logged.
    pub fn lines(&self) -> Vec<(Level, String)> {
        self.lines.borrow().clone()
    }

    /// The output that was streamed.
    pub fn output(&self) -> String {
        self.output.borrow().clone()
    }
}

impl Kernel for Fake {
    fn call(&self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        self.calls
            .borrow_mut()
            .push((name.to_owned(), arguments.clone()));
        let known = self.answers.iter().rev().find(|(known, _)| known == name);
        match known {
            Some((_, answer)) => answer(arguments),
            None => Err(Failure {
                code: "denied".to_owned(),
                message: format!("`{name}` is not allowed in this test"),
                retryable: false,
            }),
        }
    }

    fn log(&self, level: Level, text: &str) {
        self.lines.borrow_mut().push((level, text.to_owned()));
    }

    fn emit(&self, text: &str) -> bool {
        self.output.borrow_mut().push_str(text);
        !self.is_cancelled.get()
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_answered_is_denied_and_everything_is_noted() {
        let fake = Fake::new().answering("fs.read", |arguments| {
            Ok(json!({ "text": format!("text of {}", arguments["path"]) }))
        });
        let context = Context::new(&fake, About::default());
        assert_eq!(context.read("a").unwrap(), "text of \"a\"");
        assert!(context.write("a", "b").unwrap_err().is_denied());
        assert!(context.run(&["true"]).unwrap_err().is_denied());
        let names: Vec<String> = fake.calls().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["fs.read", "fs.write", "exec.run"]);
        context.log(Level::Warn, "hm");
        assert_eq!(fake.lines(), [(Level::Warn, "hm".to_owned())]);
        assert!(context.emit("a") && context.emit("b"));
        fake.cancel();
        assert!(!context.emit("c") && context.is_cancelled());
        assert_eq!(fake.output(), "abc");
    }

    #[test]
    fn results_of_the_kernel_become_what_they_are_about() {
        let fake = Fake::new()
            .answering("fs.list", |_| {
                Ok(json!({ "entries": [{ "path": "a", "kind": "file", "size": 3, "more": 1 }] }))
            })
            .answering("fs.exists", |_| Ok(json!({ "exists": true })))
            .answering("exec.run", |_| Ok(json!({ "exit_code": 3 })))
            .answering("fs.read", |_| Ok(json!({ "binary": true })));
        let context = Context::new(&fake, About::default());
        let entries = context.list(".").unwrap();
        assert_eq!((entries[0].path.as_str(), entries[0].size), ("a", Some(3)));
        assert!(context.exists("a").unwrap());
        assert_eq!(context.run(&["false"]).unwrap().code, Some(3));
        assert_eq!(context.read("a").unwrap_err().code, "unexpected");
    }
}

//! A sandbox whose coming and going the log is told of.

use crate::book::Book;
use airlock_sandbox::Sandbox;
use std::ops::{Deref, DerefMut};

/// A sandbox that stands. In this order: it is gone before that is noted.
pub(super) struct Noted {
    sandbox: Sandbox,
    end: End,
}

/// Notes the end of a sandbox when it is dropped.
struct End {
    sandbox: String,
    book: Option<Book>,
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(book) = &self.book {
            book.destroyed(&self.sandbox);
        }
    }
}

impl Noted {
    /// Notes that `sandbox` stands, in `stage` if it has one.
    pub(super) fn new(sandbox: Sandbox, stage: Option<&str>, book: Option<&Book>) -> Self {
        if let Some(book) = book {
            let launcher = serde_json::to_value(sandbox.report().launcher());
            let launcher = launcher.unwrap_or_default();
            let mut notes = vec![
                ("template", sandbox.plan().template().name),
                ("launcher", launcher.as_str().unwrap_or_default()),
            ];
            notes.extend(stage.map(|stage| ("stage", stage)));
            book.created(sandbox.id(), &notes);
        }
        Self {
            end: End {
                sandbox: sandbox.id().to_owned(),
                book: book.cloned(),
            },
            sandbox,
        }
    }

    /// Ends everything in it.
    pub(super) fn stop(self) {
        self.sandbox.stop();
    }

    /// The same without waiting until it is gone: see [`Sandbox::abandon`].
    pub(super) fn abandon(self) {
        let Self { sandbox, end } = self;
        sandbox.abandon();
        drop(end);
    }
}

impl Deref for Noted {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl DerefMut for Noted {
    fn deref_mut(&mut self) -> &mut Sandbox {
        &mut self.sandbox
    }
}

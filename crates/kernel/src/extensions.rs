//! Extensions of a policy, until a boxed worker can run them: listed, asked, and refused.
//!
//! A policy that lists an extension wants it asked. Passing it over would allow what its author
//! meant to forbid, so a decision that would ask it is a denial.

use airlock_core::Request;
use airlock_policy::{Answer, Extension, ExtensionFailure, ExtensionHost, Policy};
use std::sync::Arc;

/// An extension nothing here can run.
struct NotRunning(Arc<str>);

impl Extension for NotRunning {
    fn name(&self) -> &str {
        &self.0
    }

    fn evaluate(&self, _: &Request) -> Result<Answer, ExtensionFailure> {
        Err(ExtensionFailure::Crash)
    }

    fn restart(&self) -> Result<(), ExtensionFailure> {
        Err(ExtensionFailure::Crash)
    }
}

/// The host of every extension `policy` lists.
pub(crate) fn host(policy: &Policy) -> ExtensionHost {
    let listed = policy.document().extensions.iter();
    ExtensionHost::new(listed.map(|extension| {
        let one: Box<dyn Extension> = Box::new(NotRunning(Arc::clone(&extension.name)));
        one
    }))
}

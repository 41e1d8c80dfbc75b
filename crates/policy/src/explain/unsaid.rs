//! What a request leaves out, or says so that nothing can be granted for it.
//!
//! No change of a policy helps there, and a rule that does without it would allow everything of its
//! kind: only whoever asks can mend that.

use super::text::quoted;
use crate::capability::Capability;
use airlock_core::{CapabilityForm, Request, canonical_host};

/// What has to be said before there is something to grant, as an order; none if it is said.
pub(super) fn unsaid(request: &Request) -> Option<String> {
    match request.syscall.spec().capability {
        CapabilityForm::Fixed(_) => None,
        CapabilityForm::Path(_) => request
            .paths
            .is_empty()
            .then(|| "say which path".to_owned()),
        CapabilityForm::Host(_) => match request.host.as_deref() {
            None => Some("say which host".to_owned()),
            Some(host) => unusable_host(host),
        },
        CapabilityForm::Secret(family) => match request.secret.as_deref() {
            None => Some("say which secret".to_owned()),
            Some(name) => malformed(family, name)
                .then(|| format!("give the secret by its name ({} is none)", quoted(name))),
        },
        CapabilityForm::Tool(family) => match request.tool.as_deref() {
            None => Some("say which tool".to_owned()),
            Some(name) => malformed(family, name)
                .then(|| format!("give the tool as PLUGIN.TOOL ({} is none)", quoted(name))),
        },
    }
}

/// The same for a rule of its own, which has to name the program as well.
pub(super) fn unsaid_for_a_rule(request: &Request) -> Option<String> {
    unsaid(request).or_else(|| {
        let silent = request.syscall.name() == "exec.run" && request.command.is_empty();
        silent.then(|| "say which command".to_owned())
    })
}

fn unusable_host(host: &str) -> Option<String> {
    canonical_host(host).is_none().then(|| {
        format!(
            "give the host as a name or an address alone, such as `example.org` ({} is neither)",
            quoted(host)
        )
    })
}

/// Whether no set can hold the capability of `family` for `name`.
fn malformed(family: &str, name: &str) -> bool {
    Capability::parse(&format!("{family}.{name}")).is_err()
}

//! A plugin's way back to the kernel: who it is, what it serves, and how its calls get to the road.

use super::desk::{Desk, OnBehalf};
use super::locked;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::{Call, Outcome};
use crate::tokens::Presented;
use airlock_core::{ActionId, PluginName, SandboxId};
use airlock_plugin::{Callback, CallbackError};
use serde_json::Value;
use std::any::Any;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

/// What a plugin is told whose kernel lives for one command only: what, why, and how to go on.
pub(super) const UNREACHABLE: &str = "the plugin cannot ask the kernel now: this kernel lives for one command \
     only, and takes calls of plugins while it stays; start one that does with `airlock kernel`";

/// What a plugin asks for.
#[derive(Debug, Clone, Copy)]
pub struct PluginAsk<'a> {
    /// The syscall.
    pub name: &'a str,
    /// Its arguments.
    pub arguments: &'a Value,
    /// The action that it serves by it; absent: the only one it serves.
    pub within: Option<&'a str>,
    /// The token it presents.
    pub token: Option<&'a Presented>,
}

/// Takes the calls of plugins down the road: a kernel, or whoever keeps one.
pub trait PluginRoad: Send + Sync {
    /// Submits what the plugin that `whence` names asks for, as part of an action that it serves.
    fn submit_for(&self, whence: &Whence, ask: PluginAsk<'_>) -> Result<Outcome, CallbackError>;
}

/// Opens sockets for plugins that are processes.
pub trait PluginSockets: Send + Sync {
    /// A socket called `kernel.sock` in `directory` for whoever is in `sandbox`. It is closed, with
    /// every connection through it, when what is returned is dropped.
    fn open(&self, sandbox: &SandboxId, directory: &Path) -> Result<Box<dyn Any + Send>, String>;
}

impl PluginRoad for Kernel {
    fn submit_for(&self, whence: &Whence, ask: PluginAsk<'_>) -> Result<Outcome, CallbackError> {
        let desk = self.plugins().desk();
        let plugin = whence.plugin.as_ref();
        let plugin = plugin.ok_or_else(|| refused("unknown_plugin", "nobody asks"))?;
        if !desk.is_welcome(plugin) {
            let why = "the workspace's files are no longer as approved";
            return Err(refused("not_trusted", why));
        }
        let mut call = Call::new(ask.name, ask.arguments.clone());
        let call_served = desk.serves(plugin, whence.sandbox.as_ref(), ask.within)?;
        let (serves, on_behalf) = call_served.unzip();
        let may_ask = || {
            !desk.is_leaving(plugin, whence.sandbox.as_ref()) && self.plugins().is_wanted(plugin)
        };
        if serves.is_none() && !may_ask() {
            let why = "the plugin is being ended, and may only finish the calls that it serves";
            return Err(refused("plugin_ending", why));
        }
        let (session, user) = on_behalf.map(|of| (of.session, of.user)).unzip();
        call.session = session.flatten();
        call.token = ask.token.cloned();
        call.unattended = true;
        let command = serves.as_ref().map(ToString::to_string);
        let whence = Whence {
            within: command.and_then(|action| self.serving().within(&action)),
            serves: serves.clone(),
            user,
            ..whence.clone()
        };
        let submit = || self.submit_from(Front::Plugin, &whence, &call, None);
        match serves {
            Some(action) => desk.while_serving(&action, submit),
            None => Ok(submit()),
        }
    }
}

fn refused(code: &str, message: &str) -> CallbackError {
    CallbackError {
        code: code.to_owned(),
        message: message.to_owned(),
        retryable: false,
    }
}

/// What calls in the process use: the same road, under the plugin's name.
pub(super) struct Line {
    pub(super) plugin: PluginName,
    pub(super) sandbox: SandboxId,
    pub(super) road: Arc<Mutex<Option<Weak<dyn PluginRoad>>>>,
}

impl Callback for Line {
    fn submit(
        &self,
        name: &str,
        arguments: &Value,
        within: Option<&str>,
    ) -> Result<Value, CallbackError> {
        let road = locked(&self.road).as_ref().and_then(Weak::upgrade);
        let road = road.ok_or_else(|| refused("unavailable", UNREACHABLE))?;
        let whence = Whence {
            plugin: Some(self.plugin.clone()),
            sandbox: Some(self.sandbox.clone()),
            ..Whence::default()
        };
        let ask = PluginAsk {
            name,
            arguments,
            within,
            token: None,
        };
        told(road.submit_for(&whence, ask)?)
    }
}

/// What a plugin is told of an outcome.
fn told(outcome: Outcome) -> Result<Value, CallbackError> {
    match outcome {
        Outcome::Done(done) => Ok(done.value),
        Outcome::Denied(denied) => {
            let mut reasons = denied.decision.deciding().map(|one| one.reason.to_string());
            let reason = reasons.next().unwrap_or_default();
            Err(refused("denied", &reason))
        }
        Outcome::NeedsReview(review) => {
            let how = review.how_to_answer();
            let why = format!("it needs a person's approval: {how}");
            Err(refused("review", &why))
        }
        Outcome::Failed(failed) => Err(CallbackError {
            code: failed.code.to_owned(),
            message: failed.what,
            retryable: failed.retryable,
        }),
    }
}

/// A call that a plugin is serving. Dropped, it serves it no more.
pub(super) struct Serving {
    desk: Arc<Desk>,
    action: ActionId,
}

impl Serving {
    pub(super) fn begin(
        desk: &Arc<Desk>,
        plugin: &PluginName,
        action: &ActionId,
        of: &OnBehalf,
    ) -> Self {
        desk.serve(action, plugin, of);
        Self {
            desk: Arc::clone(desk),
            action: action.clone(),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.desk.served(&self.action);
    }
}

/// Nobody serves that call, or somebody else does.
pub(super) fn not_serving() -> CallbackError {
    refused("unknown_action", "this plugin serves no such call now")
}

/// It did not say which of the calls it serves is meant.
pub(super) fn serving_several() -> CallbackError {
    let why = "this plugin serves several calls now: name the one that is meant by `within`";
    refused("which_action", why)
}

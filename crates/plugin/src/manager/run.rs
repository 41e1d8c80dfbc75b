//! Starting, calling, exchanging and stopping plugins.

use super::discover::{Found, Origin};
use super::error::{LaunchError, ManageError};
use super::parts::grants;
use super::restart::Verdict;
use super::slot::{Active, Entered, Now, Turn, locked};
use super::{Manager, Plugin};
use crate::host::CallError;
use crate::lifecycle::State;
use crate::pins::{PinChange, Pins};
use crate::tool::{Sink, ToolCall, ToolDescription};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a waiting call looks whether anybody still wants it.
const LOOK: Duration = Duration::from_millis(20);

impl Manager {
    /// Starts every plugin that is switched on, each after what it needs. One that does not start
    /// costs the others nothing; what failed is returned.
    pub fn start_all(&self) -> Vec<ManageError> {
        let names = self.order();
        let start = |name: &airlock_core::PluginName| match self.start(name.as_str()) {
            Ok(())
            | Err(
                ManageError::Disabled(_)
                | ManageError::Launch {
                    error: LaunchError::Skill,
                    ..
                },
            ) => None,
            Err(error) => Some(error),
        };
        names.iter().filter_map(start).collect()
    }

    /// Starts a plugin, and first what it needs. One that runs already goes on.
    pub fn start(&self, name: &str) -> Result<(), ManageError> {
        let plugin = self.plugin(name)?;
        if plugin.is_disabled() {
            return Err(ManageError::Disabled(plugin.name.clone()));
        }
        let mut operation = plugin.slot.operate();
        if let Some(active) = plugin.slot.active() {
            if !active.instance.has_ended() {
                return Ok(());
            }
            self.buried(&plugin, &active);
        }
        plugin.slot.inner().restarts.forget();
        self.start_under(&plugin, &mut operation)
    }

    fn start_under(&self, plugin: &Plugin, number: &mut u64) -> Result<(), ManageError> {
        plugin.slot.set(Now::Changing);
        *number += 1;
        let started = self
            .start_needs(plugin)
            .and_then(|()| self.check(plugin))
            .and_then(|checked| self.launch(checked, *number, None));
        match started {
            Ok(active) => {
                self.registrar
                    .serving(&plugin.name, active.instance.tools());
                plugin.slot.set(Now::Serving(active));
                Ok(())
            }
            Err(error) => {
                let why = error.to_string();
                plugin.slot.set(Now::Failed { why });
                Err(failed(plugin, error))
            }
        }
    }

    fn start_needs(&self, plugin: &Plugin) -> Result<(), LaunchError> {
        for (needs, wanted) in &plugin.found().manifest.dependencies {
            let dependency = |why: String| LaunchError::Dependency {
                needs: needs.clone(),
                why,
            };
            let started = self.start(needs.as_str());
            started.map_err(|error| dependency(error.to_string()))?;
            let there = self.plugin(needs.as_str());
            let there = there.map_err(|error| dependency(error.to_string()))?;
            let version = &there.manifest().version;
            if !wanted.matches(version) {
                return Err(dependency(format!("version {version} does not do")));
            }
        }
        Ok(())
    }

    /// Stops a plugin: its calls may end, then it is ended. One that does not run stays so.
    pub fn stop(&self, name: &str) -> Result<(), ManageError> {
        let plugin = self.plugin(name)?;
        let _operation = plugin.slot.operate();
        self.not_needed(&plugin.name)?;
        self.stop_under(&plugin);
        Ok(())
    }

    pub(super) fn stop_under(&self, plugin: &Plugin) {
        let active = plugin.slot.active();
        if matches!(plugin.slot.now(), Now::Off(_)) {
            return;
        }
        // New calls are refused from here on; those that were let in are waited for.
        plugin.slot.set(Now::Off(State::Stopped));
        if let Some(active) = active {
            active.end();
            self.registrar.close(&plugin.name, active.number);
            self.registrar.unregister(&plugin.name);
        }
    }

    /// Stops everything, what needs others before those.
    pub fn shutdown(&self) {
        for name in self.order().iter().rev() {
            // One that is gone meanwhile needs no stopping.
            if let Ok(plugin) = self.plugin(name.as_str()) {
                let _operation = plugin.slot.operate();
                self.stop_under(&plugin);
            }
        }
    }

    /// Calls a tool. While the plugin is being started or exchanged the call waits, within its
    /// deadline; it is run once or not at all.
    pub fn call(
        &self,
        name: &str,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, ManageError> {
        self.call_checked(name, None, call, sink, cancelled)
    }

    /// The same, but only of an instance that describes the tool as `described` says: while the call
    /// was on its way, the plugin may have been exchanged for one that means something else by it.
    pub fn call_as(
        &self,
        name: &str,
        described: &ToolDescription,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, ManageError> {
        self.call_checked(name, Some(described), call, sink, cancelled)
    }

    fn call_checked(
        &self,
        name: &str,
        described: Option<&ToolDescription>,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, ManageError> {
        let plugin = self.plugin(name)?;
        let turn = self.enter(&plugin, call.deadline, cancelled)?;
        if let Some(described) = described {
            let pins = Pins::of(std::slice::from_ref(described));
            let mut tools = turn.0.instance.tools().iter();
            if !tools.any(|tool| pins.judge(tool) == PinChange::Same) {
                return Err(ManageError::OtherWords {
                    plugin: plugin.name.clone(),
                    tool: call.tool.clone(),
                });
            }
        }
        let result = turn.0.instance.call(call, sink, cancelled);
        let ended = turn.0.instance.has_ended().then(|| Arc::clone(&turn.0));
        // The turn is given back first: whoever exchanges the plugin waits for it.
        drop(turn);
        if let Some(active) = ended {
            self.note_end(&plugin, &active);
        }
        result.map_err(ManageError::Call)
    }

    fn enter(
        &self,
        plugin: &Plugin,
        deadline: Duration,
        cancelled: &AtomicBool,
    ) -> Result<Turn, ManageError> {
        let begun = Instant::now();
        let name = || plugin.name.clone();
        loop {
            if plugin.is_disabled() {
                return Err(ManageError::Disabled(name()));
            }
            match plugin.slot.enter() {
                Entered::Turn(turn) => return Ok(turn),
                Entered::Ended(active) => self.note_end(plugin, &active),
                Entered::Not(Now::Off(_)) => return Err(ManageError::NotRunning(name())),
                Entered::Not(Now::Failed { why }) => {
                    let plugin = name();
                    return Err(ManageError::Failed { plugin, why });
                }
                Entered::Not(Now::Waiting { until, why }) => {
                    if let Some(after) = until.checked_sub(self.clock.now())
                        && !after.is_zero()
                    {
                        let plugin = name();
                        return Err(ManageError::Restarting { plugin, why, after });
                    }
                    self.revive(plugin);
                }
                Entered::Not(Now::Changing | Now::Serving(_)) => plugin.slot.wait(LOOK),
            }
            if cancelled.load(Ordering::Relaxed) {
                return Err(ManageError::Call(CallError::Cancelled));
            }
            if begun.elapsed() >= deadline {
                return Err(ManageError::Call(CallError::TimedOut(deadline)));
            }
        }
    }

    /// Puts the plugin's files as they are now in the place of what runs.
    ///
    /// A plugin that allows it is exchanged while it runs: the new version starts beside the old one
    /// and takes over once it is well; if it does not get that far, the old one goes on. Any other
    /// is stopped first, and calls wait meanwhile.
    pub fn reload(&self, name: &str) -> Result<(), ManageError> {
        self.refresh()?;
        let plugin = self.plugin(name)?;
        if plugin.is_disabled() {
            return Err(ManageError::Disabled(plugin.name.clone()));
        }
        self.not_rejected(&plugin)?;
        let mut number = plugin.slot.operate();
        plugin.slot.inner().restarts.forget();
        let old = plugin.slot.active();
        let old = old.filter(|active| !active.instance.has_ended());
        match old {
            Some(old) if old.manifest.lifecycle.hot_reload => {
                self.exchange(&plugin, &old, &mut number)
            }
            _ => {
                let active = plugin.slot.active();
                plugin.slot.set(Now::Changing);
                if let Some(active) = active {
                    active.end();
                    self.registrar.close(&plugin.name, active.number);
                    self.registrar.unregister(&plugin.name);
                }
                self.start_under(&plugin, &mut number)
            }
        }
    }

    /// Fails if what is there now is no plugin any more, though an earlier version runs.
    fn not_rejected(&self, plugin: &Plugin) -> Result<(), ManageError> {
        let path = plugin.found().path;
        let rejected = self.rejected();
        match rejected.iter().find(|one| one.path == path) {
            Some(one) => {
                let why = one.reason.to_string();
                Err(failed(plugin, LaunchError::Rejected { path, why }))
            }
            None => Ok(()),
        }
    }

    fn exchange(
        &self,
        plugin: &Plugin,
        old: &Arc<Active>,
        number: &mut u64,
    ) -> Result<(), ManageError> {
        *number += 1;
        let new = self
            .start_needs(plugin)
            .and_then(|()| self.check(plugin))
            .and_then(|checked| self.launch(checked, *number, Some(&old.manifest)))
            .map_err(|error| failed(plugin, error))?;
        let granted = grants(&new.manifest);
        self.registrar.serving(&plugin.name, new.instance.tools());
        plugin.slot.set(Now::Serving(new));
        old.end();
        self.registrar.close(&plugin.name, old.number);
        self.registrar
            .replace(&plugin.name, granted)
            .map_err(|why| failed(plugin, LaunchError::Register(why)))
    }

    /// Looks at every plugin: notes those that ended by themselves, and ends those that were switched
    /// off or removed, maybe by another process, and those nobody answers for any more. Starts
    /// nothing: one that ended is started again by a call, which was decided and recorded.
    pub fn tend(&self) {
        // Records that cannot be read now are looked at the next time; what was known holds.
        let _followed = self.follow();
        let mut has_ended_one = false;
        for plugin in self.all() {
            let Some(active) = plugin.slot.active() else {
                continue;
            };
            if active.instance.has_ended() {
                self.note_end(&plugin, &active);
            } else if !self.may_go_on(&plugin)
                && let Some(_operation) = plugin.slot.try_operate()
            {
                self.stop_under(&plugin);
                has_ended_one = true;
            }
        }
        if has_ended_one {
            // One whose files are gone was kept for as long as it ran.
            let _refreshed = self.refresh();
        }
    }

    fn may_go_on(&self, plugin: &Plugin) -> bool {
        let found = plugin.found();
        let is_known = match found.origin {
            Origin::User => plugin.approved().is_some(),
            Origin::Workspace => true,
        };
        let answered = |found: &Found| {
            let registrar = &self.registrar;
            registrar.is_answered_for(&plugin.name, found.origin, &found.path)
        };
        is_known && !plugin.is_disabled() && answered(&found)
    }

    /// Tends the plugins on a thread of its own, until what it returns is dropped.
    pub fn watch(self: &Arc<Self>, every: Duration) -> Watch {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let (manager, signal) = (Arc::downgrade(self), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let (stop, changed) = &*signal;
            loop {
                let stopped = changed.wait_timeout_while(locked(stop), every, |stop| !*stop);
                let (stopped, _) = stopped.unwrap_or_else(PoisonError::into_inner);
                if *stopped {
                    return;
                }
                drop(stopped);
                match manager.upgrade() {
                    Some(manager) => manager.tend(),
                    None => return,
                }
            }
        });
        Watch {
            ended,
            thread: Some(thread),
        }
    }

    /// Notes that an instance ended by itself. If somebody is exchanging the plugin, that is theirs
    /// to see.
    fn note_end(&self, plugin: &Plugin, active: &Arc<Active>) {
        let Some(_operation) = plugin.slot.try_operate() else {
            plugin.slot.wait(LOOK);
            return;
        };
        let same = |serving: Arc<Active>| serving.number == active.number;
        if !plugin.slot.active().is_some_and(same) {
            return;
        }
        self.buried(plugin, active);
        self.after_crash(plugin, "its process ended");
    }

    /// Ends what is left of `active`: until it is said how it goes on, calls wait.
    fn buried(&self, plugin: &Plugin, active: &Arc<Active>) {
        plugin.slot.set(Now::Changing);
        active.bury();
        self.registrar.close(&plugin.name, active.number);
        self.registrar.unregister(&plugin.name);
    }

    fn after_crash(&self, plugin: &Plugin, why: &str) {
        let verdict = plugin.slot.inner().restarts.crashed(self.clock.now());
        let why = why.to_owned();
        plugin.slot.set(match verdict {
            Verdict::At(until) => Now::Waiting { until, why },
            Verdict::GiveUp => Now::Failed {
                why: format!("it ended by itself too often: {why}"),
            },
        });
    }

    /// Starts a plugin again that ended by itself. Failing counts as ending once more.
    fn revive(&self, plugin: &Plugin) {
        let Some(mut number) = plugin.slot.try_operate() else {
            plugin.slot.wait(LOOK);
            return;
        };
        if !matches!(plugin.slot.now(), Now::Waiting { .. }) || plugin.is_disabled() {
            return;
        }
        if let Err(error) = self.start_under(plugin, &mut number) {
            self.after_crash(plugin, &error.to_string());
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn failed(plugin: &Plugin, error: LaunchError) -> ManageError {
    ManageError::Launch {
        plugin: plugin.name.clone(),
        error,
    }
}

/// Tends plugins while it is kept.
pub struct Watch {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        *locked(&self.ended.0) = true;
        self.ended.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A watch that is dropped by its own thread has nobody to wait for.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

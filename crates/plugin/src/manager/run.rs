//! Starting, calling, exchanging and stopping plugins.

use super::error::{LaunchError, ManageError};
use super::leave::{may_go_on, stop_within};
use super::parts::grants;
use super::restart::Verdict;
use super::slot::{Active, Entered, LOOK, Now, Turn, locked};
use super::{Manager, Plugin};
use crate::host::CallError;
use crate::lifecycle::State;
use crate::pins::{PinChange, Pins};
use crate::tool::{Sink, ToolCall, ToolDescription};
use airlock_core::{ByteSize, EffectSet, Tier};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long whoever starts a plugin waits for others to be done with one that it needs.
const NEEDED: Duration = Duration::from_mins(1);

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
        self.may_start(&plugin)?;
        if let Some(active) = plugin.slot.active() {
            if !active.instance.has_ended() {
                return Ok(());
            }
            self.buried(&plugin, &active);
        }
        plugin.slot.inner().restarts.forget();
        self.start_under(&plugin, &mut operation)
    }

    /// Fails if a plugin, whose operation is held, is not to be started: whoever waited for that may
    /// have waited for long.
    fn may_start(&self, plugin: &Plugin) -> Result<(), ManageError> {
        if plugin.is_disabled() {
            return Err(ManageError::Disabled(plugin.name.clone()));
        }
        if plugin.is_out() || self.is_ending() {
            return Err(ManageError::NotRunning(plugin.name.clone()));
        }
        Ok(())
    }

    fn start_under(&self, plugin: &Plugin, number: &mut u64) -> Result<(), ManageError> {
        let started = self.begin(plugin, number);
        started.map_err(|error| {
            plugin.slot.set(if matches!(error, LaunchError::Unwanted) {
                Now::Off(State::Stopped)
            } else {
                let why = error.to_string();
                Now::Failed { why }
            });
            failed(plugin, error)
        })
    }

    /// Starts it; if that fails it is for others to say how it goes on, and calls wait until then.
    fn begin(&self, plugin: &Plugin, number: &mut u64) -> Result<(), LaunchError> {
        plugin.slot.set(Now::Changing);
        self.succeed(plugin);
        *number += 1;
        self.start_needs(plugin)?;
        self.not_ending(plugin)?;
        let checked = self.check(plugin)?;
        self.still_wanted(plugin)?;
        let active = self.launch(checked, *number, None)?;
        self.registrar
            .serving(&plugin.name, active.instance.tools());
        plugin.slot.set(Now::Serving(active));
        self.not_ending(plugin)
    }

    /// Fails if somebody took the plugin back: whoever starts it may have waited for long, for what it
    /// needs or for the one before it.
    fn still_wanted(&self, plugin: &Plugin) -> Result<(), LaunchError> {
        // Records that cannot be read now are looked at the next time; what was known holds.
        let _looked = self.follow();
        if may_go_on(&*self.registrar, plugin) {
            Ok(())
        } else {
            Err(LaunchError::Unwanted)
        }
    }

    /// Fails if everything ends, and ends the plugin if it was started meanwhile: whoever ends it all
    /// may not have waited for that.
    fn not_ending(&self, plugin: &Plugin) -> Result<(), LaunchError> {
        if !self.is_ending() {
            return Ok(());
        }
        stop_within(&*self.registrar, plugin, Duration::ZERO);
        Err(LaunchError::Ending)
    }

    /// Starts a plugin for another that needs it. One that ended by itself is started no sooner for
    /// that, and one that did so too often not at all.
    fn start_needed(&self, name: &str) -> Result<(), ManageError> {
        let plugin = self.plugin(name)?;
        if plugin.is_disabled() {
            return Err(ManageError::Disabled(plugin.name.clone()));
        }
        if let Some(active) = plugin.slot.active()
            && active.instance.has_ended()
        {
            self.note_end(&plugin, &active);
        }
        // Versions that came to need each other the other way round would wait for each other.
        let Some(mut number) = plugin.slot.operate_by(Instant::now() + NEEDED) else {
            return Err(ManageError::NotRunning(plugin.name.clone()));
        };
        self.may_start(&plugin)?;
        let gave_up = plugin.slot.inner().restarts.gave_up();
        let now = plugin.slot.now();
        if matches!(now, Now::Failed { .. }) && !gave_up {
            return self.start_under(&plugin, &mut number);
        }
        self.start_from(&plugin, now, &mut number)
    }

    /// Starts a plugin for a call, if it is still wanted once it can be. One that failed meanwhile, when
    /// it was started for another call, is not started once more.
    fn start_called(&self, name: &str, is_wanted: &AtomicBool) -> Result<(), ManageError> {
        let plugin = self.plugin(name)?;
        let mut number = plugin.slot.operate();
        if !is_wanted.load(Ordering::Acquire) {
            return Err(ManageError::Call(CallError::Cancelled));
        }
        self.may_start(&plugin)?;
        self.start_from(&plugin, plugin.slot.now(), &mut number)
    }

    /// Starts a plugin that stands so, unless it runs, waits or has failed.
    fn start_from(&self, plugin: &Plugin, now: Now, number: &mut u64) -> Result<(), ManageError> {
        let name = plugin.name.clone();
        match now {
            // One that ended by itself is for whoever calls it to find.
            Now::Serving(_) => Ok(()),
            Now::Failed { why } => Err(ManageError::Failed { plugin: name, why }),
            Now::Waiting { until, why } => match self.still(until) {
                Some(after) => Err(ManageError::Restarting {
                    plugin: name,
                    why,
                    after,
                }),
                None => self.start_again(plugin, number),
            },
            Now::Off(_) | Now::Changing => self.start_under(plugin, number),
        }
    }

    /// How long it is until then, if it is not yet.
    fn still(&self, until: Duration) -> Option<Duration> {
        let after = until.checked_sub(self.clock.now());
        after.filter(|after| !after.is_zero())
    }

    fn start_needs(&self, plugin: &Plugin) -> Result<(), LaunchError> {
        for (needs, wanted) in &plugin.found().manifest.dependencies {
            let dependency = |why: String| LaunchError::Dependency {
                needs: needs.clone(),
                why,
            };
            let started = self.start_needed(needs.as_str());
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

    /// The same, but only of an instance of which that holds by which the call was decided: while it
    /// was on its way, the plugin may have been exchanged for one that means something else by it.
    pub fn call_as(
        &self,
        name: &str,
        decided: Decided<'_>,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, ManageError> {
        self.call_checked(name, Some(decided), call, sink, cancelled)
    }

    /// Starts a plugin for a call that may wait so long for it. Once it has begun, the start goes on to
    /// its end whether or not the call still wants it. Of many calls that want it at once, one starts
    /// it, and what came of that is told to all.
    pub fn start_for(
        &self,
        name: &str,
        deadline: Duration,
        cancelled: &AtomicBool,
    ) -> Result<(), ManageError> {
        let is_wanted = Arc::new(AtomicBool::new(true));
        let Some(me) = self.me.upgrade() else {
            return self.start_called(name, &is_wanted);
        };
        let (begun, wanted) = (Instant::now(), name.to_owned());
        let (tell, told) = channel();
        let named = Builder::new().name("plugin starts".to_owned());
        let still_wanted = Arc::clone(&is_wanted);
        let started = named.spawn(move || {
            // Whoever waited may be gone.
            let _told = tell.send(me.start_called(&wanted, &still_wanted));
        });
        if started.is_err() {
            return self.start_called(name, &is_wanted);
        }
        loop {
            match told.recv_timeout(LOOK) {
                Ok(started) => return started,
                // It panicked; how it stands now is for the call to find out.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    in_time(begun, deadline, cancelled)
                        .inspect_err(|_| is_wanted.store(false, Ordering::Release))?;
                }
            }
        }
    }

    fn call_checked(
        &self,
        name: &str,
        decided: Option<Decided<'_>>,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, ManageError> {
        let plugin = self.plugin(name)?;
        let turn = self.enter(&plugin, call.deadline, cancelled)?;
        if decided.is_some_and(|decided| !decided.holds_of(&turn.0)) {
            return Err(ManageError::OtherWords {
                plugin: plugin.name.clone(),
                tool: call.tool.clone(),
            });
        }
        self.registrar.takes(&call.action, turn.0.number);
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
        plugin: &Arc<Plugin>,
        deadline: Duration,
        cancelled: &AtomicBool,
    ) -> Result<Turn, ManageError> {
        let begun = Instant::now();
        let name = || plugin.name.clone();
        loop {
            if plugin.is_disabled() {
                return Err(ManageError::Disabled(name()));
            }
            if plugin.is_out() {
                return Err(ManageError::NotRunning(name()));
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
                    if let Some(after) = self.still(until) {
                        let plugin = name();
                        return Err(ManageError::Restarting { plugin, why, after });
                    }
                    self.revive(plugin);
                    plugin.slot.wait(LOOK);
                }
                Entered::Not(Now::Changing | Now::Serving(_)) => plugin.slot.wait(LOOK),
            }
            in_time(begun, deadline, cancelled)?;
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
        self.fits_dependents(&plugin)?;
        let mut number = plugin.slot.operate();
        self.may_start(&plugin)?;
        plugin.slot.inner().restarts.forget();
        let old = plugin.slot.active();
        let old = old.filter(|active| !active.instance.has_ended());
        match old {
            Some(old) if old.manifest.lifecycle.hot_reload => {
                self.exchange(&plugin, &old, &mut number)
            }
            _ => {
                if let Some(active) = plugin.slot.retire(Now::Changing) {
                    self.registrar.retires(&plugin.name, active.number);
                    plugin.slot.end(&active, Duration::MAX);
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

    /// Fails if another that runs needs other versions than the one there is now.
    fn fits_dependents(&self, plugin: &Plugin) -> Result<(), ManageError> {
        let found = plugin.found();
        let version = &found.manifest.version;
        for other in self.all() {
            let Some(active) = other.slot.active() else {
                continue;
            };
            let wanted = active.manifest.dependencies.get(&plugin.name);
            if let Some(wanted) = wanted.filter(|wanted| !wanted.matches(version)) {
                let error = LaunchError::Dependent {
                    by: other.name.clone(),
                    wanted: wanted.to_string(),
                    version: version.to_string(),
                };
                return Err(failed(plugin, error));
            }
        }
        Ok(())
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
            .and_then(|checked| self.still_wanted(plugin).map(|()| checked))
            .and_then(|checked| self.launch(checked, *number, Some(&old.manifest)))
            .map_err(|error| failed(plugin, error))?;
        let granted = grants(&new.manifest);
        self.registrar.serving(&plugin.name, new.instance.tools());
        plugin.slot.retire(Now::Serving(new));
        self.registrar.retires(&plugin.name, old.number);
        plugin.slot.end(old, Duration::MAX);
        self.registrar.close(&plugin.name, old.number);
        let replaced = self.registrar.replace(&plugin.name, granted);
        replaced
            .map_err(LaunchError::Register)
            .and_then(|()| self.not_ending(plugin))
            .map_err(|error| failed(plugin, error))
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

    /// Notes that an instance ended by itself. If somebody is at the plugin, that is noted once they
    /// are done; whoever still ends the one before it is so soon.
    pub(super) fn note_end(&self, plugin: &Plugin, active: &Arc<Active>) {
        let at = active.ended_at(self.clock.now());
        let again = || {
            plugin.slot.wait(LOOK);
            plugin.slot.try_operate()
        };
        // Whoever started it may not have let go of it yet.
        let operation = plugin.slot.try_operate().or_else(again);
        let same = |serving: Arc<Active>| serving.number == active.number;
        if !plugin.slot.active().is_some_and(same) {
            return;
        }
        let Some(_operation) = operation else {
            plugin.slot.make_way();
            return;
        };
        self.buried(plugin, active);
        after_crash(plugin, at, "its process ended");
    }

    /// Ends what is left of `active`: until it is said how it goes on, calls wait.
    fn buried(&self, plugin: &Plugin, active: &Arc<Active>) {
        plugin.slot.set(Now::Changing);
        active.bury();
        self.registrar.close(&plugin.name, active.number);
        self.registrar.unregister(&plugin.name);
    }

    /// Starts a plugin again that ended by itself, on a thread of its own: whoever calls it may not
    /// have the time.
    fn revive(&self, plugin: &Arc<Plugin>) {
        if plugin.is_reviving.swap(true, Ordering::AcqRel) {
            return;
        }
        let (me, revived) = (self.me.upgrade(), Arc::clone(plugin));
        let revive = move || {
            if let Some(me) = me {
                let mut number = revived.slot.operate();
                let is_waiting = matches!(revived.slot.now(), Now::Waiting { .. });
                if is_waiting && me.may_start(&revived).is_ok() {
                    // What came of it is told by how it stands.
                    let _started = me.start_again(&revived, &mut number);
                }
            }
            revived.is_reviving.store(false, Ordering::Release);
        };
        let named = Builder::new().name("plugin starts".to_owned());
        if named.spawn(revive).is_err() {
            // Whoever waits tries again, until it has no more time.
            plugin.is_reviving.store(false, Ordering::Release);
        }
    }

    /// Failing counts as ending once more.
    fn start_again(&self, plugin: &Plugin, number: &mut u64) -> Result<(), ManageError> {
        let started = self.begin(plugin, number);
        started.map_err(|error| {
            let is_unwanted = matches!(error, LaunchError::Unwanted);
            let error = failed(plugin, error);
            if is_unwanted {
                plugin.slot.set(Now::Off(State::Stopped));
            } else {
                after_crash(plugin, self.clock.now(), &error.to_string());
            }
            error
        })
    }
}

/// Says how it goes on with a plugin that ended by itself at `at`.
fn after_crash(plugin: &Plugin, at: Duration, why: &str) {
    let verdict = plugin.slot.inner().restarts.crashed(at);
    let why = why.to_owned();
    plugin.slot.set(match verdict {
        Verdict::At(until) => Now::Waiting { until, why },
        Verdict::GiveUp => Now::Failed {
            why: format!("it ended by itself too often: {why}"),
        },
    });
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Fails if a call that began then is not wanted any more, or has no more time.
fn in_time(begun: Instant, deadline: Duration, cancelled: &AtomicBool) -> Result<(), ManageError> {
    if cancelled.load(Ordering::Relaxed) {
        return Err(ManageError::Call(CallError::Cancelled));
    }
    if begun.elapsed() >= deadline {
        return Err(ManageError::Call(CallError::TimedOut(deadline)));
    }
    Ok(())
}

/// What a call was decided by.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    /// The tool, in the words its caller was given.
    pub described: &'a ToolDescription,
    /// What the manifest said that it does.
    pub effects: EffectSet,
    /// The most memory it could take.
    pub memory: ByteSize,
    /// Where it would run.
    pub tier: Tier,
}

impl Decided<'_> {
    fn holds_of(&self, active: &Active) -> bool {
        let pins = Pins::of(std::slice::from_ref(self.described));
        let mut tools = active.instance.tools().iter();
        let effects = active.manifest.effects.get(&self.described.name);
        tools.any(|tool| pins.judge(tool) == PinChange::Same)
            && effects.copied().unwrap_or_default() == self.effects
            && active.manifest.memory() <= self.memory
            && active.manifest.execution.tier == self.tier
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

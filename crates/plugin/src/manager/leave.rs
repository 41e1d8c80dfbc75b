//! Plugins that go: somebody stops them, nobody answers for them any more, another has their name,
//! or everything ends.
//!
//! Guarantee: whoever notices that one has to go does not wait for it; each goes on a thread of its
//! own, so that none can hold up what becomes of the others, and within a time that is not its own
//! to set. Until it is gone, nothing of its name starts. Non-guarantee: whoever stops a plugin that
//! may go on waits for as long as its manifest says.

use super::discover::Origin;
use super::error::ManageError;
use super::parts::Registrar;
use super::slot::{LOOK, Now, locked};
use super::{Manager, Plugin};
use crate::lifecycle::State;
use airlock_core::PluginName;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// What a plugin gets to end by itself that nobody answers for any more.
const DISMISSED: Duration = Duration::from_secs(5);
/// What all plugins get together when everything ends: whoever ends a kernel waits no longer.
const LAST: Duration = Duration::from_secs(10);
/// What whoever is at a plugin by then gets to be done with it.
const MOMENT: Duration = Duration::from_secs(1);

impl Manager {
    /// Stops a plugin: its calls may end, then it is ended. One that does not run stays so.
    pub fn stop(&self, name: &str) -> Result<(), ManageError> {
        let plugin = self.plugin(name)?;
        let _operation = plugin.slot.operate();
        self.not_needed(&plugin.name)?;
        stop_within(&*self.registrar, &plugin, Duration::MAX);
        Ok(())
    }

    /// Stops a plugin that a person switches off or removes, in the time of one that nobody answers for
    /// any more, whoever is at it. Until what is returned is dropped, nobody starts it.
    pub(super) fn put_down<'a>(
        &self,
        plugin: &'a Plugin,
        is_to_end: impl Fn() -> bool,
    ) -> Result<MutexGuard<'a, u64>, ManageError> {
        self.registrar.leaves(&plugin.name);
        let until = Instant::now() + DISMISSED;
        let operation = plugin.slot.operate_past(until, is_to_end);
        self.not_needed(&plugin.name)
            .inspect_err(|_| self.registrar.stays(&plugin.name))?;
        let left = until.saturating_duration_since(Instant::now());
        stop_within(&*self.registrar, plugin, left.max(MOMENT));
        Ok(operation)
    }

    /// Ends a plugin that nobody answers for any more, without waiting for it. One that somebody
    /// does answer for goes on.
    pub fn let_go(&self, name: &str) {
        if let Ok(plugin) = self.plugin(name)
            && !plugin.slot.is_idle()
            && !may_go_on(&*self.registrar, &plugin)
        {
            self.dismiss(&plugin);
        }
    }

    /// Whether nothing of that name runs that may not go on, as far as is known: somebody may have
    /// switched it off, removed it or taken back their trust.
    pub fn is_wanted(&self, name: &PluginName) -> bool {
        let goes = |plugin: &Arc<Plugin>| {
            plugin.name == *name && !plugin.slot.is_idle() && !may_go_on(&*self.registrar, plugin)
        };
        !self.those_there().iter().any(goes)
    }

    /// Ends a plugin whose name another has now. It is looked after until nothing of it runs, whatever
    /// keeps it from going at once.
    pub(super) fn replaced(&self, plugin: &Arc<Plugin>) {
        plugin.out.store(true, Ordering::Release);
        locked(&self.replaced).push(Arc::clone(plugin));
        self.dismiss(plugin);
    }

    /// Every plugin of which something may run: those there are, and those that others replaced.
    fn those_there(&self) -> Vec<Arc<Plugin>> {
        let mut all = self.all();
        all.extend(locked(&self.replaced).iter().cloned());
        all
    }

    /// Whether everything ends.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Ends a plugin that may not go on, on a thread of its own.
    pub(super) fn dismiss(&self, plugin: &Arc<Plugin>) {
        if plugin.is_leaving.swap(true, Ordering::AcqRel) {
            return;
        }
        // It asks for nothing from now on but for the calls that it still serves.
        self.registrar.leaves(&plugin.name);
        let (leaving, registrar) = (Arc::clone(plugin), Arc::clone(&self.registrar));
        let has_left = Arc::clone(&self.has_left);
        let leave = move || {
            let until = Instant::now() + DISMISSED;
            let is_to_end = || !may_go_on(&*registrar, &leaving);
            let _operation = leaving.slot.operate_past(until, is_to_end);
            // Somebody may have switched it on again meanwhile.
            if is_to_end() {
                let left = until.saturating_duration_since(Instant::now());
                stop_within(&*registrar, &leaving, left.max(MOMENT));
                has_left.store(true, Ordering::Release);
            } else {
                registrar.stays(&leaving.name);
            }
            leaving.is_leaving.store(false, Ordering::Release);
        };
        match Builder::new().name("plugin leaves".to_owned()).spawn(leave) {
            Ok(thread) => {
                let mut leaving = locked(&self.leaving);
                leaving.retain(|thread| !thread.is_finished());
                leaving.push(thread);
            }
            // The next look tries again.
            Err(_) => plugin.is_leaving.store(false, Ordering::Release),
        }
    }

    /// Sees to it that whatever had a plugin's name before it is gone.
    pub(super) fn succeed(&self, plugin: &Plugin) {
        let before = locked(&plugin.before).take();
        if let Some(before) = before {
            self.succeed(&before);
            let _operation = before.slot.operate();
            stop_within(&*self.registrar, &before, DISMISSED);
        }
    }

    /// Says that everything is about to end: what is being ended meanwhile, by whomever, has no longer
    /// than all of them get together, counted from now on. What serves goes on until it is ended.
    pub fn hasten(&self) {
        for plugin in self.those_there() {
            plugin.slot.hasten(self.last());
        }
    }

    /// By when everything has ended, once that was said or begun.
    fn last(&self) -> Instant {
        *self.last.get_or_init(|| Instant::now() + LAST)
    }

    /// Stops everything for good, what needs others before those; what does not need each other at
    /// once. It takes no longer than all of them get together and a moment, whatever their manifests
    /// say and whoever starts, stops or exchanges one meanwhile. What is still being started by then
    /// is ended by whoever starts it.
    pub fn shutdown(&self) {
        // First: whoever starts one sees it, before or after.
        self.ending.store(true, Ordering::SeqCst);
        self.hasten();
        let until = self.last();
        let mut done: Vec<Arc<Plugin>> = Vec::new();
        loop {
            let is_done = |plugin: &Arc<Plugin>| done.iter().any(|one| Arc::ptr_eq(one, plugin));
            let mut all = self.those_there();
            all.retain(|plugin| !plugin.slot.is_idle() && !is_done(plugin));
            let next = unneeded(all);
            if next.is_empty() {
                break;
            }
            std::thread::scope(|scope| {
                for plugin in &next {
                    let stop = move || self.stop_by(plugin, until);
                    if Builder::new().spawn_scoped(scope, stop).is_err() {
                        stop();
                    }
                }
            });
            done.extend(next);
        }
        let leaving = std::mem::take(&mut *locked(&self.leaving));
        for thread in leaving {
            while !thread.is_finished() && Instant::now() < until + MOMENT {
                std::thread::sleep(LOOK);
            }
            if thread.is_finished() {
                // One that panicked has nothing left to wait for.
                let _left = thread.join();
            }
        }
    }

    /// Stops a plugin that has until then, whoever is at it.
    fn stop_by(&self, plugin: &Plugin, until: Instant) {
        let cut_short = || {
            plugin.slot.cut_short();
            plugin.slot.operate_by(Instant::now() + MOMENT)
        };
        // Whoever ends it already was told how long it has.
        let operation = plugin.slot.operate_by(until + MOMENT).or_else(cut_short);
        // Whoever starts it sees that everything ends.
        if operation.is_some() {
            let left = until.saturating_duration_since(Instant::now());
            stop_within(&*self.registrar, plugin, left);
        }
    }

    /// Looks at every plugin: notes those that ended by themselves, and ends those that were switched
    /// off or removed, maybe by another process, and those nobody answers for any more. Starts
    /// nothing: one that ended is started again by a call, which was decided and recorded.
    pub fn tend(&self) {
        // Records that cannot be read now are looked at the next time; what was known holds.
        let _looked = if self.has_left.swap(false, Ordering::AcqRel) {
            // One whose files are gone was kept for as long as it ran.
            self.refresh()
        } else {
            self.follow()
        };
        locked(&self.replaced).retain(|plugin| !is_over(plugin));
        for plugin in self.those_there() {
            if may_go_on(&*self.registrar, &plugin) {
                let ended = plugin.slot.active();
                if let Some(active) = ended.filter(|active| active.instance.has_ended()) {
                    self.note_end(&plugin, &active);
                }
            } else if !plugin.slot.is_idle() {
                // Also what is being started, exchanged or ended, by whomever.
                self.dismiss(&plugin);
            }
        }
    }
}

/// Stops a plugin, whose operation is held, within what its manifest says and no longer than `most`.
pub(super) fn stop_within(registrar: &dyn Registrar, plugin: &Plugin, most: Duration) {
    if matches!(plugin.slot.now(), Now::Off(_)) {
        return;
    }
    // New calls are refused from here on; those that were let in are waited for.
    if let Some(active) = plugin.slot.retire(Now::Off(State::Stopped)) {
        plugin.slot.end(&active, most);
        registrar.close(&plugin.name, active.number);
        registrar.unregister(&plugin.name);
    }
}

/// Those that no other of them needs. Where each is needed, as among versions that need each other,
/// all go at once.
fn unneeded(all: Vec<Arc<Plugin>>) -> Vec<Arc<Plugin>> {
    let needs = |one: &Arc<Plugin>, other: &Arc<Plugin>| {
        one.manifest().dependencies.contains_key(&other.name)
    };
    let is_free = |plugin: &&Arc<Plugin>| !all.iter().any(|one| needs(one, plugin));
    let free: Vec<Arc<Plugin>> = all.iter().filter(is_free).cloned().collect();
    if free.is_empty() { all } else { free }
}

/// Whether nothing of a plugin that is out runs, or will: once nobody is at it, nobody starts it.
fn is_over(plugin: &Plugin) -> bool {
    let operation = plugin.slot.try_operate();
    operation.is_some() && !matches!(plugin.slot.now(), Now::Serving(_) | Now::Changing)
}

/// Whether somebody approved it, nobody switched it off, and whoever brought it is still trusted.
pub(super) fn may_go_on(registrar: &dyn Registrar, plugin: &Plugin) -> bool {
    let found = plugin.found();
    let is_known = match found.origin {
        Origin::User => plugin.approved().is_some(),
        Origin::Workspace => true,
    };
    is_known
        && !plugin.is_out()
        && !plugin.is_disabled()
        && registrar.is_answered_for(&plugin.name, found.origin, &found.path)
}

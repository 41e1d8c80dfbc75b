//! Taking a request back.

use crate::server::Share;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::runtime::Handle;

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    cancelled: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
    /// Where the request runs, once it does.
    place: OnceLock<(Arc<Share>, Handle)>,
    /// Whether it has left its place there to another.
    left: AtomicBool,
}

/// Says whether whoever asked still wants an answer. Clones are one token.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<State>);

impl CancelToken {
    /// A token nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Cancels, once; hooks run here and now.
    pub fn cancel(&self) {
        if self.0.cancelled.swap(true, Ordering::SeqCst) {
            return;
        }
        let hooks = std::mem::take(&mut *self.hooks());
        for hook in hooks {
            hook();
        }
    }

    /// Runs `hook` when the token is cancelled: at once, if it already is.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        let mut hooks = self.hooks();
        // Looked at under the lock: `cancel` sets the mark before it takes the hooks away, so a
        // hook is either taken by it or run here.
        if self.is_cancelled() {
            drop(hooks);
            hook();
        } else {
            hooks.push(Box::new(hook));
        }
    }

    /// The request runs, in one of the places of `share`.
    pub(crate) fn runs(&self, share: &Arc<Share>) {
        let _once = self.0.place.set((Arc::clone(share), Handle::current()));
    }

    /// The request only waits for others from now on, and leaves its place to another, until
    /// [`CancelToken::come_back`]. False if too many do: then it must not wait.
    pub fn leave(&self) -> bool {
        let Some((share, _)) = self.0.place.get() else {
            return true;
        };
        // It has one place, whatever number of its threads wait.
        self.0.left.swap(true, Ordering::SeqCst) || {
            let room = share.leave();
            self.0.left.store(room, Ordering::SeqCst);
            room
        }
    }

    /// The request goes on, as soon as there is a place. Blocks this thread.
    pub fn come_back(&self) {
        let place = self.0.place.get();
        if let Some((share, runtime)) = place.filter(|_| self.0.left.swap(false, Ordering::SeqCst))
        {
            share.come_back(runtime);
        }
    }

    fn hooks(&self) -> std::sync::MutexGuard<'_, Vec<Hook>> {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CancelToken(cancelled: {})", self.is_cancelled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_hook_runs_once_whenever_it_came() {
        let token = CancelToken::new();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = |ran: &Arc<AtomicUsize>| {
            let ran = Arc::clone(ran);
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        token.on_cancel(count(&ran));
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        token.clone().cancel();
        token.cancel();
        token.on_cancel(count(&ran));
        assert!(token.is_cancelled());
        assert_eq!(ran.load(Ordering::SeqCst), 2);
    }
}

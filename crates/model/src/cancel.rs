//! Takes a question to a model back while it is being answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Takes one piece of work back, from any thread. Clones take the same work back.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    taken_back: AtomicBool,
    told: Notify,
    /// The work that this is a part of.
    whole: Option<Cancel>,
}

impl Cancel {
    /// For work that is wanted, as yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a part of this work: taken back by itself, or with all of it.
    #[must_use]
    pub fn part(&self) -> Self {
        Self {
            inner: Arc::new(Inner {
                whole: Some(self.clone()),
                ..Inner::default()
            }),
        }
    }

    /// Takes the work back.
    pub fn cancel(&self) {
        self.inner.taken_back.store(true, Ordering::SeqCst);
        self.inner.told.notify_waiters();
    }

    /// Whether it was taken back.
    pub fn is_cancelled(&self) -> bool {
        let whole = self.inner.whole.as_ref();
        self.inner.taken_back.load(Ordering::SeqCst) || whole.is_some_and(Self::is_cancelled)
    }

    /// Waits until it is.
    pub(crate) async fn cancelled(&self) {
        loop {
            let told = self.inner.told.notified();
            let mut told = std::pin::pin!(told);
            // Listening before looking: a word between the two would be missed otherwise.
            told.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            match &self.inner.whole {
                Some(whole) => tokio::select! {
                    () = told => {}
                    () = Box::pin(whole.cancelled()) => return,
                },
                None => told.await,
            }
        }
    }
}

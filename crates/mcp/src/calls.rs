//! Calls that run: a bounded number at once, each on a thread of its own, each of which can be
//! taken back.

use crate::names::Names;
use crate::road::{Road, Unanswered};
use airlock_core::SessionId;
use airlock_kernel::{Call, Cancel, Outcome};
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// Calls that run at once, of all clients together.
pub(crate) const AT_ONCE: usize = 8;
/// Calls of one of several clients that run at once: however many it makes, there is room for others.
pub(crate) const SHARE: usize = 3;
/// How often a client that wants to know hears that its call still runs.
const TICK: Duration = Duration::from_secs(1);

/// Runs calls on a road.
#[derive(Clone)]
pub(crate) struct Calls {
    road: Arc<dyn Road>,
    slots: Arc<Semaphore>,
    /// What one client may have of them.
    share: Arc<Semaphore>,
    /// Sessions of clients that are not gone.
    begun: Arc<Mutex<Vec<SessionId>>>,
    /// Held while one of them is put away, so that whoever settles can wait for it.
    leaving: Arc<Mutex<()>>,
    /// Questions that are asked at once, so that no client fills the threads with them.
    questions: Arc<Semaphore>,
    names: Names,
    ending: CancellationToken,
}

/// A place among the calls that run.
type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Takes a call back when whoever waits for it is gone.
struct TakenBack(Cancel);

impl Drop for TakenBack {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Calls {
    /// Runs calls until `ending` takes all of them back.
    pub(crate) fn new(road: Arc<dyn Road>, ending: CancellationToken) -> Self {
        Self {
            road,
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            share: Arc::new(Semaphore::new(AT_ONCE)),
            begun: Arc::default(),
            leaving: Arc::default(),
            questions: Arc::new(Semaphore::new(AT_ONCE)),
            names: Names::default(),
            ending,
        }
    }

    /// The same for one of several clients, which has its share and no more.
    pub(crate) fn of_one(&self) -> Self {
        Self {
            share: Arc::new(Semaphore::new(SHARE)),
            ..self.clone()
        }
    }

    /// Waits for a place: first among the client's own, so that nobody else waits behind them.
    async fn place(&self) -> Result<Place, AcquireError> {
        let own = Arc::clone(&self.share).acquire_owned().await?;
        let place = Arc::clone(&self.slots).acquire_owned().await?;
        Ok((own, place))
    }

    /// Begins a session for a client.
    pub(crate) fn begin(&self) -> Result<Option<SessionId>, Unanswered> {
        let session = self.road.begin()?;
        self.begun().extend(session.clone());
        Ok(session)
    }

    /// Puts the session of a client away that is gone, without waiting for it.
    pub(crate) fn leave(&self, session: SessionId) {
        let calls = self.clone();
        // Without a runtime the server is over, and put all of them away when it settled.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || calls.end(&session)));
        }
    }

    fn end(&self, session: &SessionId) {
        let _alone = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut begun = self.begun();
        let Some(place) = begun.iter().position(|one| one == session) else {
            return;
        };
        begun.swap_remove(place);
        drop(begun);
        self.road.end(session);
    }

    fn begun(&self) -> MutexGuard<'_, Vec<SessionId>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `call` for the client of `context`. A request that is cancelled takes it back, and still
    /// waits until the program is gone.
    pub(crate) async fn run(
        &self,
        call: Call,
        context: &RequestContext<RoleServer>,
    ) -> Result<Outcome, ErrorData> {
        let cancel = Cancel::new();
        let _guard = TakenBack(cancel.clone());
        let slot = tokio::select! {
            slot = self.place() => slot.map_err(|_| ending())?,
            () = context.ct.cancelled() => return Err(taken_back()),
            () = self.ending.cancelled() => return Err(ending()),
        };
        let (road, covered) = (Arc::clone(&self.road), cancel.clone());
        let mut running = tokio::task::spawn_blocking(move || {
            let outcome = road.call(&call, &covered);
            drop(slot);
            outcome
        });
        let mut progress = Progress::new(context);
        loop {
            tokio::select! {
                ended = &mut running => {
                    let outcome = ended.map_err(|_| broken())?;
                    return outcome.map_err(|error| unanswered(&error));
                }
                () = context.ct.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                () = self.ending.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                () = progress.tick() => progress.tell(context).await,
            }
        }
    }

    /// Answers what only reads the registry, without a place among the calls.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Road) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let road = Arc::clone(&self.road);
        let turn = Arc::clone(&self.questions).acquire_owned().await;
        let turn = turn.map_err(|_| ending())?;
        let asked = move || {
            let answer = question(&*road);
            drop(turn);
            answer
        };
        tokio::task::spawn_blocking(asked)
            .await
            .map_err(|_| broken())
    }

    /// What the tools are called.
    pub(crate) const fn names(&self) -> &Names {
        &self.names
    }

    /// Waits until nothing runs any more, and puts away what sessions are left; each for as long as
    /// `patience` lasts.
    pub(crate) async fn settle(&self, patience: Duration) {
        let every = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
        let _settled = tokio::time::timeout(patience, self.slots.acquire_many(every)).await;
        self.slots.close();
        let calls = self.clone();
        let ended = tokio::task::spawn_blocking(move || {
            let left = calls.begun().clone();
            for session in &left {
                calls.end(session);
            }
            // One that somebody else puts away at this moment.
            drop(calls.leaving.lock());
        });
        let _ended = tokio::time::timeout(patience, ended).await;
    }
}

/// Tells a client that asked for it how long its call has been running.
struct Progress {
    token: Option<ProgressToken>,
    begun: Instant,
    ticks: Interval,
}

impl Progress {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        let begun = Instant::now();
        let mut ticks = tokio::time::interval_at(begun + TICK, TICK);
        // A client that is slow to read is told less often, not more at once.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            token: context.meta.get_progress_token(),
            begun,
            ticks,
        }
    }

    async fn tick(&mut self) {
        match self.token {
            Some(_) => drop(self.ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    async fn tell(&self, context: &RequestContext<RoleServer>) {
        let Some(token) = self.token.clone() else {
            return;
        };
        let seconds = self.begun.elapsed().as_secs_f64();
        let told = ProgressNotificationParam::new(token, seconds)
            .with_message(format!("running for {seconds:.0} s"));
        // A client that is gone is noticed where its messages are read.
        let _told = context.peer.notify_progress(told).await;
    }
}

pub(crate) fn unanswered(error: &Unanswered) -> ErrorData {
    let hint = serde_json::json!({ "hint": error.fix });
    ErrorData::internal_error(error.what.clone(), Some(hint))
}

fn taken_back() -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, "the request was cancelled", None)
}

fn ending() -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, "the server is ending", None)
}

fn broken() -> ErrorData {
    ErrorData::internal_error("the call broke off; the audit log has its attempt", None)
}

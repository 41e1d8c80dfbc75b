//! One connection, from the first look at who it is to the end of what it began.

use super::inlet::{End, Frame, Inlet};
use super::outgoing::{self, Broken, Outgoing, refuse, reply};
use super::pump::pump;
use super::share::{Place, Reservation};
use super::stay::stay;
use super::{Handler, Incoming, Inner, lock};
use crate::cancel::CancelToken;
use crate::error::{WireError, code};
use crate::handshake::{Supported, negotiate};
use crate::message::{Answer, Message, Request, parse_bounded};
use crate::peer::{PeerError, Visitor, identify, is_in_place};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};
use tokio::time::Instant;

/// A connection that is somebody's. Everything it began holds it.
pub(super) struct Connection<I> {
    pub(super) identity: I,
    pub(super) outgoing: Outgoing,
    place: Place,
    running: Semaphore,
    in_flight: std::sync::Mutex<InFlight>,
    settled: Notify,
}

/// What is under way on a connection.
#[derive(Default)]
struct InFlight {
    /// Requests without an answer, by number.
    tokens: HashMap<u64, CancelToken>,
    /// Those, and the ones whose answers are not yet taken.
    count: usize,
    /// What all of them take.
    load: Load,
}

/// What requests under way take.
#[derive(Debug, Default, Clone, Copy)]
struct Load {
    bytes: usize,
    descriptors: usize,
}

impl Load {
    const fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            descriptors: self.descriptors + other.descriptors,
        }
    }

    const fn without(self, other: Self) -> Self {
        Self {
            bytes: self.bytes - other.bytes,
            descriptors: self.descriptors - other.descriptors,
        }
    }
}

impl<I> Connection<I> {
    pub(super) fn frame_bytes(&self) -> usize {
        self.place.share().limits.frame_bytes
    }

    /// A place among the requests that run, if one is free.
    fn turn(&self) -> Option<(SemaphorePermit<'_>, SemaphorePermit<'_>)> {
        let own = self.running.try_acquire().ok()?;
        let workers = self.place.share().workers(false);
        Some((own, workers.try_acquire().ok()?))
    }

    async fn reply(&self, id: u64, answer: Result<Value, WireError>) -> Result<(), End> {
        let frame = reply(id, answer.map(Answer::Value), self.frame_bytes());
        self.outgoing.send(frame).await.map_err(|Broken| End::Gone)
    }

    fn cancel(&self, id: u64) -> bool {
        let token = lock(&self.in_flight).tokens.get(&id).cloned();
        token.inspect(CancelToken::cancel).is_some()
    }

    fn cancel_all(&self) {
        let tokens: Vec<CancelToken> = lock(&self.in_flight).tokens.values().cloned().collect();
        tokens.iter().for_each(CancelToken::cancel);
    }

    /// Whether a request of that number has no answer yet.
    fn is_under_way(&self, id: u64) -> bool {
        lock(&self.in_flight).tokens.contains_key(&id)
    }

    /// The answer to `id` is there: the number is free, though the answer is not yet taken.
    fn answered(&self, id: u64) {
        lock(&self.in_flight).tokens.remove(&id);
    }

    /// A request that took `load` and its answer are gone. Its number may be another's by now.
    fn landed(&self, load: Load) {
        {
            let mut in_flight = lock(&self.in_flight);
            in_flight.count -= 1;
            in_flight.load = in_flight.load.without(load);
        }
        self.settled.notify_waiters();
    }

    fn is_settled(&self) -> bool {
        lock(&self.in_flight).count == 0
    }

    /// Waits until nothing is under way.
    async fn settle(&self) {
        loop {
            let settled = self.settled.notified();
            if self.is_settled() {
                return;
            }
            settled.await;
        }
    }
}

/// Serves one connection to its end: that of whom the system calls `told`.
pub(super) async fn converse<H: Handler>(
    inner: &Arc<Inner<H>>,
    place: Place,
    told: UCred,
    stream: UnixStream,
) {
    let visitor = match visitor(&place, told) {
        Ok(visitor) => visitor,
        Err(error) => {
            return refuse(&stream, &WireError::new(code::REFUSED, error.to_string()));
        }
    };
    let Ok(stream) = stream.into_std() else {
        return;
    };
    let stream = Arc::new(stream);
    let mut inlet = Inlet::new(Arc::clone(&stream), Arc::clone(place.share()));
    let greeted = match handshake(inner, &visitor, &mut inlet).await {
        Ok(greeted) => greeted,
        Err(End::Gone) => return,
        Err(End::Told(error)) => return refuse(&*stream, &error),
    };
    let limits = place.share().limits;
    let connection = Arc::new(Connection {
        identity: greeted.identity,
        outgoing: Outgoing::new(stream, limits.frame),
        running: Semaphore::new(limits.running),
        in_flight: std::sync::Mutex::default(),
        settled: Notify::new(),
        place,
    });
    let answer = Ok(greeted.answer);
    let end = match connection.reply(greeted.id, answer).await {
        Ok(()) => {
            let (ended, end) = oneshot::channel();
            let listening = Listening {
                inner: Arc::clone(inner),
                connection: Arc::clone(&connection),
                inlet,
                subscription: None,
                ended,
            };
            // Not here: this task takes back what runs when the connection ends.
            tokio::spawn(listening.go_on());
            // Whoever listens last says how it ended.
            end.await.unwrap_or(End::Gone)
        }
        Err(end) => end,
    };
    close(inner, &connection, end).await;
}

/// Who it is, before a byte is read.
fn visitor(place: &Place, told: UCred) -> Result<Visitor, PeerError> {
    let share = place.share();
    let peer = identify(told.pid(), told.uid(), &share.users)?;
    is_in_place(peer, &share.via)?;
    Ok(Visitor {
        peer,
        via: share.via.clone(),
    })
}

/// What whoever is connected is told at the end.
fn ends() -> WireError {
    WireError::new(code::SHUTTING_DOWN, "the kernel ends").retryable()
}

struct Greeted<I> {
    id: u64,
    identity: I,
    answer: Value,
}

async fn handshake<H: Handler>(
    inner: &Inner<H>,
    visitor: &Visitor,
    inlet: &mut Inlet,
) -> Result<Greeted<H::Identity>, End> {
    let limits = inlet.limits();
    let until = Instant::now() + limits.handshake;
    // A frame that has begun may take longer elsewhere, not here.
    let late = || {
        let told = "the handshake did not come in time";
        End::Told(WireError::new(code::HANDSHAKE_REQUIRED, told).retryable())
    };
    let mut ending = inner.ending.subscribe();
    let first = tokio::select! {
        first = tokio::time::timeout_at(until, inlet.frame(until)) => first,
        _ = ending.wait_for(|ends| *ends) => return Err(End::Told(ends())),
    };
    let frame = first.map_err(|_| late())??.ok_or_else(late)?;
    let message = parse_bounded(&frame.text).map_err(|error| End::Told(error.wire()))?;
    let required = |told: &str| End::Told(WireError::new(code::HANDSHAKE_REQUIRED, told));
    let request = match message {
        Message::Request(request) if request.method == "handshake" => request,
        Message::Request(_) | Message::Response(_) | Message::Event(_) => {
            return Err(required(
                "the first message must be the request `handshake`",
            ));
        }
    };
    drop(inlet.claim(request.descriptors)?);
    let hello = negotiate(&request.params, Supported::HERE).map_err(End::Told)?;
    let greeted = inner.handler.greet(visitor, &hello).map_err(End::Told)?;
    let (identity, about) = greeted;
    let answer = json!({
        "kernel": inner.config.version,
        "api": hello.api,
        "supported": Supported::HERE,
        "limits": { "frame_bytes": limits.frame_bytes, "in_flight": limits.in_flight },
        "about": about,
    });
    Ok(Greeted {
        id: request.id,
        identity,
        answer,
    })
}

/// What takes the requests of a connection. It passes from task to task, and to threads: whoever took
/// a request runs it then and there, which wakes nobody, and another goes on listening where that
/// takes long.
pub(super) struct Listening<H: Handler> {
    pub(super) inner: Arc<Inner<H>>,
    pub(super) connection: Arc<Connection<H::Identity>>,
    pub(super) inlet: Inlet,
    subscription: Option<tokio::task::JoinHandle<()>>,
    ended: oneshot::Sender<End>,
}

impl<H: Handler> Listening<H> {
    /// Boxed, since it starts itself.
    pub(super) fn go_on(self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.listen())
    }

    /// The connection has come to its end.
    pub(super) fn end(self, end: End) {
        // Nobody waits for it if the server is being taken down.
        let _told = self.ended.send(end);
    }

    /// Takes requests until something ends the connection, or one is to be run here.
    async fn listen(mut self) {
        loop {
            match self.next().await {
                Err(end) => return self.end(end),
                Ok(None) => {}
                Ok(Some(begun)) => {
                    let (inner, connection) =
                        (Arc::clone(&self.inner), Arc::clone(&self.connection));
                    // What comes first has no place that whatever comes next could stay in.
                    let stays = !begun.comes_first(&inner, &connection);
                    let turn = stays.then(|| connection.turn()).flatten();
                    let turn = turn.zip(inner.may_block_here());
                    let Some(turn) = turn else {
                        let (inner, connection) = (Arc::clone(&inner), Arc::clone(&connection));
                        tokio::spawn(in_turn(inner, connection, begun));
                        continue;
                    };
                    let left = tokio::task::block_in_place(|| stay(self, begun));
                    if let Some((begun, ran)) = left {
                        begun.finish(&connection, ran).await;
                    }
                    return drop(turn);
                }
            }
        }
    }

    /// Waits for a frame and deals with it. Gives a request that is to be run.
    async fn next(&mut self) -> Result<Option<Begun>, End> {
        let mut ending = self.inner.ending.subscribe();
        let share = Arc::clone(self.connection.place.share());
        let quiet = Instant::now() + share.limits.idle;
        let frame = tokio::select! {
            // In this order: what comes after the end was announced is not begun.
            biased;
            () = share.closing() => return Err(End::Gone),
            _ = ending.wait_for(|ends| *ends) => {
                return Err(End::Told(ends()));
            }
            frame = self.inlet.frame(quiet) => frame?,
        };
        match frame {
            None if !self.connection.is_settled() || self.subscription.is_some() => Ok(None),
            None => {
                let told = "the connection was quiet for too long";
                Err(End::Told(WireError::new(code::IDLE, told).retryable()))
            }
            Some(frame) => self.take(frame).await,
        }
    }

    /// Deals with a frame. Gives a request that is to be run.
    pub(super) async fn take(&mut self, frame: Frame) -> Result<Option<Begun>, End> {
        let Self {
            inner,
            connection,
            inlet,
            subscription,
            ..
        } = self;
        let mut ending = inner.ending.subscribe();
        let given_up = async {
            drop(ending.wait_for(|ends| *ends).await);
            tokio::time::sleep(inner.grace()).await;
        };
        tokio::select! {
            biased;
            taken = take(inner, connection, inlet, frame, subscription) => taken,
            // In the middle of an answer that nobody reads: there is nothing more to say.
            () = given_up => Err(End::Gone),
        }
    }

    /// Whether nothing more is to be begun.
    pub(super) fn is_ending(&self) -> bool {
        *self.inner.ending.borrow() || self.connection.place.share().is_closed()
    }
}

/// Calls under way, beyond which none blocks where it was taken: whoever takes over listening then
/// needs a thread, of which there must be one. As many threads stay with their connections.
const FEW: usize = 2;

impl<H> Inner<H> {
    /// Whether a call may block where it was taken, until what is given is dropped: another thread
    /// then takes over.
    fn may_block_here(&self) -> Option<Counted<'_>> {
        let possible = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
            && self.calls.load(Ordering::SeqCst) < FEW;
        let counted = possible.then(|| Counted::new(&self.staying))?;
        (self.staying.load(Ordering::SeqCst) <= FEW).then_some(counted)
    }
}

/// One of the calls under way.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Ordering::SeqCst);
        Self(calls)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tells the other end, takes back what it no longer waits for, and lets the rest finish.
async fn close<H: Handler>(inner: &Inner<H>, connection: &Connection<H::Identity>, end: End) {
    if let End::Told(error) = end
        && (error.code != code::SHUTTING_DOWN || is_answered(inner, connection).await)
    {
        // Whoever does not read is not waited for.
        let told = connection.reply(0, Err(error));
        let _told = tokio::time::timeout(inner.grace(), told).await;
    }
    connection.cancel_all();
    connection.outgoing.give_up();
    connection.settle().await;
}

/// Lets what is under way finish, and takes back what does not; says whether everything has its
/// answer. Whoever is told that the server ends may take whatever has none as not begun.
async fn is_answered<H: Handler>(inner: &Inner<H>, connection: &Connection<H::Identity>) -> bool {
    let grace = inner.grace();
    let finished = tokio::time::timeout(grace, connection.settle()).await;
    if finished.is_ok() {
        return true;
    }
    connection.cancel_all();
    tokio::time::timeout(grace, connection.settle())
        .await
        .is_ok()
}

/// Deals with one frame.
async fn take<H: Handler>(
    inner: &Arc<Inner<H>>,
    connection: &Arc<Connection<H::Identity>>,
    inlet: &mut Inlet,
    frame: Frame,
    subscription: &mut Option<tokio::task::JoinHandle<()>>,
) -> Result<Option<Begun>, End> {
    let message = parse_bounded(&frame.text).map_err(|error| End::Told(error.wire()))?;
    let request = match message {
        Message::Request(request) => request,
        Message::Response(_) | Message::Event(_) => {
            let told = "only requests are taken here";
            return Err(End::Told(WireError::new(code::INVALID_MESSAGE, told)));
        }
    };
    let descriptors = inlet.claim(request.descriptors)?;
    let id = request.id;
    if connection.is_under_way(id) {
        connection.reply(id, Err(duplicate(id))).await?;
        return Ok(None);
    }
    match request.method.as_str() {
        "handshake" => {
            let told = "there was a handshake already";
            Err(End::Told(WireError::new(code::HANDSHAKE_REQUIRED, told)))
        }
        "ping" => {
            connection.reply(id, Ok(json!("pong"))).await?;
            Ok(None)
        }
        "cancel" => {
            let answer = number(&request.params, "id").and_then(|id| {
                id.map(|id| json!({ "cancelled": connection.cancel(id) }))
                    .ok_or_else(|| WireError::new(code::INVALID_PARAMS, "`id` is missing"))
            });
            connection.reply(id, answer).await?;
            Ok(None)
        }
        "events.subscribe" => {
            let begun = subscribe(inner, connection, &request.params).await;
            let after = begun.as_ref().ok().copied();
            let answer = begun.map(|after| json!({ "after": after }));
            connection.reply(id, answer).await?;
            if let Some(after) = after {
                stop(connection, subscription.take()).await;
                let (inner, connection) = (Arc::clone(inner), Arc::clone(connection));
                *subscription = Some(tokio::spawn(pump(inner, connection, after)));
            }
            Ok(None)
        }
        "events.unsubscribe" => {
            stop(connection, subscription.take()).await;
            connection.reply(id, Ok(Value::Null)).await?;
            Ok(None)
        }
        _ => {
            let load = Load {
                bytes: frame.text.len(),
                descriptors: descriptors.len(),
            };
            let Request { method, params, .. } = request;
            let incoming = Incoming {
                method,
                params,
                descriptors,
            };
            begin(connection, id, incoming, load, frame.room).await
        }
    }
}

/// Ends a subscription, between two frames.
async fn stop<I>(connection: &Connection<I>, pumping: Option<tokio::task::JoinHandle<()>>) {
    if let Some(pumping) = pumping {
        let _turn = connection.outgoing.turn().await;
        pumping.abort();
    }
}

async fn subscribe<H: Handler>(
    inner: &Arc<Inner<H>>,
    connection: &Arc<Connection<H::Identity>>,
    params: &Value,
) -> Result<u64, WireError> {
    let after = number(params, "after")?;
    let (handler, asking) = (Arc::clone(&inner.handler), Arc::clone(connection));
    tokio::task::spawn_blocking(move || handler.subscribe(&asking.identity, after))
        .await
        .unwrap_or_else(|_| Err(failed()))
}

/// The number `name` in `params`, where there is one, and nothing else.
fn number(params: &Value, name: &str) -> Result<Option<u64>, WireError> {
    let fields: Option<HashMap<String, u64>> = Option::deserialize(params).map_err(|_| {
        let told = format!("the parameters are an object, and `{name}` in it a whole number");
        WireError::new(code::INVALID_PARAMS, told)
    })?;
    let fields = fields.unwrap_or_default();
    match fields.keys().find(|field| *field != name) {
        Some(_) => {
            let told = format!("only `{name}` is a parameter");
            Err(WireError::new(code::INVALID_PARAMS, told))
        }
        None => Ok(fields.get(name).copied()),
    }
}

fn duplicate(id: u64) -> WireError {
    let told = format!("request {id} is still under way");
    WireError::new(code::DUPLICATE_ID, told)
}

fn failed() -> WireError {
    WireError::new(code::INTERNAL, "the request failed unexpectedly")
}

/// A request under way, which nobody runs yet.
pub(super) struct Begun {
    id: u64,
    incoming: Option<Incoming>,
    token: CancelToken,
    load: Load,
    _room: Reservation,
}

/// Begins a request, if there is room for it.
async fn begin<I>(
    connection: &Connection<I>,
    id: u64,
    incoming: Incoming,
    load: Load,
    room: Reservation,
) -> Result<Option<Begun>, End> {
    let limits = connection.place.share().limits;
    let token = CancelToken::new();
    let refused = {
        let mut in_flight = lock(&connection.in_flight);
        let then = in_flight.load.and(load);
        let fits = then.bytes <= limits.in_flight_bytes && then.descriptors <= limits.descriptors;
        if in_flight.tokens.contains_key(&id) {
            Some(duplicate(id))
        } else if in_flight.count >= limits.in_flight || !fits {
            let told = "too many requests are under way on this connection";
            Some(WireError::new(code::BUSY, told).retryable())
        } else {
            in_flight.tokens.insert(id, token.clone());
            in_flight.count += 1;
            in_flight.load = then;
            None
        }
    };
    if let Some(error) = refused {
        connection.reply(id, Err(error)).await?;
        return Ok(None);
    }
    Ok(Some(Begun {
        id,
        incoming: Some(incoming),
        token,
        load,
        _room: room,
    }))
}

/// What is left to write of an answer; an error if there is none to write.
pub(super) type Ran = Result<Option<outgoing::Rest>, ()>;

impl Begun {
    /// Runs it, on a thread that may wait, and writes what goes of its answer.
    pub(super) fn run<H: Handler>(
        &mut self,
        inner: &Inner<H>,
        connection: &Connection<H::Identity>,
    ) -> Ran {
        let incoming = self.incoming.take().ok_or(())?;
        let _counted = Counted::new(&inner.calls);
        self.token.runs(connection.place.share());
        let call = || {
            inner
                .handler
                .call(&connection.identity, incoming, &self.token)
        };
        let answer = catch_unwind(AssertUnwindSafe(call)).map_err(drop)?;
        let frame = outgoing::reply(self.id, answer, connection.frame_bytes());
        connection.answered(self.id);
        let rest = connection.outgoing.send_now(frame);
        // What was done may be an event to somebody; whoever asked comes first.
        inner
            .news
            .send_modify(|count| *count = count.wrapping_add(1));
        inner.handler.answered();
        Ok(rest)
    }

    /// Whether it waits for no other.
    fn comes_first<H: Handler>(
        &self,
        inner: &Inner<H>,
        connection: &Connection<H::Identity>,
    ) -> bool {
        let incoming = self.incoming.as_ref();
        incoming.is_some_and(|incoming| inner.handler.comes_first(&connection.identity, incoming))
    }

    /// Whether it may take long.
    pub(super) fn lasts<H: Handler>(&self, inner: &Inner<H>) -> bool {
        let incoming = self.incoming.as_ref();
        incoming.is_some_and(|incoming| inner.handler.lasts(incoming))
    }

    /// Its answer is written.
    pub(super) fn finished<I>(&self, connection: &Connection<I>) {
        connection.landed(self.load);
    }

    /// Sees to it that its answer is written.
    async fn finish<I>(&self, connection: &Connection<I>, ran: Ran) {
        match ran {
            Ok(None) => {}
            Ok(Some(rest)) => {
                let _ = connection.outgoing.finish(rest).await;
            }
            Err(()) => {
                connection.answered(self.id);
                let _ = connection.reply(self.id, Err(failed())).await;
            }
        }
        connection.landed(self.load);
    }
}

/// Waits for its turn, runs the request, and sees to it that its answer is written.
async fn in_turn<H: Handler>(
    inner: Arc<Inner<H>>,
    connection: Arc<Connection<H::Identity>>,
    begun: Begun,
) {
    let taken_back = Arc::new(Notify::new());
    let wake = Arc::clone(&taken_back);
    begun.token.on_cancel(move || wake.notify_one());
    let first = begun.comes_first(&inner, &connection);
    let workers = connection.place.share().workers(first);
    let turn = async {
        let running = connection.running.acquire().await;
        (running, workers.acquire().await)
    };
    let _turn = tokio::select! {
        biased;
        () = taken_back.notified() => {
            connection.answered(begun.id);
            let error = WireError::new(code::CANCELLED, "the request was taken back");
            let _ = connection.reply(begun.id, Err(error)).await;
            return connection.landed(begun.load);
        }
        turn = turn => turn,
    };
    let (id, load) = (begun.id, begun.load);
    let asking = Arc::clone(&connection);
    let mut begun = begun;
    let ran = tokio::task::spawn_blocking(move || {
        let ran = begun.run(&inner, &asking);
        (begun, ran)
    });
    if let Ok((begun, ran)) = ran.await {
        return begun.finish(&connection, ran).await;
    }
    // The runtime ends, and ran nothing.
    connection.answered(id);
    let _ = connection.reply(id, Err(failed())).await;
    connection.landed(load);
}

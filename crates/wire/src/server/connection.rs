//! One connection, from the first look at who it is to the end of what it began.

use super::inlet::{End, Frame, Inlet};
use super::outgoing::{self, Broken, Outgoing, refuse, reply};
use super::pump::pump;
use super::share::{Place, Reservation};
use super::{Handler, Incoming, Inner, lock};
use crate::cancel::CancelToken;
use crate::error::{WireError, code};
use crate::handshake::{Supported, negotiate};
use crate::message::{Message, Request, parse};
use crate::peer::{PeerError, Visitor, identify, is_in_place};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore};
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
    /// Bytes of all of them.
    bytes: usize,
}

impl<I> Connection<I> {
    pub(super) fn frame_bytes(&self) -> usize {
        self.place.share().limits.frame_bytes
    }

    async fn reply(&self, id: u64, answer: Result<Value, WireError>) -> Result<(), End> {
        let frame = reply(id, answer, self.frame_bytes());
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

    /// The answer to `id` is there: the number is free, though the answer is not yet taken.
    fn answered(&self, id: u64) {
        lock(&self.in_flight).tokens.remove(&id);
    }

    /// A request of `bytes` and its answer are gone. Its number may be another's by now.
    fn landed(&self, bytes: usize) {
        {
            let mut in_flight = lock(&self.in_flight);
            in_flight.count -= 1;
            in_flight.bytes -= bytes;
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

/// Serves one connection to its end.
pub(super) async fn converse<H: Handler>(inner: &Arc<Inner<H>>, place: Place, stream: UnixStream) {
    let visitor = match visitor(&place, &stream) {
        Ok(visitor) => visitor,
        Err(error) => {
            return refuse(&stream, &WireError::new(code::REFUSED, error.to_string()));
        }
    };
    let stream = Arc::new(stream);
    let mut inlet = Inlet::new(Arc::clone(&stream), Arc::clone(place.share()));
    let greeted = match handshake(inner, &visitor, &mut inlet).await {
        Ok(greeted) => greeted,
        Err(End::Gone) => return,
        Err(End::Told(error)) => return refuse(&stream, &error),
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
        Ok(()) => listen(inner, &connection, &mut inlet).await,
        Err(end) => end,
    };
    close(inner, &connection, end).await;
}

/// Who it is, before a byte is read.
fn visitor(place: &Place, stream: &UnixStream) -> Result<Visitor, PeerError> {
    let share = place.share();
    let told = stream.peer_cred().map_err(|_| PeerError::Unnamed)?;
    let peer = identify(told.pid(), told.uid(), &share.users)?;
    is_in_place(peer, &share.via)?;
    Ok(Visitor {
        peer,
        via: share.via.clone(),
    })
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
    let first = tokio::time::timeout_at(until, inlet.frame(until)).await;
    let frame = first.map_err(|_| late())??.ok_or_else(late)?;
    let message = parse(&frame.text).map_err(|error| End::Told(error.wire()))?;
    let required = |told: &str| End::Told(WireError::new(code::HANDSHAKE_REQUIRED, told));
    let request = match message {
        Message::Request(request) if request.method == "handshake" => request,
        Message::Request(_) | Message::Response(_) | Message::Event(_) => {
            return Err(required(
                "the first message must be the request `handshake`",
            ));
        }
    };
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

/// Takes requests until something ends the connection.
async fn listen<H: Handler>(
    inner: &Arc<Inner<H>>,
    connection: &Arc<Connection<H::Identity>>,
    inlet: &mut Inlet,
) -> End {
    let mut ending = inner.ending.subscribe();
    let mut subscription: Option<tokio::task::JoinHandle<()>> = None;
    let share = Arc::clone(connection.place.share());
    loop {
        let quiet = Instant::now() + share.limits.idle;
        let frame = tokio::select! {
            // In this order: what comes after the end was announced is not begun.
            biased;
            () = share.closing() => return End::Gone,
            _ = ending.wait_for(|ends| *ends) => {
                let told = "the kernel ends";
                return End::Told(WireError::new(code::SHUTTING_DOWN, told).retryable());
            }
            frame = inlet.frame(quiet) => frame,
        };
        let taken = match frame {
            Err(end) => return end,
            Ok(None) if !connection.is_settled() || subscription.is_some() => Ok(()),
            Ok(None) => {
                let told = "the connection was quiet for too long";
                return End::Told(WireError::new(code::IDLE, told).retryable());
            }
            Ok(Some(frame)) => take(inner, connection, inlet, frame, &mut subscription).await,
        };
        if let Err(end) = taken {
            return end;
        }
    }
}

/// Tells the other end, takes back what it no longer waits for, and lets the rest finish.
async fn close<H: Handler>(inner: &Inner<H>, connection: &Connection<H::Identity>, end: End) {
    if let End::Told(error) = end
        && (error.code != code::SHUTTING_DOWN || is_answered(inner, connection).await)
    {
        let _ = connection.reply(0, Err(error)).await;
    }
    connection.cancel_all();
    connection.outgoing.give_up();
    connection.settle().await;
}

/// Lets what is under way finish, and takes back what does not; says whether everything has its
/// answer. Whoever is told that the server ends may take whatever has none as not begun.
async fn is_answered<H: Handler>(inner: &Inner<H>, connection: &Connection<H::Identity>) -> bool {
    let grace = inner.config.grace;
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
) -> Result<(), End> {
    let message = parse(&frame.text).map_err(|error| End::Told(error.wire()))?;
    let request = match message {
        Message::Request(request) => request,
        Message::Response(_) | Message::Event(_) => {
            let told = "only requests are taken here";
            return Err(End::Told(WireError::new(code::INVALID_MESSAGE, told)));
        }
    };
    let Some(descriptors) = inlet.descriptors(request.descriptors) else {
        let told = "fewer descriptors came along than the request says";
        return Err(End::Told(WireError::new(code::INVALID_MESSAGE, told)));
    };
    let id = request.id;
    match request.method.as_str() {
        "handshake" => {
            let told = "there was a handshake already";
            Err(End::Told(WireError::new(code::HANDSHAKE_REQUIRED, told)))
        }
        "ping" => connection.reply(id, Ok(json!("pong"))).await,
        "cancel" => {
            let answer = number(&request.params, "id").and_then(|id| {
                id.map(|id| json!({ "cancelled": connection.cancel(id) }))
                    .ok_or_else(|| WireError::new(code::INVALID_PARAMS, "`id` is missing"))
            });
            connection.reply(id, answer).await
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
            Ok(())
        }
        "events.unsubscribe" => {
            stop(connection, subscription.take()).await;
            connection.reply(id, Ok(Value::Null)).await
        }
        _ => {
            let size = frame.text.len();
            let Request { method, params, .. } = request;
            let incoming = Incoming {
                method,
                params,
                descriptors,
            };
            begin(inner, connection, id, incoming, size, frame.room).await
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
    let fields: Option<HashMap<String, u64>> = Option::deserialize(params)
        .map_err(|error| WireError::new(code::INVALID_PARAMS, error.to_string()))?;
    let fields = fields.unwrap_or_default();
    match fields.keys().find(|field| *field != name) {
        Some(_) => {
            let told = format!("only `{name}` is a parameter");
            Err(WireError::new(code::INVALID_PARAMS, told))
        }
        None => Ok(fields.get(name).copied()),
    }
}

fn failed() -> WireError {
    WireError::new(code::INTERNAL, "the request failed unexpectedly")
}

/// Begins a request, if there is room for it.
async fn begin<H: Handler>(
    inner: &Arc<Inner<H>>,
    connection: &Arc<Connection<H::Identity>>,
    id: u64,
    incoming: Incoming,
    size: usize,
    room: Reservation,
) -> Result<(), End> {
    let limits = connection.place.share().limits;
    let token = CancelToken::new();
    let refused = {
        let mut in_flight = lock(&connection.in_flight);
        let bytes = in_flight.bytes + size;
        if in_flight.tokens.contains_key(&id) {
            let told = format!("request {id} is still under way");
            Some(WireError::new(code::DUPLICATE_ID, told))
        } else if in_flight.count >= limits.in_flight || bytes > limits.in_flight_bytes {
            let told = "too many requests are under way on this connection";
            Some(WireError::new(code::BUSY, told).retryable())
        } else {
            in_flight.tokens.insert(id, token.clone());
            in_flight.count += 1;
            in_flight.bytes = bytes;
            None
        }
    };
    if let Some(error) = refused {
        return connection.reply(id, Err(error)).await;
    }
    let (inner, connection) = (Arc::clone(inner), Arc::clone(connection));
    tokio::spawn(async move {
        answer(&inner, &connection, id, incoming, &token).await;
        connection.landed(size);
        drop(room);
    });
    Ok(())
}

/// Waits for its turn, runs the request, and sees to it that its answer is written.
async fn answer<H: Handler>(
    inner: &Arc<Inner<H>>,
    connection: &Arc<Connection<H::Identity>>,
    id: u64,
    incoming: Incoming,
    token: &CancelToken,
) {
    let taken_back = Arc::new(Notify::new());
    let wake = Arc::clone(&taken_back);
    token.on_cancel(move || wake.notify_one());
    let workers = &connection.place.share().workers;
    let turn = async {
        let running = connection.running.acquire().await;
        (running, workers.acquire().await)
    };
    let _turn = tokio::select! {
        biased;
        () = taken_back.notified() => {
            connection.answered(id);
            let error = WireError::new(code::CANCELLED, "the request was taken back");
            let _ = connection.reply(id, Err(error)).await;
            return;
        }
        turn = turn => turn,
    };
    let (handler, asking, token) = (
        Arc::clone(&inner.handler),
        Arc::clone(connection),
        token.clone(),
    );
    // What was done may be an event to somebody.
    let noticing = Arc::clone(inner);
    let ran = tokio::task::spawn_blocking(move || {
        let answer = handler.call(&asking.identity, incoming, &token);
        noticing
            .news
            .send_modify(|count| *count = count.wrapping_add(1));
        let frame = outgoing::reply(id, answer, asking.frame_bytes());
        asking.answered(id);
        asking.outgoing.send_now(frame)
    });
    match ran.await {
        Ok(None) => {}
        Ok(Some(rest)) => {
            let _ = connection.outgoing.finish(rest).await;
        }
        Err(_) => {
            connection.answered(id);
            let _ = connection.reply(id, Err(failed())).await;
        }
    }
}

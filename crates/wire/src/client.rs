//! A small blocking client.

use crate::awake::Awake;
use crate::error::{WireError, code};
use crate::frame::{Decoder, FrameError};
use crate::handshake::Hello;
use crate::limits::{DEFAULT_FRAME_BYTES, FRAME_BYTES};
use crate::message::{Event, Message, Reply, Request, framed, parse};
use crate::socket::connect;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Events kept while an answer is waited for; older ones are asked for again by number.
const KEPT_EVENTS: usize = 1024;
/// Most descriptors a request passes along.
const MOST_DESCRIPTORS: usize = 8;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error("no kernel answers")]
    Connect(#[source] io::Error),
    /// Whoever listens there runs as somebody else.
    #[error("the kernel there is user {uid}'s, not yours")]
    Foreign {
        /// Whose it is.
        uid: u32,
    },
    /// The connection was refused, or ended by the other side with a reason.
    #[error("the kernel ended the connection: {0}")]
    Closed(WireError),
    /// The connection broke.
    #[error("the connection to the kernel broke")]
    Lost(#[source] io::Error),
    /// The request is longer than the kernel takes, and was not sent. The connection is as before.
    #[error("the request is too long for the kernel")]
    TooLong(#[source] FrameError),
    /// What came is no message.
    #[error("the kernel said something that is no message: {0}")]
    Nonsense(String),
    /// The request was answered with an error.
    #[error(transparent)]
    Answer(WireError),
}

impl ClientError {
    /// Whether a request whose answer this is was certainly not begun: it was not sent, or the server
    /// said that it ends before it took it. Anything else may have had its effect.
    pub fn is_untaken(&self) -> bool {
        match self {
            Self::Foreign { .. } | Self::TooLong(_) => true,
            Self::Connect(_)
            | Self::Closed(_)
            | Self::Answer(_)
            | Self::Lost(_)
            | Self::Nonsense(_) => self.is_too_late(),
        }
    }

    /// Whether a request was not begun because the kernel was ending, or is gone: another may take it.
    pub fn is_too_late(&self) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Closed(error) | Self::Answer(error) => error.code == code::SHUTTING_DOWN,
            Self::Foreign { .. } | Self::TooLong(_) | Self::Lost(_) | Self::Nonsense(_) => false,
        }
    }
}

/// What came from the other end.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrived {
    /// An answer.
    Reply(Reply),
    /// An event.
    Event(Event),
}

#[derive(Debug)]
struct Sender {
    stream: Mutex<UnixStream>,
    next: AtomicU64,
    /// The longest frame the other end takes.
    frame_bytes: AtomicUsize,
}

impl Sender {
    fn send(
        &self,
        method: &str,
        params: Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<u64, ClientError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let request = Message::Request(Request {
            id,
            method: method.to_owned(),
            params,
            descriptors: descriptors.len(),
        });
        let most = self.frame_bytes.load(Ordering::Relaxed);
        let frame = framed(&request, most).map_err(ClientError::TooLong)?;
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let first = pass(&stream, &frame, descriptors).map_err(ClientError::Lost)?;
        stream
            .write_all(frame.get(first..).unwrap_or_default())
            .map_err(ClientError::Lost)?;
        Ok(id)
    }
}

/// Writes the beginning of `frame` with `descriptors`, if there are any.
fn pass(stream: &UnixStream, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if descriptors.is_empty() {
        return Ok(0);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let slices = [IoSlice::new(frame)];
    Ok(sendmsg(stream, &slices, &mut control, SendFlags::NOSIGNAL)?)
}

/// Who listens at the other end, as the operating system says.
fn listener(stream: &UnixStream) -> Result<u32, ClientError> {
    let told = rustix::net::sockopt::socket_peercred(stream)
        .map_err(|error| ClientError::Connect(error.into()))?;
    Ok(told.uid.as_raw())
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether `uid` is somebody in the user namespace of this process.
fn is_inside(uid: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    has_number(&map, uid)
}

/// Whether `uid` is somebody in a user namespace with that `uid_map`: lines of the first number inside,
/// the first outside, and how many. All who are nobody there appear as one number that is not mapped.
/// A map that cannot be read maps everybody.
fn has_number(map: &str, uid: u32) -> bool {
    let covers = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return true;
        };
        (first..first.saturating_add(count)).contains(&u64::from(uid))
    };
    map.trim().is_empty() || map.lines().any(covers)
}

/// A connection to a kernel.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    sender: Arc<Sender>,
    decoder: Decoder,
    awake: Awake,
    greeting: Value,
    replies: HashMap<u64, Reply>,
    events: VecDeque<Event>,
    /// Requests of this client whose answers are wanted.
    wanted: std::collections::HashSet<u64>,
}

/// A client that has said hello, and has something else to do while it is greeted.
#[derive(Debug)]
pub struct Hailed {
    client: Client,
    /// The hello's number.
    id: u64,
}

impl Hailed {
    /// Waits for the greeting, as long as was said.
    pub fn greeted(self) -> Result<Client, ClientError> {
        let Self { mut client, id } = self;
        client.greeting = client.answer(id)?;
        let most = agreed(&client.greeting);
        client.decoder.limit(most);
        client.sender.frame_bytes.store(most, Ordering::Relaxed);
        client.wait_up_to(None).map_err(ClientError::Lost)?;
        Ok(client)
    }
}

impl Client {
    /// Connects to the socket at `path` and says `hello`. Whoever listens must be this user; silence
    /// for longer than `patience` counts as nobody.
    pub fn connect(path: &Path, hello: &Hello, patience: Duration) -> Result<Self, ClientError> {
        Self::hail(path, hello, patience)?.greeted()
    }

    /// The same without waiting for the greeting.
    pub fn hail(path: &Path, hello: &Hello, patience: Duration) -> Result<Hailed, ClientError> {
        let stream = connect(path).map_err(ClientError::Connect)?;
        let uid = listener(&stream)?;
        if uid != own() {
            return Err(ClientError::Foreign { uid });
        }
        Self::greet(stream, hello, patience)
    }

    /// The same from inside a sandbox, to the socket that was put there. Whoever listens is this user,
    /// or is outside of it and so has no number inside.
    pub fn connect_inside(
        path: &Path,
        hello: &Hello,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        let stream = connect(path).map_err(ClientError::Connect)?;
        let uid = listener(&stream)?;
        if uid != own() && is_inside(uid) {
            return Err(ClientError::Foreign { uid });
        }
        Self::greet(stream, hello, patience)?.greeted()
    }

    fn greet(stream: UnixStream, hello: &Hello, patience: Duration) -> Result<Hailed, ClientError> {
        let timed = stream
            .set_read_timeout(Some(patience))
            .and_then(|()| stream.set_write_timeout(Some(patience)));
        let writing = timed
            .and_then(|()| stream.try_clone())
            .map_err(ClientError::Connect)?;
        let mut client = Self {
            stream,
            sender: Arc::new(Sender {
                stream: Mutex::new(writing),
                next: AtomicU64::new(1),
                frame_bytes: AtomicUsize::new(DEFAULT_FRAME_BYTES),
            }),
            decoder: Decoder::new(DEFAULT_FRAME_BYTES),
            awake: Awake::default(),
            greeting: Value::Null,
            replies: HashMap::new(),
            events: VecDeque::new(),
            wanted: std::collections::HashSet::new(),
        };
        let params = serde_json::to_value(hello).unwrap_or_default();
        let id = client.send("handshake", params, &[])?;
        Ok(Hailed { client, id })
    }

    /// What the kernel said of itself.
    pub fn greeting(&self) -> &Value {
        &self.greeting
    }

    /// How long to wait for an answer; none: as long as it takes.
    pub fn wait_up_to(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)?;
        self.stream.set_write_timeout(patience)
    }

    /// Asks, and waits for the answer.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.send(method, params, &[])?;
        self.answer(id)
    }

    /// Asks, and passes descriptors along.
    pub fn send(
        &mut self,
        method: &str,
        params: Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<u64, ClientError> {
        match self.sender.send(method, params, descriptors) {
            Ok(id) => {
                self.wanted.insert(id);
                Ok(id)
            }
            // Nothing was sent, so nothing comes that would say more.
            Err(error @ ClientError::TooLong(_)) => Err(error),
            Err(error) => Err(self.reason(error)),
        }
    }

    /// Why nothing can be sent: what the other end said before it closed, where it said something.
    fn reason(&mut self, error: ClientError) -> ClientError {
        loop {
            match self.read() {
                Ok(_) => {}
                Err(closed @ ClientError::Closed(_)) => return closed,
                Err(_) => return error,
            }
        }
    }

    /// Waits for the answer to the request `id`.
    pub fn answer(&mut self, id: u64) -> Result<Value, ClientError> {
        loop {
            if let Some(reply) = self.replies.remove(&id) {
                return reply.answer.map_err(ClientError::Answer);
            }
            match self.read()? {
                Arrived::Reply(reply) => {
                    self.replies.insert(reply.id, reply);
                }
                Arrived::Event(event) => self.keep(event),
            }
        }
    }

    /// Takes in what has come, once the connection can be read: the answer to `id`, if it is among
    /// that.
    pub fn take_in(&mut self, id: u64) -> Result<Option<Value>, ClientError> {
        loop {
            match self.step()? {
                Some(Arrived::Reply(reply)) => {
                    self.replies.insert(reply.id, reply);
                }
                Some(Arrived::Event(event)) => self.keep(event),
                None => {}
            }
            if let Some(reply) = self.replies.remove(&id) {
                return reply.answer.map(Some).map_err(ClientError::Answer);
            }
            if !self.decoder.is_inside() {
                return Ok(None);
            }
        }
    }

    /// The next answer or event, whichever comes first.
    pub fn receive(&mut self) -> Result<Arrived, ClientError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Arrived::Event(event));
        }
        let kept = self.replies.keys().next().copied();
        if let Some(reply) = kept.and_then(|id| self.replies.remove(&id)) {
            return Ok(Arrived::Reply(reply));
        }
        self.read()
    }

    /// Takes requests back, and sends small ones, from any thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.sender))
    }

    fn keep(&mut self, event: Event) {
        if self.events.len() == KEPT_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The next message somebody here waits for.
    fn read(&mut self) -> Result<Arrived, ClientError> {
        loop {
            if let Some(arrived) = self.step()? {
                return Ok(arrived);
            }
        }
    }

    /// The next message, if somebody here waits for it.
    fn step(&mut self) -> Result<Option<Arrived>, ClientError> {
        let Self {
            awake,
            decoder,
            stream,
            ..
        } = self;
        let frame = if decoder.is_whole() {
            decoder.read_from(stream)
        } else {
            awake.until(&*stream, || decoder.read_from(&mut &*stream))
        };
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let frame = frame.and_then(|frame| frame.ok_or_else(ended));
        let message = parse(&frame.map_err(ClientError::Lost)?)
            .map_err(|error| ClientError::Nonsense(error.to_string()))?;
        match message {
            Message::Event(event) => Ok(Some(Arrived::Event(event))),
            Message::Response(Reply {
                id: 0,
                answer: Err(error),
            }) => Err(ClientError::Closed(error)),
            Message::Response(reply) if self.wanted.remove(&reply.id) => {
                Ok(Some(Arrived::Reply(reply)))
            }
            // An answer nobody waits for is that of a request taken back or only sent.
            Message::Response(_) => Ok(None),
            Message::Request(request) => {
                let told = format!("it asked for `{}`", request.method);
                Err(ClientError::Nonsense(told))
            }
        }
    }
}

/// The longest frame a kernel of that greeting takes and sends. One that says nothing usable has what
/// all have unless configured otherwise; none makes this end hold without bound.
fn agreed(greeting: &Value) -> usize {
    let told = greeting.pointer("/limits/frame_bytes");
    let told = told.and_then(Value::as_u64);
    let told = told.and_then(|bytes| usize::try_from(bytes).ok());
    told.map_or(DEFAULT_FRAME_BYTES, |bytes| {
        bytes.clamp(*FRAME_BYTES.start(), *FRAME_BYTES.end())
    })
}

/// To be waited for together with others.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sends what needs no answer, beside a [`Client`] that waits for one.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Sender>);

impl Canceller {
    /// Takes the request `id` back.
    pub fn cancel(&self, id: u64) -> Result<(), ClientError> {
        self.tell("cancel", json!({ "id": id }))
    }

    /// Sends a request whose answer nobody waits for.
    pub fn tell(&self, method: &str, params: Value) -> Result<(), ClientError> {
        self.0.send(method, params, &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_no_number_in_a_namespace_is_outside_of_it() {
        let host = "         0          0 4294967295\n";
        let sandbox = "      1000 1879048192          1\n";
        let container = "0 1000 1\n1 100000 65536\n";
        for (case, map, uid, want) in [
            ("root of the machine", host, 0, true),
            ("somebody called nobody", host, 65_534, true),
            ("the sandbox's own user", sandbox, 1000, true),
            ("whoever made the sandbox", sandbox, 65_534, false),
            ("a number beside the map", sandbox, 1001, false),
            ("a user of a container", container, 65_534, true),
            ("the last of a range", container, 65_536, true),
            ("beyond a range", container, 65_537, false),
            ("no map yet", "", 65_534, true),
            ("no map at all", "x", 65_534, true),
        ] {
            assert_eq!(has_number(map, uid), want, "{case}");
        }
    }

    #[test]
    fn the_greeting_says_how_long_frames_are_within_what_anybody_may_say() {
        for (told, want) in [
            (json!({ "limits": { "frame_bytes": 1_048_576 } }), 1_048_576),
            (
                json!({ "limits": { "frame_bytes": 1 } }),
                *FRAME_BYTES.start(),
            ),
            (
                json!({ "limits": { "frame_bytes": u64::MAX } }),
                *FRAME_BYTES.end(),
            ),
            (
                json!({ "limits": { "frame_bytes": "x" } }),
                DEFAULT_FRAME_BYTES,
            ),
            (
                json!({ "limits": { "frame_bytes": -1 } }),
                DEFAULT_FRAME_BYTES,
            ),
            (json!(null), DEFAULT_FRAME_BYTES),
        ] {
            assert_eq!(agreed(&told), want, "{told}");
        }
    }
}

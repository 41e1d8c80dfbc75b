//! A server in this process, with a handler that counts, waits and fails as told.

use airlock_wire::{
    Answer, CancelToken, Client, Event, Handler, Hello, Incoming, Limits, Server, ServerConfig,
    Socket, Visitor, WireError, code, encode,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) begun: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) answered: AtomicUsize,
    /// How often there was time for what is put off.
    pub(crate) caught_up: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct Doing {
    pub(crate) counts: Counts,
    /// Whether what is put off takes until everything is released.
    pub(crate) lingers: AtomicBool,
    released: Mutex<bool>,
    changed: Condvar,
    events: Mutex<Vec<Event>>,
}

impl Doing {
    /// Lets everything that waits go on.
    pub(crate) fn release(&self) {
        *self.released.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub(crate) fn happen(&self, count: u64) {
        let mut events = self.events.lock().unwrap();
        for _ in 0..count {
            let id = events.len() as u64 + 1;
            let params = json!({ "number": id, "padding": "x".repeat(1000) });
            let method = "thing".to_owned();
            events.push(Event { id, method, params });
        }
    }

    /// Waits until released or taken back.
    fn wait(self: &Arc<Self>, cancel: &CancelToken) -> bool {
        let me = Arc::clone(self);
        cancel.on_cancel(move || {
            drop(me.released.lock());
            me.changed.notify_all();
        });
        let released = self.released.lock().unwrap();
        let ready = |released: &mut bool| !*released && !cancel.is_cancelled();
        drop(self.changed.wait_while(released, ready).unwrap());
        cancel.is_cancelled()
    }
}

pub(crate) struct Test(pub(crate) Arc<Doing>);

impl Handler for Test {
    type Identity = Visitor;

    fn greet(&self, visitor: &Visitor, hello: &Hello) -> Result<(Visitor, Value), WireError> {
        if hello.name == "stranger" {
            return Err(WireError::new(code::REFUSED, "no strangers"));
        }
        Ok((visitor.clone(), json!({ "you": hello.name })))
    }

    fn comes_first(&self, _: &Visitor, request: &Incoming) -> bool {
        request.method == "who"
    }

    fn call(
        &self,
        identity: &Visitor,
        request: Incoming,
        cancel: &CancelToken,
    ) -> Result<Answer, WireError> {
        let counts = &self.0.counts;
        counts.begun.fetch_add(1, Ordering::SeqCst);
        match request.method.as_str() {
            "echo" => Ok(request.params.into()),
            "who" => Ok(json!(identity.peer).into()),
            "big" => {
                let text = "x".repeat(request.params.as_u64().unwrap() as usize);
                Ok(Answer::written(&text).unwrap())
            }
            "wait" => {
                counts.running.fetch_add(1, Ordering::SeqCst);
                let cancelled = self.0.wait(cancel);
                counts.running.fetch_sub(1, Ordering::SeqCst);
                if cancelled {
                    counts.cancelled.fetch_add(1, Ordering::SeqCst);
                    return Err(WireError::new(code::CANCELLED, "taken back"));
                }
                counts.answered.fetch_add(1, Ordering::SeqCst);
                Ok(json!("waited").into())
            }
            "read" => {
                let mut text = String::new();
                for descriptor in request.descriptors {
                    std::fs::File::from(descriptor)
                        .read_to_string(&mut text)
                        .unwrap();
                }
                Ok(json!(text).into())
            }
            "panic" => panic!("as asked"),
            other => Err(WireError::new(code::UNKNOWN_METHOD, other)),
        }
    }

    fn answered(&self) {
        self.0.counts.caught_up.fetch_add(1, Ordering::SeqCst);
        if self.0.lingers.load(Ordering::SeqCst) {
            let released = self.0.released.lock().unwrap();
            let waits = |released: &mut bool| !*released;
            drop(self.0.changed.wait_while(released, waits).unwrap());
        }
    }

    fn subscribe(&self, _: &Visitor, after: Option<u64>) -> Result<u64, WireError> {
        Ok(after.unwrap_or(self.0.events.lock().unwrap().len() as u64))
    }

    fn events(&self, _: &Visitor, after: u64, most: usize) -> Result<Vec<Event>, WireError> {
        let events = self.0.events.lock().unwrap();
        let later = events.iter().skip(after as usize).take(most);
        Ok(later.cloned().collect())
    }
}

pub(crate) struct Place {
    pub(crate) doing: Arc<Doing>,
    pub(crate) server: Server<Test>,
    pub(crate) runtime: Option<Runtime>,
    pub(crate) path: PathBuf,
    pub(crate) directory: PathBuf,
    task: Option<tokio::task::JoinHandle<()>>,
    _outer: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::limited(Limits::MAIN)
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        let mut config = ServerConfig::new("0.0.0");
        config.limits = limits;
        Self::with(config)
    }

    pub(crate) fn with(config: ServerConfig) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("run");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let doing = Arc::new(Doing::default());
        let server = Server::new(Arc::new(Test(Arc::clone(&doing))), config);
        let socket = Socket::bind(&directory, "kernel.sock").unwrap();
        let path = socket.path().to_owned();
        let serving = server.clone();
        let task = runtime.spawn(async move { serving.serve(socket).await.unwrap() });
        Self {
            doing,
            server,
            runtime: Some(runtime),
            path,
            directory,
            task: Some(task),
            _outer: outer,
        }
    }

    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect(&self.path, &hello("cli"), PATIENCE).unwrap();
        client.wait_up_to(Some(PATIENCE)).unwrap();
        client
    }

    /// Another client than ours: bytes as they are.
    pub(crate) fn raw(&self) -> Raw {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Raw(stream)
    }

    pub(crate) fn greeted(&self) -> Raw {
        let mut raw = self.raw();
        raw.say(&json!({
            "id": 1, "type": "request", "method": "handshake",
            "params": { "name": "raw", "version": "1", "api": 1 },
        }));
        assert!(raw.hear().unwrap()["result"]["api"] == 1);
        raw
    }

    /// Says that everybody else is served as ever.
    pub(crate) fn others_are_served(&self) {
        let mut client = self.client();
        for number in 0..100 {
            let answer = client.call("echo", json!(number)).unwrap();
            assert_eq!(answer, json!(number));
        }
    }

    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Counts) -> bool) {
        let begun = std::time::Instant::now();
        while !condition(&self.doing.counts) {
            assert!(begun.elapsed() < PATIENCE, "never happened: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the server and waits until it has ended.
    pub(crate) fn end(&mut self) {
        self.server.shutdown();
        let (task, runtime) = (self.task.take().unwrap(), self.runtime.as_ref().unwrap());
        runtime
            .block_on(async { tokio::time::timeout(PATIENCE, task).await })
            .expect("the server does not end")
            .unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.doing.release();
        self.server.shutdown();
        self.runtime.take().unwrap().shutdown_background();
    }
}

pub(crate) fn hello(name: &str) -> Hello {
    Hello::new(name, "1")
}

pub(crate) struct Raw(pub(crate) UnixStream);

impl Raw {
    pub(crate) fn say(&mut self, message: &Value) {
        let frame = encode(&message.to_string(), usize::MAX).unwrap();
        self.0.write_all(&frame).unwrap();
    }

    pub(crate) fn ask(&mut self, id: u64, method: &str, params: &Value) {
        self.say(&json!({ "id": id, "type": "request", "method": method, "params": params }));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // The other end may be gone already, and then says why.
        let _ = self.0.write_all(bytes);
    }

    /// The same, with descriptors.
    pub(crate) fn pass(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        let slices = [IoSlice::new(bytes)];
        let sent = sendmsg(&self.0, &slices, &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent.unwrap(), bytes.len());
    }

    /// The next message; none at the end.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).ok()?;
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut text).unwrap();
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Expects the connection to end with this error.
    pub(crate) fn ends_with(&mut self, code: &str) -> Value {
        let last = self.hear().expect("ended without a word");
        assert_eq!(
            (&last["id"], &last["error"]["code"]),
            (&json!(0), &json!(code))
        );
        assert_eq!(self.hear(), None, "the connection is still open");
        last["error"].clone()
    }
}

pub(crate) fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

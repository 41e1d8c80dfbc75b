//! Calls that end: one tool, one question, one stream, each within its deadline.
//!
//! A call that is given up is dropped, which resets its stream: the plugin is told, and nothing of
//! it is kept on this side.

use crate::fault;
use crate::rpc::Rpc;
use airlock_plugin::{CallError, Sink, ToolCall};
use airlock_plugin_protocol::messages::airlock::execute_response::Said;
use airlock_plugin_protocol::messages::airlock::{
    ExecuteRequest, ExecuteResponse, tool as methods,
};
use serde_json::Value;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::{Request, Status, Streaming};

/// How soon a cancellation is noticed.
const NOTICE: Duration = Duration::from_millis(10);
/// Bytes of a failure that are passed on.
const FAILURE: usize = 16 * 1024;

/// Why a call has no result: the plugin's own doing, or something that went wrong with an RPC.
pub(crate) enum Stop {
    Known(CallError),
    Rpc(Status),
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Rpc(status)
    }
}

impl From<CallError> for Stop {
    fn from(error: CallError) -> Self {
        Self::Known(error)
    }
}

/// Until when a call goes on, and whether anybody still wants it.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    allowed: Duration,
    until: Instant,
    cancelled: &'a AtomicBool,
}

impl<'a> Bounds<'a> {
    pub(crate) fn new(allowed: Duration, cancelled: &'a AtomicBool) -> Self {
        let now = Instant::now();
        // Longer than anybody waits, where a deadline is too far to be a time.
        let most = Duration::from_hours(24 * 365);
        Self {
            allowed,
            until: now + allowed.min(most),
            cancelled,
        }
    }

    /// The error by which a call ends now, if it has to.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(CallError::Cancelled);
        }
        if Instant::now() >= self.until {
            return Err(CallError::TimedOut(self.allowed));
        }
        Ok(())
    }

    /// A request that tells the plugin how long it has.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.until.saturating_duration_since(Instant::now()));
        request
    }

    /// Waits for `work`, and drops it when the time has come.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, Stop>>,
    ) -> Result<T, Stop> {
        let over = async {
            loop {
                if let Err(error) = self.check() {
                    return error;
                }
                tokio::time::sleep(NOTICE).await;
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            error = over => Err(error.into()),
        }
    }
}

/// Reads `stream` to its end, or until `each` has what it wants or nobody wants more.
pub(crate) async fn each<M, T>(
    mut stream: Streaming<M>,
    bounds: &Bounds<'_>,
    mut each: impl FnMut(M) -> Result<Option<T>, CallError>,
) -> Result<Option<T>, Stop> {
    while let Some(message) = stream.message().await? {
        // Messages may arrive faster than they are read, and then nothing is ever waited for. What comes
        // when the time is over is no answer: a plugin that notices that may still send one.
        bounds.check()?;
        if let Some(done) = each(message)? {
            return Ok(Some(done));
        }
    }
    Ok(None)
}

/// Calls one tool.
pub(crate) async fn tool(
    rpc: &Rpc,
    call: &ToolCall,
    sink: &mut dyn Sink,
    bounds: &Bounds<'_>,
) -> Result<Value, Stop> {
    let mut left = Budget::new(call.max_output);
    let work = async {
        let request = bounds.request(message(call));
        let stream = rpc.stream(methods::EXECUTE, request).await?;
        let done = each(stream, bounds, |message| step(message, &mut left, sink));
        let silent = || CallError::Protocol("the stream ended without a result".to_owned());
        done.await?.ok_or_else(|| silent().into())
    };
    bounds.within(work).await
}

fn message(call: &ToolCall) -> ExecuteRequest {
    ExecuteRequest {
        action: call.action.clone(),
        tool: call.tool.clone(),
        arguments_json: call.arguments.to_string(),
        session: call.session.clone().unwrap_or_default(),
        mode: call.mode.clone().unwrap_or_default(),
        deadline_ms: u64::try_from(call.deadline.as_millis()).unwrap_or(u64::MAX),
        max_output_bytes: call.max_output as u64,
    }
}

/// One message of a running tool. The result, if it is one.
fn step(
    message: ExecuteResponse,
    left: &mut Budget,
    sink: &mut dyn Sink,
) -> Result<Option<Value>, CallError> {
    match message.said {
        Some(Said::Output(text)) => {
            left.take(text.len())?;
            if sink.piece(&text) {
                Ok(None)
            } else {
                Err(CallError::Cancelled)
            }
        }
        Some(Said::ResultJson(text)) => {
            left.take(text.len())?;
            let no_json = |error| CallError::Protocol(format!("its result is no JSON: {error}"));
            serde_json::from_str(&text).map(Some).map_err(no_json)
        }
        Some(Said::Failure(text)) => Err(CallError::Tool(text.chars().take(FAILURE).collect())),
        None => Err(CallError::Protocol(
            "a message of it says nothing".to_owned(),
        )),
    }
}

/// What a tool may still say. Each message counts, however short.
struct Budget {
    most: usize,
    left: usize,
}

impl Budget {
    fn new(most: usize) -> Self {
        Self { most, left: most }
    }

    fn take(&mut self, bytes: usize) -> Result<(), CallError> {
        let left = self.left.checked_sub(bytes.max(1));
        self.left = left.ok_or(CallError::TooMuch(self.most))?;
        Ok(())
    }
}

/// What a failure means, where nothing more is known of the plugin.
pub(crate) fn settle(stop: Stop, bounds: &Bounds<'_>, message_bytes: usize) -> CallError {
    match stop {
        Stop::Known(error) => error,
        // The plugin was told how long it has, and so was gRPC: either may say it first.
        Stop::Rpc(_) if bounds.until < Instant::now() + NOTICE => {
            CallError::TimedOut(bounds.allowed)
        }
        Stop::Rpc(status) => fault::call(&status, bounds.allowed, message_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(said: Option<Said>) -> ExecuteResponse {
        ExecuteResponse { said }
    }

    #[test]
    fn each_message_of_a_tool_has_one_meaning() {
        let output = |text: &str| said(Some(Said::Output(text.to_owned())));
        let result = |text: &str| said(Some(Said::ResultJson(text.to_owned())));
        let protocol = Err("plugin_protocol");
        for (case, message, want) in [
            ("output", output("1234"), Ok(None)),
            ("too much", output("123456789"), Err("output_too_large")),
            ("result", result("[1]"), Ok(Some(serde_json::json!([1])))),
            ("too large", result("[1,2,3,4]"), Err("output_too_large")),
            ("no JSON", result("{"), protocol.clone()),
            ("deep", result("[[[[[[[["), protocol.clone()),
            (
                "failure",
                said(Some(Said::Failure("no".to_owned()))),
                Err("tool_error"),
            ),
            ("nothing", said(None), protocol),
        ] {
            let mut pieces = Vec::new();
            let got = step(message, &mut Budget::new(8), &mut pieces);
            assert_eq!(got.map_err(|error| error.code()), want, "{case}");
        }
    }

    #[test]
    fn empty_pieces_are_not_free() {
        let mut left = Budget::new(3);
        for _ in 0..3 {
            left.take(0).unwrap();
        }
        assert_eq!(left.take(0), Err(CallError::TooMuch(3)));
    }

    #[test]
    fn a_sink_that_wants_no_more_cancels() {
        struct Full;
        impl Sink for Full {
            fn piece(&mut self, _text: &str) -> bool {
                false
            }
        }
        let message = said(Some(Said::Output("x".to_owned())));
        let got = step(message, &mut Budget::new(8), &mut Full);
        assert_eq!(got, Err(CallError::Cancelled));
    }
}

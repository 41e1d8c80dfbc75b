//! What failed RPCs mean.
//!
//! A status is the plugin's word or gRPC's own: the plugin's is a failure of its tool, gRPC's is one
//! of the connection or of the messages on it. A status with a cause, or about a message that could
//! not be read, was made on this side.

use crate::output::shown;
use airlock_plugin::{CallError, StartError};
use std::error::Error as _;
use std::time::Duration;
use tonic::{Code, Status};

/// What a failed call means to whoever called.
pub(crate) fn call(status: &Status, deadline: Duration, message_bytes: usize) -> CallError {
    match status.code() {
        Code::DeadlineExceeded => CallError::TimedOut(deadline),
        // Made here when a message is larger than is taken.
        Code::OutOfRange if status.message().contains("message length too large") => {
            CallError::TooMuch(message_bytes)
        }
        Code::Unimplemented => CallError::Protocol(unserved(status)),
        Code::Internal | Code::DataLoss if is_unreadable(status) => CallError::Protocol(format!(
            "a message of it cannot be read: {}",
            shown(status.message())
        )),
        _ if is_lost(status) => CallError::Ended("the connection is lost".to_owned()),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => CallError::Tool(said(status)),
    }
}

/// What a failed call of `method` means before a plugin is ready.
pub(crate) fn start(status: &Status, method: &str) -> StartError {
    if is_lost(status) {
        return StartError::Ended("the connection was lost".to_owned());
    }
    let why = match status.code() {
        Code::Unimplemented => unserved(status),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => said(status),
    };
    StartError::Protocol(format!("{method}: {why}"))
}

/// Whether the connection is gone, rather than that the plugin says something is.
pub(crate) fn is_lost(status: &Status) -> bool {
    status.source().is_some()
}

fn is_unreadable(status: &Status) -> bool {
    ["decode", "protocol error", "compress"]
        .iter()
        .any(|word| status.message().contains(word))
}

fn unserved(status: &Status) -> String {
    match shown(status.message()) {
        message if message.is_empty() => "it does not serve this".to_owned(),
        message => format!("it does not serve this: {message}"),
    }
}

fn said(status: &Status) -> String {
    match shown(status.message()) {
        message if message.is_empty() => format!("{:?}", status.code()),
        message => message,
    }
}

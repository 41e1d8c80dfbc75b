//! Plugins that are model backends.

use crate::execute::{Bounds, each};
use crate::plugin::GrpcPlugin;
use airlock_plugin::CallError;
use airlock_plugin_protocol::messages::airlock::chat_response::Said;
use airlock_plugin_protocol::messages::airlock::{
    ChatRequest, ChatResponse, ChatToolCall, Finish, StatusRequest, provider,
};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of one answer.
const ANSWER: usize = 16 * 1024 * 1024;

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Some text.
    Text(String),
    /// A tool it wants called.
    ToolCall(ChatToolCall),
}

impl GrpcPlugin {
    /// Asks a model, and passes on its answer as it comes. How the answer ended.
    pub fn chat(
        &self,
        request: ChatRequest,
        mut each_one: impl FnMut(Piece) -> bool,
        deadline: Duration,
        cancelled: &AtomicBool,
    ) -> Result<Finish, CallError> {
        let bounds = Bounds::new(deadline, cancelled);
        let mut left = ANSWER;
        self.run(&bounds, async {
            let request = bounds.request(request);
            let stream = self.serving().stream(provider::CHAT, request).await?;
            let done = each(stream, &bounds, |message| {
                step(message, &mut left, &mut each_one)
            });
            let silent = || CallError::Protocol("the answer ended without a finish".to_owned());
            done.await?.ok_or_else(|| silent().into())
        })
    }

    /// Whether a provider can be asked now; if not, why.
    pub fn status(
        &self,
        deadline: Duration,
        cancelled: &AtomicBool,
    ) -> Result<Result<(), String>, CallError> {
        let bounds = Bounds::new(deadline, cancelled);
        self.run(&bounds, async {
            let request = bounds.request(StatusRequest {});
            let status = self.serving().ask(provider::STATUS, request).await?;
            Ok(if status.available {
                Ok(())
            } else {
                Err(status.reason)
            })
        })
    }
}

fn step(
    message: ChatResponse,
    left: &mut usize,
    each_one: &mut impl FnMut(Piece) -> bool,
) -> Result<Option<Finish>, CallError> {
    let (piece, bytes) = match message.said {
        Some(Said::Text(text)) => {
            let bytes = text.len();
            (Piece::Text(text), bytes)
        }
        Some(Said::ToolCall(call)) => {
            let bytes = call.id.len() + call.name.len() + call.arguments_json.len();
            (Piece::ToolCall(call), bytes)
        }
        Some(Said::Finish(finish)) => return Ok(Some(finish)),
        None => {
            return Err(CallError::Protocol(
                "a message of it says nothing".to_owned(),
            ));
        }
    };
    // Each message counts, however short.
    let rest = left.checked_sub(bytes.max(1));
    *left = rest.ok_or(CallError::TooMuch(ANSWER))?;
    if each_one(piece) {
        Ok(None)
    } else {
        Err(CallError::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_bounded_and_ends_once() {
        let said = |said| ChatResponse { said };
        let mut all = |_: Piece| true;
        let mut left = 4;
        let text = |text: &str| said(Some(Said::Text(text.to_owned())));
        assert_eq!(step(text("abc"), &mut left, &mut all), Ok(None));
        assert_eq!(step(text(""), &mut left, &mut all), Ok(None));
        assert_eq!(
            step(text(""), &mut left, &mut all),
            Err(CallError::TooMuch(ANSWER))
        );
        let finish = said(Some(Said::Finish(Finish::default())));
        assert_eq!(
            step(finish, &mut left, &mut all),
            Ok(Some(Finish::default()))
        );
        let mut none = |_: Piece| false;
        assert_eq!(
            step(text("a"), &mut 9, &mut none),
            Err(CallError::Cancelled)
        );
    }
}

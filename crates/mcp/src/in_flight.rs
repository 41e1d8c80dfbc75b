//! The requests of one client that are not answered yet: a bounded number, no two of one id.
//!
//! Two of one id could not be told apart, and taking one back would miss the other.

use crate::admit::refusal;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, JsonRpcError, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most unanswered requests of one client.
pub(crate) const MOST: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    /// Those that are not answered yet.
    ids: HashSet<RequestId>,
    /// How many answers are on their way: whoever has one may use its id again.
    leaving: usize,
}

/// An answer on its way to a client. It counts until it is gone.
pub(crate) struct Leaving(Option<Arc<InFlight>>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(flight) = &self.0 {
            let mut requests = flight.requests();
            requests.leaving = requests.leaving.saturating_sub(1);
        }
    }
}

impl InFlight {
    /// Notes what `message` begins or takes back; refuses what must not begin.
    pub(crate) fn receive(&self, message: &ClientJsonRpcMessage) -> Result<(), JsonRpcError> {
        match message {
            JsonRpcMessage::Request(request) => self.begin(&request.id),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // What is taken back is never answered.
                    self.requests().ids.remove(id);
                }
                Ok(())
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(()),
        }
    }

    /// Notes that the request of this id is being answered, if there is one.
    pub(crate) fn answer(self: &Arc<Self>, id: Option<&RequestId>) -> Leaving {
        let mut requests = self.requests();
        let is_answer = id.is_some_and(|id| requests.ids.remove(id));
        requests.leaving += usize::from(is_answer);
        Leaving(is_answer.then(|| Arc::clone(self)))
    }

    /// Notes that the request of this id will not be answered.
    pub(crate) fn forget(&self, id: &RequestId) {
        self.requests().ids.remove(id);
    }

    fn begin(&self, id: &RequestId) -> Result<(), JsonRpcError> {
        let mut requests = self.requests();
        if requests.ids.contains(id) {
            // Without the id: an answer that has it would pass for that of the request before.
            let what = format!("the request id `{}` is in use", shown(id));
            return Err(refusal(None, ErrorCode::INVALID_REQUEST, what));
        }
        if requests.ids.len() + requests.leaving >= MOST {
            let what = format!("{MOST} requests are unanswered: wait for one of them");
            return Err(refusal(Some(id.clone()), BUSY, what));
        }
        requests.ids.insert(id.clone());
        Ok(())
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// JSON-RPC leaves the codes from -32000 to -32099 to servers.
const BUSY: ErrorCode = ErrorCode(-32000);

/// The id of the request that `message` answers.
pub(crate) fn answers(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

fn shown(id: &RequestId) -> String {
    airlock_kernel::sanitise_line(&id.to_string(), 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> ClientJsonRpcMessage {
        serde_json::from_str(text).unwrap()
    }

    fn ping(id: usize) -> ClientJsonRpcMessage {
        message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
    }

    #[test]
    fn an_id_in_use_is_refused_without_being_named_as_the_answered_one() {
        let flight = Arc::new(InFlight::default());
        flight.receive(&ping(1)).unwrap();
        let refused = flight.receive(&ping(1)).unwrap_err();
        assert_eq!(
            (refused.id, refused.error.code),
            (None, ErrorCode::INVALID_REQUEST)
        );
        // Whoever has the answer may be quicker than whoever sent it.
        let _leaving = flight.answer(Some(&RequestId::Number(1)));
        flight.receive(&ping(1)).unwrap();
    }

    #[test]
    fn answers_that_nobody_takes_count() {
        let flight = Arc::new(InFlight::default());
        let mut leaving = Vec::new();
        for id in 0..MOST {
            flight.receive(&ping(id)).unwrap();
            let id = RequestId::Number(i64::try_from(id).unwrap());
            leaving.push(flight.answer(Some(&id)));
        }
        assert!(flight.receive(&ping(MOST)).is_err());
        leaving.pop();
        flight.receive(&ping(MOST)).unwrap();
        drop(flight.answer(Some(&RequestId::Number(-7))));
        assert!(flight.receive(&ping(MOST + 1)).is_err());
    }

    #[test]
    fn a_flood_is_refused_and_room_comes_back() {
        let flight = InFlight::default();
        (0..MOST).for_each(|id| flight.receive(&ping(id)).unwrap());
        let refused = flight.receive(&ping(MOST)).unwrap_err();
        assert_eq!(refused.error.code, BUSY);
        assert_eq!(refused.id, Some(RequestId::Number(32)));
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#;
        flight.receive(&message(cancel)).unwrap();
        flight.receive(&ping(MOST)).unwrap();
    }

    #[test]
    fn what_was_never_asked_can_be_taken_back_without_effect() {
        let flight = InFlight::default();
        flight.receive(&ping(1)).unwrap();
        for id in ["9", "\"1\"", "null"] {
            let cancel = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            );
            flight.receive(&message(&cancel)).unwrap();
        }
        assert!(flight.receive(&ping(1)).is_err());
    }
}

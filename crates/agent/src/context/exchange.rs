//! One exchange: what belongs together, and what it costs.

use airlock_model::{Arguments, Counter, Message, ToolCall};
use serde_json::{Map, Value};

/// What stands where a part was left out.
const MARK: &str = "\n[… left out …]\n";

/// A message of the person, or an answer with all its calls and their results.
#[derive(Debug)]
pub(crate) struct Exchange {
    messages: Vec<Message>,
    cost: u64,
}

impl Exchange {
    /// Keeps `messages`, shortened to `most` tokens: what no question will ever hold in full need
    /// not be kept in full.
    pub(crate) fn new(messages: Vec<Message>, counter: Counter, most: u64) -> Self {
        let mut exchange = Self { messages, cost: 0 };
        // Before it is counted: counting a text takes far longer than cutting it.
        let bytes = usize::try_from(most.saturating_mul(4)).unwrap_or(usize::MAX);
        exchange.cut(bytes);
        exchange.recount(counter);
        exchange.shorten(most, counter);
        exchange
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn recount(&mut self, counter: Counter) {
        self.cost = self.messages.iter().map(|one| counter.message(one)).sum();
    }

    /// Cuts its longest texts until all of it takes `room` tokens at most.
    pub(crate) fn shorten(&mut self, room: u64, counter: Counter) {
        let mut bytes = usize::try_from(room.saturating_mul(3)).unwrap_or(usize::MAX);
        while self.cost > room && bytes > 0 {
            self.cut(bytes);
            self.recount(counter);
            bytes /= 2;
        }
        if self.cost > room {
            // So many calls that even empty ones are too much: all of them go, with their results.
            let kept = self.messages.len();
            self.messages.truncate(1);
            if let Some(Message::Assistant { text, calls }) = self.messages.first_mut() {
                calls.clear();
                *text = format!("[{} results left out]", kept.saturating_sub(1));
            }
            self.recount(counter);
        }
    }

    /// Cuts every text to `bytes`.
    fn cut(&mut self, bytes: usize) {
        for message in &mut self.messages {
            match message {
                Message::User { text } | Message::Tool { text, .. } => *text = cut(text, bytes),
                Message::Assistant { text, calls } => {
                    *text = cut(text, bytes);
                    for call in calls {
                        cut_call(call, bytes);
                    }
                }
            }
        }
    }
}

fn cut_call(call: &mut ToolCall, bytes: usize) {
    match &mut call.arguments {
        Arguments::Malformed { text, .. } | Arguments::Incomplete { text } => {
            *text = cut(text, bytes);
        }
        Arguments::Object(object) => {
            if encoded(object) <= bytes {
                return;
            }
            object
                .values_mut()
                .for_each(|value| cut_value(value, bytes));
            if encoded(object) > bytes.saturating_mul(2).max(64) {
                // Not long texts but many: what they were is no longer of use.
                let note = Value::String("left out".to_owned());
                *object = Map::from_iter([("arguments".to_owned(), note)]);
            }
        }
    }
}

fn encoded(object: &Map<String, Value>) -> usize {
    serde_json::to_string(object).map_or(0, |text| text.len())
}

fn cut_value(value: &mut Value, bytes: usize) {
    match value {
        Value::String(text) => *text = cut(text, bytes),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_value(item, bytes)),
        Value::Object(object) => object.values_mut().for_each(|one| cut_value(one, bytes)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The beginning and the end of `text`, in `bytes` or a little less.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let Some(left) = bytes.checked_sub(MARK.len()) else {
        return String::new();
    };
    // The end of an output says how it ended; the beginning, what it is.
    let head = text.floor_char_boundary(left * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - left / 3);
    let (head, tail) = (text.get(..head), text.get(tail..));
    format!(
        "{}{MARK}{}",
        head.unwrap_or_default(),
        tail.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cut_text_is_no_longer_than_it_may_be(text in "\\PC{0,400}", bytes in 0_usize..500) {
            let short = cut(&text, bytes);
            prop_assert!(short.len() <= bytes.max(text.len().min(bytes)));
            if text.len() <= bytes {
                prop_assert_eq!(short, text);
            }
        }
    }
}

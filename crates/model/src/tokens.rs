//! Counting tokens: by the model's own tokenizer where it is known, by a stated estimate otherwise.
//!
//! The estimate counts a letter, digit or space of ASCII as a third of a token, a mark as two
//! thirds and any other character as five: more than tokenizers make of ordinary text, so that what
//! is counted to fit does fit.
//! Non-guarantee: a text made to be expensive can take more than the estimate says.

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// How much of a text is given to a tokenizer at once. Its time grows faster than the text where a
/// text has no words; cut, a text has a few tokens more at most.
const PIECE: usize = 2 * 1024;

/// Counts tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    tokenizer: Option<Tokenizer>,
}

impl Counter {
    /// The stated estimate.
    pub const ESTIMATE: Self = Self { tokenizer: None };

    /// As the model called `model` counts, if that is known. Loads nothing yet.
    pub fn of(model: &str) -> Self {
        // Routers put the maker before the model.
        let name = model.rsplit('/').next().unwrap_or(model);
        Self {
            tokenizer: get_tokenizer(name),
        }
    }

    /// Whether this is the model's own count.
    pub const fn is_exact(self) -> bool {
        self.tokenizer.is_some()
    }

    /// The tokens of `text`.
    pub fn count(self, text: &str) -> u64 {
        let bpe = self
            .tokenizer
            .and_then(|tokenizer| tiktoken_rs::bpe_for_tokenizer(tokenizer).ok());
        let Some(bpe) = bpe else {
            return estimate(text);
        };
        let mut rest = text;
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE.min(rest.len())));
            total = total.saturating_add(bpe.count_ordinary(piece) as u64);
            rest = after;
        }
        total
    }
}

fn estimate(text: &str) -> u64 {
    let thirds = |c: char| match c {
        c if c.is_ascii_punctuation() => 2,
        c if c.is_ascii() => 1,
        _ => 5,
    };
    text.chars().map(thirds).sum::<u64>().div_ceil(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_models_count_exactly_and_others_by_estimate() {
        for (model, exact) in [
            ("gpt-4o", true),
            ("gpt-4.1-mini", true),
            ("openai/gpt-4o", true),
            ("qwen3:8b", false),
            ("", false),
        ] {
            assert_eq!(Counter::of(model).is_exact(), exact, "{model}");
        }
    }

    #[test]
    fn the_estimate_is_not_below_a_real_tokenizer_for_ordinary_text() {
        let exact = Counter::of("gpt-4o");
        for text in [
            "fn main() {\n    println!(\"hello\");\n}\n",
            "Add error handling to parse_config, and a test that fails without it.",
            "größer, überall, naïve",
            "エラー処理を追加してください。",
            "{\"path\":\"src/main.rs\",\"line\":12,\"text\":\"let x = y?;\"}",
        ] {
            let (counted, estimated) = (exact.count(text), Counter::ESTIMATE.count(text));
            assert!(
                counted > 0 && estimated >= counted,
                "{text}: {counted} {estimated}"
            );
        }
    }

    #[test]
    fn a_text_without_words_is_counted_in_reasonable_time() {
        let text = "a".repeat(200_000);
        assert!(Counter::of("gpt-4o").count(&text) > 1_000);
    }
}

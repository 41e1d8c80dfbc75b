//! An agent's last answer as the value its definition promises.

use airlock_definitions::Schema;
use serde_json::Value;

/// Mismatches that a model is told of at once.
const TOLD: usize = 5;

/// The value in `text`, if it fits `schema`; else what is wrong with it, for the model.
pub(super) fn read(text: &str, schema: &Schema) -> Result<Value, String> {
    let value: Value = serde_json::from_str(bare(text))
        .map_err(|error| format!("it is not one JSON value: {error}"))?;
    let wrong = schema.check(&value);
    if wrong.is_empty() {
        return Ok(value);
    }
    let told: Vec<String> = wrong.iter().take(TOLD).map(ToString::to_string).collect();
    Err(told.join("; "))
}

/// `text` without the fence that models like to put around JSON.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"))
    else {
        return text;
    };
    inside.strip_prefix("json").unwrap_or(inside).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_no_part_of_the_value() {
        for text in [
            "{\"a\":1}",
            " {\"a\":1}\n",
            "```json\n{\"a\":1}\n```",
            "```\n{\"a\":1}```",
        ] {
            assert_eq!(bare(text), "{\"a\":1}", "{text:?}");
        }
        assert_eq!(bare("``` {"), "``` {");
    }
}

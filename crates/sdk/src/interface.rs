//! The interface of Wasm modules as texts: what comes in, what goes out.

#![cfg_attr(
    not(any(test, target_arch = "wasm32")),
    expect(dead_code, reason = "only a Wasm module speaks it")
)]

use crate::context::{About, Context, Failure, Kernel};
use crate::plugin::{Plugin, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

/// What a module is given.
#[derive(Deserialize)]
struct Input {
    tool: String,
    arguments: Value,
    context: About,
}

/// What the kernel answers.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Replied {
    Ok(Value),
    Error(Failure),
}

/// The tools of `plugin`, as JSON.
pub(crate) fn describe(plugin: &dyn Plugin) -> String {
    json!(plugin.tools()).to_string()
}

/// Runs the call that `input` is, and gives its envelope.
pub(crate) fn execute(plugin: &dyn Plugin, kernel: &dyn Kernel, input: &[u8]) -> String {
    let ran = serde_json::from_slice(input)
        .map_err(ToolError::from)
        .and_then(|input: Input| {
            let context = Context::new(kernel, input.context);
            plugin.call(&context, &input.tool, &input.arguments)
        });
    match ran {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error.to_string() }),
    }
    .to_string()
}

/// What an envelope of the kernel's says.
pub(crate) fn replied(envelope: &[u8]) -> Result<Value, Failure> {
    match serde_json::from_slice(envelope) {
        Ok(Replied::Ok(value)) => Ok(value),
        Ok(Replied::Error(failure)) => Err(failure),
        Err(error) => Err(Failure {
            code: "unexpected".to_owned(),
            message: format!("the kernel gave no envelope: {error}"),
            retryable: false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::Tool;
    use crate::testing::Fake;

    struct Echo;

    impl Plugin for Echo {
        fn tools(&self) -> Vec<Tool> {
            vec![Tool::new("echo", "Say it again").read_only()]
        }

        fn call(
            &self,
            context: &Context<'_>,
            tool: &str,
            arguments: &Value,
        ) -> Result<Value, ToolError> {
            match tool {
                "echo" => Ok(json!([arguments, context.about().plugin])),
                other => Err(ToolError::unknown(other)),
            }
        }
    }

    #[test]
    fn tools_are_described_as_the_host_reads_them() {
        let described: Value = serde_json::from_str(&describe(&Echo)).unwrap();
        assert_eq!(
            described,
            json!([{
                "name": "echo",
                "summary": "Say it again",
                "schema": { "type": "object", "additionalProperties": false },
                "read_only": true,
            }])
        );
    }

    #[test]
    fn a_call_gives_one_envelope_whatever_comes_in() {
        let fake = Fake::new();
        let run = |input: &str| -> Value {
            serde_json::from_str(&execute(&Echo, &fake, input.as_bytes())).unwrap()
        };
        let context = r#"{"action":"a","plugin":"p","configuration":{}}"#;
        let input = format!(r#"{{"tool":"echo","arguments":{{"x":1}},"context":{context}}}"#);
        assert_eq!(run(&input), json!({ "ok": [{ "x": 1 }, "p"] }));
        let input = format!(r#"{{"tool":"other","arguments":{{}},"context":{context}}}"#);
        assert_eq!(run(&input), json!({ "error": "there is no tool `other`" }));
        for nonsense in ["", "null", "{}", "\u{0}"] {
            assert!(run(nonsense)["error"].is_string(), "{nonsense:?}");
        }
    }

    #[test]
    fn an_envelope_is_a_value_or_a_failure() {
        assert_eq!(replied(br#"{"ok":[1]}"#), Ok(json!([1])));
        let denied = replied(br#"{"error":{"code":"denied","message":"no","retryable":false}}"#);
        assert!(denied.unwrap_err().is_denied());
        assert_eq!(replied(b"").unwrap_err().code, "unexpected");
    }
}

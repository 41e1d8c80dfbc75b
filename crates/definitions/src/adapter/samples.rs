//! L3: examples and fixtures, which are checked when somebody asks.

use super::body::Adapter;
use super::how::How;
use airlock_yaml::{Mapping, Node, Problems, code};
use serde::Serialize;
use serde_json::Value;

/// Most examples, and most fixtures.
const MOST: usize = 100;
/// Most bytes that the fixtures of one adapter have together. A pattern may look at all of a fixture
/// for each of the many matches that are taken of it: that is a second of work, and not minutes.
const FIXTURE_BYTES: usize = 64 * 1024;
/// Most bytes of fixtures that are tried at once, whatever number of adapters they are of.
pub const FIXTURES_AT_ONCE: usize = 1024 * 1024;

/// Examples and fixtures.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Samples {
    /// Arguments with what they become.
    pub examples: Vec<Example>,
    /// Ends with what they mean.
    pub fixtures: Vec<Fixture>,
}

impl Samples {
    /// How many bytes of output its fixtures have together.
    pub fn fixture_bytes(&self) -> usize {
        let bytes = |fixture: &Fixture| fixture.stdout.len() + fixture.stderr.len();
        self.fixtures.iter().map(bytes).sum()
    }
}

/// Arguments, and the words they become; without those, only that they are taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    /// One line on it.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
    /// The command they become.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Whether they are refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// What a program wrote or a server answered, and the value or the error it means.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fixture {
    /// One line on it.
    pub name: String,
    /// Its exit code.
    pub exit: u8,
    /// The status, if it is a server's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What it wrote.
    pub stdout: String,
    /// What it wrote of errors.
    pub stderr: String,
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Or the error's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A sample that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{sample}`: {what}")]
pub struct CheckFailure {
    /// Its name.
    pub sample: String,
    /// What came instead.
    pub what: String,
}

pub(super) fn parse(node: &Node, problems: &mut Problems) -> Option<Samples> {
    let mut fields = Mapping::of(node, "an adapter's fourth document", problems)?;
    let examples = fields
        .get("examples")
        .and_then(|node| node.list(MOST, problems));
    let fixtures = fields
        .get("fixtures")
        .and_then(|node| node.list(MOST, problems));
    fields.close(problems);
    let examples = examples
        .unwrap_or_default()
        .iter()
        .filter_map(|node| example(node, problems))
        .collect();
    let fixtures = fixtures
        .unwrap_or_default()
        .iter()
        .filter_map(|node| fixture(node, problems))
        .collect();
    let samples = Samples { examples, fixtures };
    let bytes = samples.fixture_bytes();
    if bytes > FIXTURE_BYTES {
        let what =
            format!("the fixtures have {bytes} bytes of output; the limit is {FIXTURE_BYTES}");
        problems.error(code::TOO_LARGE, node.spot, what, "shorten them");
    }
    Some(samples)
}

fn example(node: &Node, problems: &mut Problems) -> Option<Example> {
    let mut fields = Mapping::of(node, "an example", problems)?;
    let name = fields
        .need("name", problems)
        .and_then(|node| node.line(problems));
    let arguments = fields.need("arguments", problems).map(Node::json);
    let words = fields
        .get("command")
        .and_then(|node| node.list(200, problems));
    let command = words.map(|nodes| {
        nodes
            .iter()
            .filter_map(|node| node.text(problems).map(str::to_owned))
            .collect()
    });
    let refused = fields
        .get("refused")
        .map_or(Some(false), |node| node.truth(problems));
    fields.close(problems);
    Some(Example {
        name: name?,
        arguments: arguments?,
        command,
        refused: refused?,
    })
}

fn fixture(node: &Node, problems: &mut Problems) -> Option<Fixture> {
    let mut fields = Mapping::of(node, "a fixture", problems)?;
    let name = fields
        .need("name", problems)
        .and_then(|node| node.line(problems));
    let exit = fields
        .get("exit")
        .map_or(Some(0), |node| node.number(0..=255, problems));
    let status = fields
        .get("status")
        .and_then(|node| node.number(200..=599, problems));
    let mut stream = |key, problems: &mut Problems| {
        fields.get(key).map_or(Some(String::new()), |node| {
            node.text(problems).map(str::to_owned)
        })
    };
    let (stdout, stderr) = (stream("stdout", problems), stream("stderr", problems));
    let value = fields.get("value").map(Node::json);
    let error = fields
        .get("error")
        .and_then(|node| node.text(problems).map(str::to_owned));
    if value.is_some() == error.is_some() {
        let fix = "say what it means";
        problems.error(
            code::VALUE,
            node.spot,
            "a fixture has either a `value` or an `error`",
            fix,
        );
    }
    fields.close(problems);
    Some(Fixture {
        name: name?,
        exit: u8::try_from(exit?).ok()?,
        status: status.and_then(|status| u16::try_from(status).ok()),
        stdout: stdout?,
        stderr: stderr?,
        value,
        error,
    })
}

/// Every sample that does not hold.
pub fn check_samples(adapter: &Adapter, samples: &Samples) -> Vec<CheckFailure> {
    let examples = samples
        .examples
        .iter()
        .filter_map(|one| check_example(adapter, one));
    let fixtures = samples
        .fixtures
        .iter()
        .filter_map(|one| check_fixture(adapter, one));
    examples.chain(fixtures).collect()
}

fn check_example(adapter: &Adapter, example: &Example) -> Option<CheckFailure> {
    let failure = |what: String| {
        Some(CheckFailure {
            sample: example.name.clone(),
            what,
        })
    };
    let arguments = adapter.interface.arguments(&example.arguments);
    let command = arguments.and_then(|arguments| match &adapter.how {
        How::Cli(cli) => cli.invocation(&arguments).map(|made| made.command),
        How::Api(api) => api.call(&arguments).map(|call| vec![call.target]),
        How::Mcp(mcp) => Ok(mcp.command.clone()),
    });
    match (command, example.refused, &example.command) {
        (Err(_), true, _) | (Ok(_), false, None) => None,
        (Err(error), false, _) => failure(format!("`{}`: {error}", error.at)),
        (Ok(command), true, _) => failure(format!("it is not refused but becomes {command:?}")),
        (Ok(command), false, Some(wanted)) => {
            if command == *wanted {
                return None;
            }
            failure(format!("it becomes {command:?}"))
        }
    }
}

fn check_fixture(adapter: &Adapter, fixture: &Fixture) -> Option<CheckFailure> {
    let end = match adapter.how {
        How::Api(_) => adapter.answered(fixture.status.unwrap_or(200)),
        How::Cli(_) | How::Mcp(_) => adapter.ended(fixture.exit),
    };
    let came = match end {
        Some((code, _)) => Err(code),
        None => adapter
            .output
            .shape(&fixture.stdout, &fixture.stderr)
            .map_err(|_| "output_invalid".to_owned()),
    };
    let wanted = match (&fixture.value, &fixture.error) {
        (Some(value), _) => Ok(value.clone()),
        (None, error) => Err(error.clone().unwrap_or_default()),
    };
    if came == wanted {
        return None;
    }
    let what = match came {
        Ok(value) => format!("it means {value}"),
        Err(code) => format!("it means the error `{code}`"),
    };
    Some(CheckFailure {
        sample: fixture.name.clone(),
        what,
    })
}

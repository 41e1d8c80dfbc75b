//! The tools themselves: arguments, what the decision sees, and the job for the worker.

use super::operation::{Expected, Operation, PATCH_BYTES, Place, Refusal, TEXT_BYTES};
use super::patch;
use super::target::{Last, Target};
use crate::beneath::Root;
use crate::process::job::Job;
use crate::tools::{
    Arguments, InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput,
    ToolSchema, ToolSpec, parse_arguments,
};
use airlock_core::{Request, RequestPath, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

const fn spec(
    name: &'static str,
    summary: &'static str,
    schema: ToolSchema,
    examples: &'static [&'static str],
) -> ToolSpec {
    ToolSpec {
        name,
        summary,
        syscall: name,
        tier: Tier::Process,
        read_only: false,
        keep: Keep::Head,
        schema,
        examples,
    }
}

static WRITE: ToolSpec = spec(
    "fs.write",
    "Create a file in the stage, or replace one as a whole",
    ToolSchema::of::<WriteArguments>(),
    &[
        r#"{"path": "src/new.rs", "text": "fn main() {}\n"}"#,
        r#"{"path": "NOTES.md", "text": "hello\n", "expect_digest": "absent"}"#,
    ],
);

static PATCH: ToolSpec = spec(
    "fs.patch",
    "Apply a unified diff to files of the stage, wholly or not at all",
    ToolSchema::of::<PatchArguments>(),
    &[r#"{"patch": "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-old\n+new\n"}"#],
);

static MOVE: ToolSpec = spec(
    "fs.move",
    "Move or rename a file or directory of the stage",
    ToolSchema::of::<MoveArguments>(),
    &[r#"{"from": "src/old.rs", "to": "src/new.rs"}"#],
);

static DELETE: ToolSpec = spec(
    "fs.delete",
    "Delete a file or directory of the stage",
    ToolSchema::of::<DeleteArguments>(),
    &[
        r#"{"path": "src/old.rs"}"#,
        r#"{"path": "build", "recursive": true}"#,
    ],
);

/// Arguments of `fs.write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// The file, relative to the workspace root; directories are made as needed.
    path: String,
    /// All of its new content.
    text: String,
    /// SHA-256 of the content it replaces, or `absent`; anything else there is refused.
    #[serde(default)]
    expect_digest: Option<String>,
}

impl Arguments for WriteArguments {
    const FIELDS: &'static [&'static str] = &["path", "text", "expect_digest"];
}

/// Arguments of `fs.patch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatchArguments {
    /// The unified diff, of one file or several, with paths relative to the workspace root.
    patch: String,
}

impl Arguments for PatchArguments {
    const FIELDS: &'static [&'static str] = &["patch"];
}

/// Arguments of `fs.move`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MoveArguments {
    /// What is moved.
    from: String,
    /// Its new path.
    to: String,
    /// Whether a file that is there already goes.
    #[serde(default)]
    replace: bool,
}

impl Arguments for MoveArguments {
    const FIELDS: &'static [&'static str] = &["from", "to", "replace"];
}

/// Arguments of `fs.delete`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteArguments {
    /// What is deleted; a symlink goes, not what it points at.
    path: String,
    /// Whether a directory goes with everything in it.
    #[serde(default)]
    recursive: bool,
    /// SHA-256 of the file as the caller knows it; anything else is refused.
    #[serde(default)]
    expect_digest: Option<String>,
}

impl Arguments for DeleteArguments {
    const FIELDS: &'static [&'static str] = &["path", "recursive", "expect_digest"];
}

/// `fs.write`.
pub(crate) struct Write;
/// `fs.patch`.
pub(crate) struct Patch;
/// `fs.move`.
pub(crate) struct Move;
/// `fs.delete`.
pub(crate) struct Delete;

impl Tool for Write {
    fn spec(&self) -> &'static ToolSpec {
        &WRITE
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: WriteArguments = parse_arguments(value)?;
        bounded("text", asked.text.len(), TEXT_BYTES)?;
        let expected = expected(asked.expect_digest.as_deref())?;
        let target = Target::reach("path", &asked.path, Last::Follow, root)?;
        let size = asked.text.len() as u64;
        let operation = target.real().map(|path| Operation::Write {
            path,
            text: asked.text,
            expected,
        });
        ready(target.paths().collect(), Some(size), operation)
    }
}

impl Tool for Patch {
    fn spec(&self) -> &'static ToolSpec {
        &PATCH
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: PatchArguments = parse_arguments(value)?;
        bounded("patch", asked.patch.len(), PATCH_BYTES)?;
        let files = patch::parse(&asked.patch).map_err(|error| InvalidArguments {
            at: "patch".to_owned(),
            what: error.to_string(),
            fix: Some(error.hint().to_owned()),
        })?;
        let mut paths: Vec<RequestPath> = Vec::new();
        let mut places: Result<Vec<Place>, Refusal> = Ok(Vec::new());
        let mut largest = 0;
        let mut deletes = false;
        for file in &files {
            // A file that goes elsewhere goes by its own name; one that stays is what it leads to.
            let last = if file.from == file.to {
                Last::Follow
            } else {
                Last::Keep
            };
            let reach = |name: &Option<String>| {
                let name = name.as_deref();
                name.map(|name| Target::reach("patch", name, last, root))
                    .transpose()
            };
            let (from, to) = (reach(&file.from)?, reach(&file.to)?);
            let old = from.as_ref().and_then(Target::size).unwrap_or(0);
            largest = largest.max(old.saturating_add(file.added_bytes()));
            deletes |= file.from.is_some() && file.from != file.to;
            for path in from.iter().chain(&to).flat_map(Target::paths) {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            let real = |target: &Option<Target>| target.as_ref().map(Target::real).transpose();
            let place = real(&from).and_then(|from| {
                Ok(Place {
                    from,
                    to: real(&to)?,
                })
            });
            places = places.and_then(|mut places| {
                places.push(place?);
                Ok(places)
            });
        }
        let operation = places.map(|places| Operation::Patch {
            text: asked.patch,
            places,
        });
        let mut ready = Ready::new(paths, Some(largest), operation)?;
        ready.deletes = deletes;
        Ok(Box::new(ready))
    }
}

impl Tool for Move {
    fn spec(&self) -> &'static ToolSpec {
        &MOVE
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: MoveArguments = parse_arguments(value)?;
        let from = Target::reach("from", &asked.from, Last::Keep, root)?;
        let to = Target::reach("to", &asked.to, Last::Keep, root)?;
        let paths = from.paths().chain(to.paths()).collect();
        // What lies in a directory is judged one by one, when it has moved.
        let size = Some(from.size().unwrap_or(0));
        let operation = from.real().and_then(|from| {
            Ok(Operation::Move {
                from,
                to: to.real()?,
                replace: asked.replace,
            })
        });
        ready(paths, size, operation)
    }
}

impl Tool for Delete {
    fn spec(&self) -> &'static ToolSpec {
        &DELETE
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: DeleteArguments = parse_arguments(value)?;
        let expected = expected(asked.expect_digest.as_deref())?;
        let target = Target::reach("path", &asked.path, Last::Keep, root)?;
        let operation = target.real().map(|path| Operation::Delete {
            path,
            recursive: asked.recursive,
            expected,
        });
        ready(target.paths().collect(), None, operation)
    }
}

fn bounded(at: &str, bytes: usize, most: usize) -> Result<(), InvalidArguments> {
    if bytes <= most {
        return Ok(());
    }
    Err(InvalidArguments {
        at: at.to_owned(),
        what: format!("IV-05: {bytes} bytes are more than the {most} taken at once"),
        fix: Some("write it in parts, or let a program make it".to_owned()),
    })
}

fn expected(text: Option<&str>) -> Result<Expected, InvalidArguments> {
    match text {
        None => Ok(Expected::Whatever),
        Some("absent") => Ok(Expected::Absent),
        Some(text) => text.parse().map(Expected::Content).map_err(|_| {
            let shown: String = text.chars().take(80).collect();
            InvalidArguments {
                at: "expect_digest".to_owned(),
                what: format!("`{shown}` is no SHA-256 digest"),
                fix: Some("give 64 hexadecimal digits, as `fs.read` with `digest` does".to_owned()),
            }
        }),
    }
}

fn ready(
    paths: Vec<RequestPath>,
    size: Option<u64>,
    operation: Result<Operation, Refusal>,
) -> Result<Box<dyn Prepared>, InvalidArguments> {
    Ok(Box::new(Ready::new(paths, size, operation)?))
}

/// A change whose arguments are valid.
struct Ready {
    paths: Vec<RequestPath>,
    size: Option<u64>,
    /// Whether it removes something under a name that says it writes.
    deletes: bool,
    job: Job,
}

impl Ready {
    fn new(
        paths: Vec<RequestPath>,
        size: Option<u64>,
        operation: Result<Operation, Refusal>,
    ) -> Result<Self, InvalidArguments> {
        let order = operation.map(|operation| {
            // Strings and numbers: there is nothing in it that JSON could not say.
            serde_json::to_string(&operation).unwrap_or_default()
        });
        Ok(Self {
            paths,
            size,
            deletes: false,
            job: Job::for_files(order)?,
        })
    }
}

impl Prepared for Ready {
    fn paths(&self) -> &[RequestPath] {
        &self.paths
    }

    fn describe(&self, request: &mut Request) {
        request.file_size = self.size;
        request.template = Some(self.job.template.name.into());
        if self.deletes {
            let delete = airlock_core::EffectSet::of(&[airlock_core::Effect::Delete]);
            request.effects = request.effects.union(delete);
        }
    }

    fn job(&self) -> Option<&Job> {
        Some(&self.job)
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        Err(ToolFailure::TierUnavailable {
            tier: Tier::Process,
        })
    }
}

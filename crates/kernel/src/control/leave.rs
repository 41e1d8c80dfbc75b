//! Leave for what is done beside the road: ending a kernel, opening it again, setting the passphrase. The call is the
//! decision and the record; whoever is told yes does it.

use super::{Ready, arguments, spec};
use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{InvalidArguments, Prepared, Registry, Tool, ToolOutput, ToolSchema, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// There is nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

static STOP: ToolSpec = spec(
    "kernel.stop",
    "Leave to end a kernel that stays",
    ToolSchema::of::<Nothing>(),
);
static RENEW: ToolSpec = spec(
    "kernel.renew",
    "Leave to open a kernel that stays again, with other settings",
    ToolSchema::of::<Nothing>(),
);
static PASSPHRASE: ToolSpec = spec(
    "approval.passphrase",
    "Leave to set the passphrase of approvals",
    ToolSchema::of::<Nothing>(),
);

static ALL: [&ToolSpec; 3] = [&STOP, &RENEW, &PASSPHRASE];

/// Whether a call says nothing and is told nothing, so that no secret can be in it.
pub(crate) fn says_nothing(name: &str, arguments: &Value) -> bool {
    let empty = arguments.is_null() || arguments.as_object().is_some_and(Map::is_empty);
    empty && ALL.iter().any(|spec| spec.name == name)
}

pub(super) fn register(registry: &mut Registry) {
    for spec in ALL {
        registry.add(Box::new(Leave(spec)));
    }
}

struct Leave(&'static ToolSpec);

impl Tool for Leave {
    fn spec(&self) -> &'static ToolSpec {
        self.0
    }

    fn open_to(&self, front: Front) -> bool {
        front == Front::Cli
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let Nothing {} = arguments(value)?;
        Ok(Box::new(Ready(|| {
            Ok(ToolOutput {
                value: json!({}),
                hidden: 0,
            })
        })))
    }
}

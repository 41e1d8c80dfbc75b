//! What is measured, group by group.

mod audit;
mod capability;
mod decision;
mod kernel;
mod plugin_grpc;
mod reload;
mod sandbox;
mod stage;
mod token;
mod wasm;

use crate::failure::Failure;
use crate::options::Options;
use crate::table::Row;
use std::path::Path;

pub(crate) use audit::verify_in_child;
pub(crate) use sandbox::npm_versions;

/// A group of rows.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Options) -> Result<Vec<Row>, Failure>,
}

/// Every group, in the order of the report.
pub(crate) const ALL: &[Case] = &[
    Case {
        name: "token",
        about: "a decision by token against one HMAC-SHA256",
        run: token::run,
    },
    Case {
        name: "decision",
        about: "a decision by rules against Cedar and Rego on equal rules",
        run: decision::run,
    },
    Case {
        name: "capability",
        about: "a capability check through all four gates",
        run: capability::run,
    },
    Case {
        name: "append",
        about: "buffered audit records against raw SQLite",
        run: audit::append,
    },
    Case {
        name: "durable",
        about: "durable audit records of 32 threads against raw fsync",
        run: audit::durable,
    },
    Case {
        name: "verify",
        about: "verifying a big log against plain SHA-256, and its memory",
        run: audit::verify,
    },
    Case {
        name: "read",
        about: "fs.read on the whole road against read(2)",
        run: kernel::read,
    },
    Case {
        name: "wire",
        about: "a kernel in a process of its own: fs.read over its socket, its start, its memory",
        run: kernel::wire,
    },
    Case {
        name: "search",
        about: "search.grep and search.glob on the whole road against rg",
        run: kernel::search,
    },
    Case {
        name: "exec",
        about: "exec.run on the whole road in a sandbox that lasts",
        run: kernel::exec,
    },
    Case {
        name: "grpc",
        about: "a gRPC plugin in its box against the same program without Airlock",
        run: plugin_grpc::run,
    },
    Case {
        name: "reload",
        about: "plugins of each host reloaded under 1,000 calls a second: none lost, none doubled",
        run: reload::run,
    },
    Case {
        name: "sanitise",
        about: "the sanitiser's throughput against copying",
        run: kernel::sanitise,
    },
    Case {
        name: "start",
        about: "the start of the program and of the kernel",
        run: kernel::start,
    },
    Case {
        name: "sandbox",
        about: "sandboxes cold, warm and in memory against bwrap, docker, srt and codex",
        run: sandbox::run,
    },
    Case {
        name: "stage",
        about: "stages and denials on 100 and 300,000 files",
        run: stage::run,
    },
    Case {
        name: "wasm",
        about: "a call of a Wasm plugin in an instance of its own against raw wasmtime",
        run: wasm::run,
    },
];

/// What a worker, a process of its own that may belong to another user, measures in `home`.
pub(crate) fn in_worker(
    task: &str,
    home: &Path,
    arguments: &[String],
) -> Result<Vec<Row>, Failure> {
    match task {
        audit::LIMITED => audit::limited_worker(home, arguments),
        "sandbox" => sandbox::worker(home, arguments),
        "hold" => sandbox::hold(home, arguments),
        "trees" => stage::trees(home, arguments),
        "stage" => stage::worker(home, arguments),
        other => Err(Failure::new(format!("there is no task `{other}`"))),
    }
}

/// The caller of every request measured here.
fn caller(tags: &[String]) -> Result<airlock_core::Caller, Failure> {
    Ok(airlock_core::Caller {
        tenant: "local".parse()?,
        user: "ada".parse()?,
        workspace: "bench".parse()?,
        session: Some("session-1".parse()?),
        plugin: "agent".parse()?,
        tags: tags
            .iter()
            .map(|tag| tag.parse())
            .collect::<Result<_, _>>()?,
        peer: Some(airlock_core::Peer {
            pid: 4_321,
            uid: 1_000,
            started: 99,
        }),
        sandbox: Some("box-1".parse()?),
        mode: Some(airlock_core::Mode::Strict),
        phase: Some(airlock_core::Phase::CodeWriting),
    })
}

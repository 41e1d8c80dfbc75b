//! `airlock plugin new`: a plugin to begin with.
//!
//! What it writes is a whole plugin: it passes `airlock plugin check`, has tests that need nothing but
//! the language, and has the SDK with it, so that it builds wherever it is. Nothing that is there is
//! overwritten.

use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, shown};
use airlock_plugin::Manifest;
use clap::ValueEnum;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The plugin's name: a-z, 0-9 and dashes
    name: String,
    /// The language
    #[arg(long, value_enum)]
    lang: Language,
    /// Where it runs
    #[arg(long, value_enum, default_value = "process")]
    tier: Tier,
    /// What a process speaks: `grpc` with the SDK, `mcp` without; Rust begins with the first, Python
    /// with the second, which needs nothing installed
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// Where to make its directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Language {
    Rust,
    Python,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tier {
    Wasm,
    Process,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Grpc,
    Mcp,
}

/// One file of a template. `@NAME@` stands for the plugin's name in it.
struct File {
    path: &'static str,
    bytes: &'static [u8],
    program: bool,
}

macro_rules! file {
    ($directory:literal, $path:literal, $from:literal) => {
        File {
            path: $path,
            bytes: include_bytes!(concat!("templates/", $directory, "/", $from)),
            program: false,
        }
    };
}

const fn program(mut file: File) -> File {
    file.program = true;
    file
}

const PYTHON: &[File] = &[
    file!("python", "plugin.yaml", "plugin.yaml"),
    file!("python", "README.md", "README.md"),
    program(file!("python", "bin/@NAME@", "main.py")),
    file!("python", "bin/tools.py", "tools.py"),
    file!("python", "bin/server.py", "server.py"),
    file!("python", "tests/test_tools.py", "test_tools.py"),
];

const PYTHON_GRPC: &[File] = &[
    file!("python-grpc", "plugin.yaml", "plugin.yaml"),
    file!("python-grpc", "README.md", "README.md"),
    program(file!("python-grpc", "bin/@NAME@", "main.py")),
    file!("python-grpc", "bin/tools.py", "tools.py"),
    file!("python-grpc", "tests/test_tools.py", "test_tools.py"),
];

const RUST_MCP: &[File] = &[
    file!("rust-mcp", "plugin.yaml", "plugin.yaml"),
    file!("rust-mcp", "README.md", "README.md"),
    file!("rust-mcp", "Cargo.toml", "Cargo.toml.txt"),
    file!("rust-mcp", "src/main.rs", "src/main.rs.txt"),
    file!("rust-mcp", "src/tools.rs", "src/tools.rs.txt"),
    file!("rust-mcp", "src/server.rs", "src/server.rs.txt"),
    program(file!("rust-mcp", "build.sh", "build.sh")),
    file!("rust-mcp", ".gitignore", "gitignore"),
];

/// The tools are the same text as those of the Wasm plugin: one source will do for both.
const RUST: &[File] = &[
    file!("rust-process", "plugin.yaml", "plugin.yaml"),
    file!("rust-process", "README.md", "README.md"),
    file!("rust-process", "Cargo.toml", "Cargo.toml.txt"),
    file!("rust-process", "src/main.rs", "main.rs.txt"),
    file!("rust-wasm", "src/tools.rs", "src/lib.rs.txt"),
    program(file!("rust-process", "build.sh", "build.sh")),
    file!("rust-process", ".gitignore", "gitignore"),
    file!("rust-wasm", "sdk/Cargo.toml", "sdk.toml.txt"),
    file!(
        "rust-process",
        "plugin-protocol/Cargo.toml",
        "plugin-protocol.toml.txt"
    ),
    file!(
        "rust-process",
        "sdk-process/Cargo.toml",
        "sdk-process.toml.txt"
    ),
];

const WASM: &[File] = &[
    file!("rust-wasm", "plugin.yaml", "plugin.yaml"),
    file!("rust-wasm", "README.md", "README.md"),
    file!("rust-wasm", "Cargo.toml", "Cargo.toml.txt"),
    file!("rust-wasm", "src/lib.rs", "src/lib.rs.txt"),
    program(file!("rust-wasm", "build.sh", "build.sh")),
    file!("rust-wasm", ".gitignore", "gitignore"),
    file!("rust-wasm", "sdk/Cargo.toml", "sdk.toml.txt"),
];

/// Files of this repository that go along as they are.
macro_rules! copied {
    ($from:literal => $to:literal: $($path:literal),+ $(,)?) => {
        &[$(File {
            path: concat!($to, "/", $path),
            bytes: include_bytes!(concat!("../../../../", $from, "/", $path)),
            program: false,
        }),+]
    };
}

/// The SDK's own sources. They go along: a plugin builds wherever it is.
const SDK: &[File] = copied!["sdk/src" => "sdk/src":
    "lib.rs",
    "context.rs",
    "interface.rs",
    "plugin.rs",
    "testing.rs",
    "wasm/mod.rs",
    "wasm/guest.rs",
    "wasm/imports.rs",
];

const SDK_PROCESS: &[File] = copied!["sdk-process/src" => "sdk-process/src":
    "lib.rs",
    "accept.rs",
    "asked.rs",
    "call.rs",
    "execute.rs",
    "execute/tests.rs",
    "handshake.rs",
    "kernel.rs",
    "kernel/tests.rs",
    "output.rs",
    "serve.rs",
    "services.rs",
];

const PROTOCOL: &[File] = copied!["plugin-protocol/src" => "plugin-protocol/src":
    "lib.rs",
    "accept.rs",
    "messages/mod.rs",
    "messages/airlock.plugin.v1.rs",
    "messages/grpc.health.v1.rs",
    "messages/plugin.rs",
    "method.rs",
    "server.rs",
    "tls.rs",
];

const SDK_PYTHON: &[File] = copied!["../sdk/python/airlock_plugin" => "lib/airlock_plugin":
    "__init__.py",
    "_version.py",
    "certificate.py",
    "context.py",
    "kernel.py",
    "plugin.py",
    "protocol.binpb",
    "protocol.py",
    "server.py",
    "services.py",
    "testing.py",
];

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Ending {
    let (parts, next) = template(arguments)?;
    let name = &arguments.name;
    let made: Vec<(String, Vec<u8>, bool)> = parts
        .iter()
        .flat_map(|files| files.iter())
        .map(|file| {
            let path = file.path.replace("@NAME@", name);
            (path, filled(file.bytes, name), file.program)
        })
        .collect();
    for (path, bytes, _) in &made {
        if path == "plugin.yaml" {
            check_name(name, bytes)?;
        }
    }
    let here = arguments.directory == Path::new(".");
    let place = if here {
        PathBuf::from(name)
    } else {
        arguments.directory.join(name)
    };
    let failed = |path: &Path, error: &io::Error| {
        let failure = Failure::new(Kind::Failed, format!("cannot write {}", shown(path)))
            .why(crate::failure::cause(error));
        if error.kind() == io::ErrorKind::AlreadyExists {
            failure.fix("choose another name, or another --directory")
        } else {
            failure.fix("choose a directory that can be written, with --directory")
        }
    };
    fs::create_dir_all(&arguments.directory)
        .and_then(|()| fs::create_dir(&place))
        .map_err(|error| failed(&place, &error))?;
    for (path, bytes, program) in &made {
        let path = place.join(path);
        write(&path, bytes, *program).map_err(|error| failed(&path, &error))?;
    }
    if output.is_json() {
        let paths: Vec<&String> = made.iter().map(|(path, ..)| path).collect();
        output.json(&json!({ "name": name, "directory": shown(&place), "files": paths }));
        return Ok(0);
    }
    for (path, ..) in &made {
        output.line(shown(&place.join(path)));
    }
    for step in next {
        output.note(format!("next: {}", step.replace("@NAME@", &word(&place))));
    }
    Ok(0)
}

/// A path as a word that a shell takes for just that.
fn word(path: &Path) -> String {
    let text = shown(path);
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// A file with the plugin's name in it. What is no text has no place for one.
fn filled(bytes: &[u8], name: &str) -> Vec<u8> {
    std::str::from_utf8(bytes).map_or_else(
        |_| bytes.to_vec(),
        |text| text.replace("@NAME@", name).into_bytes(),
    )
}

/// The files of a template, and what to do next.
type Chosen = (&'static [&'static [File]], &'static [&'static str]);

fn template(arguments: &Arguments) -> Result<Chosen, Failure> {
    // It finds its own directory: the next step is said from where this one was.
    const BUILD: &str = "@NAME@/build.sh";
    const INSTALL_BUILT: &str = "airlock plugin install @NAME@/plugin --trust process";
    const TEST: &str = "python3 -m unittest discover @NAME@/tests";
    const INSTALL: &str = "airlock plugin install @NAME@ --trust process";
    match (arguments.lang, arguments.tier, arguments.protocol) {
        (Language::Python, Tier::Process, None | Some(Protocol::Mcp)) => {
            Ok((&[PYTHON], &[TEST, INSTALL]))
        }
        (Language::Python, Tier::Process, Some(Protocol::Grpc)) => Ok((
            &[PYTHON_GRPC, SDK_PYTHON],
            &[
                TEST,
                "sudo apt-get install python3-grpcio python3-protobuf python3-cryptography",
                INSTALL,
            ],
        )),
        (Language::Rust, Tier::Process, None | Some(Protocol::Grpc)) => {
            Ok((&[RUST, SDK, SDK_PROCESS, PROTOCOL], &[BUILD, INSTALL_BUILT]))
        }
        (Language::Rust, Tier::Process, Some(Protocol::Mcp)) => {
            Ok((&[RUST_MCP], &[BUILD, INSTALL_BUILT]))
        }
        (Language::Rust, Tier::Wasm, None) => Ok((
            &[WASM, SDK],
            &[
                "rustup target add wasm32-unknown-unknown",
                BUILD,
                INSTALL_BUILT,
            ],
        )),
        (Language::Python, Tier::Wasm, _) => Err(Failure::new(
            Kind::Usage,
            "there is no template for Wasm plugins in Python",
        )
        .why("Python would bring an interpreter of megabytes into every call")
        .fix("use --tier process, or --lang rust")),
        (Language::Rust, Tier::Wasm, Some(_)) => Err(Failure::new(
            Kind::Usage,
            "a Wasm plugin has no protocol to choose",
        )
        .fix("leave out --protocol, or use --tier process")),
    }
}

/// The name is good if the manifest with it is.
fn check_name(name: &str, manifest: &[u8]) -> Result<(), Failure> {
    let Err(error) = Manifest::parse(manifest) else {
        return Ok(());
    };
    let name = airlock_kernel::sanitise_line(name, 64);
    let failure = Failure::new(Kind::Usage, format!("`{name}` cannot be a plugin's name"));
    let first = error.problems().first().map(|problem| problem.what.clone());
    let failure = first.into_iter().fold(failure, Failure::why);
    Err(failure.maybe_fix(error.hint()))
}

fn write(path: &Path, bytes: &[u8], program: bool) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mode = if program { 0o755 } else { 0o644 };
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)
}

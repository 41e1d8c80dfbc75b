//! `airlock plugin new`: a plugin to begin with.
//!
//! What it writes is a whole plugin: it passes `airlock plugin check`, runs as it is, needs nothing
//! but the language, and has tests. Nothing that is there is overwritten.

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

/// One file of a template. `@NAME@` stands for the plugin's name in it.
struct File {
    path: &'static str,
    text: &'static str,
    program: bool,
}

macro_rules! file {
    ($directory:literal, $path:literal, $from:literal) => {
        File {
            path: $path,
            text: include_str!(concat!("templates/", $directory, "/", $from)),
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

const RUST: &[File] = &[
    file!("rust-process", "plugin.yaml", "plugin.yaml"),
    file!("rust-process", "README.md", "README.md"),
    file!("rust-process", "Cargo.toml", "Cargo.toml.txt"),
    file!("rust-process", "src/main.rs", "src/main.rs.txt"),
    file!("rust-process", "src/tools.rs", "src/tools.rs.txt"),
    file!("rust-process", "src/server.rs", "src/server.rs.txt"),
    program(file!("rust-process", "build.sh", "build.sh")),
    file!("rust-process", ".gitignore", "gitignore"),
];

macro_rules! sdk {
    ($($path:literal),+ $(,)?) => {
        &[$(File {
            path: concat!("sdk/src/", $path),
            text: include_str!(concat!("../../../../sdk/src/", $path)),
            program: false,
        }),+]
    };
}

/// The SDK's own sources. They go along: a plugin builds wherever it is.
const SDK: &[File] = sdk![
    "lib.rs",
    "context.rs",
    "interface.rs",
    "plugin.rs",
    "testing.rs",
    "wasm/mod.rs",
    "wasm/guest.rs",
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

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Ending {
    let (parts, next) = template(arguments)?;
    let name = &arguments.name;
    let made: Vec<(String, String, bool)> = parts
        .iter()
        .flat_map(|files| files.iter())
        .map(|file| {
            let filled = |text: &str| text.replace("@NAME@", name);
            (filled(file.path), filled(file.text), file.program)
        })
        .collect();
    for (path, text, _) in &made {
        if path == "plugin.yaml" {
            check_name(name, text)?;
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
    for (path, text, program) in &made {
        let path = place.join(path);
        write(&path, text, *program).map_err(|error| failed(&path, &error))?;
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
        output.note(format!("next: {}", step.replace("@NAME@", name)));
    }
    Ok(0)
}

/// The files of a template, and what to do next.
type Chosen = (&'static [&'static [File]], &'static [&'static str]);

fn template(arguments: &Arguments) -> Result<Chosen, Failure> {
    match (arguments.lang, arguments.tier) {
        (Language::Python, Tier::Process) => Ok((
            &[PYTHON],
            &[
                "python3 -m unittest discover @NAME@/tests",
                "airlock plugin install @NAME@ --trust process",
            ],
        )),
        (Language::Rust, Tier::Process) => Ok((
            &[RUST],
            &[
                "cd @NAME@ && ./build.sh",
                "airlock plugin install @NAME@/plugin --trust process",
            ],
        )),
        (Language::Rust, Tier::Wasm) => Ok((
            &[WASM, SDK],
            &[
                "rustup target add wasm32-unknown-unknown",
                "cd @NAME@ && ./build.sh",
                "airlock plugin install @NAME@/plugin --trust process",
            ],
        )),
        (Language::Python, Tier::Wasm) => Err(Failure::new(
            Kind::Usage,
            "there is no template for Wasm plugins in Python",
        )
        .why("Python would bring an interpreter of megabytes into every call")
        .fix("use --tier process, or --lang rust")),
    }
}

/// The name is good if the manifest with it is.
fn check_name(name: &str, manifest: &str) -> Result<(), Failure> {
    let Err(error) = Manifest::parse(manifest.as_bytes()) else {
        return Ok(());
    };
    let name = airlock_kernel::sanitise_line(name, 64);
    let failure = Failure::new(Kind::Usage, format!("`{name}` cannot be a plugin's name"));
    let first = error.problems().first().map(|problem| problem.what.clone());
    let failure = first.into_iter().fold(failure, Failure::why);
    Err(failure.maybe_fix(error.hint()))
}

fn write(path: &Path, text: &str, program: bool) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mode = if program { 0o755 } else { 0o644 };
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

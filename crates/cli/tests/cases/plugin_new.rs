//! What `airlock plugin new` writes is a plugin: built, installed and called.

use crate::support::{Ran, World, answering, fed, program};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const POLICY: &str = "\
version: 1
rules:
  - name: call-tools
    match: { syscall: tool.call }
    action: allow
  - name: read-notes
    match: { effect: read, path_glob: \"notes/**\" }
    action: allow
";

fn made(world: &World, arguments: &[&str]) -> Ran {
    let ran = world.quiet(&[&["plugin", "new"], arguments].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

/// A world whose policy lets plugins be called, and read some of what is there.
fn governed() -> World {
    let world = World::new();
    world.write(".airlock/policy.yaml", POLICY);
    world.write("notes/a.txt", "one two three\n");
    world.write("private/b.txt", "not for plugins\n");
    let trusted = answering(&world, "trust", &["y"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    world
}

/// Installs the plugin in `directory` and calls both of its tools.
fn installed_and_called(world: &World, directory: &str) {
    let install = format!("plugin install {directory} --trust process");
    let yes = answering(world, &install, &["y"]);
    assert_eq!(yes.code, Some(0), "{yes:?}");
    // Whoever asks the kernel needs one that runs.
    let _kernel = world.serve();
    let call = |tool: &str, argument: &str| {
        world.quiet(&["plugin", "call", "word-count", tool, argument, "--json"])
    };
    let counted = call("count", "text=one two three");
    assert_eq!(counted.code, Some(0), "{counted:?}");
    assert!(counted.stdout.contains("\"words\":3"), "{counted:?}");
    // What it asks of the kernel is decided there.
    let read = call("count_file", "path=notes/a.txt");
    assert_eq!(read.code, Some(0), "{read:?}");
    assert!(read.stdout.contains("\"words\":3"), "{read:?}");
    let denied = call("count_file", "path=private/b.txt");
    assert_ne!(denied.code, Some(0), "{denied:?}");
    let log = world.quiet(&["audit", "log", "--json"]);
    let asked = log
        .stdout
        .lines()
        .filter(|line| line.contains("\"fs.read\"") && line.contains("word-count"));
    assert!(asked.count() >= 2, "{log:?}");
}

/// Every file below `place`, by its path there.
fn files_below(place: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![place.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_dir() {
                found.insert(path.strip_prefix(place).unwrap().to_owned());
            } else if path.file_name().is_some_and(|name| name != "__pycache__") {
                open.push(path);
            }
        }
    }
    found
}

/// Whether both hold the same files.
fn same(ours: &str, theirs: &Path) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(ours);
    let files = files_below(&ours);
    assert!(files.len() > 1 && files == files_below(theirs), "{files:?}");
    for file in files {
        let bytes = |place: &Path| std::fs::read(place.join(&file)).unwrap();
        assert!(bytes(&ours) == bytes(theirs), "{}", file.display());
    }
}

#[test]
fn a_plugin_has_the_whole_sdk_with_it() {
    let world = World::new();
    let made_in = |directory: &str, more: &[&str]| {
        made(
            &world,
            &[&["word-count", "--directory", directory], more].concat(),
        );
        let place = world.workspace().join(directory).join("word-count");
        let checked = world.quiet(&["plugin", "check", place.to_str().unwrap()]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        place
    };
    let wasm = made_in("wasm", &["--lang", "rust", "--tier", "wasm"]);
    same("crates/sdk/src", &wasm.join("sdk/src"));
    let rust = made_in("rust", &["--lang", "rust"]);
    same("crates/sdk/src", &rust.join("sdk/src"));
    same("crates/sdk-process/src", &rust.join("sdk-process/src"));
    same(
        "crates/plugin-protocol/src",
        &rust.join("plugin-protocol/src"),
    );
    // One source for both.
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!(
        read(wasm.join("src/lib.rs")),
        read(rust.join("src/tools.rs"))
    );
    let python = made_in("python", &["--lang", "python", "--protocol", "grpc"]);
    same(
        "sdk/python/airlock_plugin",
        &python.join("lib/airlock_plugin"),
    );
    let alone = made_in("mcp", &["--lang", "rust", "--protocol", "mcp"]);
    assert!(read(alone.join("Cargo.toml")).contains("name = \"word-count\""));
    assert!(!alone.join("sdk").exists());
}

/// A directory that stays where it is from run to run, so that what cargo made of it can be used
/// again, and where cargo puts that: among what it made for this test, or in one of the user's own.
fn lasting() -> (PathBuf, PathBuf) {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let user = rustix::process::getuid().as_raw();
    let usual = temporary.join(format!("plugin-new-{user}"));
    if std::fs::create_dir_all(&usual).is_ok() {
        return (usual, temporary.parent().unwrap().to_owned());
    }
    let own = std::env::temp_dir().join(format!("airlock-plugin-new-{user}"));
    std::fs::create_dir_all(&own).unwrap();
    let target = own.join("target");
    (own, target)
}

/// Tells cargo in `lasting` to compile what it did not write as the workspace has it compiled, so that
/// what is there already need not be made again.
fn as_in_the_workspace(lasting: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let manifest = read("Cargo.toml");
    let profile =
        manifest.find("[profile.dev]").unwrap()..manifest.find("[profile.release]").unwrap();
    let config = format!(
        "{}\n{}",
        read(".cargo/config.toml"),
        manifest.get(profile).unwrap()
    );
    let place = lasting.join(".cargo");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("config.toml"), config).unwrap();
}

/// Runs `./build.sh dev` with the toolchain that built this test, and what it has fetched.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells its tests where it is in the environment"
)]
fn build(world: &World, place: &Path, target: &Path) -> Ran {
    let cargo = std::env::var_os("CARGO").map_or_else(|| env!("CARGO").into(), PathBuf::from);
    let mut build = program("sh");
    world.prepare(&mut build);
    let path = format!("{}:/usr/bin:/bin", cargo.parent().unwrap().display());
    build
        .current_dir(place)
        .args(["build.sh", "dev"])
        .env("PATH", path)
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("CARGO_TARGET_DIR", target);
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            build.env(name, value);
        }
    }
    // The versions that are there.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, place.join("Cargo.lock")).unwrap();
    fed(&mut build, "")
}

#[test]
fn a_rust_plugin_builds_passes_its_tests_and_is_called() {
    let world = governed();
    let (lasting, target) = lasting();
    as_in_the_workspace(&lasting);
    let place = lasting.join("word-count");
    if place.exists() {
        std::fs::remove_dir_all(&place).unwrap();
    }
    let ran = made(
        &world,
        &[
            "word-count",
            "--lang",
            "rust",
            "--directory",
            lasting.to_str().unwrap(),
        ],
    );
    let next = format!("next: {}/build.sh\n", place.display());
    assert!(ran.stderr.contains(&next), "{ran:?}");
    let built = build(&world, &place, &target);
    assert_eq!(built.code, Some(0), "{built:?}");
    assert!(built.stdout.contains("3 passed"), "{built:?}");
    let files: Vec<PathBuf> = files_below(&place.join("plugin")).into_iter().collect();
    assert_eq!(files, ["bin/word-count", "plugin.yaml"].map(PathBuf::from));
    installed_and_called(&world, place.join("plugin").to_str().unwrap());
}

#[test]
fn a_python_plugin_on_the_sdk_passes_its_tests_and_is_called() {
    let needed = Path::new("/usr/lib/python3/dist-packages/grpc");
    assert!(
        needed.exists(),
        "`{}` is missing: run `cargo xtask setup`",
        needed.display()
    );
    let world = governed();
    made(
        &world,
        &["word-count", "--lang", "python", "--protocol", "grpc"],
    );
    let mut tests = program("python3");
    world.prepare(&mut tests);
    tests.args(["-m", "unittest", "discover", "word-count/tests"]);
    let tested = fed(&mut tests, "");
    assert_eq!(tested.code, Some(0), "{tested:?}");
    assert!(tested.stderr.contains("Ran 4 tests"), "{tested:?}");
    installed_and_called(&world, "word-count");
    let shown = world
        .quiet(&["plugin", "show", "word-count", "--json"])
        .json();
    assert_eq!(shown["manifest"]["execution"]["protocol"], json!("grpc"));
}

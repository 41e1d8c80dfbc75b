//! `airlock demo`: what exists today, on a sample project, offline, leaving nothing behind.
//!
//! Everything shown really happens: a real workspace in a temporary directory, the real kernel, the
//! real log. Nothing is printed that was not the outcome of the call above it.

mod project;
mod scene;
mod tampering;

use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_audit::ExportFormat;
use airlock_kernel::{Clock, DEFAULT_OUTPUT_BYTES, Front, Kernel, KernelConfig, Lifetime, Machine};
use scene::{Expect, Scene};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn run(output: &mut Output) -> Ending {
    let room = tempfile::Builder::new()
        .prefix("airlock-demo-")
        .tempdir()
        .map_err(failed)?;
    let workspace = room.path().join("parser");
    let state = room.path().join("state");
    project::write(&workspace, room.path()).map_err(failed)?;

    let mut scene = Scene::new(output);
    scene.title("A sample project, cloned from somewhere, with a policy of its own inside");
    untrusted(&mut scene, &workspace, &state)?;

    scene.title("airlock init: a policy that fits the project, deny by default");
    let kernel = open(&workspace, &state)?;
    scene.call(&kernel, Front::Cli, "policy.init", json!({}), Expect::Done);
    reading(&mut scene, &kernel);
    steering(&mut scene, &kernel);
    programs(&mut scene, &kernel, &workspace);

    scene.title("Every one of these calls is in the log, attempts and outcomes");
    scene.log(&kernel)?;
    let checkpoint = kernel
        .log()
        .checkpoint()
        .map_err(|error| Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))?;
    let mut export = Vec::new();
    kernel
        .log()
        .export(&mut export, ExportFormat::Jsonl)
        .map_err(|error| Failure::of(Kind::Failed, &error))?;
    let state_dir = kernel.workspace().state().clone();
    kernel
        .close()
        .map_err(|error| Failure::of(Kind::Failed, &error))?;
    tampering::show(&mut scene, &state_dir, &export, &checkpoint, room.path())?;

    let surprises = scene.surprises();
    if surprises > 0 {
        return Err(Failure::new(
            Kind::Failed,
            format!("{surprises} steps did not go as they should"),
        )
        .fix("please report this with the text above"));
    }
    if output.is_json() {
        output.json(&json!({ "surprises": surprises }));
        return Ok(0);
    }
    output.say("");
    output.say(styled(
        Tone::Good,
        "That is the road: decided, recorded, verified.",
    ));
    output.say(
        "Next, in a project of yours:  airlock init && airlock policy explain fs.read --path .env",
    );
    Ok(0)
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Kind::Failed, "the demo cannot set up its sample project")
        .why(error)
        .fix("set TMPDIR to a directory with some room that you can write")
}

fn open(workspace: &Path, state_home: &Path) -> Result<Kernel, Failure> {
    let opened = Kernel::open(KernelConfig {
        workspace: workspace.to_owned(),
        state_home: state_home.to_owned(),
        clock: Clock::system(),
        lifetime: Lifetime::Long,
        output_bytes: DEFAULT_OUTPUT_BYTES,
        search_threads: 0,
        worker: None,
    });
    let machine = Machine {
        home: PathBuf::from("/home/user"),
        own: vec![state_home.to_owned()],
        environment: BTreeMap::new(),
    };
    Ok(opened.map_err(super::open::start_failure)?.on(machine))
}

/// The clone's own policy allows everything; nobody approved it, so it counts for nothing.
fn untrusted(scene: &mut Scene<'_>, workspace: &Path, state: &Path) -> Result<(), Failure> {
    let kernel = open(workspace, state)?;
    scene.say("its .airlock/policy.yaml would allow everything, but nobody approved it:");
    scene.say(&format!("policy in force: {}", kernel.policy().origin()));
    scene.call(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": ".env" }),
        Expect::Denied,
    );
    kernel
        .close()
        .map_err(|error| Failure::of(Kind::Failed, &error))?;
    std::fs::remove_dir_all(workspace.join(".airlock")).map_err(failed)
}

fn reading(scene: &mut Scene<'_>, kernel: &Kernel) {
    scene.title("An agent reads through the road");
    let agent = Front::Agent;
    scene.call(
        kernel,
        agent,
        "fs.read",
        json!({ "path": "src/lib.rs" }),
        Expect::Done,
    );
    scene.say("a token pasted into a source file comes back as a placeholder:");
    scene.call(
        kernel,
        agent,
        "fs.read",
        json!({ "path": "src/client.rs" }),
        Expect::Redacted,
    );
    scene.say("a search shows what may be read and withholds what may not:");
    scene.call(
        kernel,
        agent,
        "search.grep",
        json!({ "pattern": "token|SECRET" }),
        Expect::Hidden,
    );

    scene.title("and tries what it should not");
    scene.call(
        kernel,
        agent,
        "fs.read",
        json!({ "path": ".env" }),
        Expect::Denied,
    );
    scene.say("notes.txt is a symlink to .env; the file really reached is judged:");
    scene.call(
        kernel,
        agent,
        "fs.read",
        json!({ "path": "notes.txt" }),
        Expect::Denied,
    );
    scene.call(
        kernel,
        agent,
        "fs.read",
        json!({ "path": "/etc/shadow" }),
        Expect::Denied,
    );
    scene.say("keys is a symlink out of the workspace:");
    scene.call(
        kernel,
        agent,
        "fs.read",
        json!({ "path": "keys/id_ed25519" }),
        Expect::NotDone,
    );
}

fn programs(scene: &mut Scene<'_>, kernel: &Kernel, workspace: &Path) {
    scene.title("Programs run in a sandbox, and what they write waits in a stage");
    let person = Front::Cli;
    let command = |script: &str| json!({ "command": ["sh", "-c", script] });
    let script = "rm -r src; echo changed > README.md; ls";
    scene.call(kernel, person, "exec.own", command(script), Expect::Program);
    let whole = workspace.join("src/lib.rs").exists();
    let readme = std::fs::read_to_string(workspace.join("README.md")).unwrap_or_default();
    let same = whole && readme.starts_with("# parser");
    scene.result(same, "the real tree is as it was");
    scene.say("what policy denies is denied to programs too, and so is everything not granted:");
    let script = "cat .env; cat /etc/shadow; ls /home /root; id -u";
    scene.call(kernel, person, "exec.own", command(script), Expect::Program);
    // There is none where this machine cannot confine a program.
    let stage = kernel.workspace().state().path().join("stages/default");
    if stage.exists() {
        let stage = json!({ "stage": "default" });
        scene.call(kernel, person, "stage.drop", stage, Expect::Done);
    }
}

fn steering(scene: &mut Scene<'_>, kernel: &Kernel) {
    scene.title("It cannot steer Airlock itself");
    let text = "version: 1\nrules:\n  - { name: all, match: { syscall: \"*\" }, action: allow }\n";
    let arguments = json!({ "text": text });
    scene.call(
        kernel,
        Front::Agent,
        "policy.update",
        arguments.clone(),
        Expect::Denied,
    );
    scene.say("even at the command line a policy changes only after a person's review:");
    scene.call(
        kernel,
        Front::Cli,
        "policy.update",
        arguments,
        Expect::Review,
    );
    scene.call(
        kernel,
        Front::Agent,
        "fs.raed",
        json!({ "path": "x" }),
        Expect::NotDone,
    );
}

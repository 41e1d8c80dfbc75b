//! A plugin for each host, with the same tools: `ask` reads `a.txt` by asking the kernel, `hit` keeps
//! count of its calls, `settings` says what it was given.

use crate::support::{Ran, Served, World, answering};
use airlock_wire::Client;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What runs a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Grpc,
    Mcp,
    Wasm,
}

impl Host {
    pub(crate) const ALL: [Self; 3] = [Self::Grpc, Self::Mcp, Self::Wasm];

    pub(crate) const fn plugin(self) -> &'static str {
        match self {
            Self::Grpc => "of-grpc",
            Self::Mcp => "of-mcp",
            Self::Wasm => "of-wasm",
        }
    }

    fn execution(self) -> &'static str {
        match self {
            Self::Grpc => "execution: { tier: process, protocol: grpc, entry: bin/run }\n",
            Self::Mcp => "execution: { tier: process, protocol: mcp, entry: bin/run }\n",
            Self::Wasm => "execution: { tier: wasm, entry: plugin.wasm }\n",
        }
    }

    /// Writes its plugin, whose manifest says `more`, beside the workspace.
    pub(crate) fn write(self, world: &World, more: &str) -> PathBuf {
        let directory = world.path("away").join(self.plugin());
        fs::create_dir_all(directory.join("bin")).unwrap();
        let manifest = format!(
            "name: {}\nversion: 1.0.0\ntype: tool\n{}{more}",
            self.plugin(),
            self.execution()
        );
        fs::write(directory.join("plugin.yaml"), manifest).unwrap();
        match self {
            Self::Grpc => {
                program(&directory, include_str!("plugin_grpc.py"));
                copy_sdk(&directory.join("lib/airlock_plugin"));
            }
            Self::Mcp => program(&directory, include_str!("plugin.py")),
            Self::Wasm => {
                fs::write(
                    directory.join("plugin.wasm"),
                    wat::parse_str(module()).unwrap(),
                )
                .unwrap();
            }
        }
        directory
    }

    /// Installs it, as a person who trusts it.
    pub(crate) fn install(self, world: &World, more: &str) -> Ran {
        let directory = self.write(world, more);
        install(world, &directory)
    }
}

/// Installs what is in `directory`, as a person who trusts it.
pub(crate) fn install(world: &World, directory: &Path) -> Ran {
    let words = format!("plugin install {} --trust process", directory.display());
    let ran = answering(world, &words, &["y"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

pub(crate) fn program(directory: &Path, script: &str) {
    let entry = directory.join("bin/run");
    fs::create_dir_all(entry.parent().unwrap()).unwrap();
    fs::write(&entry, script).unwrap();
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o755)).unwrap();
}

fn copy_sdk(to: &Path) {
    fs::create_dir_all(to).unwrap();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python/airlock_plugin");
    for file in fs::read_dir(sdk).unwrap().flatten() {
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

/// A trusted workspace under `policy`.
pub(crate) fn governed(policy: &str) -> World {
    let world = World::new();
    world.write("a.txt", "a\n");
    world.write(".airlock/policy.yaml", policy);
    let trusted = answering(&world, "trust", &["y"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    world
}

/// Reads and calls of tools are allowed.
pub(crate) const POLICY: &str = "\
version: 1
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: call-tools
    match: { syscall: tool.call }
    action: allow
";

/// What a tool of a plugin answers to an agent.
pub(crate) fn call(client: &mut Client, host: Host, tool: &str, arguments: &Value) -> Value {
    let name = format!("{}.{tool}", host.plugin());
    let params = json!({ "name": name, "arguments": arguments });
    let answer = client.call("call", params).unwrap();
    let value = &answer["outcome"]["done"]["value"]["value"];
    assert!(!value.is_null(), "{answer}");
    value.clone()
}

/// The records of what `plugin` did.
pub(crate) fn records(world: &World, plugin: &str) -> Vec<Value> {
    let ran = world.quiet(&["audit", "log", "--plugin", plugin, "-n", "1000", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Where a plugin keeps its data.
pub(crate) fn data(world: &World, plugin: &str) -> PathBuf {
    world.path("state/airlock/plugins/data").join(plugin)
}

/// A client that may steer plugins.
pub(crate) fn person(served: &Served<'_>) -> Client {
    served.client("cli")
}

const FS_READ: usize = 4_096;
const ARGUMENTS: usize = 4_160;
const BEGIN: usize = 4_224;

fn text(at: usize, text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        let _ = write!(escaped, "\\{byte:02x}");
    }
    format!("(data (i32.const {at}) \"{escaped}\")")
}

/// The Wasm plugin. A tool's name tells them apart by its first letter, which stands behind
/// `{"tool":"`. `ask` gives what the kernel answers to a read of `a.txt`; `hit` asks for
/// `h/` and the eight characters of its id; `settings` gives back all that it was given.
fn module() -> String {
    let tools = ["ask", "hit", "settings"].map(|name| {
        json!({ "name": name, "summary": name, "schema": { "type": "object" }, "read_only": false })
    });
    let description = json!(tools).to_string();
    let arguments = r#"{"path":"a.txt"}"#;
    let of_hit = r#"{"path":"h/00000000"}"#;
    format!(
        r#"(module
        (import "airlock" "call" (func $call (param i32 i32 i32 i32) (result i32)))
        (import "airlock" "take" (func $take (param i32 i32) (result i32)))
        (memory (export "memory") 4)
        {description_data} {name} {arguments_data} {begin} {hit_data}
        (global $free (mut i32) (i32.const 65536))
        (func $alloc (export "airlock_alloc") (param i32) (result i32)
          global.get $free
          (global.set $free (i32.add (global.get $free) (local.get 0))))
        (func $packed (param $at i32) (param $length i32) (result i64)
          (i64.or (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))
                  (i64.extend_i32_u (local.get $length))))
        (func (export "airlock_describe") (result i64)
          (call $packed (i32.const 1024) (i32.const {description_length})))
        ;; `{{"ok":`, the last reply, `}}`
        (func $reply (param $n i32) (result i64)
          (local $out i32)
          (local.set $out (call $alloc (i32.add (local.get $n) (i32.const 7))))
          (memory.copy (local.get $out) (i32.const {BEGIN}) (i32.const 6))
          (drop (call $take (i32.add (local.get $out) (i32.const 6)) (local.get $n)))
          (i32.store8 (i32.add (local.get $out) (i32.add (local.get $n) (i32.const 6))) (i32.const 125))
          (call $packed (local.get $out) (i32.add (local.get $n) (i32.const 7))))
        ;; `{{"ok":`, what it was given, `}}`
        (func $echo (param $in i32) (param $n i32) (result i64)
          (local $out i32)
          (local.set $out (call $alloc (i32.add (local.get $n) (i32.const 7))))
          (memory.copy (local.get $out) (i32.const {BEGIN}) (i32.const 6))
          (memory.copy (i32.add (local.get $out) (i32.const 6)) (local.get $in) (local.get $n))
          (i32.store8 (i32.add (local.get $out) (i32.add (local.get $n) (i32.const 6))) (i32.const 125))
          (call $packed (local.get $out) (i32.add (local.get $n) (i32.const 7))))
        (func (export "airlock_execute") (param $in i32) (param $length i32) (result i64)
          (local $letter i32)
          (local.set $letter (i32.load8_u (i32.add (local.get $in) (i32.const 9))))
          (if (i32.eq (local.get $letter) (i32.const 0x61)) (then (return (call $reply
            (call $call (i32.const {FS_READ}) (i32.const 7) (i32.const {ARGUMENTS}) (i32.const {arguments_length}))))))
          (if (i32.eq (local.get $letter) (i32.const 0x68)) (then
            ;; Behind `{{"tool":"hit","arguments":{{"id":"`.
            (memory.copy (i32.const {id}) (i32.add (local.get $in) (i32.const 33)) (i32.const 8))
            (return (call $reply
              (call $call (i32.const {FS_READ}) (i32.const 7) (i32.const 4352) (i32.const {hit_length}))))))
          (call $echo (local.get $in) (local.get $length))))"#,
        description_data = text(1024, &description),
        description_length = description.len(),
        name = text(FS_READ, "fs.read"),
        arguments_data = text(ARGUMENTS, arguments),
        arguments_length = arguments.len(),
        begin = text(BEGIN, r#"{"ok":"#),
        hit_data = text(4352, of_hit),
        hit_length = of_hit.len(),
        id = 4352 + 11,
    )
}

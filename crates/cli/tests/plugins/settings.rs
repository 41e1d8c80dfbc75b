//! What a person sets for a plugin reaches it, and its secrets reach nobody else.

use crate::made::{Host, POLICY, call, governed, install, person};
use crate::support::{Ran, World, fed};
use serde_json::{Value, json};
use std::path::Path;

const SCHEMA: &str = "config_schema:\n  type: object\n  required: [limit]\n  additionalProperties: false\n  properties:\n    limit: { type: integer, maximum: 9 }\n    label: { type: string }\n    api_key: { type: string, secret: true, minLength: 12 }\n";
const SECRET: &str = "zebra-Quartz-41907";

fn set(world: &World, host: Host, setting: &str, value: &str) -> Ran {
    let key = format!("plugins.{}.{setting}", host.plugin());
    world.quiet(&["config", "set", &key, value])
}

fn set_secret(world: &World, host: Host) -> Ran {
    let key = format!("plugins.{}.api_key", host.plugin());
    let mut command = world.command(&["config", "set", &key, "-"]);
    fed(&mut command, &format!("{SECRET}\n"))
}

/// Whether any file below `place` holds the secret.
fn holds_secret(place: &Path) -> Option<std::path::PathBuf> {
    let mut open = vec![place.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                let bytes = std::fs::read(&path).unwrap_or_default();
                let mut windows = bytes.windows(SECRET.len());
                if windows.any(|window| window == SECRET.as_bytes()) {
                    return Some(path);
                }
            }
        }
    }
    None
}

#[test]
fn settings_reach_every_host_and_secrets_nobody_else() {
    let world = governed(POLICY);
    for host in Host::ALL {
        host.install(&world, SCHEMA);
        for ran in [set(&world, host, "limit", "7"), set_secret(&world, host)] {
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert!(!format!("{ran:?}").contains(SECRET), "{ran:?}");
        }
    }
    let served = world.serve();
    let mut client = served.client("agent");
    // Without what it requires it did not start, so its tools are not known yet.
    for host in Host::ALL {
        let params = json!({ "name": "plugin.reload", "arguments": { "name": host.plugin() } });
        let answer = person(&served).call("call", params).unwrap();
        assert!(answer["outcome"]["done"].is_object(), "{answer}");
    }
    for host in Host::ALL {
        let given = call(&mut client, host, "settings", &json!({}));
        let text = given.to_string();
        assert!(!text.contains(SECRET), "{host:?}: {text}");
        assert!(text.contains("[secret:"), "{host:?}: {text}");
        if host == Host::Wasm {
            assert_eq!(given["context"]["configuration"]["limit"], 7, "{text}");
            continue;
        }
        assert_eq!(given["limit"], 7, "{host:?}: {text}");
        assert_eq!(given["length"], SECRET.len(), "{host:?}: {text}");
        assert_eq!(given["in_environment"], false, "{host:?}: {text}");
        if host == Host::Mcp {
            assert_eq!(given["variable"], "7", "{text}");
        }
    }
    // Nor does it show in what goes wrong.
    let params = json!({ "name": "of-mcp.fail", "arguments": {} });
    let answer = client.call("call", params).unwrap().to_string();
    assert!(answer.contains("is wrong"), "{answer}");
    assert!(!answer.contains(SECRET), "{answer}");
    for host in Host::ALL {
        let shown = world.quiet(&["plugin", "show", host.plugin()]);
        assert!(shown.stdout.contains("set (secret)"), "{shown:?}");
        assert!(!shown.stdout.contains(SECRET), "{shown:?}");
    }
    let listed = world.quiet(&["config", "show"]);
    assert!(
        listed.stdout.contains("plugins.of-mcp.api_key is set"),
        "{listed:?}"
    );
    let log = world.quiet(&["audit", "log", "-n", "10000", "--json"]);
    for said in [&listed.stdout, &log.stdout] {
        assert!(!said.contains(SECRET));
    }
    drop(client);
    drop(served);
    assert_eq!(holds_secret(&world.path("state")), None);
    assert!(
        holds_secret(&world.path("config")).is_some(),
        "the search finds nothing at all"
    );
}

#[test]
fn every_problem_of_settings_is_named_and_nothing_wrong_is_kept() {
    let world = governed(POLICY);
    let host = Host::Mcp;
    host.install(&world, SCHEMA);
    let started = |world: &World| {
        let served = world.serve();
        let mut client = person(&served);
        let params = json!({ "name": "plugin.reload", "arguments": { "name": host.plugin() } });
        client.call("call", params).unwrap()["outcome"].clone()
    };
    // What is required is not there.
    let outcome = started(&world);
    assert!(outcome.to_string().contains("limit"), "{outcome}");
    for (setting, value, want) in [
        ("limit", "10", "more than 9"),
        ("limit", "many", "type integer"),
        ("limt", "3", "limt"),
        ("api_key", "short", "shorter than 12"),
    ] {
        let ran = set(&world, host, setting, value);
        assert_eq!(ran.code, Some(2), "{setting}={value}: {ran:?}");
        assert!(ran.stderr.contains(want), "{setting}={value}: {ran:?}");
    }
    let shown = world
        .quiet(&["plugin", "show", host.plugin(), "--json"])
        .json();
    assert_eq!(
        shown["settings"]["values"]["limit"]["set"], false,
        "{shown}"
    );
    // A number where a text is wanted is a text.
    assert_eq!(set(&world, host, "label", "123").code, Some(0));
    assert_eq!(set(&world, host, "limit", "3").code, Some(0));
    assert!(started(&world)["done"].is_object());
    let key = "plugins.of-mcp.limit";
    assert_eq!(world.quiet(&["config", "unset", key]).code, Some(0));
    assert!(started(&world).to_string().contains("limit"));
    // A file somebody wrote by hand is held to the same, and no line of it is repeated.
    let file = world.path("config/airlock/plugins/of-mcp.yaml");
    std::fs::write(&file, format!("limit: [\n{SECRET}: : :\n")).unwrap();
    let outcome = started(&world).to_string();
    assert!(
        outcome.contains("no YAML") && !outcome.contains(SECRET),
        "{outcome}"
    );
    std::fs::write(
        &file,
        format!("api_key: {SECRET}\nlimit: 99\nother: {SECRET}\n"),
    )
    .unwrap();
    let outcome = started(&world).to_string();
    for want in ["limit", "other"] {
        assert!(outcome.contains(want), "{want}: {outcome}");
    }
    assert!(!outcome.contains(SECRET), "{outcome}");
    let shown: Value = world
        .quiet(&["plugin", "show", host.plugin(), "--json"])
        .json();
    assert!(!shown.to_string().contains(SECRET), "{shown}");
}

/// Whether each setting is set, as `plugin show` has it.
fn set_now(world: &World) -> [bool; 2] {
    let shown = world.quiet(&["plugin", "show", "of-mcp", "--json"]).json();
    let is_set = |name: &str| shown["settings"]["values"][name]["set"].as_bool();
    ["limit", "api_key"].map(|name| is_set(name).unwrap_or_else(|| panic!("{shown}")))
}

#[test]
fn what_is_set_for_a_plugin_reaches_no_other_of_its_name_and_goes_with_it() {
    let world = governed(POLICY);
    // For one that is yet to be installed.
    assert_eq!(set_secret(&world, Host::Mcp).code, Some(0));
    let directory = Host::Mcp.write(&world, SCHEMA);
    let brought = world.workspace().join(".airlock/plugins/mine");
    std::fs::create_dir_all(&brought).unwrap();
    std::fs::copy(directory.join("plugin.yaml"), brought.join("plugin.yaml")).unwrap();
    crate::made::program(&brought, include_str!("plugin.py"));
    let trusted = crate::support::answering(&world, "trust", &["y"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    assert_eq!(set_now(&world), [false, false]);
    assert_eq!(set(&world, Host::Mcp, "limit", "5").code, Some(0));
    assert_eq!(set_now(&world), [true, false]);
    {
        let served = world.serve();
        let params = json!({ "name": "plugin.reload", "arguments": { "name": "of-mcp" } });
        let answer = person(&served).call("call", params).unwrap();
        assert!(answer["outcome"]["done"].is_object(), "{answer}");
        let mut client = served.client("agent");
        let given = call(&mut client, Host::Mcp, "settings", &json!({}));
        assert_eq!((&given["limit"], &given["length"]), (&json!(5), &json!(0)));
    }
    // What is installed is another one, and says whose settings it takes over.
    let installed = install(&world, &directory);
    let said = format!("{}{}", installed.stdout, installed.stderr);
    assert!(said.contains("what is set for its name: api_key"), "{said}");
    assert_eq!(set_now(&world), [false, true]);
    assert_eq!(set(&world, Host::Mcp, "limit", "7").code, Some(0));
    assert_eq!(set_now(&world), [true, true]);
    let gone = crate::support::answering(&world, "plugin remove of-mcp", &["y"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert!(!world.path("config/airlock/plugins/of-mcp.yaml").exists());
    // The workspace's counts again, as it was.
    assert_eq!(set_now(&world), [true, false]);
    let installed = install(&world, &directory);
    let said = format!("{}{}", installed.stdout, installed.stderr);
    assert!(!said.contains("what is set for its name"), "{said}");
    assert_eq!(set_now(&world), [false, false]);
}

#[test]
fn a_workspace_sets_nothing_and_the_file_is_the_persons_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = governed(POLICY);
    let directory = Host::Mcp.write(&world, SCHEMA);
    install(&world, &directory);
    assert_eq!(set(&world, Host::Mcp, "limit", "3").code, Some(0));
    let file = world.path("config/airlock/plugins/of-mcp.yaml");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    world.write(".airlock/config.yaml", "plugins.of-mcp.limit: 5\n");
    let trusted = crate::support::answering(&world, "trust", &["y"]);
    let refused = world.quiet(&["plugin", "show", "of-mcp"]);
    assert!(
        trusted.code != Some(0) || refused.code != Some(0),
        "a workspace's settings of plugins are taken: {trusted:?} {refused:?}"
    );
    for wrong in [
        "plugins.of-mcp",
        "plugins..limit",
        "plugins.Of.limit",
        "plugins.of-mcp.",
    ] {
        let ran = world.quiet(&["config", "set", wrong, "3"]);
        assert_eq!(ran.code, Some(2), "{wrong}: {ran:?}");
    }
}

/// A schema with a secret of any length.
const LOOSE: &str =
    "config_schema:\n  type: object\n  properties:\n    pin: { type: string, secret: true }\n";

#[test]
fn a_secret_is_kept_from_everybody_before_its_plugin_starts() {
    let world = governed(POLICY);
    Host::Mcp.install(&world, SCHEMA);
    world.write("b.txt", format!("{SECRET}\n"));
    let read = ["tool", "call", "fs.read", "path=b.txt"];
    let before = world.quiet(&read);
    assert!(before.stdout.contains(SECRET), "{before:?}");
    // A kernel that stays has it from the next call on, without a reload.
    {
        let served = world.serve();
        let mut client = served.client("agent");
        assert_eq!(set_secret(&world, Host::Mcp).code, Some(0));
        let params = json!({ "name": "fs.read", "arguments": { "path": "b.txt" } });
        let answer = client.call("call", params).unwrap().to_string();
        assert!(answer.contains("[secret:api_key#1]"), "{answer}");
        assert!(!answer.contains(SECRET), "{answer}");
    }
    let _stopped = world.quiet(&["kernel", "stop"]);
    // So has one that lives for one command.
    let after = world.quiet(&read);
    assert_eq!(after.code, Some(0), "{after:?}");
    assert!(after.stdout.contains("[secret:api_key#1]"), "{after:?}");
    assert!(!after.stdout.contains(SECRET), "{after:?}");
}

#[test]
fn a_secret_that_cannot_be_told_from_other_text_is_set_with_a_warning() {
    let world = governed(POLICY);
    let host = Host::Mcp;
    host.install(&world, LOOSE);
    let said = |ran: &Ran| format!("{}{}", ran.stdout, ran.stderr);
    let short = set(&world, host, "pin", "4711-x");
    assert_eq!(short.code, Some(0), "{short:?}");
    let shown = world.quiet(&["plugin", "show", host.plugin()]);
    let served = world.serve();
    let params = json!({ "name": "plugin.reload", "arguments": { "name": host.plugin() } });
    let answer = person(&served).call("call", params).unwrap();
    let done = &answer["outcome"]["done"]["value"];
    assert!(done["problem"].is_null(), "it did not start: {answer}");
    drop(served);
    let words = "audit log --event sandbox_created -n 1000 --json";
    let words: Vec<&str> = words.split(' ').collect();
    let log = world.quiet(&words);
    for said in [
        said(&short),
        said(&shown),
        done["warnings"].to_string(),
        said(&log),
    ] {
        assert!(said.contains("`pin` is too short"), "{said}");
        assert!(!said.contains("4711-x"), "{said}");
    }
    let longer = set(&world, host, "pin", "zebra-Quartz-41907");
    assert_eq!(longer.code, Some(0), "{longer:?}");
    assert!(!said(&longer).contains("`pin`"), "{longer:?}");
}

//! A plugin that is called where no kernel runs can ask the kernel all the same: one is started, or the
//! command that called it answers. In any other kernel that lives for one command only it is told why it
//! cannot, and what to do.

use crate::made::{Host, POLICY, governed, install};
use crate::support::{World, finished};

fn stop(world: &World) {
    let ran = world.quiet(&["kernel", "stop"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

const READS: &str = "capabilities: [\"filesystem.read.*\"]\n";

#[test]
fn a_call_where_no_kernel_runs_starts_one_so_that_the_plugin_can_ask() {
    let world = governed(POLICY);
    for host in Host::ALL {
        host.install(&world, READS);
    }
    for host in Host::ALL {
        let name = format!("{}.ask", host.plugin());
        for words in [
            ["plugin", "call", host.plugin(), "ask"],
            ["tool", "call", &name, "{}"],
        ] {
            stop(&world);
            assert_eq!(world.quiet(&["kernel", "status"]).code, Some(1));
            let ran = world.quiet(&words);
            assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
            assert!(ran.stdout.contains("a\\n"), "{words:?}: {ran:?}");
        }
    }
    assert_eq!(world.quiet(&["kernel", "status"]).code, Some(0));
    stop(&world);
}

#[test]
fn a_plugin_that_a_step_of_a_workflow_calls_can_ask() {
    let world = governed(POLICY);
    // A step's tool has no dash in its name.
    let named = |host: Host| host.plugin().replace('-', "");
    for host in Host::ALL {
        let (directory, name) = (host.write(&world, READS), named(host));
        let manifest = directory.join("plugin.yaml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(&manifest, text.replace(host.plugin(), &name)).unwrap();
        install(&world, &directory);
        let flow = format!(
            "workflow: 1\nname: {name}-flow\nsummary: Ask\nversion: 1.0.0\ninputs: {{ type: object }}\nsteps:\n  - {{ id: ask, tool: {name}.ask, with: {{}} }}\noutputs: {{ said: {{ from: '${{steps.ask.value}}', schema: {{}} }} }}\n"
        );
        let file = world
            .path("config/airlock/workflows")
            .join(format!("{name}.yaml"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, flow).unwrap();
    }
    // Where no kernel runs, and where one does that may have the same plugin running.
    for served in [false, true] {
        let _served = served.then(|| world.serve());
        for host in Host::ALL {
            let ran = world.quiet(&["workflow", "run", &format!("{}-flow", named(host))]);
            assert_eq!(ran.code, Some(0), "{host:?}, {served}: {ran:?}");
            assert!(ran.stdout.contains("a\\n"), "{host:?}, {served}: {ran:?}");
        }
    }
}

#[test]
fn in_a_kernel_of_one_command_a_plugin_is_told_why_it_cannot_ask() {
    let world = governed(POLICY);
    for host in Host::ALL {
        host.install(&world, READS);
    }
    // Has the workspace's place with other settings: no other can be started, and it is not used.
    let _served = world.serve();
    for host in Host::ALL {
        let mut command = world.command(&["plugin", "call", host.plugin(), "ask"]);
        command.env("AIRLOCK_OUTPUT_MAX_TOKENS", "5000");
        let ran = finished(&mut command);
        assert_eq!(ran.code, Some(0), "{host:?}: {ran:?}");
        assert!(!ran.stdout.contains("a\\n"), "{host:?}: {ran:?}");
        for word in [
            "cannot ask the kernel",
            "one command only",
            "airlock kernel",
        ] {
            let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(word), "{host:?}: {word}: {ran:?}");
        }
    }
}

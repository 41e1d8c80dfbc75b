//! A plugin that is called where no kernel runs can ask the kernel all the same: one is started. In a
//! kernel that lives for one command only it is told why it cannot, and what to do.

use crate::made::{Host, POLICY, governed};
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

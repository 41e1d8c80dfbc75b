//! Colour only where somebody looks, or asked for it.

use crate::support::{World, finished};

fn has_color(world: &World, args: &[&str], environment: &[(&str, &str)]) -> (bool, bool) {
    let mut command = world.command(args);
    command
        .env_remove("NO_COLOR")
        .envs(environment.iter().copied());
    let ran = finished(&mut command);
    (ran.stdout.contains('\u{1b}'), ran.stderr.contains('\u{1b}'))
}

#[test]
fn colour_follows_the_flag_then_the_variables_then_the_terminal() {
    let world = World::governed();
    let both = ["tool", "show", "fs.read"];
    let failing = ["tool", "show", "fs.raed"];
    for (case, extra, environment, want) in [
        ("piped", &[][..], &[][..], false),
        ("NO_COLOR", &[], &[("NO_COLOR", "1")], false),
        ("always", &["--color", "always"], &[], true),
        (
            "always wins over NO_COLOR",
            &["--color", "always"],
            &[("NO_COLOR", "1")],
            true,
        ),
        (
            "never",
            &["--color", "never"],
            &[("CLICOLOR_FORCE", "1")],
            false,
        ),
    ] {
        let on_stdout: Vec<&str> = both.iter().chain(extra).copied().collect();
        assert_eq!(has_color(&world, &on_stdout, environment).0, want, "{case}");
        let on_stderr: Vec<&str> = failing.iter().chain(extra).copied().collect();
        assert_eq!(has_color(&world, &on_stderr, environment).1, want, "{case}");
    }
}

#[test]
fn json_is_never_coloured() {
    let world = World::governed();
    for args in [
        &["--color", "always", "tool", "show", "fs.read", "--json"][..],
        &["--color", "always", "tool", "show", "fs.raed", "--json"],
        &["--color", "always", "audit", "log", "--json"],
    ] {
        assert!(!has_color(&world, args, &[]).0, "{args:?}");
    }
}

#[test]
fn the_setting_counts_where_no_flag_does() {
    let world = World::governed();
    world.quiet(&["config", "set", "color", "always"]);
    assert!(has_color(&world, &["audit", "log"], &[]).0);
    assert!(!has_color(&world, &["audit", "log", "--color", "never"], &[]).0);
    assert!(!has_color(&world, &["audit", "log"], &[("AIRLOCK_COLOR", "never")]).0);
}

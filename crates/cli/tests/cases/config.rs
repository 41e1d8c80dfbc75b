//! `airlock config`: values, where they came from, and what is no value.

use crate::support::{World, read_only_disk};

#[test]
fn values_are_set_shown_and_found() {
    let mut world = World::governed();
    world.run_all(&[
        "config path",
        "config path --json",
        "config show",
        "config set color never",
        "config set search.threads 2 --json",
        "config show",
        "config show --json",
        "--color always config show --json",
    ]);
    world.compare("config");
}

#[test]
fn a_higher_layer_wins_and_a_workspace_file_counts_only_when_trusted() {
    let mut world = World::governed();
    world.quiet(&["config", "set", "search.threads", "2"]);
    world.write(".airlock/config.yaml", "search.threads: 3\n");
    world.run(&["config", "show"]);
    let mut command = world.command(&["config", "show"]);
    command.env("AIRLOCK_SEARCH_THREADS", "4");
    world.record("config show (AIRLOCK_SEARCH_THREADS=4)", &mut command);
    world.compare("config_layers");
}

#[test]
fn what_is_no_setting_or_no_value_is_refused_with_its_place() {
    let mut world = World::new();
    world.run_all(&[
        "config set color blue",
        "config set output.max_tokens 1",
        "config set search.threads -1",
        "config set search.threads lots",
    ]);
    for text in [
        "colour: auto\n",
        "color: auto\ncolor: never\n",
        "just text\n",
        "color: blue\n",
    ] {
        let file = world.path("config/airlock/config.yaml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        let shown = format!("config show (with {text:?})");
        let mut command = world.command(&["config", "show"]);
        world.record(&shown, &mut command);
    }
    std::fs::remove_file(world.path("config/airlock/config.yaml")).unwrap();
    let mut command = world.command(&["config", "show"]);
    command.env("AIRLOCK_COLOR", "blue");
    world.record("config show (AIRLOCK_COLOR=blue)", &mut command);
    world.compare("config_wrong");
}

#[test]
fn a_configuration_that_cannot_be_read_or_written_says_so() {
    let mut world = World::new();
    std::fs::create_dir_all(world.path("config/airlock/config.yaml")).unwrap();
    world.run_all(&["config show", "config set color never"]);
    let mut command = read_only_disk(&world, "config set color never");
    world.record("config set color never (on a read-only disk)", &mut command);
    world.compare("config_unusable");
}

//! `airlock init`: a policy for the languages it finds.

use crate::support::{World, unprivileged};

#[test]
fn the_starter_policy_fits_the_languages_found() {
    for (name, file) in [
        ("init_rust", Some("Cargo.toml")),
        ("init_node", Some("package.json")),
        ("init_python", Some("pyproject.toml")),
        ("init_go", Some("go.mod")),
        ("init_none", None),
    ] {
        let mut world = World::new();
        if let Some(file) = file {
            world.write(file, "{}\n");
        }
        world.run_all(&[
            "init --print",
            "init",
            "policy check",
            "policy test",
            "trust show",
        ]);
        world.compare(name);
    }
}

#[test]
fn several_languages_share_one_policy() {
    let mut world = World::new();
    world.write("Cargo.toml", "");
    world.write("web/package.json", "{}");
    world.write("package.json", "{}");
    world.run_all(&["init --json", "policy check --json"]);
    world.compare("init_mixed");
}

#[test]
fn a_policy_that_is_there_stays() {
    let mut world = World::governed();
    let before = std::fs::read(world.workspace().join(".airlock/policy.yaml")).unwrap();
    world.run_all(&["init", "init --json"]);
    let after = std::fs::read(world.workspace().join(".airlock/policy.yaml")).unwrap();
    assert_eq!(before, after);
    world.compare("init_again");
}

#[test]
fn printing_writes_nothing_into_the_workspace() {
    let world = World::project();
    let ran = world.quiet(&["init", "--print"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!world.workspace().join(".airlock").exists());
}

#[test]
fn a_workspace_that_cannot_be_written_says_so() {
    let mut world = World::project();
    let workspace = world.workspace();
    permissions(&workspace, 0o555);
    let mut command = unprivileged(&world, &["init"]);
    world.record("init (in a directory nobody may write)", &mut command);
    permissions(&workspace, 0o755);
    assert!(!workspace.join(".airlock").exists());
    world.compare("init_unwritable");
}

fn permissions(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

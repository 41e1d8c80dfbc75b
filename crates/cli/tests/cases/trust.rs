//! What came with the workspace counts only once a person has approved it.

use crate::support::World;

const POLICY: &str = "version: 1
rules:
  - name: anything-goes
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: this came with a clone
    examples:
      match: [{ syscall: fs.read, path: README.md }]
      not_match: [{ syscall: fs.write, path: README.md }]
";

#[test]
fn an_unapproved_workspace_runs_on_defaults_and_says_so() {
    let mut world = World::project();
    world.run(&["trust", "show"]);
    world.run(&["trust"]);
    world.write(".airlock/policy.yaml", POLICY);
    world.run_all(&[
        "trust show",
        "trust show --json",
        "tool call fs.exists path=README.md",
        "policy show --json",
    ]);
    world.compare("trust_unapproved");
}

#[test]
fn an_edit_after_approval_withdraws_it() {
    let mut world = World::governed();
    let policy = world.workspace().join(".airlock/policy.yaml");
    let approved = std::fs::read_to_string(&policy).unwrap();
    world.run(&["trust", "show"]);
    std::fs::write(&policy, format!("{approved}# one more line\n")).unwrap();
    world.run_all(&["trust show", "tool call fs.exists path=README.md"]);
    // Even one that no longer loads: the defaults hold, nothing stops.
    std::fs::write(&policy, "rules: [\n").unwrap();
    world.run_all(&[
        "tool call fs.exists path=README.md",
        "policy check",
        "trust",
    ]);
    std::fs::write(&policy, approved).unwrap();
    world.run(&["trust", "show"]);
    world.compare("trust_edited");
}

#[test]
fn revoking_brings_the_defaults_back() {
    let mut world = World::governed();
    world.run_all(&[
        "trust revoke",
        "trust show",
        "trust revoke --json",
        "trust --json",
    ]);
    world.compare("trust_revoke");
}

#[test]
fn every_workspace_has_its_own_approval() {
    let world = World::governed();
    let copy = world.path("away/copy");
    std::fs::create_dir_all(copy.join(".airlock")).unwrap();
    let policy = ".airlock/policy.yaml";
    std::fs::copy(world.workspace().join(policy), copy.join(policy)).unwrap();
    let directory = copy.to_str().unwrap();
    let shown = world
        .quiet(&["--workspace", directory, "trust", "show", "--json"])
        .json();
    assert_eq!(shown["trusted"], false);
}

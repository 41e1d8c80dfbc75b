//! Policies and sandboxes have the same templates: neither crate knows the other, the kernel both.

use airlock_sandbox::plan::Limit;

#[test]
fn policy_and_sandbox_have_the_same_templates() {
    let names = |template: &airlock_policy::Template| template.name;
    let policy: Vec<&str> = airlock_policy::TEMPLATES.iter().map(names).collect();
    let sandbox: Vec<&str> = airlock_sandbox::TEMPLATES
        .iter()
        .map(|own| own.name)
        .collect();
    assert_eq!(policy, sandbox);
    for stated in airlock_policy::TEMPLATES {
        let given = airlock_sandbox::Template::find(stated.name).unwrap();
        let network = match given.network {
            airlock_sandbox::Reach::None => airlock_policy::Reach::None,
            airlock_sandbox::Reach::Restricted => airlock_policy::Reach::Restricted,
        };
        assert_eq!(network, stated.network, "{}", stated.name);
        assert_eq!(given.limits.memory, stated.memory, "{}", stated.name);
        assert_eq!(given.limits.cpus, stated.cpus, "{}", stated.name);
        assert_eq!(given.limits.pids, stated.pids, "{}", stated.name);
        assert_eq!(given.limits.duration, stated.duration, "{}", stated.name);
    }
}

#[test]
fn a_limit_has_one_word() {
    for (stated, given) in [
        (airlock_policy::Limit::Memory, Limit::Memory),
        (airlock_policy::Limit::Cpus, Limit::Cpus),
        (airlock_policy::Limit::Pids, Limit::Pids),
        (airlock_policy::Limit::Duration, Limit::Duration),
        (airlock_policy::Limit::Output, Limit::Output),
    ] {
        assert_eq!(stated.as_str(), given.name());
    }
}

//! Machines that lack something, scripted; and this one.

use super::*;
use crate::plan::{Class, Classes, Limit};
use airlock_core::Tier;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A machine that does as it is told.
#[derive(Clone)]
struct Scripted {
    user: u32,
    release: &'static str,
    program: &'static str,
    texts: BTreeMap<&'static str, &'static str>,
    unable: BTreeMap<Ability, &'static str>,
    native: Result<Trial, String>,
    cgroups: Cgroups,
    bwrap: Option<Bubble>,
    engines: Vec<Engine>,
    state: Result<StateDirectory, String>,
}

const MOUNTS: &str = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

/// A machine that has everything.
fn whole() -> Scripted {
    let refusals: Refusals = Forbidden::ALL
        .iter()
        .map(|forbidden| (*forbidden, Ok("Permission denied (os error 13)".to_owned())))
        .collect();
    let limited = |limit: &Limit| {
        let limited = Limited {
            class: Class::Enforced,
            by: "the kernel".to_owned(),
            tried: Ok("ended when over".to_owned()),
        };
        (*limit, limited)
    };
    Scripted {
        user: 1000,
        release: "6.1.0-31-amd64",
        program: "/usr/local/bin/airlock",
        texts: BTreeMap::from([
            ("/etc/os-release", "ID=debian\n"),
            ("/proc/self/mountinfo", MOUNTS),
            ("/proc/1/comm", "systemd\n"),
            (
                "/sys/kernel/security/lsm",
                "lockdown,capability,landlock,yama,apparmor",
            ),
        ]),
        unable: BTreeMap::new(),
        native: Ok(Trial {
            refusals,
            limits: Limit::ALL.iter().map(limited).collect(),
        }),
        cgroups: Cgroups {
            held: vec![Limit::Memory, Limit::Cpus, Limit::Pids],
            why_not: Vec::new(),
        },
        bwrap: None,
        engines: Vec::new(),
        state: Ok(StateDirectory {
            path: "/home/kim/.local/state/airlock".to_owned(),
            mode: 0o700,
            owner: 1000,
            free: 40 << 30,
            attributes: true,
        }),
    }
}

impl Scripted {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn cannot(&mut self, abilities: &[Ability], said: &'static str) {
        let unable = abilities.iter().map(|ability| (*ability, said));
        self.unable.extend(unable);
    }

    /// No user namespaces, and what follows from that.
    fn without_users(&mut self) {
        let needing = Ability::ALL.iter().filter(|ability| {
            !matches!(
                ability,
                Ability::Landlock | Ability::Seccomp | Ability::SeccompNotify | Ability::Pidfd
            )
        });
        let needing: Vec<Ability> = needing.copied().collect();
        self.cannot(&needing, "Operation not permitted (os error 1)");
        self.native = Err(
            "cannot start a sandbox: make namespaces: Operation not permitted (os error 1)"
                .to_owned(),
        );
    }

    fn without_groups(&mut self) {
        self.cgroups = Cgroups {
            held: Vec::new(),
            why_not: vec!["our cgroup cannot be written".to_owned()],
        };
        if let Ok(trial) = &mut self.native {
            for limit in [Limit::Memory, Limit::Cpus] {
                let limited = trial.limits.get_mut(&limit).unwrap();
                limited.class = Class::Supervised;
                limited.by = "watched, and ended when over".to_owned();
            }
        }
    }
}

impl Machine for Scripted {
    fn who(&self) -> Who {
        Who {
            user: self.user,
            release: self.release.to_owned(),
            program: self.program.to_owned(),
        }
    }

    fn text(&self, path: &str) -> Option<String> {
        self.texts.get(path).map(|text| (*text).to_owned())
    }

    fn ability(&self, ability: Ability) -> Result<String, String> {
        match self.unable.get(&ability) {
            Some(said) => Err((*said).to_owned()),
            None => Ok("did it".to_owned()),
        }
    }

    fn native(&self) -> Result<Trial, String> {
        self.native.clone()
    }

    fn cgroups(&self) -> Cgroups {
        self.cgroups.clone()
    }

    fn bwrap(&self) -> Option<Bubble> {
        self.bwrap.clone()
    }

    fn engines(&self) -> Vec<Engine> {
        self.engines.clone()
    }

    fn toolchains(&self) -> Vec<Toolchain> {
        vec![Toolchain {
            feature: Feature::Rust,
            found: vec!["cargo /home/kim/.cargo/bin".to_owned()],
            notes: vec!["credentials.toml is left out".to_owned()],
        }]
    }

    fn state(&self) -> Result<StateDirectory, String> {
        self.state.clone()
    }

    fn terminal(&self) -> Terminal {
        Terminal {
            input: true,
            output: true,
            name: Some("xterm".to_owned()),
        }
    }
}

fn bubble(version: &str) -> Bubble {
    let refused = |forbidden: &Forbidden| (*forbidden, Ok("Permission denied".to_owned()));
    Bubble {
        path: "/usr/bin/bwrap".to_owned(),
        version: version.to_owned(),
        refusals: Ok(ladder::OF_BWRAP.iter().map(refused).collect()),
    }
}

/// What differs from a machine that has everything, with the ladder.
fn told(machine: &Scripted) -> String {
    let (found, usual) = (probe_on(machine), probe_on(&whole()));
    let mut text = String::new();
    for finding in &found.findings {
        if usual.findings.contains(finding) {
            continue;
        }
        let name = finding.state.name();
        let _ = writeln!(text, "{} {name}: {}", finding.feature, finding.how);
        for line in finding.fix.iter().flat_map(|fix| fix.lines()) {
            let _ = writeln!(text, "    {line}");
        }
    }
    for rung in &found.ladder {
        let (step, state) = (rung.launcher.name(), rung.state.name());
        let _ = writeln!(text, "{step}: {state}: {}", rung.reason);
    }
    let rung = found.rung.map(Step::name);
    let _ = writeln!(text, "rung: {rung:?}");
    text
}

#[test]
fn a_machine_that_has_everything_holds_the_first_rung() {
    let found = probe_on(&whole());
    assert_eq!(found.rung, Some(Step::Native));
    assert_eq!(found.launcher(), Some(crate::report::Launcher::Native));
    let mut features: Vec<Feature> = found.findings.iter().map(|one| one.feature).collect();
    let order = features.clone();
    features.sort_unstable();
    assert_eq!(order, features, "in the order they are shown");
    let known: BTreeSet<Feature> = features.into_iter().collect();
    // For root alone.
    let missing = Feature::ALL
        .iter()
        .filter(|feature| !known.contains(feature));
    assert_eq!(missing.collect::<Vec<_>>(), [&Feature::IdmappedMounts]);
    let root = probe_on(&whole().with(|machine| machine.user = 0));
    assert_eq!(root.findings.len(), Feature::ALL.len());
}

#[test]
fn what_each_machine_lacks_is_told_with_what_mends_it() {
    let debian = whole().with(|machine| {
        machine.without_users();
        let path = "/proc/sys/kernel/unprivileged_userns_clone";
        machine.texts.insert(path, "0\n");
    });
    insta::assert_snapshot!("no_user_namespaces_debian", told(&debian));
    let ubuntu = whole().with(|machine| {
        machine.without_users();
        let path = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
        machine.texts.insert(path, "1\n");
        machine.texts.insert("/etc/os-release", "ID=ubuntu\n");
        machine.bwrap = Some(bubble("0.9.0"));
    });
    insta::assert_snapshot!("bubblewrap_alone_ubuntu", told(&ubuntu));
    let overlay = whole().with(|machine| {
        machine.cannot(&[Ability::Overlay], "No such device (os error 19)");
        machine.native = Err("cannot start a sandbox: mount overlay at /w: No such device".into());
    });
    insta::assert_snapshot!("no_overlay", told(&overlay));
    let landlock = whole().with(|machine| {
        machine.cannot(&[Ability::Landlock], "the kernel has none");
        machine
            .texts
            .insert("/sys/kernel/security/lsm", "lockdown,yama");
        machine.texts.insert("/etc/os-release", "ID=fedora\n");
    });
    insta::assert_snapshot!("no_landlock_fedora", told(&landlock));
    let masked = whole().with(|machine| {
        machine.cannot(&[Ability::Proc], "Operation not permitted (os error 1)");
        machine.native = Err("cannot start a sandbox: mount proc at /proc: denied".to_owned());
        machine.texts.insert("/.dockerenv", "");
    });
    insta::assert_snapshot!("masked_proc_in_a_container", told(&masked));
    insta::assert_snapshot!("no_cgroups", told(&whole().with(Scripted::without_groups)));
    let nothing = whole().with(|machine| {
        machine.without_users();
        machine.cannot(Ability::ALL, "Function not implemented (os error 38)");
        machine.without_groups();
        machine.texts.clear();
        machine.state = Err("No such file or directory (os error 2)".to_owned());
    });
    insta::assert_snapshot!("nothing_at_all", told(&nothing));
}

#[test]
fn a_rung_holds_only_if_everything_was_attempted_and_refused() {
    for forbidden in Forbidden::ALL {
        let let_through = whole().with(|machine| {
            let trial = machine.native.as_mut().unwrap();
            trial
                .refusals
                .insert(*forbidden, Err("it was done".to_owned()));
        });
        let not_tried = whole().with(|machine| {
            machine.native.as_mut().unwrap().refusals.remove(forbidden);
        });
        for machine in [let_through, not_tried] {
            let found = probe_on(&machine);
            let finding = found.of(forbidden.feature()).unwrap();
            assert_eq!(finding.state, State::Missing, "{forbidden:?}");
            assert_eq!(found.rung, None, "{forbidden:?}");
        }
    }
    for limit in Limit::ALL {
        let found = probe_on(&whole().with(|machine| {
            let limits = &mut machine.native.as_mut().unwrap().limits;
            limits.get_mut(limit).unwrap().tried = Err("it went on".to_owned());
        }));
        assert_eq!(found.rung, None, "{limit}");
    }
    for forbidden in ladder::OF_BWRAP {
        let found = probe_on(&whole().with(|machine| {
            machine.without_users();
            let mut bubble = bubble("0.11.0");
            bubble.refusals.as_mut().unwrap().remove(forbidden);
            machine.bwrap = Some(bubble);
        }));
        assert_eq!(found.rung, None, "{forbidden:?}");
    }
}

#[test]
fn an_engine_that_answers_is_seen_and_starts_nothing_yet() {
    let found = probe_on(&whole().with(|machine| {
        machine.without_users();
        machine.engines = vec![Engine {
            name: "podman",
            client: None,
            answers: Ok("/run/podman/podman.sock".to_owned()),
        }];
    }));
    assert_eq!(found.of(Feature::Engine).unwrap().state, State::Works);
    assert_eq!((found.rung, found.launcher()), (None, None));
}

#[test]
fn what_policy_asks_for_is_compared_with_what_there_is() {
    let needed = |tier, limits: &[Limit]| Needed {
        tier,
        classes: limits.iter().fold(Classes::usual(), |classes, limit| {
            classes.with(*limit, Class::Enforced)
        }),
    };
    let grouped = probe_on(&whole());
    let ungrouped = probe_on(&whole().with(Scripted::without_groups));
    let nothing = probe_on(&whole().with(Scripted::without_users));
    let bubbled = probe_on(&whole().with(|machine| {
        machine.without_users();
        machine.bwrap = Some(bubble("0.8.0"));
    }));
    let memory = "the limit `memory` must be enforced, and is not";
    for (case, found, needed, want) in [
        ("usual", &grouped, needed(Tier::Process, &[]), vec![]),
        (
            "memory",
            &grouped,
            needed(Tier::Process, &[Limit::Memory]),
            vec![],
        ),
        ("watched", &ungrouped, needed(Tier::Process, &[]), vec![]),
        (
            "watched is not enough",
            &ungrouped,
            needed(Tier::Wasm, &[Limit::Memory]),
            vec![memory],
        ),
        ("bubblewrap", &bubbled, needed(Tier::Process, &[]), vec![]),
        (
            "bubblewrap limits no memory",
            &bubbled,
            needed(Tier::Process, &[Limit::Memory]),
            vec![memory],
        ),
        (
            "container",
            &grouped,
            needed(Tier::Container, &[]),
            vec!["the tier `container` cannot be had"],
        ),
        (
            "nothing",
            &nothing,
            needed(Tier::Process, &[]),
            vec!["the tier `process` cannot be had"],
        ),
    ] {
        assert_eq!(unmet(found, &needed), want, "{case}");
    }
}

#[test]
fn every_line_of_a_fix_is_a_command_or_a_comment() {
    let releases = [
        "debian", "ubuntu", "fedora", "arch", "alpine", "opensuse", "nixos", "x",
    ];
    for release in releases.map(|name| format!("ID={name}\n")) {
        let release: &'static str = release.leak();
        for (container, kernel) in [(false, "6.1"), (true, "6.1"), (false, "5.15-microsoft")] {
            let machine = whole().with(|machine| {
                machine.without_users();
                machine.cannot(Ability::ALL, "no");
                machine.without_groups();
                machine.release = kernel;
                machine.texts.insert("/etc/os-release", release);
                for path in [
                    "/proc/sys/kernel/unprivileged_userns_clone",
                    "/proc/sys/user/max_user_namespaces",
                ] {
                    machine.texts.insert(path, "0");
                }
                let path = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
                machine.texts.insert(path, "1");
                if container {
                    machine.texts.insert("/run/.containerenv", "");
                }
            });
            for finding in probe_on(&machine).findings {
                for line in finding.fix.iter().flat_map(|fix| fix.lines()) {
                    let first = line.split_whitespace().next().unwrap_or_default();
                    let known = [
                        "#",
                        "sudo",
                        "echo",
                        "printf",
                        "grep",
                        "systemd-run",
                        "loginctl",
                        "systemctl",
                        "airlock",
                        "chmod",
                    ];
                    assert!(known.contains(&first), "{release}: {line}");
                }
            }
        }
    }
}

#[test]
fn what_changes_by_itself_is_not_remembered() {
    let mut found = probe_on(&whole());
    judge::refresh(
        &mut found,
        &whole().with(|machine| {
            machine.state.as_mut().unwrap().free = 1 << 20;
            machine.without_users();
        }),
    );
    let state = found.of(Feature::StateDirectory).unwrap();
    assert_eq!(state.state, State::Limited);
    assert!(state.how.contains("1 MiB free"), "{state:?}");
    assert_eq!(
        found.of(Feature::UserNamespaces).unwrap().state,
        State::Works
    );
}

#[test]
fn a_state_directory_others_can_use_is_told_with_its_name_as_one_word() {
    let found = probe_on(&whole().with(|machine| {
        let state = machine.state.as_mut().unwrap();
        state.path = "/home/it's; reboot".to_owned();
        state.mode = 0o755;
    }));
    let state = found.of(Feature::StateDirectory).unwrap();
    let fix = state.fix.as_deref();
    assert_eq!(fix, Some(r"chmod 700 '/home/it'\''s; reboot'"));
}

/// What acts inside, when this test is started again in there. It is no test by itself.
#[test]
fn acts_when_told_to() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the task of a helper is handed over in a variable"
    )]
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let code = act(&task, &mut std::io::stdout());
    assert_eq!(code, 0);
}

#[test]
fn this_machine_refuses_everything_forbidden() {
    let directory = tempfile::tempdir().unwrap();
    let registry = directory.path().join("run");
    std::fs::create_dir(&registry).unwrap();
    let program = std::env::current_exe().unwrap();
    let arguments = [
        "linux::probe::tests::acts_when_told_to",
        "--exact",
        "--nocapture",
    ]
    .map(std::ffi::OsString::from);
    let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
    let options = ProbeOptions {
        scratch: directory.path(),
        registry: &registry,
        state: directory.path(),
        program: &program,
        arguments: &arguments,
        workspace: directory.path(),
        environment: &environment,
    };
    let found = probe(&options);
    assert_eq!(found.rung, Some(Step::Native), "{found:#?}");
    // Ordinary users have no cgroups, a test has no terminal, and the rest is nobody's to expect.
    let varying = [
        Feature::Cgroups,
        Feature::MemoryLimit,
        Feature::ProcessorLimit,
        Feature::DeniedPatterns,
        Feature::Bwrap,
        Feature::Engine,
        Feature::Rust,
        Feature::Node,
        Feature::Python,
        Feature::Go,
        Feature::Java,
        Feature::StateDirectory,
        Feature::Terminal,
    ];
    for finding in &found.findings {
        if !varying.contains(&finding.feature) {
            assert_eq!(finding.state, State::Works, "{finding:?}");
        }
    }
    for limit in [Feature::MemoryLimit, Feature::ProcessorLimit] {
        assert_ne!(found.of(limit).unwrap().state, State::Missing, "{found:#?}");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .collect();
    assert_eq!(left, ["run"], "the scratch is left as it was");
}

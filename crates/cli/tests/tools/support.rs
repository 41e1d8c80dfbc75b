//! A workspace with a kernel of its own, and short ways to call it.

use airlock_audit::{Entry, Filter};
use airlock_kernel::{
    Call, Clock, DEFAULT_OUTPUT_BYTES, Denied, Done, Failed, Front, Kernel, KernelConfig, Lifetime,
    Machine, Outcome, OwnDefinitions, WorkerProgram,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

pub(crate) struct Place {
    outer: TempDir,
    kernel: Kernel,
}

impl Place {
    /// A workspace whose policy is `policy`, approved.
    pub(crate) fn new(policy: &str, files: &[(&str, &str)]) -> Self {
        Self::with(policy, files, Lifetime::Command)
    }

    pub(crate) fn with(policy: &str, files: &[(&str, &str)], lifetime: Lifetime) -> Self {
        let outer = TempDir::with_prefix("airlock-tools-").unwrap();
        for name in ["w", "state", "home"] {
            fs::create_dir(outer.path().join(name)).unwrap();
        }
        for (path, text) in files.iter().chain([&(".airlock/policy.yaml", policy)]) {
            let path = outer.path().join("w").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let kernel = open(&outer, lifetime);
        let place = Self { outer, kernel };
        place.trust();
        place
    }

    /// The same place with adapters of the person's own.
    pub(crate) fn defining(self, adapters: &[(&str, &str)], certificates: String) -> Self {
        let Self { outer, kernel } = self;
        let directory = outer.path().join("config");
        fs::create_dir_all(directory.join("adapters")).unwrap();
        for (name, text) in adapters {
            fs::write(directory.join("adapters").join(name), text).unwrap();
        }
        let kernel = kernel.defining(&OwnDefinitions {
            directory: Some(directory),
            certificates,
            ..OwnDefinitions::default()
        });
        let definitions = kernel.definitions();
        let problems = definitions.problems();
        assert!(problems.is_empty(), "{problems:?}");
        Self { outer, kernel }
    }

    /// The same workspace with a kernel that was not there before.
    pub(crate) fn reopened(self) -> Self {
        let Self { outer, kernel } = self;
        kernel.close().unwrap();
        let kernel = open(&outer, Lifetime::Command);
        Self { outer, kernel }
    }

    fn trust(&self) {
        let digest = self.kernel.workspace().trust().unwrap().digest();
        let call = Call::new("trust.approve", json!({ "digest": digest }));
        self.approved(Front::Cli, &call);
    }

    /// Asks, lets the person say yes, asks again.
    pub(crate) fn approved(&self, front: Front, call: &Call) -> Done {
        let first = self.kernel.submit(front, call);
        let Outcome::NeedsReview(mut asked) = first else {
            panic!("no review: {first:?}");
        };
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let terminal = rustix::pty::openpt(flags).unwrap();
        let person = self.kernel.person(&terminal, None).unwrap();
        self.kernel.answer(person, &mut asked, true).unwrap();
        done(self.kernel.submit(front, call))
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// A path of the real tree.
    pub(crate) fn real(&self, path: &str) -> PathBuf {
        self.outer.path().join("w").join(path)
    }

    pub(crate) fn submit(&self, front: Front, name: &str, arguments: Value) -> Outcome {
        self.kernel.submit(front, &Call::new(name, arguments))
    }

    pub(crate) fn call(&self, name: &str, arguments: Value) -> Outcome {
        self.submit(Front::Agent, name, arguments)
    }

    /// Runs a script in the stage, as the agent.
    pub(crate) fn script(&self, text: &str) -> Done {
        fs::write(self.real("script"), text).unwrap();
        done(self.call("exec.run", json!({ "command": ["sh", "script"] })))
    }

    /// What a program sees at `path`.
    pub(crate) fn staged(&self, path: &str) -> Option<String> {
        let seen = done(self.call("exec.run", json!({ "command": ["cat", path] })));
        (seen.value["exit"] == 0).then(|| seen.value["stdout"].as_str().unwrap().to_owned())
    }

    pub(crate) fn last_outcome(&self) -> Entry {
        self.kernel.log().flush().unwrap();
        let records = self.kernel.log().read(Filter::default()).unwrap();
        let all: Vec<Entry> = records.map(|record| record.unwrap().entry).collect();
        let outcomes = all.into_iter().rev();
        let mut outcomes = outcomes.filter(|entry| entry.stage == airlock_audit::Stage::Outcome);
        outcomes.next().unwrap()
    }
}

fn open(outer: &TempDir, lifetime: Lifetime) -> Kernel {
    let own = |name: &str| outer.path().join(name);
    Kernel::open(KernelConfig {
        workspace: own("w"),
        state_home: own("state"),
        clock: Clock::system(),
        lifetime,
        output_bytes: DEFAULT_OUTPUT_BYTES,
        search_threads: 2,
        worker: Some(WorkerProgram {
            path: PathBuf::from(env!("CARGO_BIN_EXE_airlock-main"))
                .canonicalize()
                .unwrap(),
            arguments: vec!["script-worker".into()],
        }),
    })
    .unwrap()
    .on(if own("w/Cargo.toml").exists() {
        with_cargo(own("state"))
    } else {
        Machine {
            home: own("home"),
            own: vec![own("state")],
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        }
    })
}

/// A machine with the toolchain that built this test, wherever it is.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells its tests where it is in the environment"
)]
fn with_cargo(state: PathBuf) -> Machine {
    let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap());
    let path = format!("{}:/usr/bin:/bin", cargo.parent().unwrap().display());
    let mut environment = BTreeMap::from([("PATH".into(), path.into())]);
    for name in ["CARGO_HOME", "RUSTUP_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            environment.insert(name.into(), value);
        }
    }
    Machine {
        home: std::env::var_os("HOME").unwrap().into(),
        own: vec![state],
        environment,
    }
}

pub(crate) fn done(outcome: Outcome) -> Done {
    let told = format!("not done: {outcome:?}");
    let Outcome::Done(done) = outcome else {
        panic!("{told}");
    };
    done
}

pub(crate) fn denied(outcome: Outcome) -> Denied {
    let told = format!("not denied: {outcome:?}");
    let Outcome::Denied(denied) = outcome else {
        panic!("{told}");
    };
    *denied
}

pub(crate) fn failed(outcome: Outcome) -> Failed {
    let told = format!("not failed: {outcome:?}");
    let Outcome::Failed(failed) = outcome else {
        panic!("{told}");
    };
    failed
}

/// The paths that were put back.
pub(crate) fn put_back(done: &Done) -> Vec<&str> {
    let back = done.value["put_back"].as_array().unwrap();
    back.iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect()
}

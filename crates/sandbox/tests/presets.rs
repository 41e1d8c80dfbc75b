//! Toolchain presets: each manager is found, and nothing secret is ever read.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use airlock_sandbox::plan::OwnVariable;
use airlock_sandbox::presets::{
    CREDENTIALS, Content, Credential, Facts, Preset, apply, detect, home_entries, search_path,
};
use airlock_sandbox::{HostPath, Plan, Reach, Surroundings, Template};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A person's home and a workspace.
#[derive(Clone)]
struct Machine {
    _directory: Arc<TempDir>,
    top: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    network: Reach,
}

impl Machine {
    fn new(entries: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("home")).unwrap();
        fs::create_dir_all(top.join("work")).unwrap();
        let machine = Self {
            _directory: Arc::new(directory),
            top,
            environment: BTreeMap::new(),
            network: Reach::None,
        };
        for entry in entries {
            machine.add(entry);
        }
        machine
    }

    /// `a/` is a directory, `a -> b` a link, `a = text` a file with text, all else a file. `@` is
    /// the directory that has `home` and `work`; names without it are in the home.
    fn add(&self, entry: &str) {
        let place = |name: &str| match name.strip_prefix("@/") {
            Some(name) => self.top.join(name),
            None => self.top.join("home").join(name),
        };
        let make = |name: &str| {
            let place = place(name);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            place
        };
        if let Some((name, target)) = entry.split_once(" -> ") {
            symlink(target.replace('@', self.top.to_str().unwrap()), make(name)).unwrap();
        } else if let Some((name, text)) = entry.split_once(" = ") {
            let top = format!("{}/", self.top.to_str().unwrap());
            fs::write(make(name), text.replace("@/", &top)).unwrap();
        } else if entry.ends_with('/') {
            fs::create_dir_all(make(entry)).unwrap();
        } else {
            fs::write(make(entry), "x").unwrap();
        }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        let value = value.replace('@', self.top.to_str().unwrap());
        self.environment.insert(name.into(), value.into());
        self
    }

    fn path(&self, text: &str) -> HostPath {
        HostPath::new(text.replace('@', self.top.to_str().unwrap())).unwrap()
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            own: vec![self.path("@/home/.local/state/airlock")],
            home: Some(self.path("@/home")),
        }
    }

    fn presets(&self) -> Vec<Preset> {
        detect(&Facts {
            surroundings: &self.surroundings(),
            environment: &self.environment,
            workspace: &self.path("@/work"),
            network: self.network,
        })
    }

    fn preset(&self, name: &str) -> Preset {
        let mut presets = self.presets().into_iter();
        let found = presets.find(|preset| preset.name == name);
        found.unwrap_or_else(|| panic!("no preset {name}"))
    }

    fn plan(&self) -> Plan {
        let template = Template::find("code-executor").unwrap();
        apply(
            Plan::builder(template, &self.surroundings()),
            &self.presets(),
        )
        .build()
        .unwrap()
    }

    fn short(&self, paths: &[HostPath]) -> Vec<String> {
        let top = self.top.to_str().unwrap();
        paths
            .iter()
            .map(|path| path.to_string().replace(top, "@"))
            .collect()
    }
}

const CARGO: &[&str] = &[
    ".cargo/bin/cargo",
    ".cargo/registry/cache/x/a.crate",
    ".cargo/registry/src/x/a/lib.rs",
    ".cargo/registry/index/x/config.json",
    ".rustup/toolchains/stable/bin/rustc",
    ".rustup/settings.toml = default_toolchain = \"stable\"",
    ".rustup/update-hashes/",
];
const NVM: &[&str] = &[
    ".nvm/versions/node/v9.0.0/bin/node",
    ".nvm/versions/node/v20.1.0/bin/node",
    ".nvm/versions/node/v20.1.0/lib/node_modules/npm/x",
];
const FNM: &[&str] = &[
    ".local/share/fnm/node-versions/v20.1.0/installation/bin/node",
    ".local/share/fnm/node-versions/v20.1.0/installation/lib/node_modules/npm/x",
];
const VOLTA: &[&str] = &[
    ".volta/bin/node",
    ".volta/tools/user/platform.json = {\"node\":{\"runtime\":\"20.1.0\",\"npm\":null}}",
    ".volta/tools/image/node/20.1.0/bin/node",
    ".volta/tools/image/node/20.1.0/lib/x",
];
const N: &[&str] = &["n/bin/node", "n/lib/node_modules/npm/x"];
const ASDF: &[&str] = &[
    ".asdf/installs/nodejs/9.1.0/bin/node",
    ".asdf/installs/nodejs/20.1.0/bin/node",
    ".asdf/installs/nodejs/20.1.0/lib/x",
    ".asdf/installs/nodejs/20.1.0/etc/npmrc",
];
const PYENV: &[&str] = &[
    ".pyenv/versions/3.11.7/bin/python3",
    ".pyenv/versions/3.11.7/lib/python3.11/os.py",
    ".pyenv/versions/3.11.7/pip.conf",
    ".pyenv/shims/python3",
    ".pyenv/libexec/pyenv",
    ".pyenv/version",
];
const UV: &[&str] = &[
    ".local/share/uv/python/cpython-3.12/bin/python3",
    ".local/share/uv/python/cpython-3.12/lib/x",
];
const CONDA: &[&str] = &[
    "miniconda3/bin/python3",
    "miniconda3/lib/x",
    "miniconda3/envs/e/bin/python3",
    "miniconda3/envs/e/lib/x",
    "miniconda3/envs/e/conda-meta/history",
];
const PERSONAL: &[&str] = &[
    ".local/lib/python3.11/site-packages/pytest/x",
    ".local/bin/pytest",
    ".local/bin/my-deploy-script",
    ".local/bin/ruff -> @/home/.local/share/pipx/venvs/ruff/bin/ruff",
    ".local/share/pipx/venvs/ruff/bin/ruff",
    ".local/share/pipx/venvs/ruff/lib/x",
];
const GO: &[&str] = &[
    "sdk/go1.22/bin/go",
    "sdk/go1.22/src/runtime/x",
    "sdk/go1.22/VERSION",
    "go/pkg/mod/cache/download/example.com/x",
    "go/pkg/mod/cache/lock",
    "go/pkg/mod/example.com/dep@v1.0.0/x.go",
];
const JAVA: &[&str] = &[
    ".sdkman/candidates/java/21/bin/java",
    ".sdkman/candidates/java/21/lib/modules",
    ".sdkman/candidates/java/21/conf/security/java.security",
    ".sdkman/candidates/java/21/conf/management/jmxremote.password",
    ".sdkman/candidates/java/current -> 21",
    ".sdkman/candidates/maven/3.9.6/bin/mvn",
    ".sdkman/candidates/maven/3.9.6/boot/x",
    ".sdkman/candidates/maven/current -> 3.9.6",
    ".m2/repository/org/x.jar",
    ".m2/wrapper/dists/apache-maven-3.9/abc/bin/mvn",
    ".m2/wrapper/dists/apache-maven-3.9/abc/boot/x",
    ".m2/wrapper/dists/apache-maven-3.9/abc/conf/settings.xml",
];
const MANAGERS: &[&[&str]] = &[
    CARGO, NVM, FNM, VOLTA, N, ASDF, PYENV, UV, CONDA, PERSONAL, GO, JAVA,
];

/// What is at home, the preset, what it reads, and where it looks for programs.
type Case = (
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const CASES: &[Case] = &[
    (
        CARGO,
        "rust",
        &[
            "@/home/.cargo/bin",
            "@/home/.cargo/registry/cache",
            "@/home/.cargo/registry/index",
            "@/home/.cargo/registry/src",
            "@/home/.rustup/settings.toml",
            "@/home/.rustup/toolchains",
            "@/home/.rustup/update-hashes",
        ],
        &["@/home/.cargo/bin"],
    ),
    (
        NVM,
        "node",
        &[
            "@/home/.nvm/versions/node/v20.1.0/bin",
            "@/home/.nvm/versions/node/v20.1.0/lib",
        ],
        &["@/home/.nvm/versions/node/v20.1.0/bin"],
    ),
    (
        FNM,
        "node",
        &[
            "@/home/.local/share/fnm/node-versions/v20.1.0/installation/bin",
            "@/home/.local/share/fnm/node-versions/v20.1.0/installation/lib",
        ],
        &["@/home/.local/share/fnm/node-versions/v20.1.0/installation/bin"],
    ),
    (
        VOLTA,
        "node",
        &[
            "@/home/.volta/tools/image/node/20.1.0/bin",
            "@/home/.volta/tools/image/node/20.1.0/lib",
        ],
        &["@/home/.volta/tools/image/node/20.1.0/bin"],
    ),
    (
        N,
        "node",
        &["@/home/n/bin", "@/home/n/lib"],
        &["@/home/n/bin"],
    ),
    (
        ASDF,
        "node",
        &[
            "@/home/.asdf/installs/nodejs/20.1.0/bin",
            "@/home/.asdf/installs/nodejs/20.1.0/lib",
        ],
        &["@/home/.asdf/installs/nodejs/20.1.0/bin"],
    ),
    (
        PYENV,
        "python",
        &[
            "@/home/.pyenv/libexec",
            "@/home/.pyenv/shims",
            "@/home/.pyenv/version",
            "@/home/.pyenv/versions/3.11.7/bin",
            "@/home/.pyenv/versions/3.11.7/lib",
        ],
        &["@/home/.pyenv/shims", "@/home/.pyenv/bin"],
    ),
    (
        UV,
        "python",
        &["@/home/.local/share/uv/python/cpython-3.12"],
        &[],
    ),
    (
        CONDA,
        "python",
        &[
            "@/home/miniconda3/bin",
            "@/home/miniconda3/envs/e/bin",
            "@/home/miniconda3/envs/e/lib",
            "@/home/miniconda3/lib",
        ],
        &[],
    ),
    (
        PERSONAL,
        "python",
        &[
            "@/home/.local/bin/pytest",
            "@/home/.local/bin/ruff",
            "@/home/.local/lib/python3.11",
            "@/home/.local/share/pipx/venvs/ruff/bin",
            "@/home/.local/share/pipx/venvs/ruff/lib",
        ],
        &["@/home/.local/bin"],
    ),
    (
        GO,
        "go",
        &[
            "@/home/go/pkg/mod/cache/download",
            "@/home/go/pkg/mod/example.com",
            "@/home/sdk/go1.22",
        ],
        &["@/home/sdk/go1.22/bin"],
    ),
    (
        JAVA,
        "java",
        &[
            "@/home/.m2/repository",
            "@/home/.m2/wrapper/dists/apache-maven-3.9/abc/bin",
            "@/home/.m2/wrapper/dists/apache-maven-3.9/abc/boot",
            "@/home/.sdkman/candidates/java/21/bin",
            "@/home/.sdkman/candidates/java/21/conf/security",
            "@/home/.sdkman/candidates/java/21/lib",
            "@/home/.sdkman/candidates/maven/3.9.6/bin",
            "@/home/.sdkman/candidates/maven/3.9.6/boot",
        ],
        &[
            "@/home/.sdkman/candidates/java/21/bin",
            "@/home/.sdkman/candidates/maven/3.9.6/bin",
        ],
    ),
];

#[test]
fn each_manager_is_found_and_only_its_programs_and_libraries_are_read() {
    for (entries, name, reads, search) in CASES {
        let machine = Machine::new(entries).with("PATH", "@/home/sdk/go1.22/bin");
        let preset = machine.preset(name);
        assert_eq!(machine.short(&preset.reads), *reads, "{entries:?}");
        assert_eq!(machine.short(&preset.search), *search, "{entries:?}");
        assert_eq!(machine.presets().len(), 1, "{entries:?}");
        machine.plan();
    }
}

#[test]
fn variables_lead_to_toolchains_elsewhere() {
    let machine = Machine::new(&[
        "@/cargo/bin/cargo",
        "@/cargo/registry/src/x",
        "@/gomod/cache/download/x",
        "@/gomod/golang.org/toolchain@v0.0.1-go1.22/x",
        "@/go/bin/go",
        "@/go/src/runtime/x",
        "@/go/VERSION",
    ])
    .with("CARGO_HOME", "@/cargo")
    .with("GOROOT", "@/go")
    .with("GOMODCACHE", "@/gomod");
    let rust = machine.preset("rust");
    assert_eq!(
        machine.short(&rust.reads),
        ["@/cargo/bin", "@/cargo/registry/src"]
    );
    let go = machine.preset("go");
    let names: Vec<&OsStr> = go
        .environment
        .iter()
        .map(|(name, _)| name.as_os_str())
        .collect();
    // A toolchain in the cache is one `go` may choose.
    assert_eq!(names, ["GOMODCACHE", "GOCACHE"]);
}

#[test]
fn hostile_variables_are_ignored_with_a_note() {
    for value in [
        "/",
        "relative",
        ".",
        "@/home",
        "@",
        "@/home/../home",
        "/proc/self/root",
        "/run/user/1000",
        "/sys",
        "@/home/.ssh",
        "@/home/.ssh/sub",
        "@/home/.local/state/airlock",
        "@/work",
        "@/work/sub",
        "@/linked",
        "@/into-work",
    ] {
        let machine = Machine::new(&[
            "@/work/sub/bin/cargo",
            ".ssh/sub/registry/src/x",
            ".ssh/registry/src/x",
            "registry/src/x",
            "bin/cargo",
            "@/linked -> @/home/.ssh",
            "@/into-work -> @/work/sub",
        ])
        .with("CARGO_HOME", value);
        let rust = machine.preset("rust");
        assert!(
            rust.reads.is_empty() && rust.environment.is_empty(),
            "{value} {rust:?}"
        );
        assert!(
            rust.notes
                .iter()
                .any(|note| note.starts_with("CARGO_HOME is ignored")),
            "{value}"
        );
    }
}

#[test]
fn a_refused_variable_falls_back_to_the_usual_place() {
    let machine = Machine::new(CARGO).with("CARGO_HOME", "/");
    let rust = machine.preset("rust");
    assert_eq!(rust.notes.len(), 1);
    let home = machine.path("@/home/.cargo");
    assert!(
        rust.environment
            .contains(&("CARGO_HOME".into(), home.as_os_str().into()))
    );
}

#[test]
fn a_linked_toolchain_is_read_under_both_names() {
    let machine = Machine::new(&[
        ".rustup -> @/data/rustup",
        "@/data/rustup/toolchains/stable/bin/rustc",
        "@/data/rustup/toolchains/own -> @/src/stage1",
        "@/src/stage1/bin/rustc",
        "@/data/rustup/toolchains/not -> @/home/.ssh",
        ".ssh/id",
    ]);
    let rust = machine.preset("rust");
    let want = [
        "@/data/rustup/toolchains",
        "@/home/.rustup/toolchains",
        "@/src/stage1",
    ];
    assert_eq!(machine.short(&rust.reads), want);
    // rustup cannot start without its settings, so that the toolchain itself is used.
    assert_eq!(rust.search.len(), 1);
}

#[test]
fn links_into_secrets_are_left_out() {
    for target in [
        "@/home/.ssh",
        "@/home",
        "@",
        "/",
        "/proc",
        "@/home/.config",
        "@/work",
        "@/home/.local/state",
    ] {
        let machine = Machine::new(&[
            ".cargo/bin/cargo",
            &format!(".cargo/registry/src -> {target}"),
            ".ssh/id",
            ".config/gh/hosts.yml",
            ".local/state/airlock/key",
        ]);
        let rust = machine.preset("rust");
        assert_eq!(
            machine.short(&rust.reads),
            ["@/home/.cargo/bin"],
            "{target}"
        );
        assert_eq!(rust.notes.len(), 1, "{target} {:?}", rust.notes);
    }
}

#[test]
fn settings_and_clones_with_a_login_are_left_out() {
    let machine = Machine::new(&[
        ".cargo/bin/cargo",
        ".cargo/config.toml = [registries.own]\ntoken = \"x\"",
        ".cargo/config = [net]\nretry = 2",
        ".cargo/git/db/clean/FETCH_HEAD = abc\t\thttps://host/a",
        ".cargo/git/db/dirty/FETCH_HEAD = abc\t\thttps://u:p@host/b",
    ]);
    let rust = machine.preset("rust");
    let want = [
        "@/home/.cargo/bin",
        "@/home/.cargo/config",
        "@/home/.cargo/git/db/clean",
    ];
    assert_eq!(machine.short(&rust.reads), want);
    assert_eq!(rust.notes.len(), 2, "{:?}", rust.notes);
}

#[test]
fn the_workspace_chooses_among_toolchains_and_grants_none() {
    let chosen = Machine::new(ASDF);
    chosen.add("@/work/.tool-versions = nodejs 9.1.0");
    assert_eq!(
        chosen.short(&chosen.preset("node").search),
        ["@/home/.asdf/installs/nodejs/9.1.0/bin"]
    );
    for version in ["../../../.ssh", "/etc", "..", ".", "-x", "$(x)"] {
        let machine = Machine::new(ASDF);
        machine.add(&format!("@/work/.tool-versions = nodejs {version}"));
        machine.add(".ssh/bin/node");
        let node = machine.preset("node");
        assert_eq!(
            machine.short(&node.search),
            ["@/home/.asdf/installs/nodejs/20.1.0/bin"],
            "{version}"
        );
    }
    for home in [
        "@/home/.ssh",
        "@/home",
        "/",
        "relative",
        "@/elsewhere/bin",
        "",
    ] {
        let machine = Machine::new(PYENV);
        let before = machine.preset("python").reads;
        machine.add(&format!("@/work/.venv/pyvenv.cfg = home = {home}"));
        machine.add(".ssh/bin/python3");
        machine.add("@/elsewhere/bin/python3");
        let python = machine.preset("python");
        assert_eq!(python.reads, before, "{home}");
        assert_eq!(python.notes.len(), 1, "{home} {:?}", python.notes);
    }
    let machine = Machine::new(PYENV);
    machine.add("@/work/.venv/pyvenv.cfg = home = @/home/.pyenv/versions/3.11.7/bin");
    let python = machine.preset("python");
    assert!(
        python
            .found
            .iter()
            .any(|found| found.what == "virtual environment")
    );
}

#[test]
fn programs_of_the_workspace_say_nothing() {
    let machine = Machine::new(&[
        "@/work/bin/go -> @/stolen/bin/go",
        "@/stolen/bin/go",
        "@/stolen/src/runtime/x",
        "@/stolen/VERSION",
        "@/into-work -> @/work/bin",
    ])
    .with("PATH", "@/work/bin:@/into-work:relative::.");
    assert!(machine.presets().is_empty(), "{:?}", machine.presets());
}

#[test]
fn offline_settings_are_for_sandboxes_without_a_network() {
    for (network, want) in [(Reach::None, true), (Reach::Restricted, false)] {
        let entries: Vec<&str> = MANAGERS.concat();
        let mut machine = Machine::new(&entries).with("PATH", "@/home/sdk/go1.22/bin");
        machine.network = network;
        let presets = machine.presets();
        let texts: String = home_entries(&presets, &machine.path("/home/airlock"))
            .into_iter()
            .filter_map(|entry| match entry.content {
                Content::File(text) => Some(text),
                Content::Link(_) => None,
            })
            .collect();
        for setting in [
            "offline=true",
            "no-index = true",
            "GOPROXY=off",
            "<offline>true",
        ] {
            assert_eq!(texts.contains(setting), want, "{setting}");
        }
        let mut variables = presets.iter().flat_map(|preset| &preset.environment);
        assert_eq!(variables.any(|(name, _)| name == "CARGO_NET_OFFLINE"), want);
    }
}

#[test]
fn the_home_inside_links_only_to_what_is_read() {
    let entries: Vec<&str> = MANAGERS.concat();
    let machine = Machine::new(&entries);
    let presets = machine.presets();
    let plan = machine.plan();
    let inside = machine.path("/home/airlock");
    let mut links = 0;
    for entry in home_entries(&presets, &inside) {
        assert!(
            entry
                .at
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_)))
        );
        if let Content::Link(target) = entry.content {
            links += 1;
            let beneath = plan.mounts().into_keys().any(|read| target.holds(read));
            assert!(plan.can_read(&target) || beneath, "{target}");
        }
    }
    assert_eq!(links, 3);
    let same = home_entries(&presets, &machine.path("@/home"));
    assert!(
        same.iter()
            .all(|entry| matches!(entry.content, Content::File(_)))
    );
}

#[test]
fn the_search_path_has_the_presets_first_and_cannot_be_split() {
    let machine = Machine::new(CARGO);
    let path = search_path(&machine.presets()).into_string().unwrap();
    assert!(
        path.starts_with(
            machine
                .path("@/home/.cargo/bin:/usr/local/sbin")
                .to_string()
                .as_str()
        )
    );
    let plan = machine.plan();
    assert!(
        plan.environment()
            .allows(OsStr::new(OwnVariable::Path.names()[0]), OsStr::new(&path))
    );
    let odd = Machine::new(&["@/a:@b/bin/cargo"]).with("CARGO_HOME", "@/a:b");
    odd.add("@/a:b/bin/cargo");
    let rust = odd.preset("rust");
    assert!(rust.search.is_empty());
    assert!(
        rust.notes
            .iter()
            .any(|note| note.contains("cannot be in PATH")),
        "{rust:?}"
    );
}

#[test]
fn without_a_home_nothing_is_guessed() {
    let machine = Machine::new(CARGO);
    let presets = detect(&Facts {
        surroundings: &Surroundings::default(),
        environment: &machine.environment,
        workspace: &machine.path("@/work"),
        network: Reach::None,
    });
    assert!(presets.is_empty(), "{presets:?}");
}

#[test]
fn an_installation_without_a_secret_beside_it_is_one_grant() {
    let machine = Machine::new(&[
        ".pyenv/versions/3.12.1/bin/python3",
        ".pyenv/versions/3.12.1/lib/x",
        ".local/share/mise/installs/java/21/bin/java",
        ".local/share/mise/installs/java/21/release",
    ]);
    let python = machine.preset("python");
    let want = ["@/home/.pyenv/versions/3.12.1"];
    assert_eq!(machine.short(&python.reads), want);
    let java = machine.preset("java");
    let home = machine.path("@/home/.local/share/mise/installs/java/21");
    let set = ("JAVA_HOME".into(), home.as_os_str().into());
    assert!(java.environment.contains(&set), "{java:?}");
}

const VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NVM_DIR",
    "FNM_DIR",
    "VOLTA_HOME",
    "N_PREFIX",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "PYENV_ROOT",
    "UV_PYTHON_INSTALL_DIR",
    "CONDA_PREFIX",
    "GOROOT",
    "GOPATH",
    "GOMODCACHE",
    "JAVA_HOME",
    "SDKMAN_DIR",
    "PATH",
];
const VALUES: &[&str] = &[
    "",
    "/",
    "relative",
    "@",
    "@/home",
    "@/home/.local",
    "@/home/.local/share",
    "@/home/.config",
    "@/home/.ssh",
    "@/home/.cargo",
    "@/home/.m2",
    "@/home/go",
    "@/home/go/pkg",
    "@/home/go/pkg/mod",
    "@/home/.nvm",
    "@/home/miniconda3",
    "@/home/n",
    "@/home/.sdkman/candidates/java/21",
    "@/work",
    "@/home/sdk/go1.22/bin:@/home/n/bin",
    "/proc",
    "/etc",
    "/usr",
];

fn plant_credentials(machine: &Machine) {
    for row in CREDENTIALS {
        fs::create_dir_all(machine.top.join("home").join(row.path)).unwrap();
    }
}

/// The first thing a preset reads that it must not.
fn misread(machine: &Machine) -> Option<String> {
    let home = machine.path("@/home");
    let presets = machine.presets();
    let mut reads = presets.iter().flat_map(|preset| &preset.reads);
    reads.find_map(|read| {
        let real = HostPath::new(fs::canonicalize(read.as_path()).unwrap()).unwrap();
        let secret = |row: &&Credential| {
            let secret = home.as_path().join(row.path);
            let secret = HostPath::new(secret).unwrap();
            [read, &real]
                .iter()
                .any(|read| read.holds(&secret) || secret.holds(read))
        };
        if read.holds(&home) || real.holds(&home) {
            return Some(format!("{read} holds the home"));
        }
        let row = CREDENTIALS.iter().find(secret)?;
        Some(format!("{read} meets {}", row.path))
    })
}

#[test]
fn no_manager_alone_reads_a_credential() {
    for manager in MANAGERS {
        let machine = Machine::new(manager).with("PATH", "@/home/sdk/go1.22/bin");
        plant_credentials(&machine);
        assert_eq!(misread(&machine), None);
        assert!(
            machine
                .presets()
                .iter()
                .any(|preset| !preset.reads.is_empty())
        );
    }
}

#[test]
fn no_environment_leads_to_a_credential_the_home_or_anything_above() {
    let machine = Machine::new(&MANAGERS.concat());
    plant_credentials(&machine);
    let variables = proptest::collection::btree_map(
        proptest::sample::select(VARIABLES),
        proptest::sample::select(VALUES),
        0..8,
    );
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(96)
    };
    let tried = TestRunner::new(config).run(&variables, |variables| {
        let mut machine = machine.clone();
        for (name, value) in variables {
            machine = machine.with(name, value);
        }
        prop_assert_eq!(misread(&machine), None);
        machine.plan();
        Ok(())
    });
    tried.unwrap();
}

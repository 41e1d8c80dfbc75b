//! A plugin on disk, and the ground to box it on.

use airlock_core::{ByteSize, Digest, PluginName};
use airlock_plugin::boxed::{BoxRequest, Boxes, Ground, Running};
use airlock_plugin::{
    Execution, Grants, Kind, LifecycleSettings, Manifest, Protocol, SandboxAsk, StartError, Tier,
    WasmLimits,
};
use airlock_sandbox::presets::Facts;
use airlock_sandbox::{HostPath, Launcher, Outfit, Reach, Surroundings};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Fixture {
    pub(crate) top: TempDir,
    pub(crate) manifest: Manifest,
    pub(crate) disk: ByteSize,
    pub(crate) launcher: Launcher,
}

pub(crate) fn manifest(entry: &str) -> Manifest {
    Manifest {
        name: PluginName::new("tried").unwrap(),
        version: semver::Version::new(1, 0, 0),
        kind: Kind::Tool,
        engine: semver::VersionReq::STAR,
        api_version: 1,
        license: None,
        capabilities: Vec::new(),
        deny_capabilities: Vec::new(),
        execution: Execution {
            tier: Tier::Process,
            protocol: Protocol::Mcp,
            entry: entry.to_owned(),
            arguments: Vec::new(),
            tls: true,
            sandbox: SandboxAsk::default(),
            limits: WasmLimits {
                fuel: 1,
                deadline: Duration::from_secs(1),
                memory: ByteSize::from_bytes(1),
                tables: 1,
                stack: ByteSize::from_bytes(1),
                instances: 1,
            },
            image: None,
        },
        config_schema: None,
        dependencies: BTreeMap::new(),
        tags: Vec::new(),
        lifecycle: LifecycleSettings {
            hot_reload: true,
            graceful_shutdown_timeout: Duration::from_secs(1),
        },
        tools: Vec::new(),
        effects: BTreeMap::new(),
    }
}

impl Fixture {
    /// A plugin whose entry `bin/run` is `script`.
    pub(crate) fn new(script: &str) -> Self {
        let top = tempfile::tempdir().unwrap();
        for name in ["plugin/bin", "own/data", "own/reach", "outside"] {
            fs::create_dir_all(top.path().join(name)).unwrap();
        }
        let fixture = Self {
            top,
            manifest: manifest("bin/run"),
            disk: ByteSize::from_bytes(8 << 20),
            launcher: Launcher::Native,
        };
        fixture.write("plugin/bin/run", script);
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(name), executable).unwrap();
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&fs::read(self.path("plugin").join(&self.manifest.execution.entry)).unwrap())
    }

    pub(crate) fn start_as(&self, entry: Digest) -> Result<Running, StartError> {
        self.start_with(&self.manifest, entry)
    }

    pub(crate) fn start_with(
        &self,
        manifest: &Manifest,
        entry: Digest,
    ) -> Result<Running, StartError> {
        let grants = Grants::find(&manifest.execution.sandbox, Some(&self.path("home")))?;
        self.start_granted(manifest, entry, &grants)
    }

    /// Starts it with what was found of what it asks for.
    pub(crate) fn start_granted(
        &self,
        manifest: &Manifest,
        entry: Digest,
        grants: &Grants,
    ) -> Result<Running, StartError> {
        let request = BoxRequest {
            manifest,
            directory: &self.path("plugin"),
            entry,
            data: &self.path("own/data"),
            grants,
            reach: &self.path("own/reach"),
            environment: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
            host: BTreeMap::new(),
        };
        self.boxes().start(&request)
    }

    pub(crate) fn boxes(&self) -> Boxes {
        let home = HostPath::new(self.path("home")).unwrap();
        let surroundings = Surroundings {
            own: vec![HostPath::new(self.path("own")).unwrap()],
            home: Some(home.clone()),
        };
        let path = "/usr/local/bin:/usr/bin:/bin";
        let facts = Facts {
            surroundings: &surroundings,
            environment: &BTreeMap::from([("PATH".into(), path.into())]),
            workspace: &HostPath::new(self.path("workspace")).unwrap(),
            network: Reach::None,
        };
        let outfit = Outfit::look(&facts, &home);
        let ground = Ground {
            surroundings,
            outfit,
            launcher: self.launcher,
            place: self.path("own/place"),
            disk: self.disk,
        };
        Boxes::new(ground).unwrap()
    }
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

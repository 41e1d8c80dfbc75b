//! A host in this process, whose instances do as they are told, and a kernel that keeps notes.

use airlock_core::{ByteSize, PluginName};
use airlock_plugin::{
    Approval, ApprovedFile, CallError, Callback, CallbackError, Clock, Host, Hosts, Instance,
    Manager, Manifest, Origin, Reach, Registrar, Settings, Sink, Source, Start, StartError, Tier,
    ToolCall, ToolDescription,
};
use airlock_policy::CapabilityGrants;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the kernel and the hosts saw, in order.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) grants: Mutex<HashMap<String, CapabilityGrants>>,
    pub(crate) configuration: Mutex<Value>,
    /// Whether what is set for a plugin cannot be forgotten.
    pub(crate) keeps: AtomicBool,
    /// Whether the kernel has a record of what was approved of a workspace's files.
    pub(crate) keeps_files: AtomicBool,
    /// How often it was told that one goes on after all.
    pub(crate) stayed: AtomicUsize,
    /// Until this is unlocked, it does not get to the end of hearing that.
    pub(crate) stays: Mutex<()>,
}

impl Notes {
    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    /// Whether it is registered, with whatever rights.
    pub(crate) fn has(&self, plugin: &str) -> bool {
        self.grants.lock().unwrap().contains_key(plugin)
    }

    pub(crate) fn may(&self, plugin: &str, capability: &str) -> bool {
        let grants = self.grants.lock().unwrap();
        grants.get(plugin).is_some_and(|grants| {
            grants.allow.contains(capability) && !grants.deny.contains(capability)
        })
    }
}

impl Registrar for Notes {
    fn register(&self, plugin: &Manifest, grants: CapabilityGrants) -> Result<(), String> {
        self.add(format!("register {}", plugin.name));
        let mut known = self.grants.lock().unwrap();
        match known.insert(plugin.name.to_string(), grants) {
            None => Ok(()),
            Some(_) => Err("it is registered already".to_owned()),
        }
    }

    fn replace(&self, plugin: &PluginName, grants: CapabilityGrants) -> Result<(), String> {
        self.add(format!("replace {plugin}"));
        let mut known = self.grants.lock().unwrap();
        let known = known
            .get_mut(plugin.as_str())
            .ok_or("it is not registered")?;
        *known = grants;
        Ok(())
    }

    fn unregister(&self, plugin: &PluginName) {
        self.add(format!("unregister {plugin}"));
        assert!(
            self.grants
                .lock()
                .unwrap()
                .remove(plugin.as_str())
                .is_some()
        );
    }

    fn reach(&self, plugin: &Manifest, instance: u64) -> Result<Reach, String> {
        self.add(format!("reach {} {instance}", plugin.name));
        Ok(Reach {
            directory: PathBuf::from("/nowhere"),
            callback: Arc::new(Nobody),
        })
    }

    fn close(&self, plugin: &PluginName, instance: u64) {
        self.add(format!("close {plugin} {instance}"));
    }

    fn configuration(&self, _plugin: &Manifest, _origin: Origin) -> Result<Value, String> {
        Ok(match &*self.configuration.lock().unwrap() {
            Value::Null => json!({}),
            other => other.clone(),
        })
    }

    fn forget(&self, plugin: &PluginName) -> Result<(), String> {
        self.add(format!("forget {plugin}"));
        if self.keeps.load(Ordering::SeqCst) {
            return Err("it stays".to_owned());
        }
        Ok(())
    }

    fn leaves(&self, plugin: &PluginName) {
        self.add(format!("leaves {plugin}"));
    }

    fn stays(&self, _: &PluginName) {
        self.stayed.fetch_add(1, Ordering::SeqCst);
        drop(self.stays.lock().unwrap());
    }

    fn approved_files(&self, _: Origin, _: &Path) -> Option<BTreeMap<String, ApprovedFile>> {
        self.keeps_files.load(Ordering::SeqCst).then(BTreeMap::new)
    }

    fn serving(&self, plugin: &PluginName, tools: &[ToolDescription]) {
        self.add(format!("serving {plugin} {}", tools.len()));
    }
}

struct Nobody;

impl Callback for Nobody {
    fn submit(&self, _: &str, _: &Value, _: Option<&str>) -> Result<Value, CallbackError> {
        Err(CallbackError {
            code: "denied".to_owned(),
            message: "nobody is there".to_owned(),
            retryable: false,
        })
    }
}

/// How instances that are started from now on behave.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) start: Result<(), &'static str>,
    pub(crate) healthy: bool,
    pub(crate) tools: Vec<ToolDescription>,
    pub(crate) takes: Duration,
    /// Until this is unlocked, what is told to stop does not, for as long as it may.
    pub(crate) stays: Arc<Mutex<()>>,
    /// Until this is unlocked, nothing gets to the end of its start.
    pub(crate) begins: Arc<Mutex<()>>,
}

#[derive(Clone)]
pub(crate) struct FakeHost {
    pub(crate) script: Arc<Mutex<Script>>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) instances: Arc<Mutex<Vec<Arc<FakeInstance>>>>,
    /// How often each action was run, by any instance.
    pub(crate) ran: Arc<Mutex<HashMap<String, usize>>>,
}

pub(crate) struct FakeInstance {
    pub(crate) manifest: Arc<Manifest>,
    script: Script,
    notes: Arc<Notes>,
    ran: Arc<Mutex<HashMap<String, usize>>>,
    pub(crate) gone: AtomicBool,
    pub(crate) calls: AtomicUsize,
    pub(crate) stopped: AtomicBool,
}

pub(crate) fn tool(name: &str) -> ToolDescription {
    ToolDescription {
        name: name.to_owned(),
        summary: "s".to_owned(),
        schema: json!({"type": "object"}),
        read_only: false,
    }
}

impl Host for FakeHost {
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError> {
        let script = self.script.lock().unwrap().clone();
        let name = &start.manifest.name;
        assert!(
            self.notes
                .grants
                .lock()
                .unwrap()
                .contains_key(name.as_str()),
            "started before it was registered"
        );
        assert!(start.data.is_dir());
        assert_eq!(
            start.entry,
            airlock_core::Digest::of(
                &fs::read(start.directory.join(&start.manifest.execution.entry)).unwrap()
            )
        );
        self.notes
            .add(format!("start {name} {}", start.manifest.version));
        drop(script.begins.lock().unwrap());
        script
            .start
            .map_err(|why| StartError::Ended(why.to_owned()))?;
        let instance = Arc::new(FakeInstance {
            manifest: start.manifest,
            script,
            notes: Arc::clone(&self.notes),
            ran: Arc::clone(&self.ran),
            gone: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        self.instances.lock().unwrap().push(Arc::clone(&instance));
        Ok(instance)
    }
}

impl Instance for FakeInstance {
    fn tools(&self) -> &[ToolDescription] {
        &self.script.tools
    }

    fn call(
        &self,
        call: &ToolCall,
        sink: &mut dyn Sink,
        _: &AtomicBool,
    ) -> Result<Value, CallError> {
        if self.has_ended() {
            return Err(CallError::Ended("gone".to_owned()));
        }
        *self
            .ran
            .lock()
            .unwrap()
            .entry(call.action.clone())
            .or_default() += 1;
        self.calls.fetch_add(1, Ordering::SeqCst);
        if call.tool == "crash" {
            self.gone.store(true, Ordering::SeqCst);
        }
        sink.piece("working");
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < self.script.takes {
            let left = self.script.takes.saturating_sub(begun.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(10)));
        }
        self.calls.fetch_sub(1, Ordering::SeqCst);
        if self.has_ended() {
            return Err(CallError::Ended("gone".to_owned()));
        }
        Ok(json!(self.manifest.version.to_string()))
    }

    fn health(&self) -> Result<(), CallError> {
        if self.script.healthy {
            Ok(())
        } else {
            Err(CallError::Protocol("ill".to_owned()))
        }
    }

    fn has_ended(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    fn report(&self) -> Value {
        json!({"fake": true})
    }

    fn stop(&self, grace: Duration) {
        let begun = Instant::now();
        let stays = || !self.has_ended() && self.script.stays.try_lock().is_err();
        while stays() && begun.elapsed() < grace {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (name, version) = (&self.manifest.name, &self.manifest.version);
        let busy = self.calls.load(Ordering::SeqCst);
        self.notes.add(format!("stop {name} {version} busy {busy}"));
        self.stopped.store(true, Ordering::SeqCst);
        self.gone.store(true, Ordering::SeqCst);
    }
}

/// Time that goes on when it is told to.
#[derive(Default)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A manager in directories of its own.
pub(crate) struct Place {
    pub(crate) root: tempfile::TempDir,
    pub(crate) notes: Arc<Notes>,
    pub(crate) host: FakeHost,
    pub(crate) clock: Arc<Hand>,
    pub(crate) manager: Arc<Manager>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(|_| Vec::new())
    }

    /// A place whose further sources `sources` makes.
    pub(crate) fn with(sources: impl FnOnce(&Path) -> Vec<Source>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let notes = Arc::new(Notes::default());
        let host = FakeHost {
            script: Arc::new(Mutex::new(Script {
                start: Ok(()),
                healthy: true,
                tools: vec![tool("echo")],
                takes: Duration::ZERO,
                stays: Arc::default(),
                begins: Arc::default(),
            })),
            notes: Arc::clone(&notes),
            instances: Arc::default(),
            ran: Arc::default(),
        };
        let clock = Arc::new(Hand::default());
        fs::create_dir(root.path().join("home")).unwrap();
        let sources = sources(root.path());
        let manager = manager(root.path(), sources, &host, &notes, &clock);
        Self {
            root,
            notes,
            host,
            clock,
            manager,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The same directories after a restart.
    pub(crate) fn again(&self) -> Arc<Manager> {
        manager(
            self.root.path(),
            Vec::new(),
            &self.host,
            &self.notes,
            &self.clock,
        )
    }

    /// Writes a plugin and installs it, approved for a process.
    pub(crate) fn install(&self, name: &str, version: &str, more: &str) {
        let source = write_plugin(&self.path("sources"), name, version, more);
        let review = self.manager.review(&source).unwrap();
        let approval = Approval::of_unknown_origin(review.directory).trusting(Tier::Process);
        self.manager.install(&source, &approval).unwrap();
    }

    pub(crate) fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.host.script.lock().unwrap());
    }

    pub(crate) fn instance(&self, number: usize) -> Arc<FakeInstance> {
        Arc::clone(&self.host.instances.lock().unwrap()[number])
    }

    pub(crate) fn call(
        &self,
        name: &str,
        tool: &str,
    ) -> Result<Value, airlock_plugin::ManageError> {
        call(&self.manager, name, tool, "a")
    }
}

pub(crate) fn call(
    manager: &Manager,
    name: &str,
    tool: &str,
    action: &str,
) -> Result<Value, airlock_plugin::ManageError> {
    let call = one_call(tool, action);
    manager.call(name, &call, &mut Vec::new(), &AtomicBool::new(false))
}

pub(crate) fn one_call(tool: &str, action: &str) -> ToolCall {
    ToolCall {
        action: action.to_owned(),
        tool: tool.to_owned(),
        arguments: json!({}),
        session: None,
        mode: None,
        deadline: Duration::from_secs(30),
        max_output: usize::try_from(ByteSize::from_bytes(1 << 20).as_bytes()).unwrap(),
    }
}

fn manager(
    root: &Path,
    sources: Vec<Source>,
    host: &FakeHost,
    notes: &Arc<Notes>,
    clock: &Arc<Hand>,
) -> Arc<Manager> {
    let settings = Settings {
        engine: "1.0.0".parse().unwrap(),
        home: root.join("home"),
        sources,
    };
    let host: Arc<dyn Host> = Arc::new(host.clone());
    let hosts = Hosts {
        grpc: Some(Arc::clone(&host)),
        mcp: None,
        wasm: Some(host),
    };
    let clock: Arc<dyn Clock> = Arc::<Hand>::clone(clock);
    let notes: Arc<dyn Registrar> = Arc::<Notes>::clone(notes);
    Manager::new(settings, hosts, notes, clock).unwrap()
}

/// Writes a plugin into `directory`, replacing one of that name, and returns where it is.
pub(crate) fn write_plugin(directory: &Path, name: &str, version: &str, more: &str) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.join("bin")).unwrap();
    fs::write(
        path.join("bin").join(name),
        format!("#!/bin/sh\n# {version}\n"),
    )
    .unwrap();
    let manifest = format!("name: {name}\nversion: {version}\ntype: tool\n{more}\n");
    fs::write(path.join("plugin.yaml"), manifest).unwrap();
    path
}

pub(crate) fn wait_for(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

//! From a plugin that was found to one that takes calls.
//!
//! Invariant: the plugin is registered before its host is asked for anything, and whatever fails
//! afterwards leaves nothing running and nothing open.

use super::discover::{Found, Origin};
use super::error::LaunchError;
use super::files::Contents;
use super::parts::{common, grants};
use super::slot::{Active, locked};
use super::{Manager, Plugin};
use crate::configuration::check_configuration;
use crate::grants::Grants;
use crate::host::{Host, Instance, Start};
use crate::lifecycle::{Lifecycle, State};
use crate::manifest::{Kind, MANIFEST, Manifest, Protocol, is_tool_name};
use crate::tool::ToolDescription;
use airlock_core::{Digest, Tier};
use airlock_policy::CapabilityGrants;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Most tools one plugin may have.
const TOOLS: usize = 500;
/// Most bytes of all their descriptions together: lists of several plugins' tools are to fit into one
/// message, and into what a model reads.
const DESCRIPTION_BYTES: usize = 2 * 1024 * 1024;

/// What may run: what was found, as it was approved.
pub(super) struct Checked {
    found: Found,
    entry: Digest,
    configuration: Value,
}

impl Checked {
    pub(super) fn manifest(&self) -> &Arc<Manifest> {
        &self.found.manifest
    }
}

impl Manager {
    /// Checks that the plugin's files are what was found, and what somebody approved.
    pub(super) fn check(&self, plugin: &Plugin) -> Result<Checked, LaunchError> {
        let found = plugin.found();
        let manifest = &found.manifest;
        if manifest.kind == Kind::Skill {
            return Err(LaunchError::Skill);
        }
        let contents = Contents::of(&found.path).map_err(LaunchError::Files)?;
        if contents.file(MANIFEST) != Some(found.digest) {
            return Err(LaunchError::Changed);
        }
        let wanted = &manifest.execution.entry;
        let entry = contents
            .file(wanted)
            .ok_or_else(|| LaunchError::NoEntry(wanted.clone()))?;
        self.check_approval(plugin, &found, &contents, entry)?;
        let configuration = self.registrar.configuration(manifest, found.origin);
        let configuration = configuration.map_err(LaunchError::Settings)?;
        let problems = check_configuration(manifest, &configuration);
        if !problems.is_empty() {
            return Err(LaunchError::Configuration(problems));
        }
        Ok(Checked {
            found,
            entry,
            configuration,
        })
    }

    fn check_approval(
        &self,
        plugin: &Plugin,
        found: &Found,
        contents: &Contents,
        entry: Digest,
    ) -> Result<(), LaunchError> {
        let (directory, weakest) = match found.origin {
            Origin::User => {
                let approved = plugin.approved().ok_or(LaunchError::NotApproved)?;
                if approved.entry != entry {
                    return Err(LaunchError::Changed);
                }
                (approved.directory, approved.tier)
            }
            // Whatever runs there is boxed at least as Wasm is.
            Origin::Workspace => (self.trusted_digest(plugin, found, contents)?, Tier::Wasm),
        };
        if directory != contents.digest() {
            return Err(LaunchError::Changed);
        }
        let wants = found.manifest.execution.tier;
        if !wants.satisfies(weakest) {
            let approved = weakest;
            return Err(LaunchError::Tier { wants, approved });
        }
        Ok(())
    }

    /// The digest that the files of a workspace's plugin have to have: that of `contents`, if they
    /// are what the kernel's record says; where it has none, of what was found first.
    fn trusted_digest(
        &self,
        plugin: &Plugin,
        found: &Found,
        contents: &Contents,
    ) -> Result<Digest, LaunchError> {
        let approved = self.registrar.approved_files(found.origin, &found.path);
        let Some(approved) = approved else {
            let trusted = *locked(&plugin.trusted);
            return trusted.ok_or(LaunchError::NotApproved);
        };
        if approved.is_empty() {
            return Err(LaunchError::NotApproved);
        }
        if contents.is_exactly(&approved) {
            Ok(contents.digest())
        } else {
            Err(LaunchError::Changed)
        }
    }

    /// Starts an instance. `beside` is the one that runs already: until it has ended, both have what
    /// both may have.
    pub(super) fn launch(
        &self,
        checked: Checked,
        number: u64,
        beside: Option<&Manifest>,
    ) -> Result<Arc<Active>, LaunchError> {
        let lifecycle = Lifecycle::new();
        // A life of its own: nobody else can have moved it.
        let _ = lifecycle.advance(State::Validating);
        let manifest = Arc::clone(checked.manifest());
        self.admit(&manifest, beside)?;
        let _ = lifecycle.advance(State::Loading);
        let started = self.start_instance(checked, number);
        match started {
            Ok(instance) => {
                let _ = lifecycle.advance(State::Running);
                Ok(Arc::new(Active::new(instance, manifest, lifecycle, number)))
            }
            Err(error) => {
                let _ = lifecycle.advance(State::Error);
                self.registrar.close(&manifest.name, number);
                match beside {
                    Some(old) => {
                        // The old one keeps what it had; if even that fails it has less, not more.
                        let _ = self.registrar.replace(&old.name, grants(old));
                    }
                    None => self.registrar.unregister(&manifest.name),
                }
                Err(error)
            }
        }
    }

    fn admit(&self, manifest: &Manifest, beside: Option<&Manifest>) -> Result<(), LaunchError> {
        let wanted: CapabilityGrants = grants(manifest);
        let answer = match beside {
            None => self.registrar.register(manifest, wanted),
            Some(old) => {
                let both = common(&grants(old), &wanted);
                self.registrar.replace(&manifest.name, both)
            }
        };
        answer.map_err(LaunchError::Register)
    }

    fn start_instance(
        &self,
        checked: Checked,
        number: u64,
    ) -> Result<Arc<dyn Instance>, LaunchError> {
        let manifest = Arc::clone(checked.manifest());
        let protocol = manifest.execution.protocol;
        let host = self.host_of(protocol)?;
        let data = self.data_of(&checked.found).map_err(LaunchError::Data)?;
        let reach = self.registrar.reach(&manifest, number);
        let reach = reach.map_err(LaunchError::Register)?;
        let start = Start {
            manifest: Arc::clone(&manifest),
            directory: checked.found.path,
            entry: checked.entry,
            data,
            // Whoever stands before the host finds out what is granted.
            grants: Grants::default(),
            configuration: checked.configuration,
            reach,
        };
        let instance = host.start(start).map_err(LaunchError::Start)?;
        let well = instance.health().map_err(LaunchError::Unhealthy);
        let well = well.and_then(|()| check_tools(&manifest, instance.tools()));
        if let Err(error) = well {
            instance.stop(Duration::ZERO);
            return Err(error);
        }
        Ok(instance)
    }

    fn host_of(&self, protocol: Protocol) -> Result<Arc<dyn Host>, LaunchError> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let (hosts, why) = match &*hosts {
            Ok(hosts) => (hosts.of(protocol).cloned(), None),
            Err(why) => (None, Some(why.clone())),
        };
        hosts.ok_or(LaunchError::NoHost {
            protocol: protocol.as_str(),
            why,
        })
    }

    /// The plugin's own directory, private to the user: plugins are kept apart by their sandboxes.
    /// One of a workspace finds nothing that another of its name left in another place.
    fn data_of(&self, found: &Found) -> std::io::Result<PathBuf> {
        let all = self.home.join("data");
        let place = match found.origin {
            Origin::User => all,
            // No plugin's name begins with a dot.
            Origin::Workspace => {
                let whose = Digest::of(found.path.as_os_str().as_encoded_bytes());
                all.join(".workspaces").join(whose.to_string())
            }
        };
        let data = place.join(found.manifest.name.as_str());
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&data)?;
        Ok(data)
    }
}

/// Names that can be called, each once, described in no more than is read, and no tool other than its
/// manifest says, where it says any.
fn check_tools(manifest: &Manifest, tools: &[ToolDescription]) -> Result<(), LaunchError> {
    let wrong = |what: String| Err(LaunchError::Tools(what));
    if tools.len() > TOOLS {
        return wrong(format!("it has more than {TOOLS}"));
    }
    let bytes = |tool: &ToolDescription| tool.summary.len() + tool.schema.to_string().len();
    if tools.iter().map(bytes).sum::<usize>() > DESCRIPTION_BYTES {
        let most = DESCRIPTION_BYTES / 1024 / 1024;
        return wrong(format!(
            "their summaries and schemas have more than {most} MiB"
        ));
    }
    let mut names = BTreeSet::new();
    for tool in tools {
        if !is_tool_name(&tool.name) {
            let name = airlock_yaml::shown(&tool.name);
            return wrong(format!("`{name}` cannot be a name"));
        }
        if !names.insert(tool.name.as_str()) {
            return wrong(format!("`{}` is there twice", tool.name));
        }
    }
    let written = &manifest.tools;
    if written.is_empty() {
        return Ok(());
    }
    if let Some(tool) = tools.iter().find(|tool| !written.contains(tool)) {
        return wrong(format!("`{}` is not as its manifest says", tool.name));
    }
    let absent = |tool: &&ToolDescription| !names.contains(tool.name.as_str());
    match written.iter().find(absent) {
        Some(tool) => wrong(format!("`{}` is in its manifest only", tool.name)),
        None => Ok(()),
    }
}

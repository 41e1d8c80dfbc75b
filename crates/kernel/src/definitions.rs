//! The adapters, workflows and agents there are, and where each comes from.
//!
//! The person's own stand in their configuration; those of a workspace count only while everything
//! below its `.airlock/` is as a person approved it, and come second: they never replace the
//! person's own. Bytes are kept as they were judged; what is not asked for is not parsed.

use crate::workspace::read_bounded;
use airlock_core::Digest;
use airlock_definitions::{AdapterFile, Agent, DefinitionError, Header, Workflow};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most files of one kind from one place.
const FILES: usize = 2_000;
/// The directories of the kinds there are.
const KINDS: [&str; 3] = ["adapters", "workflows", "agents"];
/// Largest file.
const FILE_BYTES: u64 = 256 * 1024;

/// What the person has of their own.
#[derive(Debug, Clone, Default)]
pub struct OwnDefinitions {
    /// The directory with their `adapters`, `workflows` and `agents`.
    pub directory: Option<PathBuf>,
    /// Experimental adapters that are switched on.
    pub experimental: BTreeSet<String>,
    /// Authorities to trust besides the public ones when a request is made, as PEM.
    pub certificates: String,
}

impl OwnDefinitions {
    /// One digest of all of it, files included: what two kernels agree on that have the same.
    pub fn digest(&self) -> Digest {
        let mut parts = vec![
            self.experimental
                .iter()
                .cloned()
                .collect::<Vec<_>>()
                .join("\n"),
            self.certificates.clone(),
        ];
        // What cannot be read is no definition, and a problem to whoever loads them.
        let mut unread = Definitions::default();
        let directory = self.directory.iter();
        for kind in directory.flat_map(|directory| KINDS.map(|kind| directory.join(kind))) {
            let files = unread.own(&kind).into_iter();
            parts.extend(files.map(|file| format!("{} {}", file.file, Digest::of(&file.bytes))));
        }
        parts.extend(unread.problems.into_iter().map(|problem| problem.file));
        let parts: Vec<_> = parts
            .iter()
            .map(|part| Digest::of(part.as_bytes()))
            .collect();
        let whole: Vec<String> = parts.iter().map(ToString::to_string).collect();
        Digest::of(whole.join(" ").as_bytes())
    }
}

/// Where a definition comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinedBy {
    /// The person's own configuration.
    User,
    /// The workspace, approved.
    Workspace,
}

impl DefinedBy {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

/// A definition that is not used, and why.
#[derive(Debug, Clone)]
pub struct DefinitionProblem {
    /// The file.
    pub file: String,
    /// What is the matter.
    pub what: String,
    /// How to mend it.
    pub fix: String,
    /// Every problem with its place, and the text they point into, if it does not load.
    pub load: Option<(DefinitionError, Arc<str>)>,
}

/// An adapter, of which only the header was read.
#[derive(Debug, Clone)]
pub struct AdapterEntry {
    /// L0.
    pub header: Header,
    /// The file.
    pub file: String,
    /// Where it comes from.
    pub origin: DefinedBy,
    /// Its text.
    pub text: AdapterFile,
    /// The digest of its text.
    pub digest: Digest,
}

/// A workflow.
#[derive(Debug, Clone)]
pub struct WorkflowEntry {
    /// The workflow.
    pub workflow: Arc<Workflow>,
    /// The file.
    pub file: String,
    /// Where it comes from.
    pub origin: DefinedBy,
    /// The digest of its text: a run goes on only with the text it began with.
    pub digest: Digest,
}

/// An agent.
#[derive(Debug, Clone)]
pub struct AgentEntry {
    /// The agent.
    pub agent: Arc<Agent>,
    /// The file.
    pub file: String,
    /// Where it comes from.
    pub origin: DefinedBy,
    /// The digest of its text.
    pub digest: Digest,
}

/// Everything there is.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    pub(crate) adapters: Vec<AdapterEntry>,
    pub(crate) workflows: Vec<WorkflowEntry>,
    agents: Vec<AgentEntry>,
    pub(crate) problems: Vec<DefinitionProblem>,
}

/// A file as it was read.
struct Source {
    file: String,
    origin: DefinedBy,
    bytes: Arc<[u8]>,
}

impl Definitions {
    /// Those of the person, and `brought`: files of the workspace with their places.
    pub(crate) fn load(own: &OwnDefinitions, brought: &[(String, Arc<[u8]>)]) -> Self {
        let mut all = Self::default();
        for source in all.sources("adapters", own, brought) {
            all.adapter(source);
        }
        for source in all.sources("workflows", own, brought) {
            all.workflow(source);
        }
        for source in all.sources("agents", own, brought) {
            all.agent(source);
        }
        all
    }

    /// The adapters, by their headers.
    pub fn adapters(&self) -> &[AdapterEntry] {
        &self.adapters
    }

    /// The workflows.
    pub fn workflows(&self) -> &[WorkflowEntry] {
        &self.workflows
    }

    /// The workflow called `name`.
    pub fn workflow_named(&self, name: &str) -> Option<&WorkflowEntry> {
        self.workflows
            .iter()
            .find(|entry| entry.workflow.name == name)
    }

    /// The agents.
    pub fn agents(&self) -> &[AgentEntry] {
        &self.agents
    }

    /// The agent called `name`.
    pub fn agent_named(&self, name: &str) -> Option<&AgentEntry> {
        self.agents.iter().find(|entry| entry.agent.name == name)
    }

    /// What is not used, and why.
    pub fn problems(&self) -> &[DefinitionProblem] {
        &self.problems
    }

    /// The files of one kind: the person's first.
    fn sources(
        &mut self,
        kind: &str,
        own: &OwnDefinitions,
        brought: &[(String, Arc<[u8]>)],
    ) -> Vec<Source> {
        let mut sources = Vec::new();
        if let Some(directory) = &own.directory {
            sources = self.own(&directory.join(kind));
        }
        let within = format!(".airlock/{kind}/");
        let theirs = brought.iter().filter(|(path, _)| {
            let name = path.strip_prefix(&within);
            name.is_some_and(is_definition)
        });
        sources.extend(theirs.take(FILES).map(|(path, bytes)| Source {
            file: path.clone(),
            origin: DefinedBy::Workspace,
            bytes: Arc::clone(bytes),
        }));
        sources
    }

    /// The person's own files, in order of name. A file that others can write is not theirs alone.
    fn own(&mut self, directory: &Path) -> Vec<Source> {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let named = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(is_definition)
        };
        let mut sources = Vec::new();
        for path in paths.into_iter().filter(named).take(FILES) {
            let file = path.display().to_string();
            match read_own(&path) {
                Ok(bytes) => sources.push(Source {
                    file,
                    origin: DefinedBy::User,
                    bytes: bytes.into(),
                }),
                Err(what) => self.problem(
                    &file,
                    what,
                    "make it a readable file that only you can write",
                ),
            }
        }
        sources
    }

    fn problem(&mut self, file: &str, what: impl Into<String>, fix: &str) {
        self.problems.push(DefinitionProblem {
            file: file.to_owned(),
            what: what.into(),
            fix: fix.to_owned(),
            load: None,
        });
    }

    fn broken(&mut self, source: &Source, error: DefinitionError) {
        let text = String::from_utf8_lossy(&source.bytes);
        self.problems.push(DefinitionProblem {
            file: source.file.clone(),
            what: error.to_string(),
            fix: error.hint().unwrap_or_default().to_owned(),
            load: Some((error, text.into())),
        });
    }

    fn adapter(&mut self, source: Source) {
        let read = AdapterFile::new(&source.bytes).and_then(|text| Ok((text.header()?, text)));
        let (header, text) = match read {
            Ok(read) => read,
            Err(error) => return self.broken(&source, error),
        };
        let taken = self.adapters.iter().find(|known| {
            known.header.id == header.id
                || (known.header.tool == header.tool && known.origin != source.origin)
        });
        if let Some(known) = taken {
            let what = format!("`{}` has its id or its tool already", known.file);
            let fix = "give it another `id`, and a `tool` that your own adapters do not have";
            return self.problem(&source.file, what, fix);
        }
        self.adapters.push(AdapterEntry {
            digest: Digest::of(&source.bytes),
            header,
            file: source.file,
            origin: source.origin,
            text,
        });
    }

    fn workflow(&mut self, source: Source) {
        let workflow = match Workflow::read(&source.bytes) {
            Ok(workflow) => workflow,
            Err(error) => return self.broken(&source, error),
        };
        if let Some(known) = self.workflow_named(&workflow.name) {
            let what = format!("`{}` is called `{}` already", known.file, workflow.name);
            return self.problem(&source.file, what, "give it another `name`");
        }
        self.workflows.push(WorkflowEntry {
            digest: Digest::of(&source.bytes),
            workflow: Arc::new(workflow),
            file: source.file,
            origin: source.origin,
        });
    }

    fn agent(&mut self, source: Source) {
        let agent = match Agent::read(&source.bytes) {
            Ok(agent) => agent,
            Err(error) => return self.broken(&source, error),
        };
        if let Some(known) = self.agent_named(&agent.name) {
            let what = format!("`{}` is called `{}` already", known.file, agent.name);
            return self.problem(&source.file, what, "give it another `name`");
        }
        self.agents.push(AgentEntry {
            digest: Digest::of(&source.bytes),
            agent: Arc::new(agent),
            file: source.file,
            origin: source.origin,
        });
    }
}

/// Whether a file of this name, in its directory, is a definition.
fn is_definition(name: &str) -> bool {
    let plain = !name.starts_with('.') && !name.contains('/');
    let kind = Path::new(name).extension();
    plain && kind.is_some_and(|kind| kind == "yaml" || kind == "yml")
}

fn read_own(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for whoever writes.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| error.to_string())?;
    let file = File::from(file);
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let us = rustix::process::geteuid().as_raw();
    // A group of the owner's own, which many systems make, holds nobody else.
    let shared = found.mode() & 0o020 != 0 && found.gid() != found.uid();
    if shared || found.mode() & 0o002 != 0 || (found.uid() != us && found.uid() != 0) {
        return Err("others can write it".to_owned());
    }
    read_bounded(file, FILE_BYTES).map_err(|error| error.to_string())
}

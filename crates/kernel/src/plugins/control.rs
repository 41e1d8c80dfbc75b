//! The syscalls about plugins: looking at them, bringing them in, switching them, taking them away.
//!
//! Whatever lets code run that did not run before - installing, enabling - a person looks at first,
//! by a built-in rule. Their yes is for the very files and words they were shown: the digests are
//! part of what is asked.

use super::tool::failure;
use super::{PluginWords, Plugins};
use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{
    InvalidArguments, Keep, Prepared, Registry, RunContext, Tool, ToolFailure, ToolOutput,
    ToolSchema, ToolSpec,
};
use airlock_core::{Digest, Request, RequestPath, TagName, Tier};
use airlock_plugin::{
    Approval, Grants, Listed, ManageError, Manager, Manifest, Origin, Review, State,
    check_configuration, shown_configuration,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Which plugins to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Only those that have this tag.
    #[serde(default)]
    tag: Option<String>,
    /// What looks like a plugin and is none, instead.
    #[serde(default)]
    rejected: bool,
    /// Only those whose names come after this one.
    #[serde(default)]
    after: Option<String>,
    /// So many at most.
    #[serde(default)]
    limit: Option<usize>,
}

/// Which plugin it is about.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NameArguments {
    /// The plugin's name.
    name: String,
}

/// Which plugin to enable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EnableArguments {
    /// The plugin's name.
    name: String,
    /// The digest of its tools as `plugin.show` gives it: they are approved in those words.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    tools: Option<Digest>,
}

/// What to install.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InstallArguments {
    /// The plugin's directory.
    path: String,
    /// The digest of its files, as they were looked at. Absent: as they are.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    digest: Option<Digest>,
    /// The weakest tier it is trusted to run in. Absent: `container`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    tier: Option<Tier>,
}

/// What a person is shown of a call besides its own arguments. What cannot be looked at is refused
/// when it is run: whoever may not do it learns nothing from the difference.
type Look = fn(&Plugins, &Value) -> Result<Result<Looked, ManageError>, InvalidArguments>;
type Work = fn(&Plugins, &Value, &Looked) -> Result<Value, ManageError>;

/// One syscall.
struct Control {
    spec: &'static ToolSpec,
    plugins: Arc<Plugins>,
    look: Look,
    work: Work,
}

pub(super) fn register(registry: &mut Registry, plugins: &Arc<Plugins>) {
    let rows: [(&'static ToolSpec, Look, Work); 7] = [
        (&LIST, nothing::<ListArguments>, list),
        (&SHOW, nothing::<NameArguments>, show),
        (&INSTALL, look_at_files, install),
        (&REMOVE, nothing::<NameArguments>, remove),
        (&ENABLE, look_at_words, enable),
        (&DISABLE, nothing::<NameArguments>, disable),
        (&RELOAD, nothing::<NameArguments>, reload),
    ];
    for (spec, look, work) in rows {
        registry.add(Box::new(Control {
            spec,
            plugins: Arc::clone(plugins),
            look,
            work,
        }));
    }
}

const fn spec(
    name: &'static str,
    summary: &'static str,
    schema: ToolSchema,
    examples: &'static [&'static str],
) -> ToolSpec {
    ToolSpec {
        name,
        summary,
        syscall: name,
        tier: Tier::Kernel,
        read_only: false,
        keep: Keep::Head,
        schema,
        examples,
    }
}

const NAMED: &[&str] = &[r#"{"name": "tickets"}"#];
static LIST: ToolSpec = spec(
    "plugin.list",
    "List plugins",
    ToolSchema::of::<ListArguments>(),
    &["{}"],
);
static SHOW: ToolSpec = spec(
    "plugin.show",
    "Show a plugin",
    ToolSchema::of::<NameArguments>(),
    NAMED,
);
static INSTALL: ToolSpec = spec(
    "plugin.install",
    "Install a plugin from a directory",
    ToolSchema::of::<InstallArguments>(),
    &[r#"{"path": "/opt/tickets", "tier": "process"}"#],
);
static REMOVE: ToolSpec = spec(
    "plugin.remove",
    "Remove a plugin",
    ToolSchema::of::<NameArguments>(),
    NAMED,
);
static ENABLE: ToolSpec = spec(
    "plugin.enable",
    "Switch a plugin on, or approve its tools as they are described now",
    ToolSchema::of::<EnableArguments>(),
    NAMED,
);
static DISABLE: ToolSpec = spec(
    "plugin.disable",
    "Switch a plugin off",
    ToolSchema::of::<NameArguments>(),
    NAMED,
);
static RELOAD: ToolSpec = spec(
    "plugin.reload",
    "Start a plugin, or exchange the one that runs",
    ToolSchema::of::<NameArguments>(),
    NAMED,
);

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, InvalidArguments> {
    serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
        at: error.path().to_string().trim_start_matches('.').to_owned(),
        what: error.inner().to_string(),
        fix: None,
    })
}

/// What was looked at for a person before they say yes.
#[derive(Default)]
struct Looked {
    /// What is to be installed.
    review: Option<Review>,
    /// Where the paths of its box are.
    grants: Grants,
    /// The words of its tools that are to be approved.
    words: Option<PluginWords>,
}

impl Looked {
    /// What of it is part of the question, so that a yes is for that and nothing else.
    fn shown(&self) -> Map<String, Value> {
        let mut shown = Map::new();
        if let Some(review) = &self.review {
            let manifest = &review.manifest;
            let files = [
                ("digest", json!(review.directory)),
                ("entry", json!(review.entry)),
                ("name", json!(manifest.name)),
                ("version", json!(manifest.version.to_string())),
                ("capabilities", json!(manifest.capabilities)),
                ("reads", json!(manifest.execution.sandbox.read_allow)),
                ("writes", json!(manifest.execution.sandbox.write_allow)),
                ("replaces", json!(review.replaces)),
            ];
            shown.extend(files.map(|(name, value)| (name.to_owned(), value)));
        }
        let places = self.grants.places().iter();
        let elsewhere = places.filter(|place| place.leads_elsewhere());
        let leads_to = elsewhere.map(|place| {
            let real = place.real().display().to_string();
            (place.asked().to_owned(), json!(real))
        });
        let leads_to: Map<String, Value> = leads_to.collect();
        if !leads_to.is_empty() {
            shown.insert("leads_to".to_owned(), Value::Object(leads_to));
        }
        if let Some(words) = &self.words {
            shown.insert("changes".to_owned(), json!(words.changes()));
        }
        shown
    }
}

/// There is nothing to show.
fn nothing<T: DeserializeOwned>(
    _: &Plugins,
    given: &Value,
) -> Result<Result<Looked, ManageError>, InvalidArguments> {
    let _fits: T = read(given)?;
    Ok(Ok(Looked::default()))
}

/// Looks at what is to be installed.
fn look_at_files(
    plugins: &Plugins,
    given: &Value,
) -> Result<Result<Looked, ManageError>, InvalidArguments> {
    let asked: InstallArguments = read(given)?;
    let path = PathBuf::from(&asked.path);
    if !path.is_absolute() {
        return Err(InvalidArguments {
            at: "path".to_owned(),
            what: "it is not an absolute path".to_owned(),
            fix: Some("write the whole path, from `/` on".to_owned()),
        });
    }
    let manager = plugins.manager();
    let review = match manager.and_then(|manager| manager.review(&path)) {
        Ok(review) => review,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(wanted) = asked.digest
        && review.directory != wanted
    {
        return Err(InvalidArguments {
            at: "digest".to_owned(),
            what: format!("the files have the digest {}", review.directory),
            fix: Some("look at them again".to_owned()),
        });
    }
    Ok(Ok(Looked {
        grants: granted(plugins, &review.manifest),
        review: Some(review),
        words: None,
    }))
}

/// Looks at where the paths of a plugin lead that is to be enabled, and at what it says of its tools,
/// where that is to be approved.
fn look_at_words(
    plugins: &Plugins,
    given: &Value,
) -> Result<Result<Looked, ManageError>, InvalidArguments> {
    let EnableArguments { name, tools } = read(given)?;
    let manager = plugins.manager();
    let listed = match manager.and_then(|manager| manager.get(&name)) {
        Ok(listed) => listed,
        Err(error) => return Ok(Err(error)),
    };
    let words = tools.and_then(|_| plugins.desk().table().words(&plugins.key(&listed)));
    Ok(Ok(Looked {
        review: None,
        grants: granted(plugins, &listed.manifest),
        words,
    }))
}

/// Where the paths of a box are. Of what cannot be looked up nothing is approved.
fn granted(plugins: &Plugins, manifest: &Manifest) -> Grants {
    Grants::find(&manifest.execution.sandbox, plugins.person_home()).unwrap_or_default()
}

/// Arguments that were checked when the call was prepared.
fn checked<T: DeserializeOwned>(value: &Value) -> Result<T, ManageError> {
    read(value).map_err(|error| ManageError::Unknown {
        name: error.to_string(),
        near: None,
    })
}

impl Tool for Control {
    fn spec(&self) -> &'static ToolSpec {
        self.spec
    }

    /// To prepare an installation is to read a directory and to tell its digest: only to whoever may
    /// read it all.
    fn open_to(&self, front: Front) -> bool {
        self.spec.name != INSTALL.name || front == Front::Cli
    }

    fn prepare(&self, given: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        Ok(Box::new(Asked {
            looked: (self.look)(&self.plugins, given)?,
            plugins: Arc::clone(&self.plugins),
            given: given.clone(),
            work: self.work,
        }))
    }
}

/// A syscall that is well formed.
struct Asked {
    plugins: Arc<Plugins>,
    given: Value,
    /// What was looked at, or why it could not be: then nobody was shown anything, and nothing is
    /// done, whatever is there by now.
    looked: Result<Looked, ManageError>,
    work: Work,
}

impl Prepared for Asked {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn describe(&self, request: &mut Request) {
        if let (Ok(looked), Some(arguments)) = (&self.looked, request.arguments.as_object_mut()) {
            arguments.extend(looked.shown());
        }
    }

    fn run(self: Box<Self>, _context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let looked = self.looked.as_ref().map_err(failure)?;
        let value = (self.work)(&self.plugins, &self.given, looked);
        let value = value.map_err(|error| failure(&error))?;
        Ok(ToolOutput { value, hidden: 0 })
    }
}

fn list(plugins: &Plugins, given: &Value, _: &Looked) -> Result<Value, ManageError> {
    let ListArguments {
        tag,
        rejected,
        after,
        limit,
    } = checked(given)?;
    let manager = plugins.manager()?;
    // Whoever turns the page has just looked.
    if after.is_none() {
        manager.refresh()?;
    }
    if rejected {
        let rejected = manager.rejected();
        let rejected = rejected.iter().map(|one| {
            json!({
                "path": one.path.display().to_string(),
                "reason": one.reason.to_string(),
                "fix": one.reason.hint(),
            })
        });
        return Ok(json!({ "rejected": rejected.collect::<Vec<_>>() }));
    }
    let listed = match tag.map(|tag| TagName::new(&tag)) {
        None => manager.list(),
        Some(Ok(tag)) => manager.by_tag(&tag),
        // No plugin has a tag that is none.
        Some(Err(_)) => Vec::new(),
    };
    let line = |listed: &Listed| {
        let mut line = listed.line();
        if let Some(fields) = line.as_object_mut() {
            let warnings = plugins.warnings(listed);
            fields.insert("warnings".to_owned(), json!(warnings));
            fields.insert("unseen".to_owned(), json!(plugins.is_unseen(listed)));
        }
        line
    };
    let after = after.unwrap_or_default();
    let rest = listed
        .iter()
        .skip_while(|one| one.manifest.name.as_str() <= after.as_str());
    let rest: Vec<&Listed> = rest.collect();
    let page = rest.iter().take(limit.unwrap_or(usize::MAX));
    let lines: Vec<Value> = page.map(|listed| line(listed)).collect();
    Ok(json!({
        "plugins": lines,
        "more": rest.len().saturating_sub(lines.len()),
        "rejected": manager.rejected().len(),
    }))
}

fn show(plugins: &Plugins, given: &Value, _: &Looked) -> Result<Value, ManageError> {
    let NameArguments { name } = checked(given)?;
    if let Some(own) = built_in(&name) {
        return Ok(own);
    }
    let manager = plugins.manager()?;
    whole(plugins, &manager, &name)
}

/// All there is to know of a built-in plugin. It is there without being installed, and stays.
fn built_in(name: &str) -> Option<Value> {
    let (area, manifest) = airlock_plugin::built_in()
        .ok()?
        .into_iter()
        .find(|(_, manifest)| manifest.name.as_str() == name)?;
    let tools = manifest.tools.iter();
    let offered: Vec<String> = tools.map(|tool| format!("{area}.{}", tool.name)).collect();
    Some(json!({
        "name": name,
        "version": manifest.version.to_string(),
        "type": manifest.kind.as_str(),
        "origin": "built-in",
        "tags": manifest.tags,
        "manifest": manifest.effective(),
        "tools": manifest.tools,
        "offered": offered,
    }))
}

/// All there is to know of a plugin.
fn whole(plugins: &Plugins, manager: &Manager, name: &str) -> Result<Value, ManageError> {
    let listed = manager.get(name)?;
    let key = plugins.key(&listed);
    let table = plugins.desk().table();
    let mut whole = listed.whole();
    if let Some(fields) = whole.as_object_mut() {
        let offered = table.offered(&key);
        let names = offered.iter().map(|tool| format!("{name}.{}", tool.name));
        let names: Vec<String> = names.collect();
        let said = table.words(&key).map(|words| words.digest);
        let more = [
            ("offered", json!(names)),
            ("withheld", json!(table.withheld(&key))),
            ("tools_digest", json!(said)),
            ("unseen", json!(plugins.is_unseen(&listed))),
            ("warnings", json!(plugins.warnings(&listed))),
            ("settings", settings(plugins, &listed)),
        ];
        fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    Ok(whole)
}

/// What is set of a plugin's settings, without what is secret, and what is wrong with it.
fn settings(plugins: &Plugins, listed: &Listed) -> Value {
    let desk = plugins.desk();
    match desk.settings_of(&listed.manifest.name, listed.origin) {
        Ok(given) => {
            let problems = check_configuration(&listed.manifest, &given);
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            json!({
                "values": shown_configuration(&listed.manifest, &given),
                "problems": problems,
            })
        }
        Err(why) => json!({ "values": {}, "problems": [why] }),
    }
}

fn install(plugins: &Plugins, given: &Value, looked: &Looked) -> Result<Value, ManageError> {
    let InstallArguments { path, tier, .. } = checked(given)?;
    let path = PathBuf::from(path);
    let manager = plugins.manager()?;
    let Some(review) = &looked.review else {
        // A call that was not prepared here: nobody can have seen what is there.
        let found = manager.review(&path)?.directory;
        return Err(ManageError::NotReviewed { path, found });
    };
    let mut approval = Approval::of_unknown_origin(review.directory);
    if let Some(tier) = tier {
        approval = approval.trusting(tier);
    }
    let name = manager.install(&path, &approval)?;
    let desk = plugins.desk();
    desk.table()
        .approve_places(&desk.key(&name, Origin::User), &looked.grants.real_places())
        .map_err(|source| records(plugins, source))?;
    started(plugins, &manager, name.as_str())
}

/// Starts it, or exchanges what runs, and tells how it stands. That it does not start is part of
/// that: what was asked for happened.
fn started(plugins: &Plugins, manager: &Manager, name: &str) -> Result<Value, ManageError> {
    let problem = manager.reload(name).err().map(|error| error.to_string());
    let mut whole = whole(plugins, manager, name)?;
    if let (Some(problem), Some(fields)) = (problem, whole.as_object_mut()) {
        fields.insert("problem".to_owned(), json!(problem));
    }
    Ok(whole)
}

fn remove(plugins: &Plugins, given: &Value, _: &Looked) -> Result<Value, ManageError> {
    let NameArguments { name } = checked(given)?;
    let manager = plugins.manager()?;
    manager.remove(&name)?;
    Ok(json!({ "removed": name }))
}

fn records(plugins: &Plugins, source: std::io::Error) -> ManageError {
    ManageError::Records {
        path: plugins.home.clone(),
        source,
    }
}

fn enable(plugins: &Plugins, given: &Value, looked: &Looked) -> Result<Value, ManageError> {
    let EnableArguments { name, tools } = checked(given)?;
    let manager = plugins.manager()?;
    let listed = manager.get(&name)?;
    let (table, key) = (plugins.desk().table(), plugins.key(&listed));
    if let Some(wanted) = tools {
        match &looked.words {
            Some(words) if words.digest == wanted => table
                .approve(&key, &words.now)
                .map_err(|source| records(plugins, source))?,
            // Other words than those that were shown are not approved.
            Some(words) => {
                return Err(ManageError::NotReviewed {
                    path: listed.path,
                    found: words.digest,
                });
            }
            None => return Err(ManageError::NotRunning(listed.manifest.name.clone())),
        }
    }
    let is_news = table
        .approve_places(&key, &looked.grants.real_places())
        .map_err(|source| records(plugins, source))?;
    manager.enable(&name)?;
    // The box of what runs shows the places that were approved before.
    if listed.state != State::Running || is_news {
        return started(plugins, &manager, &name);
    }
    whole(plugins, &manager, &name)
}

fn disable(plugins: &Plugins, given: &Value, _: &Looked) -> Result<Value, ManageError> {
    let NameArguments { name } = checked(given)?;
    let manager = plugins.manager()?;
    manager.disable(&name)?;
    match manager.get(&name) {
        Ok(listed) => Ok(listed.line()),
        // Off is what was asked for; what is wrong with it is told by whoever wants it on.
        Err(ManageError::Broken { name, .. }) => Ok(json!({ "name": name, "disabled": true })),
        Err(error) => Err(error),
    }
}

fn reload(plugins: &Plugins, given: &Value, _: &Looked) -> Result<Value, ManageError> {
    let NameArguments { name } = checked(given)?;
    let manager = plugins.manager()?;
    manager.reload(&name)?;
    whole(plugins, &manager, &name)
}

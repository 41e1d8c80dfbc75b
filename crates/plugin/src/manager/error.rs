//! Why something about a plugin could not be done.

use super::discover::{Reason, Rejected};
use super::files::FilesError;
use crate::host::{CallError, StartError};
use airlock_core::{Digest, PluginName, Tier};
use airlock_yaml::Mismatch;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a plugin does not run. Nothing of it does.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// It has no code.
    #[error("it is a skill: there is nothing to run")]
    Skill,
    /// What is there is no plugin any more.
    #[error("what is in `{}` is no plugin any more: {why}", .path.display())]
    Rejected {
        /// Where it is.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Nobody approved it.
    #[error("nobody approved it")]
    NotApproved,
    /// Its files are not those that were approved.
    #[error("its files changed since they were approved")]
    Changed,
    /// It wants a weaker tier than it was approved for.
    #[error("it runs as `{wants}`, but is approved for `{approved}` only")]
    Tier {
        /// What its manifest says.
        wants: Tier,
        /// The weakest that was approved.
        approved: Tier,
    },
    /// What it needs does not run.
    #[error("it needs `{needs}`, which does not run: {why}")]
    Dependency {
        /// What it needs.
        needs: PluginName,
        /// Why that does not run.
        why: String,
    },
    /// Another that runs needs another version of it.
    #[error("`{by}`, which runs, needs `{wanted}` of it, and this is {version}")]
    Dependent {
        /// Who needs it.
        by: PluginName,
        /// The versions that would do.
        wanted: String,
        /// The version there is.
        version: String,
    },
    /// Its files cannot be used.
    #[error(transparent)]
    Files(FilesError),
    /// What should run is not there.
    #[error("its entry `{0}` is not one of its files")]
    NoEntry(String),
    /// Its configuration is not what its schema wants.
    #[error("its configuration does not fit: {}", mismatches(.0))]
    Configuration(Vec<Mismatch>),
    /// Its configuration cannot be read.
    #[error("its settings cannot be read: {0}")]
    Settings(String),
    /// The kernel did not take it.
    #[error("it cannot be registered: {0}")]
    Register(String),
    /// Its data directory cannot be made.
    #[error("its data directory cannot be made")]
    Data(#[source] io::Error),
    /// There is no host for it.
    #[error("there is no host for `{protocol}` plugins here{}", because(.why.as_deref()))]
    NoHost {
        /// What it speaks.
        protocol: &'static str,
        /// Why there is none, where that is known.
        why: Option<String>,
    },
    /// Its host could not start it.
    #[error(transparent)]
    Start(StartError),
    /// It started, and was not well.
    #[error("it is not well: {0}")]
    Unhealthy(#[source] CallError),
    /// Everything is being ended.
    #[error("everything is being ended")]
    Ending,
    /// It was switched off, removed, or is not trusted any more, since it was to be started.
    #[error("nobody wants it any more")]
    Unwanted,
    /// Its tools are not what they should be.
    #[error("its tools are not what they should be: {0}")]
    Tools(String),
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}

fn mismatches(found: &[Mismatch]) -> String {
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl LaunchError {
    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Skill => "plugin_skill",
            Self::Rejected { .. } => "plugin_rejected",
            Self::NotApproved => "plugin_not_approved",
            Self::Changed => "plugin_changed",
            Self::Tier { .. } => "plugin_tier",
            Self::Dependency { .. } | Self::Dependent { .. } => "plugin_dependency",
            Self::Files(_) => "plugin_files",
            Self::NoEntry(_) => "plugin_entry",
            Self::Configuration(_) | Self::Settings(_) => "plugin_configuration",
            Self::Register(_) => "plugin_register",
            Self::Data(_) => "plugin_data",
            Self::NoHost { .. } => "plugin_host",
            Self::Start(error) => error.code(),
            Self::Unhealthy(_) => "plugin_unhealthy",
            Self::Ending | Self::Unwanted => "plugin_not_running",
            Self::Tools(_) => "plugin_tools",
        }
    }

    /// How to mend it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotApproved | Self::Changed => {
                "look at what changed, and install it again: `airlock plugin install PATH`"
            }
            Self::Tier { .. } => "approve it for that tier when it is installed",
            Self::Files(error) => error.hint(),
            Self::NoEntry(_) => "correct `execution.entry`, or put the file there",
            Self::Configuration(_) => {
                "`airlock plugin show NAME` says what there is to set; `airlock config set \
                 plugins.NAME.SETTING VALUE` sets it"
            }
            Self::Settings(_) => "mend the file, or remove it and set its values again",
            Self::Tools(_) => "describe the same tools in `plugin.yaml` and in the code",
            Self::Dependent { .. } => {
                "stop what needs it, or install a version of that which takes this one"
            }
            Self::Skill
            | Self::Rejected { .. }
            | Self::Dependency { .. }
            | Self::Register(_)
            | Self::Data(_)
            | Self::NoHost { .. }
            | Self::Unhealthy(_)
            | Self::Ending
            | Self::Unwanted => return None,
            Self::Start(error) => return error.hint(),
        })
    }
}

/// Why something about a plugin could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// There is no such plugin.
    #[error("there is no plugin `{name}`")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest that there is.
        near: Option<PluginName>,
    },
    /// What has that name is no plugin.
    #[error("the plugin `{name}` cannot be used: {}", .rejected.reason)]
    Broken {
        /// The name.
        name: String,
        /// Why, and where it is.
        rejected: Arc<Rejected>,
    },
    /// It is switched off.
    #[error("the plugin `{0}` is disabled")]
    Disabled(PluginName),
    /// Others need it.
    #[error("the plugin `{plugin}` is needed by `{by}`")]
    Needed {
        /// Which.
        plugin: PluginName,
        /// By whom.
        by: PluginName,
    },
    /// It does not run.
    #[error("the plugin `{0}` does not run")]
    NotRunning(PluginName),
    /// It ended by itself and is started again soon.
    #[error("the plugin `{plugin}` ended by itself ({why}) and is started again in {} ms", .after.as_millis())]
    Restarting {
        /// Which.
        plugin: PluginName,
        /// What happened.
        why: String,
        /// In how much time.
        after: Duration,
    },
    /// It failed and stays down.
    #[error("the plugin `{plugin}` failed: {why}")]
    Failed {
        /// Which.
        plugin: PluginName,
        /// What happened.
        why: String,
    },
    /// It could not be started.
    #[error("the plugin `{plugin}` does not start: {error}")]
    Launch {
        /// Which.
        plugin: PluginName,
        /// Why.
        #[source]
        error: LaunchError,
    },
    /// A call gave no result.
    #[error(transparent)]
    Call(CallError),
    /// What runs now describes the tool in other words than those the call was made by.
    #[error("`{plugin}.{tool}` is not described as it was when it was called")]
    OtherWords {
        /// Which.
        plugin: PluginName,
        /// Its tool.
        tool: String,
    },
    /// The records of approvals cannot be used.
    #[error("cannot use `{}`", .path.display())]
    Records {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is to be installed is no plugin.
    #[error("`{}` cannot be installed: {reason}", .path.display())]
    NoPlugin {
        /// Where it is.
        path: PathBuf,
        /// Why.
        reason: Reason,
    },
    /// Its files cannot be taken.
    #[error("`{}` cannot be installed: {error}", .path.display())]
    Files {
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        error: FilesError,
    },
    /// What should run is not among its files.
    #[error("`{}` cannot be installed: its entry `{entry}` is not one of its files", .path.display())]
    NoEntry {
        /// Where it is.
        path: PathBuf,
        /// What should run.
        entry: String,
    },
    /// It is not what was looked at.
    #[error("`{}` is not what was reviewed: its files changed meanwhile", .path.display())]
    NotReviewed {
        /// Where it is.
        path: PathBuf,
        /// The digest it has.
        found: Digest,
    },
    /// Nobody knows where it comes from, and it wants to run nearer than in a container.
    #[error("`{plugin}` is of unknown origin and wants to run as `{wants}`: it needs trust")]
    NeedsTrust {
        /// Which.
        plugin: PluginName,
        /// Where it wants to run.
        wants: Tier,
    },
    /// It was not installed, so it cannot be removed.
    #[error("the plugin `{0}` belongs to the workspace")]
    OfWorkspace(PluginName),
}

impl ManageError {
    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "plugin_unknown",
            Self::Disabled(_) => "plugin_disabled",
            Self::Needed { .. } => "plugin_needed",
            Self::NotRunning(_) => "plugin_not_running",
            Self::Restarting { .. } => "plugin_restarting",
            Self::Failed { .. } => "plugin_failed",
            Self::Launch { error, .. } => error.code(),
            Self::Call(error) => error.code(),
            Self::OtherWords { .. } => "tool_unavailable",
            Self::Records { .. } => "plugin_records",
            Self::Broken { .. } | Self::NoPlugin { .. } => "plugin_rejected",
            Self::Files { .. } => "plugin_files",
            Self::NoEntry { .. } => "plugin_entry",
            Self::NotReviewed { .. } => "plugin_changed",
            Self::NeedsTrust { .. } => "plugin_needs_trust",
            Self::OfWorkspace(_) => "plugin_of_workspace",
        }
    }

    /// How to mend it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unknown { near, .. } => match near {
                Some(near) => return Some(format!("did you mean `{near}`?")),
                None => "`airlock plugin list` shows what there is",
            },
            Self::Broken { name, rejected } => {
                let mend = rejected.reason.hint();
                return Some(format!("{mend}; or `airlock plugin remove {name}`"));
            }
            Self::Disabled(name) => return Some(format!("`airlock plugin enable {name}`")),
            Self::Needed { by, .. } => return Some(format!("disable or remove `{by}` first")),
            Self::NotRunning(name) | Self::Failed { plugin: name, .. } => {
                return Some(format!("`airlock plugin reload {name}` starts it"));
            }
            Self::Restarting { .. } => "try again a moment later",
            Self::Launch { error, .. } => return error.hint().map(str::to_owned),
            Self::Records { .. } => {
                "make the state directory readable and writable; a damaged record can be deleted, \
                 and what it approved be approved anew"
            }
            Self::NoPlugin { reason, .. } => return Some(reason.hint()),
            Self::Files { error, .. } => error.hint(),
            Self::NoEntry { .. } => "build the plugin first, or correct `execution.entry`",
            Self::NotReviewed { .. } => "install it again, and look at it anew",
            Self::NeedsTrust { .. } => {
                "look at it, and if you trust it: `airlock plugin install PATH --trust process`"
            }
            Self::OfWorkspace(name) => return Some(format!("`airlock plugin disable {name}`")),
            Self::OtherWords { plugin, .. } => {
                return Some(format!(
                    "look at it with `airlock plugin show {plugin}`, and approve it by `airlock \
                     plugin enable {plugin}`"
                ));
            }
            Self::Call(_) => return None,
        };
        Some(text.to_owned())
    }
}

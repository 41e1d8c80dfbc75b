//! Why a plugin's tool cannot be called though the plugin is there.
//!
//! Told to whoever calls it, so that nobody looks for a slip in the name. Nothing is decided by it.

use super::Plugins;
use super::tool::failure;
use crate::tools::Absent;
use airlock_plugin::{Kind, Listed, ManageError, Origin, PinChange};

/// Why `tool` of `plugin` is not offered; none if there is no such plugin, or no such tool of it.
pub(super) fn why(plugins: &Plugins, plugin: &str, tool: &str) -> Option<Absent> {
    let listed = match plugins.manager().and_then(|manager| manager.get(plugin)) {
        Ok(listed) => listed,
        Err(ManageError::Unknown { .. }) => return None,
        Err(error) => {
            let failure = failure(&error);
            let fix = failure.hint();
            return Some(Absent {
                why: failure.to_string(),
                fix: fix.unwrap_or_else(|| format!("`airlock plugin show {plugin}` says more")),
            });
        }
    };
    let mut absent = of_listed(plugins, &listed, tool)?;
    // Why it failed is in the plugin's own words.
    absent.why = plugins.desk.held().cleaned(&absent.why);
    Some(absent)
}

fn of_listed(plugins: &Plugins, listed: &Listed, tool: &str) -> Option<Absent> {
    let name = &listed.manifest.name;
    let absent = |why: String, fix: String| Some(Absent { why, fix });
    if listed.manifest.kind != Kind::Tool {
        let kind = listed.manifest.kind.as_str();
        let why = format!("the plugin `{name}` is a {kind}, and has no tools");
        return absent(why, "`airlock plugin list` shows what there is".to_owned());
    }
    if !plugins.is_answered_for(listed) {
        let fix = match listed.origin {
            Origin::User => "look at it, and install it again: `airlock plugin install PATH`",
            Origin::Workspace => "look at it, and approve the workspace: `airlock trust`",
        };
        let why = format!("nobody approved the plugin `{name}` as it is");
        return absent(why, fix.to_owned());
    }
    if listed.disabled {
        let why = format!("the plugin `{name}` is disabled");
        return absent(why, format!("switch it on: `airlock plugin enable {name}`"));
    }
    let table = plugins.desk.table();
    let key = plugins.key(listed);
    match table.withheld(&key).get(tool) {
        Some(PinChange::New | PinChange::Changed) => {
            let why = "it is not what was approved, and is withheld until it is reviewed";
            let fix = format!("`airlock plugin show {name}` shows it, and how to approve it");
            return absent(why.to_owned(), fix);
        }
        Some(PinChange::Missing) => {
            let why = format!("the plugin `{name}` does not have it any more");
            return absent(why, format!("`airlock plugin show {name}` shows its tools"));
        }
        Some(PinChange::Same) | None => {}
    }
    let again = format!("mend that, then `airlock plugin reload {name}`");
    if let Some(problem) = &listed.problem {
        return absent(format!("the plugin `{name}` failed: {problem}"), again);
    }
    if table.words(&key).is_none() {
        let why = format!("the plugin `{name}` has not run yet, so its tools are not known");
        return absent(why, format!("start it: `airlock plugin reload {name}`"));
    }
    None
}

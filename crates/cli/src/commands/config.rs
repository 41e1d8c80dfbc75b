//! `airlock config`: every setting, its value, and where it came from.

use super::open;
use crate::args::{ConfigCommand, Global};
use crate::config::{SETTINGS, set};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, shown, styled};
use crate::place::Place;
use crate::plugin_settings;
use serde_json::json;
use std::io::{self, Read as _};

/// The longest value that is read from standard input.
const VALUE_BYTES: u64 = 64 << 10;

pub(super) fn run(global: &Global, command: ConfigCommand, output: &mut Output) -> Ending {
    let place = Place::find(global.workspace.as_deref())?;
    match command {
        ConfigCommand::Show => show(global, &place, output),
        ConfigCommand::Set { key, value } if plugin_settings::key(&key).is_some() => {
            let value = if value == "-" { piped()? } else { value };
            plugin_setting(&place, &key, Some(&value), output)
        }
        ConfigCommand::Unset { key } => plugin_setting(&place, &key, None, output),
        ConfigCommand::Set { key, value } => {
            let path = place.user_config();
            set(&path, &key, &value)?;
            if output.is_json() {
                output.json(&json!({ "key": key, "value": value, "file": shown(&path) }));
            } else {
                output.note(format!("{key} set to {value} in {}", shown(&path)));
            }
            Ok(0)
        }
        ConfigCommand::Path => {
            let user = shown(&place.user_config());
            let workspace = shown(&place.workspace.join(airlock_kernel::CONFIG_FILE));
            if output.is_json() {
                output.json(&json!({ "user": user, "workspace": workspace }));
            } else {
                output.line(user);
                output.line(workspace);
            }
            Ok(0)
        }
    }
}

/// A value from standard input, which no other person on the machine and no history sees.
fn piped() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin()
        .lock()
        .take(VALUE_BYTES)
        .read_to_string(&mut text);
    read.map_err(|error| {
        Failure::new(Kind::Usage, "cannot read the value from standard input").why(error)
    })?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Sets what a plugin is given, or takes it back. What was set is not repeated: it may be a secret.
fn plugin_setting(place: &Place, key: &str, value: Option<&str>, output: &mut Output) -> Ending {
    let parsed = plugin_settings::key(key).unwrap_or_else(|| {
        let key = airlock_kernel::sanitise_line(key, 80);
        let what = format!("`{key}` is no setting of a plugin");
        Err(Failure::new(Kind::Usage, what)
            .fix("edit your configuration; `airlock config path` says where it is"))
    })?;
    let (_, workspace) = open::state(place)?;
    let left = plugin_settings::change(place, &workspace, &parsed, value)?;
    let done = if value.is_some() { "set" } else { "unset" };
    let key = airlock_kernel::sanitise_line(key, 80);
    if output.is_json() {
        output.json(&json!({ "key": key, "set": value.is_some(), "problems": left }));
    } else {
        output.note(format!("{key} is {done}"));
        for problem in left {
            output.warning(&problem);
        }
        output.note(format!(
            "it counts when the plugin starts: airlock plugin reload {}",
            parsed.plugin
        ));
    }
    Ok(0)
}

fn show(global: &Global, place: &Place, output: &mut Output) -> Ending {
    let config = open::configuration(global, place)?;
    for (key, value, origin) in config.iter() {
        if output.is_json() {
            output.json(&json!({ "key": key, "value": value, "origin": origin.to_string() }));
        } else {
            let about = SETTINGS.iter().find(|setting| setting.key == key);
            let about = about.map_or("", |setting| setting.about);
            let from = styled(Tone::Faint, &format!("({origin}; {about})"));
            output.line(format!("{key} = {value}  {from}"));
        }
    }
    let (_, workspace) = open::state(place)?;
    for key in plugin_settings::names(&place.config_home, &workspace) {
        let key = airlock_kernel::sanitise_line(&key, 120);
        if output.is_json() {
            output.json(&json!({ "key": key, "set": true, "origin": "plugins" }));
        } else {
            output.line(format!("{key} is set"));
        }
    }
    Ok(0)
}

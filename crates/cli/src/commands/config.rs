//! `airlock config`: every setting, its value, and where it came from.

use super::open;
use crate::args::{ConfigCommand, Global};
use crate::config::{SETTINGS, set};
use crate::failure::Ending;
use crate::output::{Output, Tone, shown, styled};
use crate::place::Place;
use serde_json::json;

pub(super) fn run(global: &Global, command: ConfigCommand, output: &mut Output) -> Ending {
    let place = Place::find(global.workspace.as_deref())?;
    match command {
        ConfigCommand::Show => show(global, &place, output),
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
    Ok(0)
}

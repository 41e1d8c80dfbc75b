//! `airlock config`: every setting, its value, and where it came from.

use super::open;
use crate::args::{ConfigCommand, Global};
use crate::config::{SETTINGS, set};
use crate::failure::Ending;
use crate::output::{Output, Tone, styled};
use crate::place::Place;
use serde_json::json;

pub(super) fn run(global: &Global, command: ConfigCommand, output: &mut Output) -> Ending {
    let place = Place::find(global.workspace.as_deref())?;
    match command {
        ConfigCommand::Show => show(global, &place, output),
        ConfigCommand::Set { key, value } => {
            let path = place.user_config();
            crate::config::setting(&key, "the command line")?;
            set(&path, &key, &value)?;
            output.note(format!("{key} set to {value} in {}", path.display()));
            Ok(0)
        }
        ConfigCommand::Path => {
            output.line(place.user_config().display().to_string());
            let workspace = place.workspace.join(airlock_kernel::CONFIG_FILE);
            output.line(workspace.display().to_string());
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

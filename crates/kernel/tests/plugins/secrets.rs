//! Secrets that are set for a plugin are taken out of results and records, whether it runs or not.

use crate::server::{SCRIPT, manifest, write};
use crate::support::{Place, READS, done, failed, log_text, submit};
use airlock_core::{PluginName, WorkspaceId};
use airlock_kernel::{Front, Hosting, Kernel, PluginSettings, SettingsFile};
use airlock_plugin::{Hosts, Origin};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const SCHEMA: &str = "config_schema:\n  type: object\n  properties:\n    api_key: { type: string, secret: true }\n    url: { type: string }\n";
const SECRET: &str = "zebra-Quartz-41907";
const URL: &str = "https://tickets.example.org";

/// Settings in a directory, a file of JSON for each plugin.
struct Files(PathBuf);

impl PluginSettings for Files {
    fn read(&self, plugin: &PluginName, _: Option<&WorkspaceId>) -> Result<Value, String> {
        let text = fs::read(self.0.join(format!("{plugin}.json")));
        let Ok(text) = text else {
            return Ok(json!({}));
        };
        serde_json::from_slice(&text).map_err(|_| "it is no JSON".to_owned())
    }

    fn files(&self, _: &WorkspaceId) -> Result<Vec<SettingsFile>, String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let file = |path: PathBuf| SettingsFile {
            plugin: PluginName::new(path.file_stem().unwrap().to_str().unwrap()).unwrap(),
            origin: Origin::User,
            path,
        };
        Ok(entries.map(|entry| file(entry.path())).collect())
    }

    fn forget(&self, _: &PluginName) -> Result<(), String> {
        Ok(())
    }
}

/// A workspace with a file that holds `text`, and a plugin that is installed and never started.
fn place(text: &str) -> Place {
    let place = Place::governed(READS, &[("a.txt", text)]);
    let installed = place.beside("state/airlock/plugins/installed/tickets");
    write(&installed, &manifest(SCHEMA), SCRIPT);
    place
}

fn open(place: &Place) -> Kernel {
    let settings = Files(place.beside("settings"));
    let hosting = Hosting::new(|_| Hosts::default()).with_settings(settings);
    place.open().hosting(hosting)
}

fn set(place: &Place, plugin: &str, text: &str) {
    let directory = place.beside("settings");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(format!("{plugin}.json")), text).unwrap();
}

fn read(kernel: &Kernel) -> String {
    let result = done(submit(
        kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": "a.txt" }),
    ));
    result.value["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_secret_is_held_before_its_plugin_ever_starts() {
    let place = place(&format!("{SECRET} {URL}\n"));
    let given = json!({ "api_key": SECRET, "url": URL });
    set(&place, "tickets", &given.to_string());
    let kernel = open(&place);
    assert_eq!(read(&kernel), format!("[secret:api_key#1] {URL}\n"));
    failed(submit(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": format!("absent/{SECRET}") }),
    ));
    failed(submit(&kernel, Front::Agent, SECRET, json!({})));
    let log = log_text(&kernel);
    assert!(!log.contains(SECRET), "{log}");
    assert!(log.contains("[secret:api_key#1]"), "{log}");
}

#[test]
fn a_running_kernel_holds_what_is_set_from_its_next_call_on() {
    let (first, second) = (SECRET, "walrus-Opal-77213");
    let place = place(&format!("{first} {second}\n"));
    let kernel = open(&place);
    assert_eq!(read(&kernel), format!("{first} {second}\n"));
    set(&place, "tickets", &json!({ "api_key": first }).to_string());
    assert_eq!(read(&kernel), format!("[secret:api_key#1] {second}\n"));
    // What was set before is still somebody's secret.
    set(&place, "tickets", &json!({ "api_key": second }).to_string());
    assert_eq!(read(&kernel), "[secret:api_key#1] [secret:api_key#2]\n");
}

#[test]
fn what_is_set_before_its_plugin_is_there_is_held_once_it_is() {
    let place = Place::governed(READS, &[("a.txt", SECRET)]);
    set(&place, "tickets", &json!({ "api_key": SECRET }).to_string());
    let kernel = open(&place);
    assert_eq!(read(&kernel), SECRET, "nobody says that it is a secret");
    let installed = place.beside("state/airlock/plugins/installed/tickets");
    write(&installed, &manifest(SCHEMA), SCRIPT);
    assert_eq!(read(&kernel), "[secret:api_key#1]");
}

#[test]
fn where_settings_cannot_be_read_nothing_is_done_kept_or_shown() {
    let place = place(SECRET);
    // Of a plugin that is not there nobody has secrets.
    set(&place, "other", "{");
    let kernel = open(&place);
    assert_eq!(read(&kernel), SECRET);
    let kept = || log_text(&kernel).matches(SECRET).count();
    let while_it_was_no_secret = kept();
    set(&place, "tickets", "{");
    for (name, arguments) in [
        ("fs.read", json!({ "path": "a.txt" })),
        ("fs.read", json!({ "path": SECRET })),
        (SECRET, json!({})),
    ] {
        let refused = failed(submit(&kernel, Front::Agent, name, arguments));
        assert_eq!(refused.code, "settings_unreadable", "{refused:?}");
        assert!(!refused.what.contains(SECRET), "{refused:?}");
        assert!(refused.fix.is_some(), "{refused:?}");
    }
    // Whoever cannot mend it can still end the kernel.
    done(submit(&kernel, Front::Cli, "kernel.stop", json!({})));
    set(&place, "tickets", &json!({ "api_key": SECRET }).to_string());
    assert_eq!(read(&kernel), "[secret:api_key#1]");
    assert_eq!(kept(), while_it_was_no_secret);
}

#[test]
fn of_a_plugin_whose_manifest_is_broken_every_setting_is_a_secret() {
    let place = place(&format!("{SECRET} {URL}\n"));
    let given = json!({ "api_key": SECRET, "url": URL });
    set(&place, "tickets", &given.to_string());
    let manifest = place.beside("state/airlock/plugins/installed/tickets/plugin.yaml");
    fs::write(manifest, "name: [").unwrap();
    let kernel = open(&place);
    assert_eq!(read(&kernel), "[secret:api_key#1] [secret:url#1]\n");
}

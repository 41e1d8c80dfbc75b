//! The paths of a plugin's box are those that were approved, wherever links lead meanwhile.

use crate::server::{SCRIPT, TOOLS, asked, install, manifest, open, place, write};
use crate::support::{Place, answer, approved, done, failed, records, review, submit, trust};
use airlock_audit::EventType;
use airlock_kernel::{Front, Kernel, Outcome};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A manifest with these lists of paths.
fn asking(lists: &str) -> String {
    manifest(&format!("  sandbox:\n    filesystem: {{ {lists} }}\n"))
}

fn reload(kernel: &Kernel) -> Outcome {
    submit(
        kernel,
        Front::Cli,
        "plugin.reload",
        json!({ "name": "tickets" }),
    )
}

/// What the log has of paths: each capability, and what came of it.
fn checks(kernel: &Kernel) -> Vec<(String, String)> {
    let entries = records(kernel).into_iter();
    let checks = entries.filter(|entry| entry.event == EventType::CapabilityCheck);
    let checks = checks.map(|entry| {
        let of = |name: &str| entry.metadata.get(name).cloned().unwrap_or_default();
        (of("capability"), of("result"))
    });
    let is_path = |(capability, _): &(String, String)| capability.starts_with("filesystem.");
    checks.filter(is_path).collect()
}

fn read_of(path: &Path, result: &str) -> (String, String) {
    let capability = format!("filesystem.read.{}", path.display());
    (capability, result.to_owned())
}

/// Puts a link to `to` in the place of the empty directory `way`.
fn relink(way: &Path, to: &Path) {
    fs::remove_dir(way).unwrap();
    symlink(to, way).unwrap();
}

#[test]
fn a_plugin_that_puts_a_link_where_a_path_of_its_own_is_opens_nothing() {
    let (place, directory) = place();
    fs::create_dir(place.beside("home")).unwrap();
    let home = place.beside("home").canonicalize().unwrap();
    for name in ["notes/conf/rules", "notes/out/latest", "notes/old", "vault"] {
        fs::create_dir_all(home.join(name)).unwrap();
    }
    let lists = "write_allow: [\"~/notes/*\", \"~/notes/out/latest/*\"], \
                 read_allow: [\"~/notes/conf/rules/*\"]";
    write(&directory, &asking(lists), SCRIPT);
    let kernel = open(&place);
    let told = install(&kernel, &directory).value;
    assert_eq!(told["state"], "running", "{told}");
    let vault = home.join("vault");
    for way in ["conf/rules", "out/latest"] {
        // It could do so itself: it may write there.
        let way = home.join("notes").join(way);
        relink(&way, &vault);
        let refused = failed(reload(&kernel));
        assert_eq!(refused.code, "plugin_not_granted", "{}", refused.what);
        let want = format!(
            "is not granted: plugin: it leads to `{}`, which nobody approved",
            vault.display()
        );
        assert!(refused.what.contains(&want), "{}", refused.what);
        let fix = refused.fix.unwrap();
        assert!(fix.contains("airlock plugin enable"), "{fix}");
        let last = checks(&kernel).pop().unwrap();
        assert_eq!(last, read_of(&vault, "denied: plugin"));
        // What looks at it says so, too.
        let name = json!({ "name": "tickets" });
        let shown = done(submit(&kernel, Front::Cli, "plugin.show", name)).value;
        assert!(shown["warnings"].to_string().contains("nobody approved"));
        fs::remove_file(&way).unwrap();
        // To what it has anyway a link may lead.
        symlink(home.join("notes/old"), &way).unwrap();
        done(reload(&kernel));
        fs::remove_file(&way).unwrap();
        fs::create_dir(&way).unwrap();
        done(reload(&kernel));
    }
}

#[test]
fn where_a_path_leads_is_part_of_the_question_and_the_yes_is_for_that_place() {
    let (place, directory) = place();
    let outside = place.beside("outside");
    for name in ["real", "other"] {
        fs::create_dir_all(outside.join(name)).unwrap();
    }
    let outside = outside.canonicalize().unwrap();
    let (way, real, other) = (
        outside.join("way"),
        outside.join("real"),
        outside.join("other"),
    );
    symlink(&real, &way).unwrap();
    let text = way.display().to_string();
    write(
        &directory,
        &asking(&format!("read_allow: [\"{text}\"]")),
        SCRIPT,
    );
    {
        let kernel = open(&place);
        let asks = || submit(&kernel, Front::Cli, "plugin.install", asked(&directory));
        let mut question = review(asks());
        let leads_to = |to: &Path| json!({ &text: to.display().to_string() });
        assert_eq!(question.request.arguments["leads_to"], leads_to(&real));
        answer(&kernel, &mut question, true).unwrap();
        // Led elsewhere meanwhile, it is another question.
        fs::remove_file(&way).unwrap();
        symlink(&other, &way).unwrap();
        let again = review(asks());
        assert_eq!(again.request.arguments["leads_to"], leads_to(&other));
        fs::remove_file(&way).unwrap();
        symlink(&real, &way).unwrap();
        let told = done(asks()).value;
        assert_eq!(told["state"], "running", "{told}");
        assert_eq!(checks(&kernel), [read_of(&real, "allowed")]);
    }
    // Another kernel knows what was said, and holds to it.
    let kernel = open(&place);
    done(reload(&kernel));
    fs::remove_file(&way).unwrap();
    symlink(&other, &way).unwrap();
    let refused = failed(reload(&kernel));
    assert_eq!(refused.code, "plugin_not_granted", "{}", refused.what);
    // Somebody looks, and says yes to that: what runs is exchanged for one that has it.
    let name = json!({ "name": "tickets" });
    done(approved(&kernel, "plugin.enable", name));
    let last = checks(&kernel).pop().unwrap();
    assert_eq!(last, read_of(&other, "allowed"));
}

#[test]
fn a_linked_home_is_one_place_by_either_name() {
    let few = "\"tool.*\", \"plugin.*\", \"trust.*\", \"approvals.*\"";
    for (case, allow, lists, want) in [
        ("its name", "\"*\"", "read_allow: [\"~/notes/*\"]", ""),
        (
            "where it is",
            "\"*\"",
            "read_allow: [\"{real}/notes/*\"]",
            "",
        ),
        (
            "allowed by its name",
            "{few}, \"filesystem.read.{home}/notes/**\"",
            "read_allow: [\"{real}/notes\"]",
            "",
        ),
        (
            "allowed where it is",
            "{few}, \"filesystem.read.{real}/notes/**\"",
            "read_allow: [\"~/notes\"]",
            "",
        ),
        (
            "not allowed",
            "{few}, \"filesystem.read.{home}/other/**\"",
            "read_allow: [\"~/notes\"]",
            "not granted: workspace",
        ),
        (
            "given up, where it is",
            "\"*\"",
            "read_allow: [\"{real}/.ssh/*\"]",
            "not granted: plugin deny",
        ),
        (
            "given up, by its name",
            "\"*\"",
            "read_allow: [\"{home}/.ssh/*\"]",
            "not granted: plugin deny",
        ),
        (
            "above what is given up",
            "\"*\"",
            "read_allow: [\"{real}\"]",
            "not granted: plugin deny",
        ),
    ] {
        let place = Place::new(&[]);
        for name in ["disk/me/notes", "disk/me/.ssh"] {
            fs::create_dir_all(place.beside(name)).unwrap();
        }
        let real = place.beside("disk/me").canonicalize().unwrap();
        symlink(&real, place.beside("home")).unwrap();
        let home = place.beside("home");
        let filled = |text: &str| {
            let text = text.replace("{few}", few);
            let text = text.replace("{home}", &home.display().to_string());
            text.replace("{real}", &real.display().to_string())
        };
        let policy = format!("{TOOLS}workspace:\n  allow: [{}]\n", filled(allow));
        place.write(".airlock/policy.yaml", policy);
        trust(&place.open());
        let given_up = "deny_capabilities: [\"filesystem.read.~/.ssh/**\"]\n";
        let directory = place.beside("source");
        let text = format!("{}{given_up}", asking(&filled(lists)));
        write(&directory, &text, SCRIPT);
        let told = install(&open(&place), &directory).value;
        let problem = told["problem"].as_str().unwrap_or_default();
        assert!(problem.contains(want), "{case}: {told}");
        assert_eq!(problem.is_empty(), want.is_empty(), "{case}: {told}");
    }
}

//! Which plugins are found, and what is said of the others.

use crate::fake::{Place, wait_for, write_plugin};
use airlock_core::TagName;
use airlock_plugin::{Origin, Reason, Source, State};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::Ordering;

fn workspace(root: &Path) -> Vec<Source> {
    let path = root.join("workspace");
    fs::create_dir_all(&path).unwrap();
    vec![Source {
        path,
        origin: Origin::Workspace,
    }]
}

#[test]
fn broken_duplicate_linked_and_unreadable_ones_cost_the_others_nothing() {
    let place = Place::with(|root| {
        let sources = workspace(root);
        let here = &sources[0].path;
        write_plugin(here, "good", "1.0.0", "tags: [vcs, core_plugin]");
        write_plugin(here, "also-good", "1.0.0", "");
        write_plugin(here, "twin", "1.0.0", "");
        fs::rename(here.join("twin"), here.join("twin-two")).unwrap();
        write_plugin(here, "twin", "2.0.0", "");
        write_plugin(here, "broken", "1.0", "nope: 1");
        fs::create_dir(here.join("empty")).unwrap();
        fs::write(here.join("README.md"), "no plugin, no problem").unwrap();
        let outside = write_plugin(&root.join("outside"), "linked", "1.0.0", "");
        symlink(&outside, here.join("linked")).unwrap();
        fs::create_dir(here.join("linked-manifest")).unwrap();
        symlink(
            outside.join("plugin.yaml"),
            here.join("linked-manifest/plugin.yaml"),
        )
        .unwrap();
        fs::create_dir_all(here.join("directory/plugin.yaml")).unwrap();
        write_plugin(here, "other-engine", "1.0.0", "engine: '>= 2'");
        write_plugin(here, "other-api", "1.0.0", "api_version: 1");
        write_plugin(here, "needy", "1.0.0", "dependencies: { nobody: '1' }");
        write_plugin(here, "needs-needy", "1.0.0", "dependencies: { needy: '*' }");
        write_plugin(here, "circle-a", "1.0.0", "dependencies: { circle-b: '*' }");
        write_plugin(here, "circle-b", "1.0.0", "dependencies: { circle-a: '*' }");
        let large = "#".repeat(256 * 1024);
        write_plugin(here, "large", "1.0.0", &large);
        sources
    });
    let names: Vec<String> = place
        .manager
        .list()
        .iter()
        .map(|one| one.manifest.name.to_string())
        .collect();
    assert_eq!(names, ["also-good", "good"]);
    let rejected: Vec<(String, String)> = place
        .manager
        .rejected()
        .iter()
        .map(|one| {
            assert!(!one.reason.hint().is_empty(), "{:?}", one.reason);
            let name = one.path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, one.reason.to_string())
        })
        .collect();
    let want = [
        (
            "broken",
            "has problems: line 2, column 10: `1.0` is no version",
        ),
        (
            "circle-a",
            "it depends on itself: circle-a -> circle-b -> circle-a",
        ),
        ("circle-b", "it depends on itself"),
        ("directory", "is no regular file"),
        ("empty", "it has no `plugin.yaml`"),
        ("large", "the file has"),
        ("linked", "links are not followed"),
        ("linked-manifest", "is no regular file"),
        ("needs-needy", "it needs `needy`, which is not there"),
        ("needy", "it needs `nobody`, which is not there"),
        ("other-api", "version 1 of the plugin interface"),
        ("other-engine", "it is for Airlock >=2; this is 1.0.0"),
        ("twin", "`twin` is also in"),
        ("twin-two", "`twin` is also in"),
    ];
    assert_eq!(rejected.len(), want.len(), "{rejected:#?}");
    for ((name, why), (want, part)) in rejected.iter().zip(want) {
        assert!(name == want && why.contains(part), "{name}: {why}");
    }
}

#[test]
fn one_that_cannot_be_read_is_rejected_and_the_others_are_found() {
    let place = Place::with(|root| {
        let sources = workspace(root);
        write_plugin(&sources[0].path, "good", "1.0.0", "");
        let closed = write_plugin(&sources[0].path, "closed", "1.0.0", "");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        sources
    });
    assert!(place.manager.get("good").is_ok());
    let rejected = place.manager.rejected();
    // Root reads what nobody may.
    if fs::read_dir(place.path("workspace/closed")).is_ok() {
        assert!(rejected.is_empty() && place.manager.get("closed").is_ok());
    } else {
        assert!(
            matches!(rejected[0].reason, Reason::Unreadable(_)),
            "{rejected:?}"
        );
    }
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(place.path("workspace/closed"), mode).unwrap();
}

#[test]
fn a_source_that_is_no_directory_is_said_and_one_that_is_absent_is_empty() {
    let place = Place::with(|root| {
        fs::write(root.join("file"), "").unwrap();
        ["file", "absent"]
            .map(|name| Source {
                path: root.join(name),
                origin: Origin::Workspace,
            })
            .into()
    });
    let rejected = place.manager.rejected();
    assert_eq!(rejected.len(), 1);
    assert!(rejected[0].path.ends_with("file"));
}

#[test]
fn what_a_person_installed_comes_before_what_a_workspace_brings() {
    let place = Place::with(|root| {
        write_plugin(&root.join("workspace"), "x", "9.0.0", "");
        workspace(root)
    });
    place.manager.start("x").unwrap();
    place.install("x", "1.0.0", "");
    // The other one ends, on a thread of its own.
    wait_for(|| !place.notes.has("x"));
    place.manager.start("x").unwrap();
    let x = place.manager.get("x").unwrap();
    assert_eq!(
        (x.origin, x.manifest.version.to_string().as_str()),
        (Origin::User, "1.0.0")
    );
    assert!(matches!(
        place.manager.rejected()[0].reason,
        Reason::Duplicate { .. }
    ));
    // Nor does whoever breaks the installed one put the other in its place.
    place.manager.stop("x").unwrap();
    let manifest = place.path("home/installed/x/plugin.yaml");
    fs::write(&manifest, "name: [").unwrap();
    place.manager.refresh().unwrap();
    let error = place.manager.get("x").unwrap_err();
    assert_eq!(error.code(), "plugin_rejected", "{error}");
    assert!(error.to_string().contains("problems"), "{error}");
    assert_eq!(place.manager.rejected().len(), 2);
    fs::remove_dir_all(place.path("home/installed/x")).unwrap();
    place.manager.refresh().unwrap();
    assert!(place.manager.get("x").is_err(), "its name is still its own");
    // Once it was removed, nobody has it.
    place.manager.remove("x").unwrap();
    assert_eq!(place.manager.get("x").unwrap().origin, Origin::Workspace);
}

#[test]
fn a_tag_that_carries_power_is_not_had_by_asking_for_it() {
    let place = Place::new();
    place.install("x", "1.0.0", "tags: [vcs, core_plugin, trusted_write]");
    place.install("y", "1.0.0", "");
    let by = |tag: &str| -> Vec<String> {
        let listed = place.manager.by_tag(&TagName::new(tag).unwrap());
        listed
            .iter()
            .map(|one| one.manifest.name.to_string())
            .collect()
    };
    assert_eq!(by("vcs"), ["x"]);
    assert_eq!(by("third_party"), ["x", "y"]);
    assert!(by("core_plugin").is_empty() && by("trusted_write").is_empty());
    let given = place.manager.get("x").unwrap().given;
    assert_eq!(given, [TagName::new("third_party").unwrap()]);
}

#[test]
fn a_thousand_plugins_are_found_in_order_and_keep_it() {
    let place = Place::with(|root| {
        let sources = workspace(root);
        for number in 0..1_000 {
            let needs = match number {
                0 => String::new(),
                more => format!("dependencies: {{ p{:04}: '*' }}", more / 2),
            };
            let needs = if number / 2 == number {
                String::new()
            } else {
                needs
            };
            write_plugin(&sources[0].path, &format!("p{number:04}"), "1.0.0", &needs);
        }
        sources
    });
    let listed = place.manager.list();
    assert_eq!(listed.len(), 1_000);
    assert!(place.manager.rejected().is_empty());
    assert!(listed.is_sorted_by_key(|one| one.manifest.name.clone()));
    assert!(listed.iter().all(|one| one.state == State::Discovered));
    let order = place.manager.order();
    for listed in &listed {
        let at = |name| order.iter().position(|one| one == name).unwrap();
        for needs in listed.manifest.dependencies.keys() {
            assert!(at(needs) < at(&listed.manifest.name));
        }
    }
    assert_eq!(
        place.manager.get("p9999").unwrap_err().code(),
        "plugin_unknown"
    );
}

#[test]
fn a_plugin_of_a_workspace_finds_no_data_of_another_that_has_its_name() {
    let place = Place::with(|root| {
        let sources = workspace(root);
        write_plugin(&sources[0].path, "x", "1.0.0", "");
        sources
    });
    place.manager.start("x").unwrap();
    assert!(!place.path("home/data/x").exists());
    let own = fs::read_dir(place.path("home/data/.workspaces")).unwrap();
    let own: Vec<_> = own.map(|entry| entry.unwrap().path()).collect();
    assert!(own.len() == 1 && own[0].join("x").is_dir(), "{own:?}");
}

#[test]
fn nothing_but_manifests_is_read_of_a_workspace_before_somebody_starts_it() {
    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
    for keeps_files in [true, false] {
        let place = Place::new();
        place.notes.keeps_files.store(keeps_files, Ordering::SeqCst);
        let sources = workspace(place.root.path());
        let entry = write_plugin(&sources[0].path, "x", "1.0.0", "").join("bin/x");
        let watching = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&watching, &entry, WatchFlags::OPEN).unwrap();
        place.manager.set_sources(sources.clone()).unwrap();
        place.manager.set_sources(sources).unwrap();
        assert!(place.manager.get("x").is_ok());
        let mut space = [std::mem::MaybeUninit::uninit(); 512];
        let mut reader = Reader::new(&watching, &mut space);
        let opened = reader.next();
        // Where nobody keeps a record of them, they have to stay as they are now.
        assert_eq!(opened.is_err(), keeps_files, "{opened:?}");
    }
}

#[test]
fn more_than_anybody_has_in_a_workspace_is_not_looked_through() {
    let place = Place::with(|root| {
        let sources = workspace(root);
        write_plugin(&sources[0].path, "good", "1.0.0", "");
        for number in 0..2_000 {
            fs::write(sources[0].path.join(format!("n{number}")), "").unwrap();
        }
        sources
    });
    assert!(place.manager.list().is_empty());
    let rejected = place.manager.rejected();
    assert!(
        matches!(rejected[0].reason, Reason::TooMany),
        "{rejected:?}"
    );
    fs::remove_file(place.path("workspace/n7")).unwrap();
    place.manager.refresh().unwrap();
    assert!(place.manager.get("good").is_ok());
}

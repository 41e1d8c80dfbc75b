//! What is remembered is what would be found, whatever became of the machine in between.

use super::*;
use crate::plan::Surroundings;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

type Change = fn(&Path);

/// A person with a home and a workspace, both old enough to be remembered.
struct Person {
    directory: tempfile::TempDir,
    surroundings: Surroundings,
    workspace: HostPath,
    home: HostPath,
    environment: BTreeMap<OsString, OsString>,
}

impl Person {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(directory.path()).unwrap();
        let (home, workspace) = (place.join("home"), place.join("workspace"));
        for made in [".cargo/bin", ".cargo/registry/src", ".local/bin"] {
            fs::create_dir_all(home.join(made)).unwrap();
        }
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(place.join("state")).unwrap();
        let path = |path: &Path| HostPath::new(path).unwrap();
        Self {
            surroundings: Surroundings {
                own: vec![path(&place.join("state"))],
                home: Some(path(&home)),
            },
            workspace: path(&workspace),
            home: path(&home),
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            directory,
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("state/outfit.json")
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            surroundings: &self.surroundings,
            environment: &self.environment,
            workspace: &self.workspace,
            network: Reach::None,
        }
    }

    fn look(&self) -> Outfit {
        Outfit::look(&self.facts(), &self.home)
    }

    fn remembered(&self) -> Outfit {
        let remembered = Outfit::remembered(&self.file(), &self.facts(), &self.home);
        Outfit::clone(remembered.outfit())
    }

    /// One that can be told to hold, once what was just made counts as old.
    fn kept(&self) -> Remembered {
        let begun = std::time::Instant::now();
        loop {
            let kept = Outfit::remembered(&self.file(), &self.facts(), &self.home);
            if kept.known.is_some() {
                return kept;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "never settled");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until what was just made counts as old.
    fn settle(&self) {
        let begun = std::time::Instant::now();
        while !self.file().exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "never settled");
            std::thread::sleep(Duration::from_millis(200));
            self.remembered();
        }
    }

    fn written(&self) -> Vec<u8> {
        fs::read(self.file()).unwrap()
    }
}

#[test]
fn what_is_remembered_is_what_would_be_found() {
    let mut person = Person::new();
    person.settle();
    let first = person.written();
    assert_eq!(person.remembered(), person.look());
    assert_eq!(person.written(), first, "it was used, not written anew");
    let changes: [(&str, Change); 6] = [
        ("a secret beside what is granted", |home| {
            fs::write(home.join(".cargo/bin/.env"), "").unwrap();
        }),
        ("a toolchain is installed", |home| {
            fs::create_dir_all(home.join(".rustup/toolchains/stable/bin")).unwrap();
        }),
        ("a tool is installed", |home| {
            fs::write(home.join(".local/bin/pytest"), "").unwrap();
        }),
        ("settings that name a secret", |home| {
            fs::write(home.join(".cargo/config.toml"), "token = 'x'").unwrap();
        }),
        ("a directory becomes a link to credentials", |home| {
            fs::create_dir(home.join(".ssh")).unwrap();
            fs::remove_dir_all(home.join(".cargo/registry/src")).unwrap();
            symlink(home.join(".ssh"), home.join(".cargo/registry/src")).unwrap();
        }),
        ("everything goes", |home| {
            fs::remove_dir_all(home.join(".cargo")).unwrap();
        }),
    ];
    for (case, change) in changes {
        let kept = person.kept();
        assert!(kept.holds(&person.facts(), &person.home), "before: {case}");
        change(person.home.as_path());
        assert!(!kept.holds(&person.facts(), &person.home), "{case}");
        assert_eq!(person.remembered(), person.look(), "{case}");
    }
    let kept = person.kept();
    person
        .environment
        .insert("CARGO_HOME".into(), "/opt".into());
    assert!(!kept.holds(&person.facts(), &person.home), "a variable");
    assert_eq!(person.remembered(), person.look(), "a variable");
    let kept = person.kept();
    person.workspace = HostPath::new("/srv").unwrap();
    assert!(!kept.holds(&person.facts(), &person.home), "elsewhere");
}

#[test]
fn a_record_of_somebody_elses_or_for_something_else_does_not_count() {
    let mut person = Person::new();
    person.settle();
    let mut record: serde_json::Value = serde_json::from_slice(&person.written()).unwrap();
    record["things"]["reads"] = serde_json::json!(["/etc/shadow"]);
    let forged = serde_json::to_vec(&record).unwrap();
    let poisoned = |person: &Person| {
        let reads = person.remembered().reads;
        reads.iter().any(|path| path.as_os_str() == "/etc/shadow")
    };
    // The control: a record that nobody else could have written is believed.
    fs::write(person.file(), &forged).unwrap();
    fs::set_permissions(person.file(), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(poisoned(&person));
    fs::set_permissions(person.file(), fs::Permissions::from_mode(0o622)).unwrap();
    assert!(!poisoned(&person), "others can write it");
    fs::remove_file(person.file()).unwrap();
    let elsewhere = person.directory.path().join("workspace/forged.json");
    fs::write(&elsewhere, &forged).unwrap();
    symlink(&elsewhere, person.file()).unwrap();
    assert!(!poisoned(&person), "a link into the workspace");
    fs::remove_file(person.file()).unwrap();
    fs::write(person.file(), &forged).unwrap();
    fs::set_permissions(person.file(), fs::Permissions::from_mode(0o600)).unwrap();
    person.workspace = HostPath::new("/srv").unwrap();
    assert!(!poisoned(&person), "another workspace");
}

//! Bubblewrap's arguments by their content: read back as bubblewrap would read them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use airlock_sandbox::generate::{
    AtHome, Bwrap, BwrapError, BwrapFacts, Handed, Mask, SystemEntry, bwrap,
};
use airlock_sandbox::plan::{Extent, Target};
use airlock_sandbox::{HostPath, Plan, PlanBuilder, Surroundings, Template, View};
use proptest::prelude::*;
use std::ffi::OsString;

fn path(text: &str) -> HostPath {
    HostPath::new(text).unwrap()
}

fn begin() -> PlanBuilder {
    let template = Template::find("code-executor").unwrap();
    Plan::builder(template, &Surroundings::default())
}

fn command(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn generate(
    plan: &Plan,
    masks: &[Mask],
    stage: Option<&HostPath>,
    words: &[&str],
) -> Result<Bwrap, BwrapError> {
    let system = [
        SystemEntry::Existing(path("/usr")),
        SystemEntry::Link {
            path: path("/bin"),
            target: "usr/bin".into(),
        },
    ];
    let texts = [Handed {
        path: path("/etc/passwd"),
        descriptor: 10,
    }];
    let at_home = [
        AtHome::Link {
            path: path("/home/alice/.cargo/bin"),
            target: path("/opt/cargo/bin"),
        },
        AtHome::File(Handed {
            path: path("/home/alice/.cargo/config.toml"),
            descriptor: 11,
        }),
    ];
    let facts = BwrapFacts {
        system: &system,
        system_masks: &[
            Mask::File(path("/etc/shadow")),
            Mask::Directory(path("/etc/ssl/private")),
        ],
        texts: &texts,
        kernel_files: &["kcore"],
        masks,
        home: &path("/home/alice"),
        at_home: &at_home,
        scratch: 1 << 20,
        stage,
        socket: None,
        directory: plan.directory(),
        in_session: false,
        filter_descriptor: 7,
        status_descriptor: 8,
        block_descriptor: 9,
    };
    bwrap(plan, &facts, &command(words))
}

/// Options with their values, and the command; by the number of values each option takes.
fn read(arguments: &[OsString]) -> (Vec<Vec<OsString>>, Vec<OsString>) {
    let mut options = Vec::new();
    let mut rest = arguments;
    while let [first, after @ ..] = rest {
        let values = match first.to_str() {
            Some("--") => return (options, after.to_vec()),
            Some(
                "--disable-userns" | "--die-with-parent" | "--new-session" | "--unshare-user"
                | "--unshare-ipc" | "--unshare-pid" | "--unshare-net" | "--unshare-uts"
                | "--unshare-cgroup",
            ) => 0,
            Some(
                "--cap-drop" | "--uid" | "--gid" | "--hostname" | "--seccomp" | "--proc" | "--dev"
                | "--tmpfs" | "--remount-ro" | "--chdir" | "--json-status-fd" | "--block-fd"
                | "--dir" | "--perms" | "--size",
            ) => 1,
            Some("--ro-bind" | "--bind" | "--symlink" | "--file" | "--ro-bind-data") => 2,
            _ => panic!("not an option: {}", first.display()),
        };
        let (values, after) = after.split_at(values);
        options.push([std::slice::from_ref(first), values].concat());
        rest = after;
    }
    panic!("no command");
}

#[test]
fn a_plan_becomes_these_arguments() {
    let plan = begin()
        .workspace("/w", View::Staged)
        .read("/opt/tool")
        .write("/cache")
        .deny("/w/private")
        .deny("/w/token")
        .deny_pattern("**/.env")
        .build()
        .unwrap();
    let masks = [
        Mask::Directory(path("/w/private")),
        Mask::File(path("/w/token")),
        Mask::Directory(path("/w/.airlock")),
    ];
    let made = generate(
        &plan,
        &masks,
        Some(&path("/state/stage")),
        &["cargo", "--", "-x"],
    )
    .unwrap();
    let text: Vec<&str> = made.arguments.iter().map(|a| a.to_str().unwrap()).collect();
    insta::assert_snapshot!(text.join("\n"));
    assert_eq!(made.uncovered.len(), 1);
    assert!(matches!(
        made.uncovered.first().unwrap().target,
        Target::Pattern(_)
    ));
}

#[test]
fn the_real_tree_is_never_writable() {
    let plan = begin().workspace("/w", View::Staged).build().unwrap();
    assert_eq!(
        generate(&plan, &[], None, &["x"]),
        Err(BwrapError::NoStage(path("/w")))
    );
    for view in [View::Staged, View::ReadOnly] {
        let plan = begin().workspace("/w", view).build().unwrap();
        let made = generate(&plan, &[], Some(&path("/stage")), &["x"]).unwrap();
        let (options, _) = read(&made.arguments);
        let written = |option: &Vec<OsString>| option.iter().take(2).eq(["--bind", "/w"].iter());
        assert!(!options.iter().any(written));
    }
}

#[test]
fn denials_that_mounts_cannot_express_are_left_to_the_launcher() {
    let plan = begin()
        .workspace("/w", View::ReadOnly)
        .deny("/w/not-yet")
        .deny("/elsewhere")
        .deny_writing("/w/vendor")
        .build()
        .unwrap();
    let made = generate(&plan, &[Mask::Directory(path("/w/vendor"))], None, &["x"]).unwrap();
    let left: Vec<(String, Extent)> = made
        .uncovered
        .iter()
        .map(|denial| (denial.target.to_string(), denial.extent))
        .collect();
    // Nothing can be written there anyway: what only forbids that is fulfilled.
    let want = [("/w/not-yet", Extent::Everything)];
    assert_eq!(left, want.map(|(text, extent)| (text.to_owned(), extent)));
    let mask = [Mask::File(path("/w/other"))];
    let error = generate(&plan, &mask, None, &["x"]).unwrap_err();
    assert_eq!(error, BwrapError::NotDenied(path("/w/other")));
}

#[test]
fn what_is_hidden_in_a_stage_can_neither_be_moved_away_nor_be_the_real_one() {
    let plan = begin()
        .workspace("/w", View::Staged)
        .deny("/w/a/b/secret")
        .deny_writing("/w/a/frozen")
        .build()
        .unwrap();
    let masks = [
        Mask::File(path("/w/a/b/secret")),
        Mask::Directory(path("/w/a/frozen")),
        Mask::Directory(path("/w/.airlock")),
    ];
    let made = generate(&plan, &masks, Some(&path("/stage")), &["x"]).unwrap();
    let (options, _) = read(&made.arguments);
    let mounts = options.iter().filter(|option| {
        let place = option.last().and_then(|place| place.to_str());
        option.len() == 3 && place.is_some_and(|place| place.starts_with("/w"))
    });
    let mounts: Vec<String> = mounts
        .map(|option| option.join(" ".as_ref()).into_string().unwrap())
        .collect();
    let want = [
        "--bind /stage /w",
        "--bind /stage/a /w/a",
        "--bind /stage/a/b /w/a/b",
        "--ro-bind /dev/null /w/a/b/secret",
        "--ro-bind /stage/a/frozen /w/a/frozen",
        "--ro-bind /stage/.airlock /w/.airlock",
    ];
    assert_eq!(mounts, want);
    assert_eq!(made.uncovered, []);
}

#[test]
fn nothing_is_mounted_beneath_a_link() {
    for (workspace, linked) in [("/w", true), ("/var/tmp/w", false), ("/var/tmpfs", true)] {
        let plan = begin()
            .workspace(workspace, View::ReadOnly)
            .build()
            .unwrap();
        let made = generate(&plan, &[], None, &["x"]).unwrap();
        let (options, _) = read(&made.arguments);
        let link = ["--symlink", "/tmp", "/var/tmp"];
        let found = options.iter().any(|option| option.iter().eq(link.iter()));
        assert_eq!(found, linked, "{workspace}");
    }
}

#[test]
fn a_command_is_needed_and_has_no_nul() {
    let plan = begin().build().unwrap();
    assert_eq!(generate(&plan, &[], None, &[]), Err(BwrapError::NoCommand));
    assert_eq!(
        generate(&plan, &[], None, &["", "x"]),
        Err(BwrapError::NoCommand)
    );
    assert_eq!(
        generate(&plan, &[], None, &["x", "a\0--bind"]),
        Err(BwrapError::Nul)
    );
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf_8_are_passed_as_they_are() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let name = OsStr::from_bytes(b"/data/\xff\n");
    let plan = begin().read(name).build().unwrap();
    let made = generate(&plan, &[], None, &["x"]).unwrap();
    let (options, _) = read(&made.arguments);
    assert!(
        options
            .iter()
            .any(|option| option == &["--ro-bind".as_ref(), name, name])
    );
}

proptest! {
    #[test]
    fn no_path_or_word_becomes_an_option(
        grants in proptest::collection::vec("/(-|--bind|--|[ \"'()\\\\\n=*]|[a-z]){1,6}", 1..5),
        words in proptest::collection::vec("(-|--|--bind|[a-z \n]){1,4}", 1..5),
    ) {
        let plan = grants.iter().fold(begin(), PlanBuilder::read).build();
        prop_assume!(plan.is_ok());
        let plan = plan.unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let made = generate(&plan, &[], None, &words).unwrap();
        let (options, rest) = read(&made.arguments);
        prop_assert_eq!(rest, command(&words));
        // What the plan adds to that of an empty plan is one mount for each grant.
        let empty = generate(&begin().build().unwrap(), &[], None, &words).unwrap();
        let (usual, _) = read(&empty.arguments);
        let added: Vec<_> = options.iter().filter(|option| !usual.contains(option)).collect();
        let want: Vec<Vec<OsString>> = plan
            .reads()
            .iter()
            .map(|path| vec!["--ro-bind".into(), path.as_os_str().into(), path.as_os_str().into()])
            .collect();
        prop_assert_eq!(added, want.iter().collect::<Vec<_>>());
    }
}

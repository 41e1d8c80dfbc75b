//! The native launcher, for real: as whoever runs the tests.
#![cfg(target_os = "linux")]

use airlock_sandbox::launch::{Command, Ended, Launch, Layers, Stdin, Streams};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{HostPath, Minimum, Plan, Sandbox, Surroundings, Template, View, start};
use std::ffi::OsString;
use std::path::Path;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["tree", "stage", "stage/upper", "stage/work", "run"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        // A stage belongs to whoever the sandbox is on the host.
        if rustix::process::geteuid().is_root() {
            let owner = Some(1_879_048_192);
            std::os::unix::fs::chown(directory.path().join("stage/upper"), owner, owner).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn launch(&self) -> Launch {
        let template = Template::find("code-executor").unwrap();
        let tree = self.path("tree");
        let plan = Plan::builder(template, &Surroundings::default())
            .workspace(&tree, View::Staged)
            .directory(&tree)
            .build()
            .unwrap();
        let home = HostPath::new("/home/airlock").unwrap();
        Launch {
            minimum: Minimum::of(&plan),
            plan,
            base: airlock_sandbox::base::detect(Path::new("/"), &home),
            layers: Some(Layers {
                upper: self.path("stage/upper"),
                work: self.path("stage/work"),
            }),
            registry: self.path("run"),
        }
    }
}

fn run(sandbox: &mut Sandbox, arguments: &[&str]) -> (Ended, String, String) {
    let command = Command {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        directory: None,
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let ended = sandbox.run(&command, streams).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended, text(out), text(err))
}

#[test]
fn a_command_runs_and_its_writes_land_in_the_stage() {
    let place = Place::new();
    std::fs::write(place.path("tree/a"), "old\n").unwrap();
    let mut sandbox = start(place.launch()).unwrap();
    let script = "cat a; echo new > a; echo more > b; id -u; cat /proc/1/cmdline | wc -c; ls / /dev; cat /proc/self/status | grep -E 'Cap|NoNew|Seccomp'; cat /proc/mounts";
    let (ended, out, err) = run(&mut sandbox, &["sh", "-c", script]);
    println!("{out}\n{err}");
    assert_eq!(ended.outcome, Outcome::Exited(0));
    assert_eq!(
        std::fs::read_to_string(place.path("tree/a")).unwrap(),
        "old\n"
    );
    assert_eq!(
        std::fs::read_to_string(place.path("stage/upper/a")).unwrap(),
        "new\n"
    );
    let (_, out, _) = run(&mut sandbox, &["cat", "b"]);
    assert_eq!(out, "more\n");
}

//! `mcp`: the server against what others wrote for MCP servers: the public conformance suite and
//! the command line of the MCP Inspector; and a server of others' as a plugin.
//!
//! Both come from npm, in the versions written down here, into the target directory. The suite calls
//! tools by names of its own, so part of it runs against the `airlock` command and part against the
//! same server with stand-in tools (`crates/mcp/examples/conformance.rs`). Every scenario of the
//! suite is in one of the tables below; one that is not fails, so that none is passed over.

use crate::shell::{
    Failure, cargo, command, output, root, run as run_command, say, target_directory,
};
use crate::stock;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const CONFORMANCE: (&str, &str) = ("@modelcontextprotocol/conformance", "0.1.16");
const INSPECTOR: (&str, &str) = ("@modelcontextprotocol/inspector", "2.12.0");
/// What has to be built, as cargo is told.
const BUILT: &[&[&str]] = &[
    &["--package", "airlock-cli"],
    &["--package", "airlock-mcp", "--example", "conformance"],
    &["--package", "airlock-plugin-mcp", "--example", "stock"],
];
/// What is asked of the reference server, which runs as a plugin, and what its answer holds.
const STOCK_ASKED: &[(&str, &str, &str)] = &[
    ("echo", r#"{"message": "hello"}"#, "Echo: hello"),
    ("get-sum", r#"{"a": 19, "b": 23}"#, "42"),
    // Its environment is that of its box.
    ("get-env", "{}", "AIRLOCK_SOCKET"),
    (
        "get-structured-content",
        r#"{"location": "Chicago"}"#,
        "\"temperature\"",
    ),
];
/// What the suite needs, where the machine's own is older.
const NODE: (u32, &str) = (22, "22.23.3");

/// Scenarios that a real workspace can be asked.
const REAL: &[&str] = &[
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "server-sse-polling",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
];

/// Scenarios that call tools of the suite's own.
const STAND_IN: &[&str] = &[
    "tools-call-simple-text",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-elicitation",
    "json-schema-2020-12",
];

/// Scenarios about what the server does not declare, and why it does not.
const NOT_DECLARED: &[(&str, &str)] = &[
    (
        "logging-set-level",
        "no logging: records are in the audit log",
    ),
    (
        "tools-call-with-logging",
        "no logging: records are in the audit log",
    ),
    (
        "completion-complete",
        "no completions: there is nothing to complete",
    ),
    ("tools-call-image", "tools give text and structure"),
    ("tools-call-audio", "tools give text and structure"),
    (
        "tools-call-embedded-resource",
        "tools give text and structure",
    ),
    ("tools-call-mixed-content", "tools give text and structure"),
    ("tools-call-sampling", "the server asks no model"),
    (
        "elicitation-sep1034-defaults",
        "the one question has no defaults",
    ),
    (
        "elicitation-sep1330-enums",
        "the one question has one enumeration",
    ),
    (
        "resources-read-text",
        "asks for a resource of the suite's own",
    ),
    ("resources-read-binary", "resources are text"),
    (
        "resources-templates-read",
        "asks for a resource of the suite's own",
    ),
    ("resources-subscribe", "no subscriptions"),
    ("resources-unsubscribe", "no subscriptions"),
    ("prompts-list", "no prompts"),
    ("prompts-get-simple", "no prompts"),
    ("prompts-get-with-args", "no prompts"),
    ("prompts-get-embedded-resource", "no prompts"),
    ("prompts-get-with-image", "no prompts"),
];

/// What the Inspector is asked, whether it succeeds, and what its answer holds.
const ASKED: &[(&[&str], bool, &str)] = &[
    (
        &["--method", "tools/list", "--strict"],
        true,
        "\"readOnlyHint\": true",
    ),
    (
        &[
            "--method",
            "tools/call",
            "--tool-name",
            "fs_read",
            "--tool-arg",
            "path=hello.txt",
        ],
        true,
        "hello from a file",
    ),
    (
        &[
            "--method",
            "tools/call",
            "--tool-name",
            "fs_read",
            "--tool-arg",
            "path=.env",
        ],
        false,
        "\"status\": \"denied\"",
    ),
    (&["--method", "resources/list"], true, "airlock://policy"),
    (
        &["--method", "resources/templates/list"],
        true,
        "airlock://audit/tail/{count}",
    ),
    (
        &["--method", "resources/read", "--uri", "airlock://policy"],
        true,
        "default/read-workspace",
    ),
    (
        &[
            "--method",
            "resources/read",
            "--uri",
            "airlock://audit/tail",
        ],
        true,
        "records",
    ),
];

/// Checks that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    fn count(&mut self, name: &str, passed: bool, said: &str) {
        if passed {
            self.passed += 1;
            say(&format!("  ok      {name}"));
        } else {
            self.failed += 1;
            say(&format!("  FAILED  {name}\n{said}"));
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("`mcp` takes no arguments"));
    }
    let peers = Peers::set_up()?;
    for target in BUILT {
        run_command(cargo(&["build"]).args(*target))?;
    }
    let tally = check(&peers)?;
    say(&format!("{} passed, {} failed", tally.passed, tally.failed));
    match tally.failed {
        0 => Ok(()),
        failed => Err(Failure::new(format!(
            "{failed} checks of the MCP server failed"
        ))),
    }
}

/// The same as a part of all tests, which are built with all that is needed here: built once more
/// alone it would have other features. What cannot be run has failed: it is never passed over.
pub(crate) fn run_with_tests() -> Tally {
    let checked = Peers::set_up().and_then(|peers| check(&peers));
    checked.unwrap_or_else(|failure| did_not_run(&failure))
}

/// What came of checks that `failure` kept from being made.
fn did_not_run(failure: &Failure) -> Tally {
    let mut tally = Tally::default();
    tally.count("mcp: the public suites run", false, &failure.to_string());
    tally
}

fn check(peers: &Peers) -> Result<Tally, Failure> {
    let place = Place::new()?;
    let mut tally = Tally::default();
    complete(&peers.scenarios()?)?;
    say("mcp: the conformance suite, against `airlock mcp serve --http`");
    {
        let server = place.server()?;
        let proxy = place.proxy(peers, &server)?;
        for scenario in REAL {
            let (passed, said) = peers.conformance(&proxy.url, scenario)?;
            tally.count(scenario, passed, &said);
        }
        say("mcp: the Inspector, over HTTP");
        let header = format!("Authorization: Bearer {}", server.token()?);
        let target = [server.url.as_str(), "--header", &header];
        inspect(peers, &place, &target, &mut tally)?;
    }
    say("mcp: the conformance suite, against stand-in tools");
    {
        let server = place.stand_in()?;
        let proxy = place.proxy(peers, &server)?;
        for scenario in STAND_IN {
            let (passed, said) = peers.conformance(&proxy.url, scenario)?;
            tally.count(scenario, passed, &said);
        }
    }
    for (scenario, why) in NOT_DECLARED {
        say(&format!("  not declared  {scenario}: {why}"));
    }
    say("mcp: the Inspector, over stdio");
    let airlock = built("airlock").display().to_string();
    inspect(peers, &place, &[&airlock, "mcp", "serve"], &mut tally)?;
    say("mcp: a stock server as a plugin, in a box");
    run_stock(&mut tally)?;
    Ok(tally)
}

/// Has the host of plugins run the reference server.
fn run_stock(tally: &mut Tally) -> Result<(), Failure> {
    let directory = stock::MCP.directory();
    let manifest = root().join("examples/plugins/mcp-everything/plugin.yaml");
    let copied = std::fs::copy(manifest, directory.join("plugin.yaml"));
    copied.map_err(|error| Failure::new(format!("cannot write the manifest: {error}")))?;
    for (tool, arguments, holds) in STOCK_ASKED {
        let mut stock = command(built("examples/stock"));
        stock.arg(&directory).args([tool, arguments]);
        let answer = answer(&mut stock)?;
        let passed = answer.success && answer.said.contains(holds);
        let name = format!("{} {tool}", stock::MCP.name);
        tally.count(&name, passed, &answer.said);
    }
    Ok(())
}

fn inspect(
    peers: &Peers,
    place: &Place,
    target: &[&str],
    tally: &mut Tally,
) -> Result<(), Failure> {
    for (question, succeeds, holds) in ASKED {
        let mut inspector = place.within(peers.node());
        inspector.arg(peers.program(INSPECTOR.0, "clients/launcher/build/index.js"));
        inspector.arg("--cli").args(target).args(*question);
        let answer = answer(&mut inspector)?;
        // What a tool reports as its error, the Inspector does by its exit code.
        let passed = answer.success == *succeeds && answer.said.contains(holds);
        tally.count(&question.join(" "), passed, &answer.said);
    }
    Ok(())
}

/// Every scenario of the suite must have been thought about.
fn complete(scenarios: &[String]) -> Result<(), Failure> {
    let known = |name: &String| {
        let name = name.as_str();
        let other = NOT_DECLARED.iter().any(|(one, _)| *one == name);
        REAL.contains(&name) || STAND_IN.contains(&name) || other
    };
    let missing: Vec<&str> = scenarios
        .iter()
        .filter(|name| !known(name))
        .map(String::as_str)
        .collect();
    if scenarios.is_empty() {
        return Err(Failure::new("the conformance suite lists no scenario"));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(
        Failure::new(format!("nobody thought about {}", missing.join(", ")))
            .hint("put each into a table of `xtask/src/mcp.rs`"),
    )
}

/// What a program said and how it ended.
struct Answer {
    success: bool,
    said: String,
}

fn answer(command: &mut std::process::Command) -> Result<Answer, Failure> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| crate::shell::unstarted(command, &error))?;
    let mut said = String::from_utf8_lossy(&done.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&done.stderr));
    Ok(Answer {
        success: done.status.success(),
        said,
    })
}

fn built(name: &str) -> PathBuf {
    target_directory().join("debug").join(name)
}

/// The programs from npm.
struct Peers {
    directory: PathBuf,
    node: PathBuf,
}

impl Peers {
    /// Installs what is missing, and calls nothing where nothing is.
    fn set_up() -> Result<Self, Failure> {
        let directory = target_directory().join("mcp-peers");
        let module = |name: &str| directory.join("node_modules").join(name);
        let mut wanted = vec![CONFORMANCE, INSPECTOR];
        let own = own_node();
        let package = node_package();
        if !own {
            wanted.push((&package, NODE.1));
        }
        let there = |wanted: &(&str, &str)| is_there(&directory, wanted);
        if !wanted.iter().all(there) {
            install(&directory, &wanted)?;
        }
        stock::MCP.set_up()?;
        let node = if own {
            PathBuf::from("node")
        } else {
            module(&package).join("bin/node")
        };
        Ok(Self { directory, node })
    }

    fn node(&self) -> &Path {
        &self.node
    }

    fn program(&self, package: &str, file: &str) -> PathBuf {
        self.directory.join("node_modules").join(package).join(file)
    }

    fn suite(&self) -> std::process::Command {
        let mut suite = command(&self.node);
        suite.arg(self.program(CONFORMANCE.0, "dist/index.js"));
        suite
    }

    fn scenarios(&self) -> Result<Vec<String>, Failure> {
        let listed = output(self.suite().args(["list", "--server"]))?;
        let name = |line: &str| {
            let line = line.trim().strip_prefix("- ")?;
            line.split_whitespace().next().map(str::to_owned)
        };
        Ok(listed.lines().filter_map(name).collect())
    }

    fn conformance(&self, url: &str, scenario: &str) -> Result<(bool, String), Failure> {
        let mut suite = self.suite();
        suite.args(["server", "--url", url, "--scenario", scenario]);
        let answer = answer(&mut suite)?;
        Ok((answer.success, answer.said))
    }
}

/// Whether a package is installed in `directory`, in its version.
fn is_there(directory: &Path, (name, version): &(&str, &str)) -> bool {
    let package = directory.join("node_modules").join(name);
    std::fs::read_to_string(package.join("package.json"))
        .is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
}

/// Whether the machine's own `node` will do.
fn own_node() -> bool {
    let version = command("node").arg("--version").output();
    let version = version.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    version.is_ok_and(|version| major(&version).is_some_and(|major| major >= NODE.0))
}

fn major(version: &str) -> Option<u32> {
    let number = version.trim().strip_prefix('v')?.split('.').next()?;
    number.parse().ok()
}

fn node_package() -> String {
    let kind = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    format!("node-linux-{kind}")
}

fn install(directory: &Path, wanted: &[(&str, &str)]) -> Result<(), Failure> {
    let cannot = |error| Failure::new(format!("cannot make `{}`: {error}", directory.display()));
    std::fs::create_dir_all(directory).map_err(cannot)?;
    let mut npm = command("npm");
    // None of them needs a script of its own to work, and no link of a plugin is followed.
    npm.args([
        "install",
        "--no-bin-links",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
    ]);
    npm.arg(directory);
    npm.args(
        wanted
            .iter()
            .map(|(name, version)| format!("{name}@{version}")),
    );
    run_command(&mut npm).map_err(|failure| {
        failure.hint("`npm` comes with `apt-get install nodejs npm`, and needs its registry once")
    })
}

/// A workspace of its own, in a directory that goes with it.
struct Place(PathBuf);

/// A program that serves until it is dropped.
struct Serving {
    child: Child,
    url: String,
    token_file: PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    fn token(&self) -> Result<String, Failure> {
        std::fs::read_to_string(&self.token_file)
            .map(|text| text.trim().to_owned())
            .map_err(|error| Failure::new(format!("there is no token: {error}")))
    }
}

impl Place {
    fn new() -> Result<Self, Failure> {
        let directory = target_directory().join(format!("mcp-check-{}", std::process::id()));
        let place = Self(directory);
        for (name, text) in [
            ("workspace/hello.txt", "hello from a file\n"),
            ("workspace/.env", "API_TOKEN=not-for-agents\n"),
            ("workspace/.git/HEAD", "ref: refs/heads/main\n"),
            ("home/nothing", ""),
        ] {
            let file = place.0.join(name);
            let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(&file, text))
                .map_err(|error| Failure::new(format!("cannot write `{name}`: {error}")))?;
        }
        Ok(place)
    }

    /// `program`, in the workspace and with directories of its own.
    fn within(&self, program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
        let mut command = command(program);
        command
            .current_dir(self.0.join("workspace"))
            .env("HOME", self.0.join("home"))
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env("XDG_CONFIG_HOME", self.0.join("config"))
            .env_remove("AIRLOCK_WORKSPACE");
        command
    }

    fn server(&self) -> Result<Serving, Failure> {
        let mut airlock = self.within(built("airlock"));
        airlock.args(["mcp", "serve", "--http", "127.0.0.1:0", "--json"]);
        serving(&mut airlock)
    }

    fn stand_in(&self) -> Result<Serving, Failure> {
        let mut example = self.within(built("examples/conformance"));
        example.arg(self.0.join("token"));
        serving(&mut example)
    }

    /// The suite cannot send a token, so something before the server does.
    fn proxy(&self, peers: &Peers, server: &Serving) -> Result<Serving, Failure> {
        let mut proxy = self.within(peers.node());
        proxy.arg(root().join("tests/mcp/bearer.mjs"));
        proxy.arg(&server.url).arg(&server.token_file);
        let (child, line) = started(&mut proxy)?;
        Ok(Serving {
            child,
            url: format!("{line}/mcp"),
            token_file: server.token_file.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is in the target directory, where nobody minds.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server that says its address and its token file on its first line.
fn serving(command: &mut std::process::Command) -> Result<Serving, Failure> {
    let (child, line) = started(command)?;
    let url = field(&line, "url");
    let token_file = field(&line, "token_file");
    match (url, token_file) {
        (Some(url), Some(file)) => Ok(Serving {
            child,
            url,
            token_file: file.into(),
        }),
        _ => Err(Failure::new(format!("the server said `{line}`"))),
    }
}

/// Starts `command` and waits for its first line.
fn started(command: &mut std::process::Command) -> Result<(Child, String), Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| crate::shell::unstarted(command, &error))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        // Whoever says nothing and ends gives an empty line, which is no address.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    Ok((child, line.trim().to_owned()))
}

/// A plain string field of a JSON object on one line.
fn field(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_nobody_thought_about_fails() {
        let all = REAL.iter().chain(STAND_IN).map(ToString::to_string);
        let mut all: Vec<String> = all
            .chain(NOT_DECLARED.iter().map(|(name, _)| (*name).to_owned()))
            .collect();
        assert!(complete(&all).is_ok());
        let named = all.iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(named.len(), all.len(), "a scenario is in two tables");
        all.push("tools-call-something-new".to_owned());
        let failure = complete(&all).unwrap_err();
        assert!(failure.to_string().contains("tools-call-something-new"));
        assert!(complete(&[]).is_err());
    }

    #[test]
    fn a_suite_that_cannot_be_run_has_failed() {
        let tally = did_not_run(&Failure::new("there is no npm"));
        let (passed, failed) = (0, 1);
        assert_eq!(tally, Tally { passed, failed });
    }

    #[test]
    fn versions_and_first_lines_are_read() {
        assert_eq!(major("v22.23.3\n"), Some(22));
        assert_eq!(major("garbage"), None);
        let line = r#"{"token_file":"/a/b","url":"http://127.0.0.1:1/mcp"}"#;
        assert_eq!(field(line, "url").unwrap(), "http://127.0.0.1:1/mcp");
        assert_eq!(field(line, "token_file").unwrap(), "/a/b");
        assert_eq!(field(line, "other"), None);
    }
}

//! The command line, as clap reads it.

use airlock_audit::PublicKey;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Give AI agents real work without giving them the machine.
#[derive(Debug, Parser)]
#[command(
    name = "airlock",
    bin_name = "airlock",
    version,
    propagate_version = true
)]
#[command(after_help = "Examples:
  airlock                  a session with an agent in this directory
  airlock run 'add error handling to parse_config'
  airlock demo
  airlock init
  airlock exec -- make test
  airlock policy explain fs.read --path .env
  airlock tool call fs.read path=README.md
  airlock audit verify

Exit codes: 0 ok, 1 failed, 2 usage, 3 denied, 4 needs review, 5 not enforceable here.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Cli {
    /// Reads `line`. An `airlock exec` that is right is read without what every other command would
    /// take: describing those to clap takes longer than the reading.
    pub(crate) fn read(line: &[OsString]) -> Result<Self, clap::Error> {
        if let Some((global, args)) = Self::read_exec(line) {
            let args = Box::new(args);
            let command = match line.get(1) {
                Some(told) if told == EXEC_TOLD => Command::ExecTold(args),
                Some(_) | None => Command::Exec(args),
            };
            return Ok(Self {
                global,
                command: Some(command),
            });
        }
        Self::try_parse_from(line)
    }

    /// The same for an `airlock exec` alone, if it is one that is right.
    pub(crate) fn read_exec(line: &[OsString]) -> Option<(Global, ExecArgs)> {
        let [program, command, rest @ ..] = line else {
            return None;
        };
        if command != "exec" && command != EXEC_TOLD {
            return None;
        }
        let read = ExecAlone::try_parse_from([program].into_iter().chain(rest)).ok()?;
        Some((read.global, read.exec))
    }
}

/// The hidden command that says what came of one which the small program had run.
pub(crate) const EXEC_TOLD: &str = "outcome-worker";

/// Whether `line` is an `airlock exec`, as far as one can tell that did not read it.
pub(crate) fn is_exec(line: &[OsString]) -> bool {
    let is_flag = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    let command = own_words(line).find(|word| !is_flag(word));
    command.is_some_and(|word| word == "exec" || word == EXEC_TOLD)
}

/// Whether `line` asks for JSON: a program that did so reads nothing else, whatever is wrong.
pub(crate) fn wants_json(line: &[OsString]) -> bool {
    own_words(line).any(|word| word == "--json")
}

/// The words that are for us, and not for a command that we run.
fn own_words(line: &[OsString]) -> impl Iterator<Item = &OsString> {
    line.iter().skip(1).take_while(|word| *word != "--")
}

/// `airlock exec` without its name. What it makes nothing of is for the whole to explain.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true)]
struct ExecAlone {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    exec: ExecArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The workspace; default: the nearest directory upwards with .airlock or .git
    #[arg(long, global = true, value_name = "DIR", env = "AIRLOCK_WORKSPACE")]
    pub(crate) workspace: Option<PathBuf>,
    /// Machine-readable output: one JSON object, or JSON lines
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", value_enum)]
    pub(crate) color: Option<Color>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Let an agent do a task here; without one, talk with it
    #[command(after_help = "Examples:
  airlock run 'add error handling to parse_config'
  airlock run --mode explore --model local 'try another parser'
  airlock run --json 'list what is untested'

`airlock \"TWO WORDS\"` is short for it. What the agent writes lands in a stage.
Exit codes: 0 done, 1 failed, 2 usage, 3 denied, 4 needs a person, 130
interrupted.")]
    Run(crate::commands::agent::RunArgs),
    /// Show the whole road on a sample project, offline
    #[command(after_help = "Example:
  airlock demo             leaves nothing behind")]
    Demo,
    /// Run a command in a sandbox, against a stage of this workspace
    #[command(after_help = "Examples:
  airlock exec -- make test
  airlock exec --timeout 30s --memory 512MiB -- ./build.sh
  airlock exec --allow-read ~/data --deny '**/*.csv' -- ls
  airlock exec --tty -- python3

Exit codes: the command's own; 120 denied, 121 needs review, 122 not enforceable
here, 124 timed out or over a limit, 125 internal, 126 not executable, 127 not
found, 128+n signal.")]
    Exec(Box<ExecArgs>),
    /// Say what came of a command that the running kernel ran
    #[command(
        hide = true,
        after_help = "Example:\n  airlock outcome-worker -- make test"
    )]
    #[command(name = "outcome-worker")]
    ExecTold(Box<ExecArgs>),
    /// Show what a stage changes
    #[command(after_help = "Examples:
  airlock diff
  airlock diff --stat
  airlock diff experiment --json")]
    Diff {
        /// The stage
        #[arg(default_value = "default")]
        stage: String,
        /// Only which files, and how
        #[arg(long)]
        stat: bool,
    },
    /// Merge what a stage changes into the real tree, after a look at it
    #[command(after_help = "Examples:
  airlock merge                         everything, once you said yes
  airlock merge --files src README.md   only these
  airlock merge --hunks src/a.rs:1,3    only these changes of a file
  airlock merge --interactive           file by file, hunk by hunk

What changed in the real tree meanwhile is left, unless you say --overwrite.
Exit codes: 0 merged, 1 failed, 3 denied or not approved, 4 needs a person, or
something was left.")]
    Merge(crate::commands::merge::MergeArgs),
    /// Take a merge back, exactly
    #[command(after_help = "Examples:
  airlock undo             the last merge that is not undone
  airlock undo --list      every merge there is
  airlock undo 0197        that one, by the beginning of its name

Files that were changed since stay as they are.")]
    Undo(crate::commands::merge::UndoArgs),
    /// List and drop stages
    #[command(
        subcommand,
        after_help = "Examples:
  airlock stage list
  airlock stage drop default"
    )]
    Stage(StageCommand),
    /// Write a starter policy that fits this project
    #[command(after_help = "Examples:
  airlock init             write .airlock/policy.yaml
  airlock init --print     show it without writing it")]
    Init {
        /// Print the policy instead of writing it
        #[arg(long)]
        print: bool,
    },
    /// Say what this machine can enforce, and how to mend it
    #[command(after_help = "Examples:
  airlock doctor           try everything now
  airlock doctor --cached  what was found out since the last boot")]
    Doctor(crate::commands::doctor::Arguments),
    /// Approve this workspace's policy, config and plugins
    #[command(after_help = "Examples:
  airlock trust            review .airlock/ and approve it
  airlock trust show       what is approved or has changed
  airlock trust revoke     back to the built-in defaults")]
    Trust {
        #[command(subcommand)]
        action: Option<TrustAction>,
    },
    /// Check, explain, test, compare and change policy
    #[command(
        subcommand,
        after_help = "Examples:
  airlock policy check
  airlock policy explain fs.write --path .github/workflows/ci.yml
  airlock policy test tests/policy.yaml"
    )]
    Policy(PolicyCommand),
    /// Read, verify and export the audit log
    #[command(
        subcommand,
        after_help = "Examples:
  airlock audit log --decision deny --since 2h
  airlock audit verify
  airlock audit export > log.jsonl"
    )]
    Audit(AuditCommand),
    /// See and answer what waits for approval, and take answers back
    #[command(
        subcommand,
        after_help = "Examples:
  airlock approvals list
  airlock approvals approve 1f2e3d4c --uses 5 --dir src
  airlock approvals grants"
    )]
    Approvals(crate::commands::approvals::Arguments),
    /// List, show and end sessions
    #[command(
        subcommand,
        after_help = "Examples:
  airlock session list
  airlock session show 1f2e3d4c"
    )]
    Session(crate::commands::session::Arguments),
    /// Run jobs of several steps, and take them up again
    #[command(
        subcommand,
        after_help = "Examples:
  airlock workflow list
  airlock workflow run count-words word=TODO
  airlock workflow resume 0198c1f2"
    )]
    Workflow(crate::commands::workflow::Arguments),
    /// Make, install and steer plugins: third-party tools, boxed in
    #[command(
        subcommand,
        after_help = "Examples:
  airlock plugin new word-count --lang python
  airlock plugin install ./word-count
  airlock plugin call word-count count text='one two'"
    )]
    Plugin(crate::commands::plugin::Arguments),
    /// List, describe and call tools on the road
    #[command(
        subcommand,
        after_help = "Examples:
  airlock tool list
  airlock tool call fs.read path=README.md"
    )]
    Tool(ToolCommand),
    /// Serve this workspace to other processes, until nobody needs it
    #[command(after_help = "Examples:
  airlock kernel           start one in the background
  airlock kernel --foreground --idle 1h
  airlock kernel status
  airlock kernel stop")]
    Kernel(crate::commands::kernel::Arguments),
    /// Give any MCP client governed tools
    #[command(
        subcommand,
        after_help = "Examples:
  airlock mcp serve
  airlock mcp serve --http 127.0.0.1:7420"
    )]
    Mcp(crate::commands::mcp::McpCommand),
    /// Show and change configuration
    #[command(
        subcommand,
        after_help = "Examples:
  airlock config show
  airlock config set color never"
    )]
    Config(ConfigCommand),
    /// Print a shell completion script
    #[command(after_help = "Example:
  airlock completions bash > ~/.local/share/bash-completion/completions/airlock")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory
    #[command(after_help = "Example:
  airlock man ~/.local/share/man/man1")]
    Man {
        /// Where to write them
        directory: PathBuf,
    },
    /// Serve one script of a policy, in its sandbox
    #[command(hide = true, after_help = "Example:\n  airlock script-worker")]
    ScriptWorker,
    /// Change files of a stage, in its sandbox
    #[command(hide = true, after_help = "Example:\n  airlock file-worker")]
    FileWorker,
    /// Make one request over a connection of the kernel's, in its sandbox
    #[command(hide = true, after_help = "Example:\n  airlock request-worker")]
    RequestWorker,
    /// Print the version and what this build can do
    #[command(after_help = "Example:
  airlock version --json")]
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The sandbox template: code-executor, integration-test
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Let it read this too; repeat for several
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_read: Vec<String>,
    /// Let it read and write this too, really; repeat for several
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_write: Vec<String>,
    /// Keep it from what matches, such as '**/*.csv'; repeat for several
    #[arg(long, value_name = "GLOB")]
    pub(crate) deny: Vec<String>,
    /// Longest run, such as 30s or 2m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Most memory, such as 512MiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Most processes and threads
    #[arg(long, value_name = "N")]
    pub(crate) pids: Option<u32>,
    /// Pass a variable on, or set it; repeat for several
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Pass stdin on even if it is a terminal; otherwise it is passed on by itself
    #[arg(long, conflicts_with = "tty")]
    pub(crate) stdin: bool,
    /// Give it a terminal of its own, joined to yours
    #[arg(long, conflicts_with = "json")]
    pub(crate) tty: bool,
    /// The stage it writes to
    #[arg(long, value_name = "NAME", conflicts_with = "no_stage")]
    pub(crate) stage: Option<String>,
    /// Show it the workspace read-only, without a stage
    #[arg(long)]
    pub(crate) no_stage: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StageCommand {
    /// List stages
    #[command(after_help = "Example:
  airlock stage list --json")]
    List,
    /// Drop a stage and what it changed
    #[command(after_help = "Example:
  airlock stage drop default")]
    Drop {
        /// The stage
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustAction {
    /// What is approved, and what has changed since
    #[command(after_help = "Example:
  airlock trust show --json")]
    Show,
    /// Withdraw approval: built-in defaults hold again
    #[command(after_help = "Example:
  airlock trust revoke")]
    Revoke,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file: every problem, with its place
    #[command(after_help = "Example:
  airlock policy check .airlock/policy.yaml")]
    Check {
        /// The file; default: this workspace's policy
        file: Option<PathBuf>,
    },
    /// Say what would be decided, by which rules, and what would change it
    #[command(after_help = "Examples:
  airlock policy explain fs.write --path .github/workflows/ci.yml
  airlock policy explain net.connect --host example.org --port 443 --as agent
  airlock policy explain exec.run --command 'cargo test' --tier process")]
    Explain(Box<ExplainArgs>),
    /// Run a policy's examples and a file of table tests
    #[command(after_help = "Example:
  airlock policy test tests/policy.yaml")]
    Test {
        /// A file of table tests; without it only the policy's own examples run
        file: Option<PathBuf>,
        /// The policy to test; default: this workspace's
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// Replay audited syscalls against another policy and show what would differ
    #[command(after_help = "Example:
  airlock policy diff new-policy.yaml --last 500")]
    Diff {
        /// The new policy
        file: PathBuf,
        /// How many of the last audited syscalls to replay; default: what the policy says, 100
        #[arg(long, value_name = "N")]
        last: Option<usize>,
    },
    /// Replace this workspace's policy, after review at a terminal
    #[command(after_help = "Example:
  airlock policy update new-policy.yaml")]
    Update {
        /// The new policy
        file: PathBuf,
        /// How many of the last audited syscalls to replay; default: what the policy says, 100
        #[arg(long, value_name = "N")]
        last: Option<usize>,
    },
    /// Print the JSON Schema of policy files
    #[command(after_help = "Example:
  airlock policy schema > policy.schema.json")]
    Schema,
    /// Print the policy in force
    #[command(after_help = "Example:
  airlock policy show > policy.yaml")]
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The syscall, such as fs.write
    pub(crate) syscall: String,
    /// A path it touches; repeat for several
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<String>,
    /// The host it connects to
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// The port it connects to
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// The command it runs, as words
    #[arg(long, value_name = "WORDS")]
    pub(crate) command: Option<String>,
    /// The tool it calls
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// The secret it uses
    #[arg(long)]
    pub(crate) secret: Option<String>,
    /// Where it would run: kernel, wasm, process, container
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// The sandbox template
    #[arg(long)]
    pub(crate) template: Option<String>,
    /// The session's mode: strict, explore, debug
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// The session's phase, such as test_writing
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// A capability tag of the caller; repeat for several
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// An argument, NAME=VALUE; repeat for several
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) arg: Vec<String>,
    /// Size of the largest file it would write, such as 20KiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) file_size: Option<String>,
    /// Who asks: cli, agent, mcp, server or a plugin
    #[arg(long = "as", value_name = "PLUGIN", default_value = "agent")]
    pub(crate) plugin: String,
    /// The policy; default: the one in force in this workspace
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List records
    #[command(after_help = "Examples:
  airlock audit log --decision deny --since 2h
  airlock audit log --follow --json")]
    Log(LogArgs),
    /// Show one record whole
    #[command(after_help = "Example:
  airlock audit show 12 --json")]
    Show {
        /// Its sequence number
        seq: u64,
        /// With the whole arguments and result, where the policy keeps them
        #[arg(long)]
        content: bool,
    },
    /// Verify the log, or an export of it
    #[command(after_help = "Examples:
  airlock audit verify
  airlock audit verify export.jsonl
  airlock audit verify --checkpoint pinned.jsonl")]
    Verify {
        /// An export; default: this workspace's log
        export: Option<PathBuf>,
        /// A file of checkpoints pinned elsewhere; `-` reads them from standard input
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
        /// A public key that must have signed; repeatable
        #[arg(long = "key", value_name = "HEX")]
        keys: Vec<PublicKey>,
    },
    /// Write records for other tools or for offline verification
    #[command(after_help = "Examples:
  airlock audit export > log.jsonl
  airlock audit export --format ocsf --output log.ocsf.jsonl")]
    Export {
        /// The format
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
        /// Where to; default: stdout
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Count records by event and decision; sizes and checkpoints
    #[command(after_help = "Example:
  airlock audit stats --json")]
    Stats,
    /// Sign the head of the log now, and print the checkpoint for pinning elsewhere
    #[command(after_help = "Example:
  airlock audit checkpoint >> pinned.jsonl")]
    Checkpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Verifiable JSON lines
    Jsonl,
    /// OCSF events, for a SIEM
    Ocsf,
    /// A table
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Only this session
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Only this event type, such as capability_check
    #[arg(long)]
    pub(crate) event: Option<String>,
    /// Only this decision: allow, deny, require_review
    #[arg(long)]
    pub(crate) decision: Option<String>,
    /// Only this plugin
    #[arg(long)]
    pub(crate) plugin: Option<String>,
    /// Only records that touch this path
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Only records that name this host
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Not older than: 90s, 30m, 2h, or a date or time
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Not newer than
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// Only records that contain this text
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// At most this many, the newest
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    pub(crate) limit: usize,
    /// Go on as records arrive
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List tools
    #[command(after_help = "Examples:
  airlock tool list --json
  airlock tool list --level 0")]
    List {
        /// How much of each adapter is read and shown: 0 to 3
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=3))]
        level: u8,
    },
    /// Check adapters, with their examples and fixtures
    #[command(after_help = "Examples:
  airlock tool check
  airlock tool check my-adapter.yaml")]
    Check {
        /// Files; default: every adapter there is here, approved or not
        files: Vec<PathBuf>,
    },
    /// Describe one tool, with its argument schema
    #[command(after_help = "Example:
  airlock tool show search.grep")]
    Show {
        /// The tool, such as fs.read
        name: String,
    },
    /// Call a tool on the road
    #[command(after_help = "Examples:
  airlock tool call fs.read path=README.md
  airlock tool call search.grep pattern=TODO glob='*.rs'
  airlock tool call fs.list '{\"path\": \"src\", \"depth\": 2}'")]
    Call {
        /// The tool, such as fs.read
        name: String,
        /// NAME=VALUE pairs, or one JSON object
        arguments: Vec<String>,
        /// Act as this front: cli, agent, mcp, server
        #[arg(long = "as", value_name = "FRONT", default_value = "cli")]
        front: String,
        /// The session it belongs to
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Nobody is there to answer: the policy says whether a question waits or is denied
        #[arg(long)]
        unattended: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting, its value and where it came from
    #[command(after_help = "Example:
  airlock config show --json")]
    Show,
    /// Set a value in your own configuration
    #[command(after_help = "Examples:
  airlock config set color never
  airlock config set output.max_tokens 8000
  airlock config set plugins.ticket-tools.api_key -")]
    Set {
        /// The setting; those of a plugin are plugins.NAME.SETTING
        key: String,
        /// Its value; - reads that of a plugin's setting from standard input
        #[arg(allow_negative_numbers = true, allow_hyphen_values = true)]
        value: String,
    },
    /// Take back what was set for a plugin
    #[command(after_help = "Example:
  airlock config unset plugins.ticket-tools.api_key")]
    Unset {
        /// The setting, plugins.NAME.SETTING
        key: String,
    },
    /// Print where configuration is read from
    #[command(after_help = "Example:
  airlock config path")]
    Path,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Every command below `command`, with the words that name it.
    fn all(command: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
        let mut found = vec![(words.to_vec(), command.clone())];
        for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
            let mut words = words.to_vec();
            words.push(below.get_name().to_owned());
            found.extend(all(below, &words));
        }
        found
    }

    #[test]
    fn every_command_has_examples_of_itself_that_parse() {
        for (words, command) in all(&Cli::command(), &[]) {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_else(|| panic!("{words:?} has no examples"));
            let prefix = format!("  airlock {}", words.join(" "));
            let examples: Vec<&str> = help
                .lines()
                .filter(|line| line.starts_with(prefix.trim_end()))
                .collect();
            assert!(!examples.is_empty(), "{words:?}: {help}");
            for example in examples {
                // What follows two spaces is a remark; what follows `>` is for the shell.
                let line = example.trim().split("  ").next().unwrap_or_default();
                let line = line.split(" >").next().unwrap_or_default();
                let parsed = Cli::try_parse_from(shell_words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn exec_is_read_alone_as_it_is_among_all_commands() {
        let words = |line: &str| -> Vec<OsString> {
            shell_words(line).into_iter().map(OsString::from).collect()
        };
        for line in [
            "airlock exec -- true",
            "airlock exec --json --deny '**/.env' --deny=x --timeout 3s -- cat x",
            "airlock exec --workspace /w --color never --env A=1 --stage s -- ls --json",
            "airlock exec --pids 3 --memory 1MiB --no-stage --stdin --template t -- x",
            "airlock exec --allow-read a --allow-write b --tty -- -- x --help",
        ] {
            let words = words(line);
            let alone = ExecAlone::try_parse_from([&words[..1], &words[2..]].concat());
            assert!(alone.is_ok(), "{line}: {}", alone.unwrap_err());
            let whole = Cli::try_parse_from(&words).unwrap();
            let read = Cli::read(&words).unwrap();
            assert_eq!(format!("{read:?}"), format!("{whole:?}"), "{line}");
        }
        for line in [
            "airlock exec",
            "airlock exec --",
            "airlock exec true",
            "airlock exec --nonsense -- x",
            "airlock exec --tty --json -- x",
            "airlock exec --stdin --tty -- x",
            "airlock exec --stage s --no-stage -- x",
            "airlock exec --pids many -- x",
            "airlock exec --color green -- x",
            "airlock exec --help",
            "airlock exec -h -- x",
            "airlock exec --version",
        ] {
            let words = words(line);
            let whole = Cli::try_parse_from(&words).unwrap_err();
            let read = Cli::read(&words).unwrap_err();
            assert_eq!(read.kind(), whole.kind(), "{line}");
            assert_eq!(read.to_string(), whole.to_string(), "{line}");
        }
    }

    /// Words as a shell splits them, as far as the examples need.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words
    }
}

//! `airlock mcp serve`: governed tools for any MCP client.

mod shared;

use super::{open, tool};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, shown};
use crate::place::Place;
use airlock_mcp::{Bound, Road, ServeError, Stop, Token, serve_stdio};
use clap::{Args, Subcommand};
use serde_json::json;
use shared::Shared;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Serve the client on stdin and stdout, or clients over HTTP
    #[command(after_help = "Examples:
  airlock mcp serve                         for a client that starts it
  airlock mcp serve --http 127.0.0.1:7420   for clients on this machine

Over HTTP a client needs the bearer token in the token file, which is made if it is not there.")]
    Serve(ServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Serve HTTP on this address of this machine, such as 127.0.0.1:7420 or localhost:0
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Where the bearer token is; default: mcp-token in the workspace's state directory
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
}

pub(super) fn run(global: &Global, command: McpCommand, output: &mut Output) -> Ending {
    match command {
        McpCommand::Serve(args) => serve(global, &args, output),
    }
}

fn serve(global: &Global, args: &ServeArgs, output: &mut Output) -> Ending {
    let address = args.http.as_deref().map(address).transpose()?;
    if address.is_none() && output.is_json() {
        return Err(Failure::new(Kind::Usage, "`--json` has no meaning here")
            .why("without `--http`, stdout carries the protocol and nothing else")
            .fix("leave `--json` out"));
    }
    let bound = address.map(bind).transpose()?;
    let place = Place::find(global.workspace.as_deref())?;
    let config = open::configuration(global, &place)?;
    open::apply_color(&config);
    let (state, _) = open::state(&place)?;
    let shared = Arc::new(Shared::new(global, place, &config)?);
    shared.begin(output)?;
    // Where they cannot be listed now, whoever asks for them is told.
    tool::warn_of_names(&shared.tools().unwrap_or_default(), output);
    let stop = Stop::new();
    let signals = Watch::begin(stop.clone())?;
    let ended = bound.map_or_else(
        || Ok(serve_stdio(road(&shared), &stop)),
        |bound| {
            let file = args.token_file.clone();
            let file = file.unwrap_or_else(|| state.join("mcp-token"));
            let token = token(&file)?;
            announce(bound.address(), &file, output);
            Ok(bound.serve(road(&shared), token, &stop))
        },
    );
    drop(signals);
    let closed = shared.end();
    ended?.map_err(|error| failed(&error))?;
    closed.map(|()| 0)
}

fn road(shared: &Arc<Shared>) -> Arc<dyn Road> {
    Arc::clone(shared) as Arc<dyn Road>
}

fn token(file: &Path) -> Result<Token, Failure> {
    Token::load_or_make(file).map_err(|error| {
        Failure::of(Kind::Failed, &error)
            .why(format!("the file is {}", shown(file)))
            .fix(error.hint())
    })
}

fn failed(error: &ServeError) -> Failure {
    Failure::of(Kind::Failed, error).maybe_fix(error.hint())
}

/// An address of this machine; no name is looked up but the one that means it everywhere.
fn address(text: &str) -> Result<SocketAddr, Failure> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        let text = airlock_kernel::sanitise_line(text, 60);
        Failure::new(Kind::Usage, format!("`{text}` is not an address"))
            .fix("write it as 127.0.0.1:7420, [::1]:7420 or localhost:7420; port 0 takes any")
    })
}

fn bind(address: SocketAddr) -> Result<Bound, Failure> {
    Bound::bind(address).map_err(|error| {
        let kind = match error {
            airlock_mcp::BindError::NotLoopback(_) => Kind::Usage,
            airlock_mcp::BindError::Listen { .. } => Kind::Failed,
        };
        Failure::of(kind, &error).fix(error.hint())
    })
}

fn announce(address: SocketAddr, token_file: &Path, output: &mut Output) {
    let url = format!("http://{address}/mcp");
    if output.is_json() {
        output.json(&json!({ "url": url, "token_file": shown(token_file) }));
    } else {
        output.line(&url);
        output.note(format!("the bearer token is in {}", shown(token_file)));
    }
}

/// Ends the server on the signals that ask a program to end.
struct Watch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn begin(stop: Stop) -> Result<Self, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::unwatched)?;
        let handle = signals.handle();
        let thread = std::thread::spawn(move || {
            for _ in signals.forever() {
                stop.stop();
            }
        });
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It only forwards signals; there is nothing it could fail at.
            let _ended = thread.join();
        }
    }
}

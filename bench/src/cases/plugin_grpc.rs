//! A plugin in Go, called through the host and in its box, against the same program called by a
//! plain gRPC client, with neither box nor TLS.

use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_core::{ByteSize, Digest};
use airlock_plugin::boxed::{Boxes, Ground};
use airlock_plugin::{
    Callback, CallbackError, Grants, Instance as _, Manifest, Reach, Start, ToolCall,
};
use airlock_plugin_grpc::proto::airlock::execute_response::Said;
use airlock_plugin_grpc::proto::airlock::{ExecuteRequest, ExecuteResponse, tool};
use airlock_plugin_grpc::{COOKIE, GrpcHost, GrpcPlugin, Settings};
use airlock_sandbox::presets::Facts;
use airlock_sandbox::{HostPath, Launcher, Outfit, Surroundings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

const LIBRARY: &str = "/usr/share/gocode/src/github.com/hashicorp/go-plugin";
const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/plugin-grpc/tests/go-plugin"
);
const CALL: &str = "a call of a gRPC plugin in Go, p50 / p99";
const START: &str = "the start of a gRPC plugin in Go, until its first answer";

/// Whether plugins in Go can be built here.
pub(super) fn is_possible() -> bool {
    Path::new(LIBRARY).exists()
}

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    if !is_possible() {
        let why = "go-plugin is not here: cargo xtask setup";
        return Ok([CALL, START].map(|what| Row::missing(what, "", why)).into());
    }
    let directory = tempfile::tempdir()?;
    let place = Place::new(directory.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    Ok(vec![
        calls(&place, &runtime, options)?,
        starts(&place, &runtime, options)?,
    ])
}

fn calls(place: &Place, runtime: &Runtime, options: &Options) -> Result<Row, Failure> {
    let ours = place.plugin()?;
    let theirs = Plain::start(place, runtime)?;
    let mut samples = (Vec::new(), Vec::new());
    for _ in 0..options.pick(5_000, 500) {
        let start = Instant::now();
        theirs.call(runtime)?;
        samples.1.push(measure::nanos(start.elapsed()));
        let start = Instant::now();
        call(&ours)?;
        samples.0.push(measure::nanos(start.elapsed()));
    }
    let ratio = measure::median_ratio(&samples.0, &samples.1);
    let (ours, theirs) = (Samples::new(samples.0), Samples::new(samples.1));
    let text = |samples: &Samples| {
        let time = |percent| measure::time_text(samples.at(percent));
        format!("{} / {}", time(50), time(99))
    };
    Ok(Row::new(CALL)
        .measured(text(&ours))
        .against(format!("{} plain gRPC, no box, no TLS", text(&theirs)))
        .ratio(ratio))
}

fn starts(place: &Place, runtime: &Runtime, options: &Options) -> Result<Row, Failure> {
    let mut samples = (Vec::new(), Vec::new());
    for _ in 0..options.pick(20, 5) {
        let start = Instant::now();
        let plain = Plain::start(place, runtime)?;
        plain.call(runtime)?;
        samples.1.push(measure::nanos(start.elapsed()));
        drop(plain);
        let start = Instant::now();
        let plugin = place.plugin()?;
        call(&plugin)?;
        samples.0.push(measure::nanos(start.elapsed()));
        plugin.stop(Duration::from_secs(1));
    }
    let more = samples.0.iter().zip(&samples.1);
    let more = Samples::new(more.map(|(ours, theirs)| ours - theirs).collect()).median();
    let (ours, theirs) = (Samples::new(samples.0), Samples::new(samples.1));
    Ok(Row::new(START)
        .measured(measure::time_text(ours.median()))
        .against(format!(
            "{} the same program, no box, no TLS",
            measure::time_text(theirs.median())
        ))
        .difference(more))
}

/// Where the program and everything about it lies.
struct Place {
    root: PathBuf,
    host: GrpcHost,
}

/// Nothing is asked of the kernel here.
struct Nobody;

impl Callback for Nobody {
    fn submit(&self, name: &str, _: &Value, _: Option<&str>) -> Result<Value, CallbackError> {
        Err(CallbackError {
            code: "denied".to_owned(),
            message: name.to_owned(),
            retryable: false,
        })
    }
}

impl Place {
    fn new(root: &Path) -> Result<Self, Failure> {
        for name in ["plugin/bin", "own/data", "own/reach", "plain"] {
            fs::create_dir_all(root.join(name))?;
        }
        build(&root.join("plugin/bin/tools"), &root.join("cache"))?;
        let home = HostPath::new(root.join("home"))?;
        let surroundings = Surroundings {
            own: vec![HostPath::new(root.join("own"))?],
            home: Some(home.clone()),
        };
        let facts = Facts {
            surroundings: &surroundings,
            environment: &BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            workspace: &HostPath::new(root.join("workspace"))?,
            network: airlock_sandbox::Reach::None,
        };
        let boxes = Boxes::new(Ground {
            outfit: Outfit::look(&facts, &home),
            surroundings,
            launcher: Launcher::Native,
            place: root.join("own/place"),
            disk: ByteSize::from_bytes(64 << 20),
        })?;
        Ok(Self {
            root: root.to_owned(),
            host: GrpcHost::new(Arc::new(boxes), Settings::default()),
        })
    }

    fn program(&self) -> PathBuf {
        self.root.join("plugin/bin/tools")
    }

    fn plugin(&self) -> Result<GrpcPlugin, Failure> {
        let text = "{name: tools, version: 1.0.0, type: tool, execution: {entry: bin/tools}}";
        let start = Start {
            manifest: Arc::new(Manifest::parse(text.as_bytes())?),
            directory: self.root.join("plugin"),
            entry: Digest::of(&fs::read(self.program())?),
            data: self.root.join("own/data"),
            grants: Grants::default(),
            configuration: json!({}),
            reach: Reach {
                directory: self.root.join("own/reach"),
                callback: Arc::new(Nobody),
            },
        };
        Ok(self.host.launch(&start)?)
    }
}

fn call(plugin: &GrpcPlugin) -> Result<(), Failure> {
    let call = ToolCall {
        action: "action".to_owned(),
        tool: "echo".to_owned(),
        arguments: json!({"text": "hello"}),
        session: None,
        mode: None,
        deadline: Duration::from_secs(30),
        max_output: 1 << 20,
    };
    let value = plugin.call(&call, &mut Vec::new(), &AtomicBool::new(false))?;
    same(&value)
}

fn same(value: &Value) -> Result<(), Failure> {
    if *value == json!({"text": "hello"}) {
        Ok(())
    } else {
        Err(Failure::new(format!("the plugin answered `{value}`")))
    }
}

/// The same program, started and called without Airlock.
struct Plain {
    child: Child,
    client: Grpc<Channel>,
}

impl Plain {
    fn start(place: &Place, runtime: &Runtime) -> Result<Self, Failure> {
        let (cookie, value) = COOKIE;
        let mut child = command(&place.program())
            .env_clear()
            .env(cookie, value)
            .env("PLUGIN_PROTOCOL_VERSIONS", "1")
            .env("TMPDIR", place.root.join("plain"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take();
        let stdout = stdout.ok_or_else(|| Failure::new("the plugin has no output"))?;
        BufReader::new(stdout).read_line(&mut line)?;
        let path = line.split('|').nth(3);
        let path = path.ok_or_else(|| Failure::new(format!("the plugin said `{line}`")))?;
        let endpoint = Endpoint::from_shared(format!("unix:{path}"))?;
        let client = Grpc::new(runtime.block_on(endpoint.connect())?);
        Ok(Self { child, client })
    }

    fn call(&self, runtime: &Runtime) -> Result<(), Failure> {
        let mut client = self.client.clone();
        let value = runtime.block_on(async {
            let request = ExecuteRequest {
                tool: "echo".to_owned(),
                arguments_json: json!({"text": "hello"}).to_string(),
                ..ExecuteRequest::default()
            };
            client.ready().await?;
            let path = PathAndQuery::from_static(tool::EXECUTE.path());
            let codec = ProstCodec::<ExecuteRequest, ExecuteResponse>::default();
            let answer = client.server_streaming(Request::new(request), path, codec);
            let mut stream = answer.await?.into_inner();
            while let Some(message) = stream.message().await? {
                if let Some(Said::ResultJson(text)) = message.said {
                    return Ok(serde_json::from_str(&text)?);
                }
            }
            Err(Failure::new("the plugin did not answer"))
        })?;
        same(&value)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // It is gone already if this fails.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Builds the plugin in Go.
pub(super) fn build(program: &Path, cache: &Path) -> Result<(), Failure> {
    let built = command(Path::new("/usr/bin/go"))
        .args(["build", "-trimpath", "-o"])
        .arg(program)
        .arg(".")
        .current_dir(SOURCE)
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOFLAGS", "")
        .env("GOCACHE", cache)
        .output()?;
    if built.status.success() {
        Ok(())
    } else {
        Err(Failure::new(String::from_utf8_lossy(&built.stderr)))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the peer runs without Airlock, and so does the compiler"
)]
fn command(program: &Path) -> Command {
    Command::new(program)
}

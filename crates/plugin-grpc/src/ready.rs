//! From a plugin that has said where it listens to one that can be called.
//!
//! Connect, see that it is well, open its broker and its output, introduce ourselves, and ask what
//! it has to offer. Whatever fails here is a reason not to start.

use crate::address::Sockets;
use crate::broker::Broker;
use crate::connect;
use crate::fault;
use crate::handshake::Handshake;
use crate::kernel;
use crate::output::{Output, shown};
use crate::rpc::Rpc;
use crate::settings::Settings;
use airlock_plugin::boxed::KERNEL_SOCKET;
use airlock_plugin::{Kind, Start, StartError, ToolDescription};
use airlock_plugin_protocol::messages::airlock::{
    self, DescribeRequest, GetIdentityRequest, Identity, InitRequest, ListModelsRequest, Model,
    channel, plugin_lifecycle, provider, tool,
};
use airlock_plugin_protocol::messages::goplugin::{StdioRequest, grpc_stdio};
use airlock_plugin_protocol::messages::health::health_check_response::ServingStatus;
use airlock_plugin_protocol::messages::health::{HealthCheckRequest, health};
use airlock_plugin_protocol::tls::{Identity as Certified, TlsError};
use rustls::{ClientConfig, ServerConfig};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::AbortHandle;
use tonic::{Code, Status};

/// go-plugin's name for a plugin's whole server.
const HEALTH_NAME: &str = "plugin";
/// The brokered connection on which the kernel is offered.
const KERNEL: u32 = 1;

/// A plugin that can be called.
pub(crate) struct Ready {
    /// Its first connection: health and lifecycle.
    pub(crate) first: Rpc,
    /// Where it serves what it is for.
    pub(crate) serving: Rpc,
    pub(crate) tools: Vec<ToolDescription>,
    pub(crate) identity: Option<Identity>,
    pub(crate) models: Vec<Model>,
    pub(crate) tasks: Vec<AbortHandle>,
    // Its sockets are removed, and no connection is offered any more, when this goes.
    _broker: Broker,
}

/// The process of a plugin that has said where it listens.
#[derive(Clone, Copy)]
pub(crate) struct Process<'a> {
    pub(crate) said: &'a Handshake,
    pub(crate) sandbox: &'a str,
    pub(crate) output: &'a Output,
}

/// TLS for one plugin, both ways.
struct Secured {
    client: Option<Arc<ClientConfig>>,
    server: Option<Arc<ServerConfig>>,
}

impl Secured {
    fn new(host: &Certified, certificate: Option<&[u8]>) -> Result<Self, StartError> {
        let unusable = |error: TlsError| StartError::Protocol(error.to_string());
        let client = certificate.map(|its| host.client(its)).transpose();
        let server = certificate.map(|its| host.server(its)).transpose();
        Ok(Self {
            client: client.map_err(unusable)?,
            server: server.map_err(unusable)?,
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn protocol(error: impl ToString) -> StartError {
    StartError::Protocol(error.to_string())
}

/// Brings a plugin to the point where it can be called.
pub(crate) async fn ready(
    start: &Start,
    process: Process<'_>,
    host: &Certified,
    sockets: Arc<Sockets>,
    settings: &Settings,
) -> Result<Ready, StartError> {
    let Process { said, output, .. } = process;
    let secured = Secured::new(host, said.certificate.as_deref())?;
    let stream = sockets.connect(&said.address).await.map_err(protocol)?;
    let channel = connect::channel(stream, secured.client.clone());
    let channel = channel.await.map_err(protocol)?;
    let first = Rpc::new(channel.clone(), settings.message_bytes);
    let mut tasks = vec![print(first.clone(), output.clone())];
    check(&first)
        .await
        .map_err(|status| fault::start(&status, "grpc.health.v1.Health.Check"))?;
    let (broker, listening) = Broker::open(channel, sockets);
    tasks.push(listening);
    let offered = broker.offer(KERNEL, secured.server);
    let offered = offered
        .map_err(|error| StartError::Confinement(format!("no socket for the kernel: {error}")))?;
    tasks.push(kernel::serve(
        Arc::clone(&start.reach.callback),
        offered,
        settings,
    ));
    let serving = match init(&first, start, process.sandbox).await? {
        0 => first.clone(),
        number => {
            let channel = broker.dial(number, secured.client).await;
            Rpc::new(channel.map_err(protocol)?, settings.message_bytes)
        }
    };
    let mut ready = Ready {
        first,
        serving,
        tools: Vec::new(),
        identity: None,
        models: Vec::new(),
        tasks,
        _broker: broker,
    };
    ready.ask(start, settings).await?;
    Ok(ready)
}

impl Ready {
    /// Asks for what a plugin of its type has to offer.
    async fn ask(&mut self, start: &Start, settings: &Settings) -> Result<(), StartError> {
        match start.manifest.kind {
            Kind::Tool => self.tools = describe(&self.serving, start, settings).await?,
            Kind::Channel => {
                let request = GetIdentityRequest {};
                let identity = self.serving.ask(channel::GET_IDENTITY, request).await;
                let failed = |status| fault::start(&status, "Channel.GetIdentity");
                self.identity = Some(identity.map_err(failed)?);
            }
            Kind::Provider => {
                let request = ListModelsRequest {};
                let models = self.serving.ask(provider::LIST_MODELS, request).await;
                let failed = |status| fault::start(&status, "Provider.ListModels");
                self.models = models.map_err(failed)?.models;
                few("models", self.models.len(), settings)?;
            }
            Kind::Skill => {
                let why = "a skill has no code, so there is nothing to start";
                return Err(StartError::Protocol(why.to_owned()));
            }
        }
        Ok(())
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Asks gRPC's own health service.
pub(crate) async fn check(rpc: &Rpc) -> Result<(), Status> {
    let request = HealthCheckRequest {
        service: HEALTH_NAME.to_owned(),
    };
    let answer = rpc.ask(health::CHECK, request).await?;
    match answer.status() {
        ServingStatus::Serving => Ok(()),
        other @ (ServingStatus::Unknown
        | ServingStatus::NotServing
        | ServingStatus::ServiceUnknown) => Err(Status::unavailable(format!(
            "it says that it is {}",
            other.as_str_name()
        ))),
    }
}

/// Keeps the end of what the plugin prints. Libraries of old have no service for it.
fn print(rpc: Rpc, output: Output) -> AbortHandle {
    let task = tokio::spawn(async move {
        let printed = rpc.stream(grpc_stdio::STREAM_STDIO, StdioRequest {}).await;
        let Ok(mut stream) = printed else {
            return;
        };
        while let Ok(Some(printed)) = stream.message().await {
            output.push(&printed.data);
        }
    });
    task.abort_handle()
}

/// Introduces ourselves. The number of the connection on which it serves, or 0.
async fn init(rpc: &Rpc, start: &Start, sandbox: &str) -> Result<u32, StartError> {
    let manifest = &start.manifest;
    let request = InitRequest {
        name: manifest.name.to_string(),
        version: manifest.version.to_string(),
        api_version: manifest.api_version,
        configuration_json: start.configuration.to_string(),
        data_directory: start.data.to_string_lossy().into_owned(),
        kernel_socket: start
            .reach
            .directory
            .join(KERNEL_SOCKET)
            .to_string_lossy()
            .into_owned(),
        kernel_broker_id: KERNEL,
        sandbox_id: sandbox.to_owned(),
    };
    match rpc.ask(plugin_lifecycle::INIT, request).await {
        Ok(answer) => Ok(answer.serve_broker_id),
        Err(status) if status.code() == Code::Unimplemented && is_empty(&start.configuration) => {
            Ok(0)
        }
        Err(status) => Err(fault::start(&status, "PluginLifecycle.Init")),
    }
}

fn is_empty(configuration: &Value) -> bool {
    configuration.is_null()
        || configuration
            .as_object()
            .is_some_and(serde_json::Map::is_empty)
}

async fn describe(
    rpc: &Rpc,
    start: &Start,
    settings: &Settings,
) -> Result<Vec<ToolDescription>, StartError> {
    let described = rpc.ask(tool::DESCRIBE, DescribeRequest {}).await;
    let described = described.map_err(|status| fault::start(&status, "Tool.Describe"))?;
    let tools = tools(described.tools, settings)?;
    let pinned = &start.manifest.tools;
    if pinned.is_empty() || same(pinned, &tools) {
        Ok(tools)
    } else {
        let why = "its tools are not those its manifest describes";
        Err(StartError::Protocol(why.to_owned()))
    }
}

fn tools(
    described: Vec<airlock::ToolDescription>,
    settings: &Settings,
) -> Result<Vec<ToolDescription>, StartError> {
    few("tools", described.len(), settings)?;
    let mut names = BTreeSet::new();
    let tool = |tool: airlock::ToolDescription| {
        let wrong = |why: &str| protocol(format!("its tool `{}` {why}", shown(&tool.name)));
        if !names.insert(tool.name.clone()) {
            return Err(wrong("is described twice"));
        }
        let schema: Value = serde_json::from_str(&tool.schema_json)
            .map_err(|error| wrong(&format!("has a schema that is no JSON: {error}")))?;
        if !schema.is_object() {
            return Err(wrong("has a schema that is no object"));
        }
        Ok(ToolDescription {
            name: tool.name,
            summary: tool.summary,
            schema,
            read_only: tool.read_only,
        })
    };
    described.into_iter().map(tool).collect()
}

fn few(what: &str, count: usize, settings: &Settings) -> Result<(), StartError> {
    if count > settings.descriptions {
        let most = settings.descriptions;
        return Err(protocol(format!(
            "it describes {count} {what}; at most {most} are taken"
        )));
    }
    Ok(())
}

/// Whether both describe the same tools, in whatever order.
fn same(one: &[ToolDescription], other: &[ToolDescription]) -> bool {
    one.len() == other.len() && one.iter().all(|tool| other.contains(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &str, schema: &str) -> airlock::ToolDescription {
        airlock::ToolDescription {
            name: name.to_owned(),
            schema_json: schema.to_owned(),
            ..airlock::ToolDescription::default()
        }
    }

    #[test]
    fn descriptions_are_taken_only_whole() {
        let settings = Settings {
            descriptions: 2,
            ..Settings::default()
        };
        let good = || described("one", "{}");
        for (case, given, wanted) in [
            (
                "two of a name",
                vec![good(), good()],
                "`one` is described twice",
            ),
            ("no JSON", vec![described("a", "{")], "no JSON"),
            ("no object", vec![described("a", "[]")], "no object"),
            (
                "too many",
                vec![good(), described("b", "{}"), described("c", "{}")],
                "3 tools",
            ),
            ("hostile name", vec![described("\x1b[2J", "")], "\\u{1b}"),
        ] {
            let error = tools(given, &settings).unwrap_err().to_string();
            assert!(error.contains(wanted), "{case}: {error}");
        }
        assert_eq!(tools(vec![good()], &settings).unwrap().len(), 1);
    }

    #[test]
    fn tools_are_the_same_in_any_order_and_only_then() {
        let tool = |name: &str, read_only| ToolDescription {
            name: name.to_owned(),
            summary: String::new(),
            schema: Value::Null,
            read_only,
        };
        let (one, two) = (tool("one", true), tool("two", true));
        assert!(same(
            &[one.clone(), two.clone()],
            &[two.clone(), one.clone()]
        ));
        assert!(!same(
            std::slice::from_ref(&one),
            &[one.clone(), two.clone()]
        ));
        assert!(!same(&[one.clone(), two], &[one, tool("two", false)]));
    }
}

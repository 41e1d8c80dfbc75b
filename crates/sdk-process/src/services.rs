//! The services of a plugin: its life, its tools, its health, what it prints, its end.

use crate::execute::{Shared, execute};
use crate::kernel::Line;
use crate::output::Output;
use airlock_plugin_protocol::messages::airlock::{
    DescribeRequest, DescribeResponse, ExecuteRequest, ExecuteResponse, HealthRequest,
    HealthResponse, InitRequest, InitResponse, ShutdownRequest, ShutdownResponse, ToolDescription,
    plugin_lifecycle, tool,
};
use airlock_plugin_protocol::messages::goplugin::{
    Empty, StdioRequest, grpc_controller, grpc_stdio,
};
use airlock_plugin_protocol::messages::health::health_check_response::ServingStatus;
use airlock_plugin_protocol::messages::health::{HealthCheckRequest, HealthCheckResponse, health};
use airlock_plugin_protocol::server::{Sizes, stream, unary, unknown};
use airlock_sdk::{About, Plugin, Tool, ToolError};
use http::{Request, Response};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

/// Pieces of output a tool may be ahead of whoever reads them; then it waits.
const AHEAD: usize = 16;
/// Bytes of one message, as the host has it.
pub(crate) const MESSAGE: usize = 4 * 1024 * 1024;
const SIZES: Sizes = Sizes {
    asked: MESSAGE,
    answered: MESSAGE,
};

/// Everything that is served. Clones are the same.
#[derive(Clone)]
pub(crate) struct Services(Arc<Served>);

struct Served {
    plugin: Shared,
    /// What Airlock said of the plugin, once it has.
    told: OnceLock<Told>,
    output: Output,
    end: Arc<Notify>,
    environment: BTreeMap<String, String>,
}

#[derive(Clone)]
struct Told {
    about: About,
    line: Arc<Line>,
}

impl Services {
    pub(crate) fn new(
        plugin: Shared,
        output: Output,
        end: Arc<Notify>,
        environment: BTreeMap<String, String>,
    ) -> Self {
        Self(Arc::new(Served {
            plugin,
            told: OnceLock::new(),
            output,
            end,
            environment,
        }))
    }

    async fn answer(self, request: Request<Body>) -> Response<Body> {
        let uri = request.uri().clone();
        let path = uri.path();
        if path == tool::EXECUTE.path() {
            let answer = |asked| ready(self.0.execute(asked));
            stream(tool::EXECUTE, SIZES, request, answer).await
        } else if path == tool::DESCRIBE.path() {
            let answer = |asked| Arc::clone(&self.0).describe(asked);
            unary(tool::DESCRIBE, SIZES, request, answer).await
        } else if path == health::CHECK.path() {
            unary(health::CHECK, SIZES, request, check).await
        } else {
            self.0.live(path, request).await
        }
    }
}

impl Service<Request<Body>> for Services {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let services = self.clone();
        Box::pin(async move { Ok(services.answer(request).await) })
    }
}

/// go-plugin's question whether anybody is there.
fn check(
    _asked: HealthCheckRequest,
) -> impl Future<Output = Result<HealthCheckResponse, Status>> + Send {
    let status = ServingStatus::Serving.into();
    ready(Ok(HealthCheckResponse { status }))
}

impl Served {
    /// What is asked of a plugin's life, and of what it prints.
    async fn live(self: Arc<Self>, path: &str, request: Request<Body>) -> Response<Body> {
        if path == plugin_lifecycle::INIT.path() {
            let answer = |asked| Arc::clone(&self).init(asked);
            unary(plugin_lifecycle::INIT, SIZES, request, answer).await
        } else if path == plugin_lifecycle::HEALTH.path() {
            let answer = |asked| Arc::clone(&self).health(asked);
            unary(plugin_lifecycle::HEALTH, SIZES, request, answer).await
        } else if path == plugin_lifecycle::SHUTDOWN.path() {
            let answer = |asked| Arc::clone(&self).shutdown(asked);
            unary(plugin_lifecycle::SHUTDOWN, SIZES, request, answer).await
        } else if path == grpc_stdio::STREAM_STDIO.path() {
            let answer = |_: StdioRequest| ready(Ok(self.output.stream()));
            stream(grpc_stdio::STREAM_STDIO, SIZES, request, answer).await
        } else if path == grpc_controller::SHUTDOWN.path() {
            let answer = |_: Empty| {
                self.end.notify_one();
                ready(Ok(Empty {}))
            };
            unary(grpc_controller::SHUTDOWN, SIZES, request, answer).await
        } else {
            unknown(path)
        }
    }

    async fn init(self: Arc<Self>, asked: InitRequest) -> Result<InitResponse, Status> {
        let about = self.about(&asked)?;
        let started = about.clone();
        self.ask(move |plugin| plugin.start(&started))
            .await?
            .map_err(|error| Status::failed_precondition(error.to_string()))?;
        let told = Told {
            about,
            line: Arc::new(Line::new(asked.kernel_socket.into(), asked.name)),
        };
        let again = |_| Status::failed_precondition("the plugin has been started before");
        self.told.set(told).map_err(again)?;
        Ok(InitResponse::default())
    }

    fn about(&self, asked: &InitRequest) -> Result<About, Status> {
        let given = Some(asked.configuration_json.as_str()).filter(|text| !text.is_empty());
        let configuration = given.map(serde_json::from_str).transpose();
        let configuration = configuration
            .map_err(|error| Status::invalid_argument(format!("the configuration: {error}")))?;
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(About {
            plugin: asked.name.clone(),
            sandbox: some(&asked.sandbox_id),
            configuration: configuration.unwrap_or_default(),
            data: some(&asked.data_directory),
            environment: self.environment.clone(),
            ..About::default()
        })
    }

    async fn health(self: Arc<Self>, _asked: HealthRequest) -> Result<HealthResponse, Status> {
        let reason = self.ask(|plugin| plugin.health()).await?.err();
        Ok(HealthResponse {
            well: reason.is_none(),
            reason: reason.map(|error| error.to_string()).unwrap_or_default(),
        })
    }

    async fn shutdown(
        self: Arc<Self>,
        _asked: ShutdownRequest,
    ) -> Result<ShutdownResponse, Status> {
        self.ask(|plugin| plugin.stop()).await?;
        Ok(ShutdownResponse {})
    }

    async fn describe(
        self: Arc<Self>,
        _asked: DescribeRequest,
    ) -> Result<DescribeResponse, Status> {
        let tools = self.ask(|plugin| plugin.tools()).await?;
        let tools = tools.into_iter().map(described).collect();
        Ok(DescribeResponse { tools })
    }

    fn execute(
        &self,
        asked: ExecuteRequest,
    ) -> Result<ReceiverStream<Result<ExecuteResponse, Status>>, Status> {
        let unknown = || Status::failed_precondition("the plugin has not been started");
        let told = self.told.get().ok_or_else(unknown)?.clone();
        let plugin = Arc::clone(&self.plugin);
        let (answers, receiver) = mpsc::channel(AHEAD);
        spawn_blocking(move || execute(&*plugin, told.about, told.line, &asked, answers));
        Ok(ReceiverStream::new(receiver))
    }

    /// Asks the plugin something, where it may take its time. A panic is an error of this question.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Plugin) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let plugin = Arc::clone(&self.plugin);
        let asked = spawn_blocking(move || question(&*plugin)).await;
        asked.map_err(|error| Status::internal(ToolError::new(error.to_string()).to_string()))
    }
}

fn described(tool: Tool) -> ToolDescription {
    ToolDescription {
        name: tool.name,
        summary: tool.summary,
        schema_json: tool.schema.to_string(),
        read_only: tool.read_only,
    }
}

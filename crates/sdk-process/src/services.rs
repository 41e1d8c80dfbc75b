//! The services of a plugin: its life, its tools, its health, what it prints, its end.

use crate::execute::{Shared, execute};
use crate::kernel::Line;
use crate::messages::airlock::{
    DescribeRequest, DescribeResponse, ExecuteRequest, ExecuteResponse, HealthRequest,
    HealthResponse, InitRequest, InitResponse, ShutdownRequest, ShutdownResponse, ToolDescription,
};
use crate::messages::goplugin::{Empty, StdioRequest};
use crate::messages::health::health_check_response::ServingStatus;
use crate::messages::health::{HealthCheckRequest, HealthCheckResponse};
use crate::output::Output;
use crate::routes::{stream, unary, unknown};
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
        let served = self.0;
        match request.uri().path() {
            "/airlock.plugin.v1.PluginLifecycle/Init" => {
                unary(request, |asked| Arc::clone(&served).init(asked)).await
            }
            "/airlock.plugin.v1.PluginLifecycle/Health" => {
                unary(request, |asked| Arc::clone(&served).health(asked)).await
            }
            "/airlock.plugin.v1.PluginLifecycle/Shutdown" => {
                unary(request, |asked| Arc::clone(&served).shutdown(asked)).await
            }
            "/airlock.plugin.v1.Tool/Describe" => {
                unary(request, |asked| Arc::clone(&served).describe(asked)).await
            }
            "/airlock.plugin.v1.Tool/Execute" => {
                stream(request, |asked| ready(served.execute(asked))).await
            }
            "/grpc.health.v1.Health/Check" => unary(request, check).await,
            "/plugin.GRPCStdio/StreamStdio" => {
                let output = |_: StdioRequest| ready(Ok(served.output.stream()));
                stream(request, output).await
            }
            "/plugin.GRPCController/Shutdown" => {
                unary(request, |_: Empty| {
                    served.end.notify_one();
                    ready(Ok(Empty {}))
                })
                .await
            }
            other => unknown(other),
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

//! The server as the protocol sees it: what it declares, and what it answers.
//!
//! Declared is what is here and nothing else: tools and resources. Tools come and go with plugins and
//! adapters; a client that lists them is told what there is at that moment, and is not told by itself.

use crate::admit;
use crate::answer;
use crate::calls::{Calls, unanswered};
use crate::describe;
use crate::elicit::{self, Said};
use crate::resources;
use crate::road::{Road, Unanswered};
use airlock_core::SessionId;
use airlock_kernel::{Call, Outcome, Review, sanitise_line};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

const INSTRUCTIONS: &str = "\
Every tool call is decided by the workspace's policy and recorded. Writes and programs work on a \
staged copy; a person reviews and merges it. A call that is denied says why and what would allow \
it: do not retry it unchanged. One that needs review names the approval a person has to answer; \
make the same call again after that. The resource airlock://policy shows the rules.";

/// The requests that are answered.
const ANSWERED: &[&str] = &[
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// One client's server.
#[derive(Clone)]
pub(crate) struct Handler {
    calls: Calls,
    session: Arc<Own>,
}

/// One client's session: begun with its first call, put away when the client is gone.
struct Own {
    calls: Calls,
    begun: Mutex<Begun>,
}

#[derive(Default)]
enum Begun {
    #[default]
    NotYet,
    /// Policy lets the client have none.
    Without,
    In(SessionId),
}

impl Own {
    /// The session. One that cannot be begun is tried for again by the next call.
    fn get(&self) -> Result<Option<SessionId>, Unanswered> {
        // Held meanwhile: calls that come together begin one.
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        match &*begun {
            Begun::NotYet => {}
            Begun::Without => return Ok(None),
            Begun::In(session) => return Ok(Some(session.clone())),
        }
        let session = self.calls.begin()?;
        *begun = session.clone().map_or(Begun::Without, Begun::In);
        Ok(session)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let begun = self.begun.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Begun::In(session) = std::mem::take(begun) {
            self.calls.leave(session);
        }
    }
}

impl Handler {
    pub(crate) fn new(calls: Calls) -> Self {
        let session = Arc::new(Own {
            calls: calls.clone(),
            begun: Mutex::default(),
        });
        Self { calls, session }
    }

    async fn call(&self, name: String, arguments: Value) -> Result<Call, ErrorData> {
        let session = Arc::clone(&self.session);
        let session = self
            .calls
            .ask(move |_| session.get())
            .await?
            .map_err(|error| unanswered(&error))?;
        let mut call = Call::new(name, arguments);
        call.session = session;
        Ok(call)
    }

    /// Puts a question to the person, if it may be put through their client; a yes has the call
    /// made again, which takes the whole road again.
    async fn reviewed(
        &self,
        call: Call,
        mut review: Box<Review>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Outcome, ErrorData> {
        let gate = review.approval.gate;
        let opened = move |road: &dyn Road| road.opened_to_client(gate);
        let possible = elicit::can_ask(context) && !review.approval.is_of_a_rule();
        if !possible || !self.calls.ask(opened).await? {
            return Ok(Outcome::NeedsReview(review));
        }
        let approved = match elicit::ask(&review, context).await {
            Said::Yes => true,
            Said::No => false,
            Said::Nothing => return Ok(Outcome::NeedsReview(review)),
        };
        let (review, taken) = self
            .calls
            .ask(move |road| {
                let taken = road.answer(&mut review, approved).is_ok();
                (review, taken)
            })
            .await?;
        if taken && approved {
            return self.calls.run(call, context).await;
        }
        Ok(Outcome::NeedsReview(review))
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let server = Implementation::new("airlock", env!("CARGO_PKG_VERSION"))
            .with_title("Airlock")
            .with_description("Tools under policy: decided, sandboxed, staged and recorded");
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(admit::spoken())
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        the_first(page)?;
        let names = self.calls.names().clone();
        let tools = self
            .calls
            .ask(move |road| names.list(road))
            .await?
            .map_err(|error| unanswered(&error))?;
        let tools = tools.iter().map(describe::tool).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (asked, names) = (request.name.into_owned(), self.calls.names().clone());
        let name = self
            .calls
            .ask(move |road| names.find(road, &asked))
            .await?
            .map_err(|error| unanswered(&error))?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = self.call(name, arguments).await?;
        let outcome = match self.calls.run(call.clone(), &context).await? {
            Outcome::NeedsReview(review) => self.reviewed(call, review, &context).await?,
            outcome @ (Outcome::Done(_) | Outcome::Denied(_) | Outcome::Failed(_)) => outcome,
        };
        answer::result(outcome).map(CallToolResponse::from)
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        the_first(page)?;
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        the_first(page)?;
        let templates = resources::templates();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let reading = resources::find(&request.uri)?;
        let call = self
            .call(reading.tool.to_owned(), reading.arguments)
            .await?;
        let outcome = self.calls.run(call, &context).await?;
        resources::contents(request.uri, outcome).map(ReadResourceResponse::from)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// What is none of the protocol's requests: another method, or one that is answered here with
    /// parameters that do not fit it.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if ANSWERED.contains(&method.as_str()) {
            let what = format!("the parameters of `{method}` are missing or do not fit");
            return Err(ErrorData::invalid_params(what, None));
        }
        let what = format!("there is no method `{}` here", sanitise_line(&method, 60));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, what, None))
    }
}

/// Lists come whole: a place in one was never given to anybody.
fn the_first(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    if page.is_some_and(|page| page.cursor.is_some()) {
        let what = "there is no such cursor: a list comes whole, so ask without one";
        return Err(ErrorData::invalid_params(what, None));
    }
    Ok(())
}

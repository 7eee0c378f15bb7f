//! The values that the test client returns and receives: results, errors, and the requests and
//! notifications of the server.

use std::{fmt, ops::Index};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{model::Level, stdx::debug};

/// The error object of a JSON-RPC error response.
///
/// ```
/// use mcp_runtime::{Revision, Server};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut client = Server::empty("empty", "1.0.0").test_client(Revision::V2026_07_28);
/// let error = client.request("tools/list", serde_json::json!({})).await.unwrap_err();
/// assert_eq!((error.code, error.to_string()), (-32601, "method not found: tools/list (-32601)".to_owned()));
/// # });
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The error code.
    pub code: i64,
    /// A description of the error.
    pub message: String,
    /// Additional information about the error.
    pub data: Option<Value>,
}

impl RpcError {
    pub(super) fn read(error: &mut Value) -> Self {
        Self {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error.get_mut("data").map(Value::take),
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

/// The result of `tools/call`. Its field is the JSON, of which it can also be indexed: `result["content"][0]`.
///
/// ```
/// # use mcp_runtime::testing::CallResult;
/// # use serde_json::json;
/// let result = CallResult(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}));
/// assert_eq!(result.text(), "a\nb");
/// assert!(!result.is_error());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult(pub Value);

impl CallResult {
    /// Returns the text content, with line breaks between its items.
    pub fn text(&self) -> String {
        joined(&self.0["content"], |item| &item["text"])
    }

    /// Returns the structured content.
    pub fn structured(&self) -> Option<&Value> {
        self.0.get("structuredContent")
    }

    /// Returns whether the result is a tool error.
    pub fn is_error(&self) -> bool {
        self.0["isError"] == true
    }
}

/// The result of `resources/read`. Its field is the JSON. An index selects the JSON of one of the contents: `read[0]["uri"]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadResult(pub Value);

impl ReadResult {
    /// Returns the JSON of all contents.
    pub fn contents(&self) -> &[Value] {
        self.0["contents"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the text of the contents, with line breaks between them.
    pub fn text(&self) -> String {
        joined(&self.0["contents"], |item| &item["text"])
    }

    /// Returns the bytes of the first binary contents.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        self.contents().iter().find_map(|item| STANDARD.decode(item["blob"].as_str()?).ok())
    }

    /// Returns the media type of the first contents.
    pub fn mime_type(&self) -> Option<&str> {
        self.contents().first()?["mimeType"].as_str()
    }
}

impl Index<usize> for ReadResult {
    type Output = Value;

    fn index(&self, index: usize) -> &Value {
        &self.0["contents"][index]
    }
}

/// The result of `prompts/get`. Its field is the JSON, of which it can also be indexed: `prompt["messages"][0]`.
#[derive(Debug, Clone, PartialEq)]
pub struct GetPromptResult(pub Value);

impl GetPromptResult {
    /// Returns the text of the messages, with line breaks between them.
    pub fn text(&self) -> String {
        joined(&self.0["messages"], |message| &message["content"]["text"])
    }

    /// Returns the description.
    pub fn description(&self) -> Option<&str> {
        self.0["description"].as_str()
    }
}

/// An entry of a list: a tool, a resource, a resource template or a prompt. Its field is the JSON, of which it can also be
/// indexed: `tool["annotations"]["readOnlyHint"]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedEntry(pub Value);

impl ListedEntry {
    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Returns the URI of a resource, or the template of a resource template.
    pub fn uri(&self) -> Option<&str> {
        self.0["uri"].as_str().or_else(|| self.0["uriTemplate"].as_str())
    }

    /// Returns the display name.
    pub fn title(&self) -> Option<&str> {
        self.0["title"].as_str()
    }

    /// Returns the description.
    pub fn description(&self) -> Option<&str> {
        self.0["description"].as_str()
    }
}

/// Indexes the JSON.
macro_rules! index_json {
    ($($name:ident),+) => {
        $(impl Index<&str> for $name {
            type Output = Value;

            fn index(&self, member: &str) -> &Value {
                &self.0[member]
            }
        })+
    };
}

index_json!(CallResult, GetPromptResult, ListedEntry);

/// Joins the texts of a list.
fn joined(items: &Value, text: impl Fn(&Value) -> &Value) -> String {
    let texts = items.as_array().into_iter().flatten().filter_map(|item| text(item).as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the result or the error of a response.
pub(super) fn read_response(mut response: Value) -> Result<Value, RpcError> {
    match response.get_mut("error") {
        None => Ok(response["result"].take()),
        Some(error) => Err(RpcError::read(error)),
    }
}

/// The closure that answers the requests of the server.
pub(super) struct Responder(pub(super) Box<dyn FnMut(&ServerRequest) -> Value + Send>);

debug!(Responder, self);

/// A request that the server sends to its client.
///
/// ```
/// use mcp_runtime::{Context, Elicit, Fault, Revision, Server, tool};
/// use serde_json::json;
///
/// #[derive(Elicit)]
/// struct Name {
///     name: String,
/// }
///
/// /// Greet the user.
/// #[tool]
/// async fn greet(ctx: &Context) -> Result<String, Fault> {
///     let answer = ctx.elicit::<Name>("name", "What is your name?").await?.accepted();
///     Ok(format!("Hello, {}!", answer.map_or("stranger".into(), |form| form.name)))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let client = Server::empty("greeter", "1.0.0").with::<greet>().test_client(Revision::V2025_11_25);
/// let mut client = client.answering(|request| {
///     assert_eq!((&*request.method, request.message()), ("elicitation/create", "What is your name?"));
///     json!({"action": "accept", "content": {"name": "Ada"}})
/// });
/// assert_eq!(client.call("greet", ()).await.unwrap().text(), "Hello, Ada!");
/// # });
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The parameters.
    pub params: Value,
    /// The key of the question. Only stateless revisions send it to clients.
    pub key: Option<String>,
}

impl ServerRequest {
    /// Returns the message that an elicitation shows to the user.
    pub fn message(&self) -> &str {
        self.params["message"].as_str().unwrap_or_default()
    }
}

impl Responder {
    /// Answers the questions with which a round ended, or which a task asks.
    pub(super) fn input_responses(&mut self, requests: &Value) -> Value {
        let requests = requests.as_object().into_iter().flatten();
        Value::Object(requests.map(|(key, request)| (key.clone(), self.answer(request, Some(key.clone())))).collect())
    }

    /// Returns the response to a request of the server.
    pub(super) fn response(&mut self, request: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": request["id"], "result": self.answer(request, None)})
    }

    fn answer(&mut self, request: &Value, key: Option<String>) -> Value {
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        (self.0)(&ServerRequest { method, params: request["params"].clone(), key })
    }
}

/// A progress notification. See [`TestClient::call_with_progress`](super::TestClient::call_with_progress).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProgressUpdate {
    /// The amount of work done.
    pub progress: f64,
    /// The total amount of work, if the function knows it.
    pub total: Option<f64>,
    /// The message, in revisions that have one.
    pub message: Option<String>,
}

impl ProgressUpdate {
    /// Reads a notification. Returns `None` if it is none of the progress with this token.
    pub(super) fn read(notification: &Value, token: u64) -> Option<Self> {
        let params =
            params_of(notification, "notifications/progress").filter(|params| params["progressToken"] == token)?;
        Some(Self {
            progress: params["progress"].as_f64()?,
            total: params["total"].as_f64(),
            message: params["message"].as_str().map(str::to_owned),
        })
    }
}

/// A log message. See [`TestClient::log_messages`](super::TestClient::log_messages).
///
/// ```
/// use mcp_runtime::{Context, Level, Revision, Server, tool};
///
/// /// Start.
/// #[tool]
/// fn start(ctx: &Context) {
///     ctx.log_as("engine", Level::Notice, "started");
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut client = Server::empty("car", "1.0.0").with::<start>().test_client(Revision::V2026_07_28);
/// client.set_log_level(Level::Debug).await.unwrap();
/// client.call("start", ()).await.unwrap();
/// let message = client.log_messages().remove(0);
/// assert_eq!((message.level, message.logger.as_deref()), (Level::Notice, Some("engine")));
/// # });
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogMessage {
    /// The level.
    pub level: Level,
    /// The source of the message.
    pub logger: Option<String>,
    /// The message: text, or any JSON.
    pub data: Value,
}

impl LogMessage {
    /// Reads a notification. Returns `None` if it is no log message.
    pub(super) fn read(notification: &Value) -> Option<Self> {
        let params = params_of(notification, "notifications/message")?;
        Some(Self {
            level: params["level"].as_str()?.parse().ok()?,
            logger: params["logger"].as_str().map(str::to_owned),
            data: params["data"].clone(),
        })
    }
}

/// Returns the URI of a resource that has changed. Returns `None` if a notification is about something else.
pub(super) fn updated_resource(notification: &Value) -> Option<String> {
    let params = params_of(notification, "notifications/resources/updated")?;
    params["uri"].as_str().map(str::to_owned)
}

fn params_of<'a>(notification: &'a Value, method: &str) -> Option<&'a Value> {
    (notification["method"] == method).then(|| &notification["params"])
}

//! A client of an HTTP service, without a socket, and the head of the requests as functions read it.

use std::{
    collections::{HashMap, VecDeque},
    error::Error,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower_service::Service;

use super::{
    client::{HANDSHAKE_ID, TestClient, Transport},
    request_source::TestRequestSource,
};
use crate::{
    auth::{Identity, Principal},
    handler::{MirroredArgument, mirrored_arguments},
    revision::Revision,
    stdx::debug,
    transport::http::HttpBody,
};

/// HTTP: a service in place of a server, and the request as functions read it.
impl TestClient {
    /// Connects a client to an HTTP service, such as the axum application into which a server is
    /// [mounted](crate::BuiltServer::into_http_service), or the [`HttpService`](crate::http::HttpService) itself. There is no
    /// socket: each message is a request to the service, with everything that is in front of the server.
    ///
    /// `path` is the path of the server. The requests have the headers that the protocol requires, and the headers of
    /// [`with_header`](Self::with_header), which replace them. In revisions with sessions, the client opens one before
    /// its first message, and the stream on which the server sends notifications. A response without a message is an
    /// [`RpcError`](crate::testing::RpcError) with its status as the code, and [`last_response`](Self::last_response)
    /// returns status and headers. As in other clients, arguments are repeated in headers only for tools that the
    /// client has [listed](Self::tools).
    ///
    /// ```
    /// use axum::{
    ///     Router,
    ///     extract::Request,
    ///     http::StatusCode,
    ///     middleware::{self, Next},
    ///     response::Response,
    /// };
    /// use mcp_runtime::{HttpOptions, Revision, Server, testing::TestClient, tool};
    ///
    /// /// Return the answer.
    /// #[tool(read_only)]
    /// fn answer() -> u8 {
    ///     42
    /// }
    ///
    /// async fn check_key(request: Request, next: Next) -> Result<Response, StatusCode> {
    ///     let has_key = request.headers().get("x-key").is_some_and(|key| key == "secret");
    ///     if has_key { Ok(next.run(request).await) } else { Err(StatusCode::FORBIDDEN) }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let mcp = Server::empty("oracle", "1.0.0").with::<answer>().build().unwrap();
    /// let mcp = mcp.into_http_service(HttpOptions::default()).unwrap();
    /// let app = Router::new().nest_service("/mcp", mcp).layer(middleware::from_fn(check_key));
    /// for revision in Revision::ALL {
    ///     let mut stranger = TestClient::over_http(app.clone(), "/mcp", revision);
    ///     assert_eq!(stranger.call("answer", ()).await.unwrap_err().code, 403);
    ///
    ///     let mut client = TestClient::over_http(app.clone(), "/mcp", revision).with_header("x-key", "secret");
    ///     assert_eq!(client.call("answer", ()).await.unwrap().text(), "42");
    /// }
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the path is invalid. The methods of the client panic if the service fails instead of responding.
    pub fn over_http<S, B>(service: S, path: &str, revision: Revision) -> Self
    where
        S: Service<Request<HttpBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: fmt::Debug,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let service = move |request: Request<HttpBody>| -> ResponseFuture {
            let mut service = service.clone();
            Box::pin(async move {
                if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
                    panic!("the service failed: {error:?}");
                }
                let response = service.call(request).await;
                let response = response.unwrap_or_else(|error| panic!("the service failed: {error:?}"));
                response.map(|body| body.map_err(Into::into).boxed_unsync())
            })
        };
        Self::connect(HttpTransport::new(Box::new(service), path, revision), revision)
    }

    /// Returns the head of the last response to a request of the protocol, if the client was connected with
    /// [`over_http`](Self::over_http).
    ///
    /// ```
    /// use mcp_runtime::{HttpOptions, Revision, Server, testing::TestClient};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let service = Server::empty("empty", "1.0.0").build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    /// let client = TestClient::over_http(service, "/", Revision::V2026_07_28);
    /// let mut client = client.with_header("host", "evil.example");
    /// assert!(client.tools().await.is_err());
    /// assert_eq!(client.last_response().unwrap().status(), 403);
    /// # });
    /// ```
    pub fn last_response(&self) -> Option<&Response<()>> {
        self.wire.transport.last_response()
    }

    /// Opens a new connection whose requests come from an unknown caller over HTTP, who has no scopes. Without this and
    /// the methods below, they come from the local user as over stdio, who needs none.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, auth::{Identity, Principal}, tool};
    ///
    /// /// Delete all notes.
    /// #[tool(scopes("notes:write"))]
    /// fn clear() {}
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let server = Server::empty("notes", "1.0.0").with::<clear>().build().unwrap();
    /// let mut stranger = server.test_client(Revision::V2026_07_28).anonymous();
    /// assert!(stranger.call("clear", ()).await.is_err());
    ///
    /// let ada = Identity::new(Principal::new("Ada")).with_scopes(["notes:write"]);
    /// let mut ada = server.test_client(Revision::V2026_07_28).with_extension(ada);
    /// assert!(ada.call("clear", ()).await.is_ok());
    /// # });
    /// ```
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        let extensions = &mut self.source_mut().extensions;
        extensions.remove::<Identity>();
        extensions.remove::<Principal>();
        self.reconnected()
    }

    /// Opens a new connection whose requests have a value in their extensions, as if a middleware had inserted it.
    ///
    /// A [`Principal`](crate::auth::Principal) or an [`Identity`](crate::auth::Identity) identifies the caller.
    /// [`Context::extension`](crate::Context::extension) returns other values. For two callers of the same server, connect
    /// two clients to a [`BuiltServer`](crate::BuiltServer).
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, auth::Principal, tool};
    ///
    /// /// Return the name of the user.
    /// #[tool(read_only)]
    /// fn whoami(ctx: &Context) -> Option<String> {
    ///     ctx.principal().map(str::to_owned)
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let server = Server::empty("users", "1.0.0").with::<whoami>().build().unwrap();
    /// for name in ["Ada", "Grace"] {
    ///     let mut client = server.test_client(Revision::V2026_07_28).with_extension(Principal::new(name));
    ///     assert_eq!(client.call("whoami", ()).await.unwrap().text(), name);
    /// }
    /// # });
    /// ```
    #[must_use]
    pub fn with_extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.source_mut().extensions.insert(value);
        self.reconnected()
    }

    /// Opens a new connection whose requests have a header, which [`Context::headers`](crate::Context::headers)
    /// contains.
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, tool};
    ///
    /// /// Greet in the language of the user.
    /// #[tool(read_only)]
    /// fn greet(ctx: &Context) -> &'static str {
    ///     let language = ctx.headers().and_then(|headers| headers.get("accept-language"));
    ///     if language.is_some_and(|language| language == "de") { "Guten Tag" } else { "Hello" }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let client = Server::empty("greeter", "1.0.0").with::<greet>().test_client(Revision::V2025_11_25);
    /// let mut client = client.with_header("accept-language", "de");
    /// assert_eq!(client.call("greet", ()).await.unwrap().text(), "Guten Tag");
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name or the value is not valid in a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).unwrap_or_else(|error| panic!("`{name}`: {error}"));
        let value = HeaderValue::try_from(value).unwrap_or_else(|error| panic!("`{value}`: {error}"));
        self.source_mut().headers.append(name, value);
        self.reconnected()
    }
}

type BoxError = Box<dyn Error + Send + Sync>;
type ResponseBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;
type ResponseFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;
type BoxService = Box<dyn FnMut(Request<HttpBody>) -> ResponseFuture + Send>;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A connection to an HTTP service. Each message is a request, and so is the stream of a session.
///
/// The number of its requests and the size of their responses are limited only by the test.
pub(super) struct HttpTransport {
    service: BoxService,
    uri: Uri,
    revision: Revision,
    head: Arc<TestRequestSource>,
    session: Option<HeaderValue>,
    /// The messages that wait for a session. `None` is the request for the stream of the session.
    queue: VecDeque<Option<Value>>,
    exchanges: Vec<Exchange>,
    /// The lines that have arrived.
    output: Vec<u8>,
    last_response: Option<Response<()>>,
    /// The arguments of each listed tool that headers repeat.
    mirrored: HashMap<String, Vec<MirroredArgument>>,
}

/// A request and its response.
struct Exchange {
    /// The message, or `None` for the stream of a session.
    message: Option<Value>,
    response: Receiving,
    is_answered: bool,
}

enum Receiving {
    Head(ResponseFuture),
    Body { head: Response<()>, body: ResponseBody, received: Vec<u8> },
}

/// A part of a response that has arrived.
enum Arrival {
    Head(Response<()>),
    Message(Value),
    End,
}

impl HttpTransport {
    fn new(service: BoxService, path: &str, revision: Revision) -> Self {
        Self {
            service,
            uri: path.parse::<Uri>().unwrap_or_else(|error| panic!("`{path}`: {error}")),
            revision,
            head: Arc::default(),
            session: None,
            queue: VecDeque::new(),
            exchanges: Vec::new(),
            output: Vec::new(),
            last_response: None,
            mirrored: HashMap::new(),
        }
    }

    /// Starts the requests of the messages in the queue. While a handshake is in progress, the other messages wait.
    fn start(&mut self) {
        while !self.exchanges.iter().any(Exchange::is_handshake) {
            let Some(message) = self.queue.pop_front() else { return };
            if message.is_none() && self.session.is_none() {
                continue;
            }
            let request = self.request(message.as_ref());
            let response = Receiving::Head((self.service)(request));
            self.exchanges.push(Exchange { message, response, is_answered: false });
        }
    }

    fn request(&self, message: Option<&Value>) -> Request<HttpBody> {
        let mut request = match message {
            Some(message) => Request::new(HttpBody::complete(message.to_string())),
            None => Request::new(HttpBody::default()),
        };
        *request.method_mut() = if message.is_some() { Method::POST } else { Method::GET };
        *request.uri_mut() = self.uri.clone();
        *request.extensions_mut() = self.head.extensions.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if message.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if self.revision.is_stateless() {
            self.mirror(message.unwrap_or(&Value::Null), headers);
        } else if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
            headers.insert(VERSION, encoded(self.revision.as_str()));
        }
        // The headers of the test take precedence.
        headers.extend(self.head.headers.clone());
        request
    }

    /// Adds the headers that repeat members of a stateless request.
    fn mirror(&self, message: &Value, headers: &mut HeaderMap) {
        let params = &message["params"];
        let version = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        headers.insert(VERSION, encoded(version.unwrap_or(self.revision.as_str())));
        if let Some(method) = message["method"].as_str() {
            headers.insert(METHOD, encoded(method));
        }
        let name = ["name", "uri", "taskId"].iter().find_map(|member| params[member].as_str());
        if let Some(name) = name {
            headers.insert(NAME, encoded(name));
        }
        let mirrored = name.filter(|_| message["method"] == "tools/call").and_then(|name| self.mirrored.get(name));
        for argument in mirrored.into_iter().flatten() {
            let value = argument.path.iter().fold(&params["arguments"], |value, member| &value[member]);
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let name = HeaderName::try_from(format!("mcp-param-{}", argument.name)).expect("a token");
            headers.insert(name, encoded(&text));
        }
    }

    /// Receives the output that has arrived.
    fn progress(&mut self, cx: &mut Context<'_>) {
        loop {
            self.start();
            let mut at = 0;
            let arrival = loop {
                let Some(exchange) = self.exchanges.get_mut(at) else { return };
                match exchange.poll(cx) {
                    Poll::Ready(arrival) => break arrival,
                    Poll::Pending => at += 1,
                }
            };
            match arrival {
                Arrival::Head(head) => self.accept_head(at, head),
                Arrival::Message(message) => self.accept(at, message),
                Arrival::End => {
                    let exchange = self.exchanges.remove(at);
                    if let Some(error) = exchange.missing_response() {
                        self.write(&error);
                    }
                }
            }
        }
    }

    fn accept_head(&mut self, at: usize, head: Response<()>) {
        let exchange = &self.exchanges[at];
        if exchange.is_handshake()
            && let Some(session) = head.headers().get(&SESSION)
        {
            self.session = Some(session.clone());
        }
        if exchange.message.as_ref().is_some_and(is_request) {
            self.last_response = Some(head);
        }
    }

    fn accept(&mut self, at: usize, mut message: Value) {
        let exchange = &mut self.exchanges[at];
        let request = exchange.message.as_ref().unwrap_or(&Value::Null);
        let is_response = message.get("method").is_none();
        // Errors about the HTTP request have no id.
        if is_response && message["id"].is_null() && !request["id"].is_null() && message.is_object() {
            message["id"] = request["id"].clone();
        }
        let is_answer = is_response && message["id"] == request["id"];
        exchange.is_answered |= is_answer;
        if is_answer && request["method"] == "tools/list" {
            for tool in message["result"]["tools"].as_array().into_iter().flatten() {
                let mirrored = mirrored_arguments(&tool["inputSchema"]).unwrap_or_default();
                self.mirrored.insert(tool["name"].as_str().unwrap_or_default().to_owned(), mirrored);
            }
        }
        if !(is_answer && self.exchanges[at].is_handshake()) {
            self.write(&message);
        }
    }

    fn write(&mut self, message: &Value) {
        self.output.extend_from_slice(message.to_string().as_bytes());
        self.output.push(b'\n');
    }
}

impl Transport for HttpTransport {
    /// Sends a message, and receives the output that is available at once. The handshake waits for the next message,
    /// because the test may not have set all headers yet.
    fn send(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let message: Value = serde_json::from_slice(message)
            .unwrap_or_else(|error| panic!("over HTTP, a test client sends only JSON: {error}"));
        let is_initialized = message == json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let is_handshake = is_initialized || is_handshake(&message);
        self.queue.push_back(Some(message));
        if is_initialized {
            self.queue.push_back(None);
        }
        if !is_handshake {
            self.drain(out);
        }
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.progress(cx);
        if self.output.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn drain(&mut self, into: &mut Vec<u8>) {
        self.progress(&mut Context::from_waker(Waker::noop()));
        into.append(&mut self.output);
    }

    fn in_flight(&self) -> usize {
        let queued = self.queue.iter().flatten().filter(|message| is_request(message)).count();
        let sent = self.exchanges.iter().filter(|exchange| !exchange.is_answered);
        queued + sent.filter(|exchange| exchange.message.as_ref().is_some_and(is_request)).count()
    }

    fn reconnect(&mut self) {
        (self.session, self.last_response) = (None, None);
        self.queue.clear();
        self.exchanges.clear();
        self.output.clear();
    }

    fn set_head(&mut self, head: &Arc<TestRequestSource>) {
        self.head = Arc::clone(head);
    }

    fn last_response(&self) -> Option<&Response<()>> {
        self.last_response.as_ref()
    }
}

impl Exchange {
    fn is_handshake(&self) -> bool {
        self.message.as_ref().is_some_and(is_handshake)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        loop {
            match &mut self.response {
                Receiving::Head(response) => {
                    let (parts, body) = ready!(response.as_mut().poll(cx)).into_parts();
                    let head = Response::from_parts(parts, ());
                    self.response = Receiving::Body { head: head.clone(), body, received: Vec::new() };
                    return Poll::Ready(Arrival::Head(head));
                }
                Receiving::Body { head, body, received } => {
                    let is_stream = head.headers().get(header::CONTENT_TYPE).is_some_and(is_event_stream);
                    if is_stream && let Some(message) = take_event(received) {
                        return Poll::Ready(Arrival::Message(message));
                    }
                    match ready!(Pin::new(body).poll_frame(cx)) {
                        Some(Ok(frame)) => {
                            if let Ok(data) = frame.into_data() {
                                received.extend_from_slice(&data);
                            }
                        }
                        // A body that is cut off ends the response, too.
                        Some(Err(_)) | None => {
                            return Poll::Ready(match serde_json::from_slice(&std::mem::take(received)) {
                                Ok(message) if !is_stream => Arrival::Message(message),
                                _ => Arrival::End,
                            });
                        }
                    }
                }
            }
        }
    }

    /// Returns an error in place of the response if the request has received none.
    fn missing_response(&self) -> Option<Value> {
        let id = self.message.as_ref().filter(|message| message.get("method").is_some())?.get("id")?;
        let Receiving::Body { head, .. } = &self.response else { return None };
        let status = head.status();
        let message = format!("the response has the status {status} and contains no message");
        let is_missing = !self.is_answered && !self.is_handshake();
        is_missing.then(|| json!({"jsonrpc": "2.0", "id": id, "error": {"code": status.as_u16(), "message": message}}))
    }
}

debug!(HttpTransport, self, uri: self.uri);

fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

/// Returns whether a message opens the session of the client.
fn is_handshake(message: &Value) -> bool {
    message["method"] == "initialize" && message["id"] == HANDSHAKE_ID
}

/// Returns a value for a header, in base64 if it is not plain text, or looks like base64.
fn encoded(text: &str) -> HeaderValue {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !text.is_empty()
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let value = if is_plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) };
    HeaderValue::try_from(value).expect("visible ASCII")
}

fn is_event_stream(content_type: &HeaderValue) -> bool {
    content_type.as_bytes().starts_with(b"text/event-stream")
}

/// Removes the first complete event that contains a message from the buffer, and all events before it.
fn take_event(received: &mut Vec<u8>) -> Option<Value> {
    loop {
        let length = received.windows(2).position(|end| end == b"\n\n")? + 2;
        let event: Vec<u8> = received.drain(..length).collect();
        let data = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
        let data = data.collect::<Vec<_>>().join(&b'\n');
        if let Ok(message) = serde_json::from_slice(&data) {
            return Some(message);
        }
    }
}

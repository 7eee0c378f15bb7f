use std::fmt;

use serde_json::{Value, json};

/// The closure that answers the requests of the server.
pub(super) struct Responder(pub(super) Box<dyn FnMut(&ServerRequest) -> Value + Send>);

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

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
        let Self(answer) = self;
        let answered = requests.as_object().into_iter().flatten().map(|(key, request)| {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let request = ServerRequest { method, params: request["params"].clone(), key: Some(key.clone()) };
            (key.clone(), answer(&request))
        });
        Value::Object(answered.collect())
    }

    /// Returns the response to a request of the server.
    pub(super) fn response(&mut self, request: &Value) -> Value {
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let server_request = ServerRequest { method, params: request["params"].clone(), key: None };
        let result = (self.0)(&server_request);
        json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
    }
}

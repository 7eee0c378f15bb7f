use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    client::TestClient,
    result::{
        CallResult, GetPromptResult, ListedEntry, LogMessage, ProgressUpdate, ReadResult, RpcError, read_response,
        updated_resource,
    },
};
use crate::{
    error::Fault,
    handler::{Call, CallConnection, CallLifetime, Caller, Context, Encoding, SharedCall},
    jsonrpc::Id,
    model::{Implementation, Level},
    revision,
};

/// Calling tools, reading resources and getting prompts.
impl TestClient {
    /// Calls a tool.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, tool};
    /// use serde_json::json;
    ///
    /// /// Divide two numbers.
    /// #[tool(read_only)]
    /// fn divide(a: f64, b: f64) -> Result<f64, &'static str> {
    ///     if b == 0.0 { Err("`b` must not be 0") } else { Ok(a / b) }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let mut client = Server::empty("math", "1.0.0").with::<divide>().test_client(Revision::V2026_07_28);
    /// assert_eq!(client.call("divide", json!({"a": 6, "b": 4})).await.unwrap().text(), "1.5");
    /// assert!(client.call("divide", json!({"a": 6, "b": 0})).await.unwrap().is_error());
    /// assert!(client.call("multiply", ()).await.is_err());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server. A tool error is a result, see [`CallResult::is_error`].
    pub async fn call(&mut self, name: &str, arguments: impl Serialize) -> Result<CallResult, RpcError> {
        let arguments = object(arguments);
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await.map(CallResult)
    }

    /// Calls a tool and returns its result with the progress that it reported.
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, tool};
    ///
    /// /// Bake bread.
    /// #[tool]
    /// async fn bake(ctx: &Context) -> &'static str {
    ///     ctx.progress(1, 2, "kneaded");
    ///     ctx.progress(2, 2, "baked");
    ///     "bread"
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("bakery", "1.0.0").with::<bake>().test_client(Revision::V2026_07_28);
    /// let (result, updates) = client.call_with_progress("bake", ()).await.unwrap();
    /// assert_eq!(result.text(), "bread");
    /// assert_eq!(updates[1].message.as_deref(), Some("baked"));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn call_with_progress(
        &mut self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<(CallResult, Vec<ProgressUpdate>), RpcError> {
        let (arguments, token) = (object(arguments), self.next_id);
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": token}});
        let result = self.request("tools/call", params).await.map(CallResult)?;
        Ok((result, self.wire.take_matching(|notification| ProgressUpdate::read(notification, token))))
    }

    /// Reads a resource.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, resource};
    ///
    /// /// The time.
    /// #[resource("clock://{zone}")]
    /// fn time(zone: String) -> Option<&'static str> {
    ///     (zone == "utc").then_some("12:00")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("clock", "1.0.0").with::<time>().test_client(Revision::V2026_07_28);
    /// assert_eq!(client.read("clock://utc").await.unwrap().text(), "12:00");
    /// assert!(client.read("clock://moon").await.is_err());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn read(&mut self, uri: &str) -> Result<ReadResult, RpcError> {
        self.request("resources/read", json!({"uri": uri})).await.map(ReadResult)
    }

    /// Gets a prompt.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, prompt};
    ///
    /// /// Greet a person.
    /// #[prompt]
    /// fn greet(name: String) -> String {
    ///     format!("Greet {name}.")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("texts", "1.0.0").with::<greet>().test_client(Revision::V2026_07_28);
    /// let prompt = client.prompt("greet", serde_json::json!({"name": "Ada"})).await.unwrap();
    /// assert_eq!((prompt.text().as_str(), &prompt["messages"][0]["role"]), ("Greet Ada.", &"user".into()));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn prompt(&mut self, name: &str, arguments: impl Serialize) -> Result<GetPromptResult, RpcError> {
        let arguments = object(arguments);
        self.request("prompts/get", json!({"name": name, "arguments": arguments})).await.map(GetPromptResult)
    }

    /// Lists the tools of all pages.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, tool};
    ///
    /// /// Do nothing.
    /// #[tool(read_only)]
    /// fn rest() {}
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("empty", "1.0.0").with::<rest>().test_client(Revision::V2025_11_25);
    /// let tools = client.tools().await.unwrap();
    /// assert_eq!((tools[0].name(), &tools[0]["annotations"]["readOnlyHint"]), ("rest", &true.into()));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn tools(&mut self) -> Result<Vec<ListedEntry>, RpcError> {
        self.listed("tools/list", "tools").await
    }

    /// Lists the resources of all pages, with the resources that `list` functions return.
    ///
    /// ```
    /// use mcp_runtime::{ResourceLink, Revision, Server, resource};
    ///
    /// /// A poem.
    /// #[resource("poems://{title}", list = poems)]
    /// fn poem(title: String) -> String {
    ///     title
    /// }
    ///
    /// fn poems() -> Vec<ResourceLink> {
    ///     vec![ResourceLink::new("poems://rain", "Rain")]
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("poems", "1.0.0").with::<poem>().test_client(Revision::V2026_07_28);
    /// assert_eq!(client.resources().await.unwrap()[0].uri(), Some("poems://rain"));
    /// assert_eq!(client.resource_templates().await.unwrap()[0].uri(), Some("poems://{title}"));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn resources(&mut self) -> Result<Vec<ListedEntry>, RpcError> {
        self.listed("resources/list", "resources").await
    }

    /// Lists the resource templates of all pages.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn resource_templates(&mut self) -> Result<Vec<ListedEntry>, RpcError> {
        self.listed("resources/templates/list", "resourceTemplates").await
    }

    /// Lists the prompts of all pages.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, prompt};
    ///
    /// /// Summarize the day.
    /// #[prompt]
    /// fn summary() -> &'static str {
    ///     "Summarize the day."
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let mut client = Server::empty("diary", "1.0.0").with::<summary>().test_client(Revision::V2026_07_28);
    /// assert_eq!(client.prompts().await.unwrap()[0].name(), "summary");
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn prompts(&mut self) -> Result<Vec<ListedEntry>, RpcError> {
        self.listed("prompts/list", "prompts").await
    }

    async fn listed(&mut self, method: &str, member: &str) -> Result<Vec<ListedEntry>, RpcError> {
        self.list(method, member).await.map(|items| items.into_iter().map(ListedEntry).collect())
    }

    /// Lists the entries of all pages, for any list method.
    pub(crate) async fn list(&mut self, method: &str, member: &str) -> Result<Vec<Value>, RpcError> {
        let mut items = Vec::new();
        let mut params = json!({});
        loop {
            let mut page = self.request(method, params).await?;
            items.extend(page[member].as_array_mut().map(std::mem::take).unwrap_or_default());
            match page["nextCursor"].take() {
                Value::String(cursor) => params = json!({ "cursor": cursor }),
                _ => return Ok(items),
            }
        }
    }
}

pub(super) fn object(arguments: impl Serialize) -> Value {
    match serde_json::to_value(arguments) {
        Ok(Value::Null) => Value::Object(Map::new()),
        Ok(value) => value,
        Err(error) => panic!("cannot serialize the arguments: {error}"),
    }
}

/// The connection of a call that no client has made.
struct NoPeer;

impl CallConnection for NoPeer {
    fn notify(&self, _: &[u8], _: &CallLifetime) {}

    fn session_level(&self) -> Level {
        Level::Emergency
    }

    fn admits_log_message(&self) -> bool {
        false
    }

    fn close_sse_stream(&self, _: Duration) {}
}

/// The requests to a client without capabilities.
#[cfg(feature = "ask")]
mod no_answers {
    use std::future::ready;

    use crate::{
        error::Fault,
        handler::{AnswerFuture, CheckAnswer, ClientRequester, OnceValues, ask::Question},
    };

    #[derive(Debug, Default)]
    pub(super) struct NoAnswers(OnceValues);

    impl ClientRequester for NoAnswers {
        fn capabilities(&self) -> &str {
            "{}"
        }

        fn ask(&self, question: Question, _: &CheckAnswer<'_>) -> AnswerFuture {
            let missing = question.check_capabilities(self.capabilities());
            Box::pin(ready(missing.and(Err(Fault::internal("a context for tests has no client")))))
        }

        fn once_values(&self) -> &OnceValues {
            &self.0
        }
    }
}

/// Unit tests.
impl Context {
    /// Creates a context for a unit test that calls an annotated function like any other.
    ///
    /// It is the context of a call in the newest revision by a client without any capabilities: progress and log
    /// messages have no receiver, a question to the client is a
    /// [`Fault::MissingCapability`](crate::Fault::MissingCapability), and the caller is unknown, but may do everything,
    /// as over stdio. For callers, answers and notifications, call the function through a
    /// [`TestClient`](crate::testing::TestClient).
    ///
    /// ```
    /// use mcp_runtime::{Context, tool};
    ///
    /// /// Count the words of a text.
    /// #[tool(read_only)]
    /// fn count(ctx: &Context, text: String) -> usize {
    ///     let words = text.split_whitespace().count();
    ///     ctx.progress(words, words, "done");
    ///     words
    /// }
    ///
    /// assert_eq!(count(&Context::for_test(), "to be or not to be".to_owned()), 6);
    /// ```
    pub fn for_test() -> Self {
        Self::with_id(Id::from_json("1").expect("an integer"))
    }

    pub(crate) fn with_id(id: Id) -> Self {
        let dialect = revision::newest();
        let encoding = Encoding::new(dialect, &Implementation::default());
        let call = Call::new("test", id, Arc::new(encoding), Arc::default());
        let caller =
            Caller { client: None, revision: dialect.revision(), local_identity: None, is_stdio: true, head: None };
        let shared = SharedCall::new(call, Arc::new(NoPeer), caller);
        #[cfg(feature = "ask")]
        let shared = SharedCall { requester: Some(Arc::new(no_answers::NoAnswers::default())), ..shared };
        Self::new(shared)
    }
}

/// Completing arguments.
impl TestClient {
    /// Completes an argument and returns the suggested values. `reference` is the `ref` of the request, such as
    /// `{"type": "ref/prompt", "name": "review"}`. [`complete_prompt`](Self::complete_prompt) and
    /// [`complete_resource`](Self::complete_resource) need no JSON.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, prompt};
    ///
    /// /// Write in a language.
    /// #[prompt]
    /// fn write(#[arg(complete = languages)] language: String) -> String {
    ///     language
    /// }
    ///
    /// fn languages() -> [&'static str; 2] {
    ///     ["French", "German"]
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("texts", "1.0.0").with::<write>().test_client(Revision::V2026_07_28);
    /// let prompt = serde_json::json!({"type": "ref/prompt", "name": "write"});
    /// assert_eq!(client.complete(prompt, "language", "").await.unwrap(), ["French", "German"]);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn complete(&mut self, reference: Value, argument: &str, value: &str) -> Result<Vec<String>, RpcError> {
        self.complete_with(reference, argument, value, &[]).await
    }

    /// Completes an argument of a prompt and returns the suggested values. `earlier` are the arguments that the user has
    /// already filled in, by name.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, function::EarlierArguments, prompt};
    ///
    /// fn cities(_: &str, earlier: &EarlierArguments) -> Vec<&'static str> {
    ///     if earlier.get("country") == Some("Austria") { vec!["Graz", "Wien"] } else { vec!["Bern"] }
    /// }
    ///
    /// /// Plan a trip.
    /// #[prompt]
    /// fn trip(country: &str, #[arg(complete = cities)] city: &str) -> String {
    ///     format!("Plan a trip to {city} in {country}.")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("trips", "1.0.0").with::<trip>().test_client(Revision::V2026_07_28);
    /// let cities = client.complete_prompt("trip", "city", "", &[("country", "Austria")]).await.unwrap();
    /// assert_eq!(cities, ["Graz", "Wien"]);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn complete_prompt(
        &mut self,
        name: &str,
        argument: &str,
        value: &str,
        earlier: &[(&str, &str)],
    ) -> Result<Vec<String>, RpcError> {
        self.complete_with(json!({"type": "ref/prompt", "name": name}), argument, value, earlier).await
    }

    /// Completes a variable of a resource template and returns the suggested values. `earlier` are the variables that
    /// the user has already filled in, by name.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, resource};
    ///
    /// /// A poem.
    /// #[resource("poems://{title}", complete(title = titles))]
    /// fn poem(title: String) -> String {
    ///     title
    /// }
    ///
    /// fn titles(start: &str) -> Vec<&'static str> {
    ///     ["Rain", "Snow"].into_iter().filter(|title| title.starts_with(start)).collect()
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let mut client = Server::empty("poems", "1.0.0").with::<poem>().test_client(Revision::V2026_07_28);
    /// assert_eq!(client.complete_resource("poems://{title}", "title", "S", &[]).await.unwrap(), ["Snow"]);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn complete_resource(
        &mut self,
        template: &str,
        variable: &str,
        value: &str,
        earlier: &[(&str, &str)],
    ) -> Result<Vec<String>, RpcError> {
        self.complete_with(json!({"type": "ref/resource", "uri": template}), variable, value, earlier).await
    }

    async fn complete_with(
        &mut self,
        reference: Value,
        argument: &str,
        value: &str,
        earlier: &[(&str, &str)],
    ) -> Result<Vec<String>, RpcError> {
        let mut params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        if !earlier.is_empty() {
            let earlier: Map<String, Value> =
                earlier.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            params["context"] = json!({"arguments": earlier});
        }
        let mut result = self.request("completion/complete", params).await?;
        Ok(serde_json::from_value(result["completion"]["values"].take()).unwrap_or_default())
    }
}

/// Log messages and changes of resources.
impl TestClient {
    /// Requests log messages of this level and above, which [`log_messages`](Self::log_messages) returns.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server, for instance if no function can log.
    pub async fn set_log_level(&mut self, level: Level) -> Result<(), RpcError> {
        if self.revision.is_stateless() {
            self.log_level = Some(level);
            return Ok(());
        }
        self.request("logging/setLevel", json!({"level": level.as_str()})).await.map(drop)
    }

    /// Takes the log messages that have arrived.
    ///
    /// ```
    /// use mcp_runtime::{Context, Level, Revision, Server, tool};
    ///
    /// /// Log.
    /// #[tool]
    /// fn logs(ctx: &Context) {
    ///     ctx.log(Level::Debug, "not requested");
    ///     ctx.log(Level::Warning, "almost full");
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// for revision in Revision::ALL {
    ///     let mut client = Server::empty("log", "1.0.0").with::<logs>().test_client(revision);
    ///     client.set_log_level(Level::Info).await.unwrap();
    ///     client.call("logs", ()).await.unwrap();
    ///     let messages = client.log_messages();
    ///     assert_eq!(messages.len(), 1);
    ///     assert_eq!((messages[0].level, &messages[0].data), (Level::Warning, &"almost full".into()));
    /// }
    /// # });
    /// ```
    pub fn log_messages(&mut self) -> Vec<LogMessage> {
        self.wire.take_matching(LogMessage::read)
    }

    /// Subscribes to the changes of a resource, which [`updated_resources`](Self::updated_resources) returns.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, resource};
    ///
    /// /// The menu of today.
    /// #[resource("menu://today")]
    /// fn menu() -> &'static str {
    ///     "soup"
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// for revision in Revision::ALL {
    ///     let server = Server::empty("kitchen", "1.0.0").with::<menu>();
    ///     let kitchen = server.handle();
    ///     let mut client = server.test_client(revision);
    ///     client.subscribe("menu://today").await.unwrap();
    ///     kitchen.resource_updated("menu://today");
    ///     assert_eq!(client.updated_resources(), ["menu://today"]);
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server. In 2026-07-28, a server does not acknowledge the subscription to a
    /// resource that it does not have, which is reported with the error code of reading it.
    pub async fn subscribe(&mut self, uri: &str) -> Result<(), RpcError> {
        if !self.revision.is_stateless() {
            return self.request("resources/subscribe", json!({"uri": uri})).await.map(drop);
        }
        let id = self.send_request("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri]}}));
        if let Some(response) = self.wire.take_response(id) {
            return read_response(response).map(drop);
        }
        let acknowledged = self.wire.take_matching(|notification| {
            let is_acknowledged = notification["method"] == "notifications/subscriptions/acknowledged";
            is_acknowledged.then(|| notification["params"]["notifications"]["resourceSubscriptions"][0] == uri)
        });
        if acknowledged.contains(&true) {
            return Ok(());
        }
        let code = revision::dialect_of(self.revision).code(&Fault::ResourceNotFound(uri.to_owned())).into();
        Err(RpcError {
            code,
            message: format!("the server did not acknowledge the subscription to `{uri}`"),
            data: None,
        })
    }

    /// Takes the URIs of the resources that have changed, as far as the notifications have arrived.
    pub fn updated_resources(&mut self) -> Vec<String> {
        self.wire.take_matching(updated_resource)
    }
}

use std::fmt;

use serde_json::{Map, Value, json};

use super::{calls::RpcError, client::TestClient};

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
    /// use mcp_runtime::{EarlierArguments, Revision, Server, prompt};
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

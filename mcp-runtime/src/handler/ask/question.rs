use std::{
    error::Error,
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::{Capability, url_completion::TrackedElicitation};
use crate::{
    debug::debug,
    error::Fault,
    handler::ClientProgress,
    handler::schema::{Checker, SchemaError, Violation, decoding_violation},
    jsonrpc::raw,
    revision::{Features, Revision, dialect_of, encode::Object},
};

/// A request to the client: [`Elicitation`](crate::ask::Elicitation), [`UrlElicitation`](crate::ask::UrlElicitation),
/// [`SampleRequest`](crate::ask::SampleRequest) or [`ListRoots`](crate::ask::ListRoots).
///
/// See [Client features](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a request to the client",
    label = "expected `Elicitation<_>`, `UrlElicitation`, `SampleRequest` or `ListRoots`"
)]
pub trait Ask: Send + Sync + 'static {
    /// The answer.
    type Answer: Send + 'static;

    /// Encodes the request for the client's revision.
    ///
    /// # Errors
    ///
    /// Returns a fault if the revision does not support the request, or if the request is invalid.
    #[doc(hidden)]
    fn question(&self, features: Features) -> Result<Question, Fault>;

    /// Decodes the `result` of the client, which must be valid JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the result does not match the request.
    #[doc(hidden)]
    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer>;

    /// Sets how long the server waits for the answer. Defaults to [`Server::ask_timeout`](crate::Server::ask_timeout),
    /// or in a task to the time to live of the task.
    ///
    /// When the timeout elapses, the server cancels the request, and the function receives [`Fault::AnswerTimeout`]. In
    /// stateless revisions, where the call ends with its questions and the client may retry it at any time, the timeout
    /// has no effect.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_runtime::{Context, Elicit, Fault, ask::{Answer, Ask, Elicitation}, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Confirm {
    ///     sure: bool,
    /// }
    ///
    /// /// Restart the service, unless the user objects within a minute.
    /// #[tool]
    /// async fn restart(ctx: &Context) -> Result<&'static str, Fault> {
    ///     let question = Elicitation::<Confirm>::new("restart", "Restart now?").timeout(Duration::from_secs(60));
    ///     match ctx.ask(question).await {
    ///         Ok(Answer::Accept(Confirm { sure: true })) => Ok("restarted"),
    ///         Ok(_) => Ok("not restarted"),
    ///         Err(Fault::AnswerTimeout { .. }) => Ok("restarted, because nobody objected"),
    ///         Err(fault) => Err(fault),
    ///     }
    /// }
    /// ```
    ///
    /// See [Timeouts](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts).
    fn timeout(self, timeout: Duration) -> WithOptions<Self>
    where
        Self: Sized,
    {
        WithOptions::new(self, AskOptions { timeout: Some(timeout), ..AskOptions::default() })
    }

    /// Restarts the timeout whenever the client reports progress, but waits no longer than `max` in total.
    ///
    /// Asks the client for progress, as [`on_progress`](Self::on_progress) does.
    fn extend_on_progress(self, max: Duration) -> WithOptions<Self>
    where
        Self: Sized,
    {
        WithOptions::new(self, AskOptions { max_timeout: Some(max), ..AskOptions::default() })
    }

    /// Asks the client to report its progress, and calls `report` with it while the function waits for the answer.
    ///
    /// If the client reports faster than the function is polled, only the latest report is passed on. Reports whose
    /// progress does not increase are ignored. Clients may report nothing. In stateless revisions and in tasks,
    /// questions are not requests of the server, so the client is not asked for progress.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_runtime::{Context, Fault, ask::{Ask, SampleRequest}, tool};
    ///
    /// /// Summarise a text, and pass on the progress of the client's model.
    /// #[tool]
    /// async fn summarise(ctx: &Context, text: String) -> Result<String, Fault> {
    ///     let progress = ctx.clone();
    ///     let request = SampleRequest::new(format!("Summarise: {text}"))
    ///         .timeout(Duration::from_secs(30))
    ///         .extend_on_progress(Duration::from_secs(600))
    ///         .on_progress(move |report| {
    ///             progress.progress(report.progress, report.total, report.message.unwrap_or_default());
    ///         });
    ///     Ok(ctx.ask(request).await?.text())
    /// }
    /// ```
    ///
    /// See [Progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).
    fn on_progress(self, report: impl Fn(ClientProgress) + Send + Sync + 'static) -> WithOptions<Self>
    where
        Self: Sized,
    {
        WithOptions::new(self, AskOptions { on_progress: Some(Arc::new(report)), ..AskOptions::default() })
    }
}

/// An encoded request to the client.
#[derive(Debug, Clone)]
pub struct Question {
    /// The key, which identifies the request among the requests of a call.
    pub(crate) key: String,
    /// The method.
    pub(crate) method: &'static str,
    /// The parameters: an object, as JSON.
    pub(crate) params: String,
    /// The capabilities that the client must have declared.
    pub(crate) capabilities: &'static [Capability],
    pub(crate) options: AskOptions,
    /// The elicitation, if its completion will be reported.
    pub(crate) tracked: Option<TrackedElicitation>,
}

impl Question {
    /// `params` is an object, as JSON.
    pub(super) fn new(key: String, method: &'static str, params: Vec<u8>, capabilities: &'static [Capability]) -> Self {
        let params = String::from_utf8(params).unwrap_or_default();
        Self { key, method, params, capabilities, options: AskOptions::default(), tracked: None }
    }

    /// Returns the parameters of the question when it is repeated because its last answer was invalid. The message to
    /// the user says why. Questions to a model or a program have no such message.
    pub(crate) fn params_after(&self, error: &InvalidAnswer) -> String {
        let mut out = Vec::with_capacity(self.params.len() + 128);
        let mut params = Object::begin(&mut out);
        for (name, value) in raw::members(&self.params) {
            match raw::string(value).filter(|_| name == "message") {
                Some(message) => {
                    params.string(&name, &format!("{message}\n\nThe last answer was not accepted: {error}"));
                }
                None => params.raw(&name, value.as_bytes()),
            }
        }
        params.end();
        String::from_utf8(out).unwrap_or_default()
    }

    /// Checks the capabilities that the client has declared: an object, as JSON.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::MissingCapability`] with the capabilities that the client has not declared.
    pub(crate) fn check_capabilities(&self, declared: &str) -> Result<(), Fault> {
        let is_missing = |capability: &Capability| !capability.is_declared_in(declared);
        let missing: Vec<_> = self.capabilities.iter().copied().filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(Capability::missing(&missing)) }
    }
}

/// The reason why a client's answer does not match the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidAnswer(String);

impl InvalidAnswer {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Returns the fault that the function receives.
    pub(crate) fn into_fault(self, key: String) -> Fault {
        Fault::InvalidAnswer { key, reason: self.0 }
    }
}

impl fmt::Display for InvalidAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for InvalidAnswer {}

impl From<Violation> for InvalidAnswer {
    fn from(violation: Violation) -> Self {
        Self(violation.to_string())
    }
}

impl From<SchemaError> for InvalidAnswer {
    fn from(error: SchemaError) -> Self {
        Self(error.to_string())
    }
}

/// Encodes a request without an id, for comparison with the schema of a revision.
///
/// # Errors
///
/// Same as [`Ask::question`].
pub fn encoded_question(ask: &impl Ask, revision: Revision) -> Result<String, Fault> {
    let Question { method, params, .. } = ask.question(dialect_of(revision).features())?;
    Ok(format!(r#"{{"method":"{method}","params":{params}}}"#))
}

/// Parses an answer that must match a schema.
pub(super) fn parse(schema: &Value, json: &str) -> Result<Value, InvalidAnswer> {
    let violations = Checker::compile(schema)?.quick_violations(json);
    let violations = violations.unwrap_or_else(|| vec![Violation::too_large(json)]);
    if violations.is_empty() {
        return serde_json::from_str(json).map_err(|error| decoding_violation("", json, &error).into());
    }
    let messages: Vec<_> = violations.iter().map(ToString::to_string).collect();
    Err(InvalidAnswer(messages.join("; ")))
}

/// Returns the fault for an invalid request, which the author of the server must correct.
pub(super) fn invalid_request(message: impl Into<String>) -> Fault {
    Fault::Internal(message.into())
}

/// A request for the directories and files that the client works on.
///
/// Deprecated since revision 2026-07-28. Use an argument or the configuration of the server instead.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::{Context, Fault, ask::{Ask, ListRoots}};
///
/// # #[allow(dead_code)]
/// async fn count(ctx: &Context) -> Result<usize, Fault> {
///     Ok(ctx.ask(ListRoots.timeout(Duration::from_secs(5))).await?.len())
/// }
/// ```
///
/// See [Roots](https://modelcontextprotocol.io/specification/2026-07-28/client/roots).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListRoots;

/// A directory or file that the client works on.
///
/// ```
/// use mcp_runtime::{Context, Fault, tool};
///
/// /// List the directories that the client works on.
/// #[tool(read_only)]
/// async fn directories(ctx: &Context) -> Result<Vec<String>, Fault> {
///     let roots = ctx.roots().await?;
///     Ok(roots.into_iter().map(|root| root.name.unwrap_or(root.uri)).collect())
/// }
/// ```
///
/// See [Root](https://modelcontextprotocol.io/specification/2026-07-28/client/roots#root).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// The URI: `file://…`.
    pub uri: String,
    /// The display name.
    pub name: Option<String>,
    /// The members of `_meta`.
    pub meta: Map<String, Value>,
}

impl Ask for ListRoots {
    type Answer = Vec<Root>;

    fn question(&self, _: Features) -> Result<Question, Fault> {
        Ok(Question::new("roots".to_owned(), "roots/list", b"{}".to_vec(), &[Capability::Roots]))
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
            let properties = json!({ "uri": { "type": "string" }, "name": { "type": ["string", "null"] } });
            let root = json!({ "type": "object", "properties": properties, "required": ["uri"] });
            let roots = json!({ "type": "array", "items": root });
            json!({ "type": "object", "properties": { "roots": roots }, "required": ["roots"] })
        });

        let result = parse(&SCHEMA, result)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let root = |root: &Value| Root {
            uri: text(&root["uri"]).unwrap_or_default(),
            name: text(&root["name"]),
            meta: root["_meta"].as_object().cloned().unwrap_or_default(),
        };
        Ok(result["roots"].as_array().into_iter().flatten().map(root).collect())
    }
}

/// A request to the client with options: what [`Ask::timeout`], [`Ask::extend_on_progress`] and [`Ask::on_progress`]
/// return.
#[derive(Debug, Clone)]
pub struct WithOptions<A> {
    ask: A,
    options: AskOptions,
}

/// The options of a request to the client.
#[derive(Clone, Default)]
pub(crate) struct AskOptions {
    /// How long the server waits for the answer. `None` means the default of the server.
    pub(crate) timeout: Option<Duration>,
    /// How long the server waits in total if progress restarts the timeout. `None` if progress does not restart it.
    pub(crate) max_timeout: Option<Duration>,
    pub(crate) on_progress: Option<Arc<dyn Fn(ClientProgress) + Send + Sync>>,
}

impl<A> WithOptions<A> {
    pub(super) fn new(ask: A, options: AskOptions) -> Self {
        Self { ask, options }
    }
}

impl AskOptions {
    /// Returns whether the client is asked to report progress.
    pub(crate) fn wants_progress(&self) -> bool {
        self.max_timeout.is_some() || self.on_progress.is_some()
    }
}

debug!(AskOptions, self, timeout: self.timeout, max_timeout: self.max_timeout, on_progress: self.on_progress.is_some());

impl<A: Ask> Ask for WithOptions<A> {
    type Answer = A::Answer;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        let mut question = self.ask.question(features)?;
        let AskOptions { timeout, max_timeout, on_progress } = self.options.clone();
        let inner = question.options;
        question.options = AskOptions {
            timeout: timeout.or(inner.timeout),
            max_timeout: max_timeout.or(inner.max_timeout),
            on_progress: on_progress.or(inner.on_progress),
        };
        Ok(question)
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        self.ask.read(result)
    }
}

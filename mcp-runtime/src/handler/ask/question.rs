//! A request to the client as it is sent, the capabilities that it requires, and the record of its recipient.

use std::{
    error::Error,
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    error::Fault,
    handler::ClientProgress,
    handler::schema::{Checker, SchemaError, Violation, decoding_violation},
    jsonrpc::{object_member, raw},
    revision::{Feature, Features, Revision, dialect_of, encode::Object},
    stdx::{Mutex, debug},
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
        WithOptions { ask: self, options: AskOptions { timeout: Some(timeout), ..AskOptions::default() } }
    }

    /// Restarts the timeout whenever the client reports progress, but waits no longer than `max` in total.
    ///
    /// Asks the client for progress, as [`on_progress`](Self::on_progress) does.
    fn extend_on_progress(self, max: Duration) -> WithOptions<Self>
    where
        Self: Sized,
    {
        WithOptions { ask: self, options: AskOptions { max_timeout: Some(max), ..AskOptions::default() } }
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
        WithOptions { ask: self, options: AskOptions { on_progress: Some(Arc::new(report)), ..AskOptions::default() } }
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

/// A capability that a client must declare before the server may send the requests that require it.
///
/// [`Context::supports`](crate::Context::supports) returns whether the client has declared it.
///
/// ```
/// use mcp_runtime::{Context, ask::Capability, tool};
///
/// /// Return what the client supports.
/// #[tool(read_only)]
/// fn client(ctx: &Context) -> String {
///     let (forms, pages) = (Capability::Elicitation, Capability::UrlElicitation);
///     format!("forms: {}, web pages: {}", ctx.supports(forms), ctx.supports(pages))
/// }
/// ```
///
/// See [Client features](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Capability {
    /// Asking the user to fill in forms.
    Elicitation,
    /// Sending the user to web pages.
    UrlElicitation,
    /// Completions by the client's model.
    Sampling,
    /// Completions that use tools.
    SamplingTools,
    /// Completions that include the context of this or other servers.
    SamplingContext,
    /// Listing the directories that the server may work in.
    Roots,
}

impl Capability {
    /// Returns whether the client's capabilities, an object as JSON, allow any question.
    pub(crate) fn any_is_declared_in(capabilities: &str) -> bool {
        [Self::Elicitation, Self::UrlElicitation, Self::Sampling, Self::Roots]
            .into_iter()
            .any(|capability| capability.is_declared_in(capabilities))
    }

    /// Returns whether the client's capabilities, an object as JSON, declare this one.
    ///
    /// An `elicitation` object without modes declares forms.
    pub(crate) fn is_declared_in(self, capabilities: &str) -> bool {
        let (name, part) = self.name();
        object_member(capabilities, name).is_some_and(|parts| match part {
            Some(part) => object_member(parts, part).is_some(),
            None if self == Self::Elicitation => {
                object_member(parts, "form").is_some() || object_member(parts, "url").is_none()
            }
            None => true,
        })
    }

    /// Returns the capability that clients of a revision declare to support this one, which is usually the same.
    /// Returns `None` if the revision does not support the requests that require it.
    pub(crate) fn declared_as(self, features: Features) -> Option<Self> {
        match self {
            Self::Elicitation if !features.has(Feature::Elicitation) => None,
            Self::UrlElicitation if !features.has(Feature::UrlElicitation) => None,
            Self::SamplingTools if !features.has(Feature::SamplingTools) => None,
            // In revisions without `sampling.tools`, `sampling` implies the context.
            Self::SamplingContext if !features.has(Feature::SamplingTools) => Some(Self::Sampling),
            capability => Some(capability),
        }
    }

    /// Returns the member of the client's capabilities that declares this one, and the member of that member, if any.
    fn name(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Elicitation => ("elicitation", None),
            Self::UrlElicitation => ("elicitation", Some("url")),
            Self::Sampling => ("sampling", None),
            Self::SamplingTools => ("sampling", Some("tools")),
            Self::SamplingContext => ("sampling", Some("context")),
            Self::Roots => ("roots", None),
        }
    }

    /// Returns the fault for a client that has not declared these capabilities, with the minimal capabilities that it must
    /// declare.
    pub(crate) fn missing(capabilities: &[Self]) -> Fault {
        let mut required = json!({});
        for capability in capabilities {
            match capability.name() {
                (name, None) if required.get(name).is_none() => required[name] = json!({}),
                (_, None) => {}
                (name, Some(part)) => required[name][part] = json!({}),
            }
        }
        Fault::MissingCapability { required }
    }
}

/// Returns whether the client's capabilities, an object as JSON, declare that it announces changes of its roots.
pub(crate) fn announces_root_changes(capabilities: &str) -> bool {
    let roots = object_member(capabilities, "roots");
    roots.and_then(|roots| raw::member(roots, "listChanged")) == Some("true")
}

/// The session that received an elicitation. Implementations refer to the session weakly, and keep nothing of it in
/// memory.
pub(crate) trait ElicitationSession: Send + Sync {
    /// Sends a notification that belongs to no request. Returns `false` if the session has ended, or if the client
    /// reads too slowly.
    fn notify(&self, message: &[u8]) -> bool;
}

/// A handle that reports the completion of the interaction on a web page. [`UrlElicitation::with_completion`] returns
/// it.
///
/// Keep it where the code behind the web page can find it, such as in a map with the `state` of an OAuth flow as the
/// key. Dropping it reports nothing.
///
/// See [Completion notifications](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation).
///
/// [`UrlElicitation::with_completion`]: crate::ask::UrlElicitation::with_completion
#[derive(Debug)]
pub struct UrlCompletion(pub(super) Recipient);

impl UrlCompletion {
    /// Sends `notifications/elicitation/complete` to the session that received the elicitation, and to no other. If the
    /// elicitation was sent several times, the notification refers to the last one.
    ///
    /// Over HTTP, the notification is sent on the stream that the client opens with GET, and waits for that stream if
    /// there is none.
    ///
    /// Returns whether a notification was sent. None is sent if the client has not received the elicitation, if it
    /// belongs to a task, if the session has ended, if the client reads too slowly, and in all revisions other than
    /// 2025-11-25.
    pub fn complete(self) -> bool {
        let Some(Received { id, session }) = self.0.0.lock().take() else { return false };
        let mut out = Vec::new();
        let mut message = Object::begin(&mut out);
        message.string("jsonrpc", "2.0");
        message.string("method", "notifications/elicitation/complete");
        let mut params = Object::begin(message.key("params"));
        params.string("elicitationId", &id);
        params.end();
        message.end();
        session.notify(&out)
    }
}

/// The recipient of an elicitation, once it has been sent.
#[derive(Clone, Default)]
pub(crate) struct Recipient(Arc<Mutex<Option<Received>>>);

/// An elicitation that a session has received.
struct Received {
    id: String,
    session: Arc<dyn ElicitationSession>,
}

debug!(Recipient, self, is_known: self.0.lock().is_some());

/// Compares by identity.
impl PartialEq for Recipient {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Recipient {}

/// An encoded elicitation whose completion will be reported.
#[derive(Debug, Clone)]
pub(crate) struct TrackedElicitation {
    pub(super) id: String,
    pub(super) recipient: Recipient,
}

impl TrackedElicitation {
    /// Records the session to which the elicitation has been sent.
    pub(crate) fn received_by(self, session: Arc<dyn ElicitationSession>) {
        *self.recipient.0.lock() = Some(Received { id: self.id, session });
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Capability::{self, *},
        *,
    };
    use crate::revision::DIALECTS;

    #[test]
    fn declared_capabilities() {
        for (capabilities, expected) in [
            ("{}", &[] as &[Capability]),
            (r#"{"elicitation":{}}"#, &[Elicitation]),
            (r#"{"elicitation":{"form":{}}}"#, &[Elicitation]),
            (r#"{"elicitation":{"url":{}}}"#, &[UrlElicitation]),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, &[Elicitation, UrlElicitation]),
            (r#"{"elicitation":{"schemaValidation":true}}"#, &[Elicitation]),
            (r#"{"elicitation":null,"sampling":false,"roots":[]}"#, &[]),
            (r#"{"sampling":{}}"#, &[Sampling]),
            (r#"{"sampling":{"tools":{}}}"#, &[Sampling, SamplingTools]),
            (r#"{"sampling":{"context":{},"tools":null}}"#, &[Sampling, SamplingContext]),
            (r#"{ "roots" : { "listChanged" : true } }"#, &[Roots]),
            (r#"{"experimental":{"roots":{}}}"#, &[]),
            ("[]", &[]),
            ("", &[]),
        ] {
            for capability in [Elicitation, UrlElicitation, Sampling, SamplingTools, SamplingContext, Roots] {
                let declared = capability.is_declared_in(capabilities);
                assert_eq!(declared, expected.contains(&capability), "{capability:?} in {capabilities}");
            }
        }
    }

    #[test]
    fn stateless_revisions_encode_the_required_capabilities() {
        let fault = Capability::missing(&[UrlElicitation]);
        for dialect in DIALECTS {
            let (code, data) = if dialect.revision().is_stateless() {
                (-32021, Some(json!({ "requiredCapabilities": { "elicitation": { "url": {} } } })))
            } else {
                (-32600, None)
            };
            assert_eq!((dialect.code(&fault), dialect.data(&fault)), (code, data), "{}", dialect.name());
        }
    }

    #[test]
    fn required_capabilities_are_sufficient() {
        for (capability, named) in [
            (Elicitation, "`elicitation`"),
            (UrlElicitation, "`elicitation.url`"),
            (Sampling, "`sampling`"),
            (SamplingTools, "`sampling.tools`"),
            (SamplingContext, "`sampling.context`"),
            (Roots, "`roots`"),
        ] {
            let missing = Capability::missing(&[capability]);
            let Fault::MissingCapability { required } = &missing else { panic!("{missing:?}") };
            let required = required.to_string();
            assert!(capability.is_declared_in(&required), "{capability:?}");
            assert!(Capability::any_is_declared_in(&required), "{capability:?}");
            let message = format!("the client has not declared the capability {named}");
            assert_eq!(missing.to_string(), message);
        }
        let both = Capability::missing(&[SamplingTools, SamplingContext, Roots]);
        let required = json!({ "sampling": { "tools": {}, "context": {} }, "roots": {} });
        assert_eq!(both, Fault::MissingCapability { required });
    }
}

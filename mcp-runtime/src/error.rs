//! The errors of the crate, sorted by who can fix them.
//!
//! A [`Fault`] is sent to the client as a JSON-RPC error. A [`BuildError`] is for the author of the server. An error
//! that the model can fix is neither: it is a tool result with `isError`, see [`ToolResult`](crate::ToolResult).

use std::{borrow::Cow, fmt, time::Duration};

use crate::counters::{self, Counter, Warnings};

/// A protocol error: the client receives a JSON-RPC error response instead of a result.
///
/// Names, URIs and versions that the client sent are cut to 200 characters when the fault is displayed or sent.
///
/// A fault states what happened; the protocol revision of the request decides the error code. A function that returns
/// `Result<_, Fault>` can raise a protocol error itself. Every other error of a tool becomes a tool result with
/// `isError`, which the model reads.
///
/// The faults of a tool's conversation with its client become such results as well, since most agents end their run at
/// a protocol error: [`InvalidAnswer`](Self::InvalidAnswer), [`AnswerError`](Self::AnswerError),
/// [`AnswerTimeout`](Self::AnswerTimeout), [`InteractionRequired`](Self::InteractionRequired), and
/// [`MissingCapability`](Self::MissingCapability) in revisions before 2026-07-28, which requires a protocol error for
/// it.
///
/// ```
/// use mcp_runtime::{Fault, Revision, Server, tool};
///
/// /// Open the vault.
/// #[tool]
/// fn open() -> Result<(), Fault> {
///     Err(Fault::custom(4003, "the vault opens at nine"))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = Server::empty("bank", "1.0.0").with::<open>().test_client(Revision::V2026_07_28);
/// assert_eq!(client.call("open", ()).await.unwrap_err().code, 4003);
/// # });
/// ```
///
/// See [Error handling](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The message is not valid JSON.
    Parse(String),
    /// The message is valid JSON, but not a JSON-RPC request.
    InvalidRequest(String),
    /// The method is unknown, or belongs to a capability that the server did not declare.
    MethodNotFound(String),
    /// The parameters of the method are missing, unknown or of the wrong type.
    InvalidParams(String),
    /// The server has no tool with this name.
    UnknownTool(String),
    /// The server has no prompt with this name.
    UnknownPrompt(String),
    /// The server has no resource with this URI.
    ResourceNotFound(String),
    /// The server failed. The text is sent to the client, so it must not contain secrets.
    Internal(String),
    /// The server has reached a limit and rejects the request; the client may retry later. Over HTTP the status is 503
    /// unless the response has already begun.
    Overloaded(String),
    /// The server does not support the protocol version of the request.
    UnsupportedVersion {
        /// The version that the client asked for.
        requested: String,
    },
    /// An HTTP header contradicts the body of the request.
    HeaderMismatch(String),
    /// The client has not declared a capability that the request needs.
    ///
    /// See [Capabilities](https://modelcontextprotocol.io/specification/2026-07-28/basic/index#meta).
    MissingCapability {
        /// The required capabilities, in the form in which a client declares them.
        required: serde_json::Value,
    },
    /// The sender of the request lacks scopes. [`Context::require_scopes`](crate::Context::require_scopes) returns it.
    ///
    /// Over HTTP, if the response has not begun, its status is 403 and its challenge names the scopes, so that the
    /// client can obtain a token with them.
    ///
    /// See [Scope challenge handling](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling).
    #[non_exhaustive]
    InsufficientScope {
        /// Every scope that the operation requires.
        required: Vec<String>,
    },
    /// The user must visit web pages before the request can be processed.
    /// [`Context::url_elicitation_required`](crate::Context::url_elicitation_required) returns it.
    ///
    /// See [URL elicitation required error](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error).
    #[non_exhaustive]
    UrlElicitationRequired {
        /// The elicitations by URL, at least one.
        elicitations: Vec<RequiredElicitation>,
    },
    /// The client's answer to a request of the function does not match the request.
    ///
    /// In stateless revisions, the client is asked up to three times before the function receives this fault.
    #[non_exhaustive]
    InvalidAnswer {
        /// The key of the request.
        key: String,
        /// The reason why the answer is invalid.
        reason: String,
    },
    /// The user has not completed an interaction that the call requires, such as visiting a web page.
    InteractionRequired(String),
    /// The client answered a request of the function with an error.
    #[non_exhaustive]
    AnswerError {
        /// The method of the request.
        method: String,
        /// The message of the error.
        message: String,
    },
    /// The client did not answer a request of the function in time.
    #[non_exhaustive]
    AnswerTimeout {
        /// The key of the request.
        key: String,
        /// The time that the server waited.
        timeout: Duration,
    },
    /// An error with a code of the author's choice, outside the range that JSON-RPC reserves (-32768 to -32000).
    Custom {
        /// The error code.
        code: i32,
        /// A sentence that describes the error.
        message: String,
        /// Additional information for the client.
        data: Option<serde_json::Value>,
    },
}

impl Fault {
    /// Creates an error for parameters that are missing, unknown or invalid.
    ///
    /// ```
    /// use mcp_runtime::Fault;
    ///
    /// fn page(number: &str) -> Result<u32, Fault> {
    ///     number.parse().map_err(|_| Fault::invalid_params(format!("`{number}` is not a page number")))
    /// }
    /// # assert!(page("x").is_err());
    /// ```
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::InvalidParams(message.into())
    }

    /// Creates an error for a URI that names no resource.
    ///
    /// ```
    /// use mcp_runtime::{Fault, resource};
    ///
    /// /// A chapter of the manual.
    /// #[resource("manual://{chapter}")]
    /// fn chapter(chapter: u8) -> Result<&'static str, Fault> {
    ///     match chapter {
    ///         1 => Ok("Installation"),
    ///         _ => Err(Fault::resource_not_found(format!("manual://{chapter}"))),
    ///     }
    /// }
    /// # assert!(chapter(2).is_err());
    /// ```
    pub fn resource_not_found(uri: impl Into<String>) -> Self {
        Self::ResourceNotFound(uri.into())
    }

    /// Creates an error for a failure of the server. The client receives the text.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal(message.into())
    }

    /// Creates an error for a request that is rejected because a limit is reached. The client receives the text.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::Overloaded(message.into())
    }

    /// Creates an error for a request that is rejected because a limit is reached. Counts it, and logs it at most once in ten
    /// seconds.
    pub(crate) fn refused(reason: Counter, message: impl Into<String>) -> Self {
        static WARNINGS: [Warnings; counters::COUNT] = [const { Warnings::new() }; counters::COUNT];
        reason.count();
        let message = message.into();
        if WARNINGS[reason as usize].is_due() {
            tracing::warn!(reason = message, "request rejected, because a limit is reached");
        }
        Self::Overloaded(message)
    }

    /// Creates the error for a request that the server ends because it shuts down.
    pub(crate) fn shutting_down() -> Self {
        Self::internal("the server is shutting down")
    }

    /// Describes the fault for the log. Violations of a schema repeat values of the client, which are not logged.
    pub(crate) fn log_text(&self) -> String {
        if let Self::InvalidParams(_) = self { "invalid params".to_owned() } else { self.to_string() }
    }

    /// Returns the class of the fault, if it has one.
    pub(crate) fn class(&self) -> Option<FaultClass> {
        match self {
            Self::MethodNotFound(_) => Some(FaultClass::UnknownMethod),
            Self::UnsupportedVersion { .. } | Self::HeaderMismatch(_) | Self::MissingCapability { .. } => {
                Some(FaultClass::Mismatch)
            }
            Self::Overloaded(_) => Some(FaultClass::Overloaded),
            Self::InsufficientScope { .. } => Some(FaultClass::InsufficientScope),
            _ => None,
        }
    }

    /// Creates an error with a code of the author's choice.
    pub fn custom(code: i32, message: impl Into<String>) -> Self {
        Self::Custom { code, message: message.into(), data: None }
    }
}

/// A web page that the user must visit before a request can be processed. See [`Fault::UrlElicitationRequired`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "ask"), allow(unnameable_types, reason = "only functions that ask the client create it"))]
pub struct RequiredElicitation {
    /// The id of the elicitation.
    pub id: String,
    /// The URL of the page.
    pub url: String,
    /// The message that tells the user why.
    pub message: String,
}

/// The faults for which a transport does more than send the error response: over HTTP, each class has its own status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultClass {
    UnknownMethod,
    /// The version, headers or capabilities of the client are invalid for the request.
    Mismatch,
    Overloaded,
    /// The sender lacks scopes, which the source of the request has recorded.
    InsufficientScope,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(why) => write!(f, "parse error: {why}"),
            Self::InvalidRequest(why) => write!(f, "invalid request: {why}"),
            Self::MethodNotFound(method) => write!(f, "method not found: {}", excerpt(method)),
            Self::InvalidParams(why) => write!(f, "invalid params: {why}"),
            Self::UnknownTool(name) => write!(f, "unknown tool: {}", excerpt(name)),
            Self::UnknownPrompt(name) => write!(f, "unknown prompt: {}", excerpt(name)),
            Self::ResourceNotFound(uri) => write!(f, "resource not found: {}", excerpt(uri)),
            Self::Internal(why) | Self::Overloaded(why) | Self::InteractionRequired(why) => f.write_str(why),
            Self::UnsupportedVersion { requested } => write!(f, "unsupported protocol version: {}", excerpt(requested)),
            Self::HeaderMismatch(why) => write!(f, "header mismatch: {why}"),
            Self::MissingCapability { required } => {
                write!(f, "the client has not declared the capability {}", capability_names(required))
            }
            Self::InsufficientScope { required } => match required.as_slice() {
                [scope] => write!(f, "the operation requires the scope `{scope}`"),
                scopes => write!(f, "the operation requires the scopes `{}`", scopes.join("`, `")),
            },
            Self::UrlElicitationRequired { .. } => f.write_str("the user must visit a web page first"),
            Self::InvalidAnswer { key, reason } => write!(f, "the client's answer to `{key}` is invalid: {reason}"),
            Self::AnswerError { method, message } => {
                write!(f, "the client answered `{method}` with an error: {}", excerpt(message))
            }
            Self::AnswerTimeout { key, timeout } => write!(f, "the client did not answer `{key}` within {timeout:?}"),
            Self::Custom { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for Fault {}

/// Returns the dotted names of capabilities, such as `` `sampling.tools` ``.
fn capability_names(capabilities: &serde_json::Value) -> String {
    fn collect(path: &str, value: &serde_json::Value, names: &mut Vec<String>) {
        match value.as_object().filter(|members| !members.is_empty()) {
            Some(members) => {
                members.iter().for_each(|(member, value)| collect(&format!("{path}.{member}"), value, names));
            }
            None => names.push(format!("`{}`", path.trim_start_matches('.'))),
        }
    }

    let mut names = Vec::new();
    collect("", capabilities, &mut names);
    names.join(", ")
}

/// The error of a server that cannot be built: every problem found, each with the source lines that cause it.
///
/// ```
/// use mcp_runtime::{Server, tool};
///
/// struct Db;
///
/// /// Count the rows.
/// #[tool]
/// fn rows(db: &Db) {}
///
/// let error = Server::empty("db", "1.0.0").with::<rows>().build().unwrap_err();
/// // The message names the function, its file and line, and what to do.
/// assert!(error.to_string().contains("`rows`") && error.to_string().contains("help: "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError {
    /// The beginning of the message: the action that has failed.
    what: &'static str,
    problems: Vec<String>,
}

impl BuildError {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { what: "the server cannot be built", problems }
    }

    /// Turns the error into that of a running server.
    pub(crate) fn of_change(self) -> Self {
        Self { what: "the functions of the server cannot be changed", ..self }
    }

    /// Returns the problems, one sentence each.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tool};
    /// # struct Db;
    /// # struct Cache;
    /// /// Count the rows.
    /// #[tool]
    /// fn rows(db: &Db, cache: &Cache) {}
    ///
    /// let error = Server::empty("db", "1.0.0").with::<rows>().check().unwrap_err();
    /// assert_eq!(error.problems().len(), 2);
    /// ```
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what;
        match self.problems.as_slice() {
            [problem] => write!(f, "{what}: {problem}"),
            problems => {
                write!(f, "{what}, {} problems found:", problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// The maximum number of characters of a client's text that a message repeats.
const MAX_CHARS: usize = 200;

/// Returns the text, or its beginning and an ellipsis if it is longer than 200 characters.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    // Most text is short, and bytes are counted faster than characters.
    if text.len() <= MAX_CHARS {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Returns the beginning of a text, at most this number of bytes.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_text_is_cut() {
        for (text, expected) in [
            (String::new(), String::new()),
            ("x".repeat(200), "x".repeat(200)),
            ("é".repeat(200), "é".repeat(200)),
            ("x".repeat(201), format!("{}…", "x".repeat(200))),
            ("é".repeat(1 << 20), format!("{}…", "é".repeat(200))),
        ] {
            assert_eq!(excerpt(&text), expected);
        }
        for (bytes, expected) in [(0, ""), (1, ""), (2, "é"), (3, "éa"), (9, "éa")] {
            assert_eq!(beginning("éa", bytes), expected);
        }
    }
}

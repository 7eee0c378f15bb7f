//! What can go wrong, sorted by who can mend it.
//!
//! A [`Fault`] is answered to the client as a JSON-RPC error, a [`BuildError`] is for the author of the server. What a
//! model can mend is neither: it is a tool result with `isError`, see [`ToolResult`](crate::ToolResult).

use std::fmt;

/// A protocol error: the client gets a JSON-RPC error response instead of a result.
///
/// A fault says what happened; the protocol revision in use decides the code that it is sent with. A function that
/// returns `Result<_, Fault>` can answer a protocol error itself; any other error of a tool goes back as a tool result
/// with `isError`, for the model to read.
///
/// See [Error handling](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The message was not JSON.
    Parse(String),
    /// The message was JSON, but no JSON-RPC request.
    InvalidRequest(String),
    /// No such method, or one of a capability that the server did not declare.
    MethodNotFound(String),
    /// The parameters of the method are missing, unknown or ill-typed.
    InvalidParams(String),
    /// No tool of this name.
    UnknownTool(String),
    /// No prompt of this name.
    UnknownPrompt(String),
    /// No resource with this URI.
    ResourceNotFound(String),
    /// The server failed. The text is sent to the client, so it must not hold secrets.
    Internal(String),
    /// The protocol version of the request is not one that the server speaks.
    UnsupportedVersion {
        /// The version that the client asked for.
        requested: String,
    },
    /// What the HTTP headers say of the request differs from what it says itself.
    HeaderMismatch(String),
    /// The client has not declared a capability that the request needs.
    ///
    /// See [Capabilities](https://modelcontextprotocol.io/specification/2026-07-28/basic/index#meta).
    MissingCapability {
        /// The capabilities that are needed, as the client would declare them.
        required: serde_json::Value,
    },
    /// A code of the author's own, outside the range that JSON-RPC reserves (-32768 to -32000).
    Custom {
        /// The error code.
        code: i32,
        /// One sentence that says what went wrong.
        message: String,
        /// Anything that helps the client, if it is there.
        data: Option<serde_json::Value>,
    },
}

impl Fault {
    /// Says that the request's parameters do not fit.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::InvalidParams(message.into())
    }

    /// Says that there is no resource with this URI.
    pub fn resource_not_found(uri: impl Into<String>) -> Self {
        Self::ResourceNotFound(uri.into())
    }

    /// Says that the server failed. The text reaches the client.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal(message.into())
    }

    /// Answers with an error code of the author's own.
    pub fn custom(code: i32, message: impl Into<String>) -> Self {
        Self::Custom { code, message: message.into(), data: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(why) => write!(f, "parse error: {why}"),
            Self::InvalidRequest(why) => write!(f, "invalid request: {why}"),
            Self::MethodNotFound(method) => write!(f, "method not found: {method}"),
            Self::InvalidParams(why) => write!(f, "invalid params: {why}"),
            Self::UnknownTool(name) => write!(f, "unknown tool: {name}"),
            Self::UnknownPrompt(name) => write!(f, "unknown prompt: {name}"),
            Self::ResourceNotFound(uri) => write!(f, "resource not found: {uri}"),
            Self::Internal(why) => f.write_str(why),
            Self::UnsupportedVersion { requested } => write!(f, "unsupported protocol version: {requested}"),
            Self::HeaderMismatch(why) => write!(f, "header mismatch: {why}"),
            Self::MissingCapability { required } => {
                write!(f, "the client has not declared the capability {}", declared(required))
            }
            Self::Custom { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for Fault {}

/// Names capabilities as people do: `` `sampling.tools` ``.
fn declared(capabilities: &serde_json::Value) -> String {
    fn name(path: &str, value: &serde_json::Value, names: &mut Vec<String>) {
        match value.as_object().filter(|members| !members.is_empty()) {
            Some(members) => members.iter().for_each(|(member, value)| name(&format!("{path}.{member}"), value, names)),
            None => names.push(format!("`{}`", path.trim_start_matches('.'))),
        }
    }

    let mut names = Vec::new();
    name("", capabilities, &mut names);
    names.join(", ")
}

/// Why a server could not be built: everything that is wrong, each with the source lines that are to blame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError {
    problems: Vec<String>,
}

impl BuildError {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    /// Lists what is wrong, a sentence each.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [one] => write!(f, "the server cannot be built: {one}"),
            many => {
                write!(f, "the server cannot be built, {} things are wrong:", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
            }
        }
    }
}

impl std::error::Error for BuildError {}

//! Options of a [`SampleRequest`](super::SampleRequest).

use serde_json::Value;

use crate::{jsonrpc::write::plain, revision::encode::Object};

/// The context that the client may include in the prompt.
///
/// ```
/// use mcp_runtime::ask::{IncludeContext, SampleRequest};
///
/// let request = SampleRequest::new("What did I ask before?").include_context(IncludeContext::ThisServer);
/// ```
///
/// See [Context inclusion](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#context-inclusion).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeContext {
    /// No context.
    None,
    /// The context of this server. Deprecated. Since 2025-11-25, the client must have declared `sampling.context`.
    ThisServer,
    /// The context of all servers of the client. Deprecated as well.
    AllServers,
}

/// Whether the model calls tools.
///
/// See [Tool choice modes](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-choice-modes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model calls at least one tool.
    Required,
    /// The model does not call tools.
    None,
}

/// A tool that the model may call. The server runs it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Value,
}

impl IncludeContext {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ThisServer => "thisServer",
            Self::AllServers => "allServers",
        }
    }
}

impl ToolChoice {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::None => "none",
        }
    }
}

impl Tool {
    pub(super) fn write(out: &mut Vec<u8>, tool: &Self) {
        let mut object = Object::begin(out);
        object.string("name", &tool.name);
        object.string("description", &tool.description);
        plain(object.key("inputSchema"), &tool.schema);
        object.end();
    }
}

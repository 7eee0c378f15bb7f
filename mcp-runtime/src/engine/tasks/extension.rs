//! The names of the tasks extension, and whether a client has declared it.

use serde_json::json;

use crate::{
    engine::request::params::{self, Params},
    error::Fault,
    jsonrpc::raw,
};

/// What clients and servers call the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The member of `_meta` that says which task a message belongs to.
pub(crate) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Says whether a client can have tasks that it does not ask for.
pub(crate) fn is_declared(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| params::member(json, "extensions"));
    let tasks = extensions.and_then(|json| params::member(json, EXTENSION));
    tasks.is_some_and(|json| raw::kind(json) == raw::Kind::Object)
}

/// Refuses a client that has not declared the extension.
pub(crate) fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { EXTENSION: {} } }) }
}

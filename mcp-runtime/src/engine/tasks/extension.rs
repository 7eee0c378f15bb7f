//! The tasks extension of 2026-07-28, as clients declare it.

use serde_json::json;

use crate::{engine::request::params::Params, error::Fault, jsonrpc::raw};

/// The name of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Returns whether the client of a request has declared the extension, so that it accepts tasks it did not request.
pub(crate) fn is_declared(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| raw::member(json, "extensions"));
    let tasks = extensions.and_then(|json| raw::member(json, EXTENSION));
    tasks.is_some_and(|json| raw::kind(json) == raw::Kind::Object)
}

/// Returns the error for a client that has not declared the extension.
pub(crate) fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { EXTENSION: {} } }) }
}

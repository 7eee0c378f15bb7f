//! The tasks extension of 2026-07-28, as clients declare it.

use serde_json::json;

use crate::{engine::request::params::Params, error::Fault, jsonrpc::RawJson};

/// The name of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Returns whether the client of a request has declared the extension, so that it accepts tasks it did not request.
pub(crate) fn is_declared(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| json.member("extensions"));
    let tasks = extensions.and_then(|json| json.member(EXTENSION));
    tasks.is_some_and(RawJson::is_object)
}

/// Returns the error for a client that has not declared the extension.
pub(crate) fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { EXTENSION: {} } }) }
}

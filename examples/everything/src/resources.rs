//! Resources: text, bytes, and a template.

use mcp_runtime::{Json, resource};
use schemars::JsonSchema;
use serde::Serialize;

use crate::PNG;

/// A fixed text.
#[resource("test://static-text", mime = "text/plain")]
fn static_text() -> &'static str {
    "This is the content of the static text resource."
}

/// A fixed image.
#[resource("test://static-binary", mime = "image/png")]
fn static_binary() -> &'static [u8] {
    PNG
}

/// The contents of a templated resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Data {
    id: String,
    template_test: bool,
    data: String,
}

/// One resource for each id.
#[resource("test://template/{id}/data", mime = "application/json")]
fn template(id: String) -> Json<Data> {
    let data = format!("Data for ID: {id}");
    Json(Data { id, template_test: true, data })
}

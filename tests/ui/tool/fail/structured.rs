use mcp_runtime::{Json, model::Structured, resource, tool};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize)]
struct OnlySerialize;

#[derive(JsonSchema)]
struct OnlySchema;

#[tool]
fn without_schema() -> Json<OnlySerialize> {
    Json(OnlySerialize)
}

#[tool]
async fn in_a_result() -> Result<Json<Vec<OnlySerialize>>, String> {
    Ok(Json(Vec::new()))
}

#[tool(blocking)]
fn without_serialize() -> Option<Structured<OnlySchema>> {
    None
}

#[resource("notes://all")]
fn contents() -> Json<OnlySerialize> {
    Json(OnlySerialize)
}

fn main() {}

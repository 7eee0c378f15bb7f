#![allow(unused_variables)]

use mcp_runtime::{Json, tool};

struct Unknown;

#[tool]
fn plain() -> Unknown {
    Unknown
}

#[tool]
async fn in_a_result() -> Result<Vec<Unknown>, String> {
    Ok(Vec::new())
}

#[tool(blocking)]
fn json() -> Json<Unknown> {
    Json(Unknown)
}

#[tool]
fn error() -> Result<String, Unknown> {
    Err(Unknown)
}

fn main() {}

use mcp_runtime::{Context, tool};

#[tool(task = "requird")]
async fn misspelled() {}

#[tool(task = "always")]
async fn unknown() {}

#[tool(task = true)]
async fn no_text() {}

#[tool(task = required)]
async fn no_literal() {}

#[tool(task("required"))]
async fn list() {}

#[tool(task)]
fn synchronous() {}

#[tool(task = "deferred", blocking)]
fn blocks(_ctx: &Context) {}

fn main() {}

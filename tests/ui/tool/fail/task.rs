use mcp_runtime::{Context, tool};

#[tool(task = "requird")]
async fn misspelled() {}

#[tool(task = "always")]
async fn unknown() {}

#[tool(task = true)]
async fn boolean() {}

#[tool(task = required)]
async fn identifier() {}

#[tool(task("required"))]
async fn list() {}

#[tool(task)]
fn synchronous() {}

#[tool(task = "deferred", blocking)]
fn deferred_blocking(_ctx: &Context) {}

fn main() {}

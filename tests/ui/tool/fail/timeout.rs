#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(timeout = "30")]
async fn no_unit() {}

#[tool(timeout = "0s")]
async fn zero() {}

#[tool(timeout = "1.5s")]
async fn fraction() {}

#[tool(timeout = "1s")]
fn synchronous() {}

fn main() {}

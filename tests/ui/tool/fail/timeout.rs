#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(timeout = "30")]
fn no_unit() {}

#[tool(timeout = "0s")]
fn zero() {}

#[tool(timeout = "1.5s")]
fn fraction() {}

fn main() {}

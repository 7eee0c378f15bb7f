#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(read_only, destructive)]
fn contradiction() {}

#[tool(read_only, destructive = false)]
fn fine() {}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(name = "add numbers")]
fn with_space() {}

#[tool(name = "")]
fn empty() {}

#[tool(name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")]
fn long() {}

#[tool]
fn größe() {}

fn main() {}

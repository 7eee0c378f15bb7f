#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn open(#[arg(pattern = "(unclosed")] text: String) {}

fn main() {}

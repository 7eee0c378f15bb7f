#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn unclosed_group(#[arg(pattern = "(unclosed")] text: String) {}

fn main() {}

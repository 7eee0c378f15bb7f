#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn renamed(first: u8, #[arg(rename = "first")] second: u8, #[arg(rename = "")] third: u8) {}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::{Server, resource, server, tool};

#[tool(annotations(read_only_hint = true), desc = "Adds.")]
fn add(#[arg(min = 1)] a: u8, #[arg(max_length = 5)] b: String, #[arg(regex = "^a")] c: String) {}

#[tool]
#[arg(range = 1..=9)]
fn misplaced(count: u8) {}

#[arg(range = 1..=9)]
#[tool]
fn above(count: u8) {}

#[resource(uri = "notes://all", mime_type = "text/plain")]
fn notes() -> String {
    String::new()
}

#[tool("Adds.")]
fn described() {}

#[server]
fn main(server: Server, #[arg(short, long, required)] port: u16, #[arg(default_value_t = 1)] count: u8) -> Server {
    server
}

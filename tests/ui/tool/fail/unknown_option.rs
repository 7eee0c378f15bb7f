#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(idempotant)]
fn misspelled() {}

#[tool(cache = 10, read_only)]
fn unknown() {}

#[tool(uri = "a:b", readonly = true)]
fn two_unknown() {}

fn main() {
    let _: fn() = misspelled;
}

#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(name = 5, title, description("x"), read_only = "yes", scopes = "a", tags(a), icon = 1, timeout = 30, meta("key"))]
fn types() {}

#[tool(name =, title "x", = 5, read_only)]
fn syntax() {}

#[tool(meta("key" = value), icon = "ftp://icon", scopes("with space"))]
fn values() {}

#[tool(crate = "mcp")]
fn path() {}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(meta("com.example/a-b_c.d" = 1, "name" = 1, "com.example/" = 1, "with space" = 1))]
fn space() {}

#[tool(meta("_hidden" = 1, "com.example/a." = 1, "com.example/a/b" = 1))]
fn ends() {}

#[tool(meta("com..example/a" = 1, "1com/a" = 1, "com-/a" = 1, "/a" = 1, "com.exa_mple/a" = 1))]
fn prefixes() {}

#[tool(meta("io.modelcontextprotocol/a" = 1, "dev.mcp/a" = 1, "com.mcp.tools/" = 1, "com.example.mcp/a" = 1))]
fn reserved() {}

#[tool(meta("a" = {"b": 1, "b": [LIMIT]}, "c" = [1 + 1], "d" = {e: 1}))]
fn values() {}

#[tool(meta("a" = {"b": 1, "b": [LIMIT]}, "c" = [1 + 1], "d" = NULL))]
fn more_values() {}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool(title = "One", read_only, title = "Two", read_only)]
fn twice() {}

#[tool(tags("a", "b", "a"), meta("k" = 1, "k" = 2))]
fn tags() {}

fn main() {}

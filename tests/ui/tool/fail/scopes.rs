//! Scopes that cannot be required, and alternatives of the wrong form.

use mcp_runtime::{tool, tools};

#[tool(scopes("a", "a", any("b", "c"), any("b", "c"), any("d", "d"), "e f", any("g", ""), "offline_access"))]
fn invalid() {}

#[tool(scopes(any()))]
fn no_alternative() {}

#[tool(scopes(all("a", "b")))]
fn all() {}

#[tool(scopes(any("a", any("b"))))]
fn nested() {}

struct Notes;

#[tools(scopes("a b"), tags("x"))]
impl Notes {
    #[tool]
    fn read(&self) {}
}

fn main() {}

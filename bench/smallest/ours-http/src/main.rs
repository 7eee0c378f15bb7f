//! A server with one function.

use mcp_runtime::tool;

/// Greet somebody by name.
#[tool]
fn greet(
    /// The name.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

mcp_runtime::main!();

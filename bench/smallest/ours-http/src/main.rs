//! A server with one function.

use mcp_runtime::tool;

/// Greet somebody by name.
#[tool]
fn greet(
    /// Who is greeted.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

mcp_runtime::main!();

//! A server that mentions neither library, and has a function of its own.

use mcp_runtime::tool;

/// Draw a line.
#[tool]
fn draw() {}

mcp_runtime::main!();

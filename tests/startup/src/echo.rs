//! The tool that both servers have, so that calls can be compared.

use mcp_runtime::tool;

/// Return the text.
#[tool(read_only)]
fn echo(
    /// The text to return.
    text: String,
) -> String {
    text
}

//! The tool that both servers have, to compare calls.

use mcp_runtime::tool;

/// Say it again.
#[tool(read_only)]
fn echo(
    /// What to say.
    text: String,
) -> String {
    text
}

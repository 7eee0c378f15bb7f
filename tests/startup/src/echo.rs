//! What both servers have, so that calls can be compared.

use mcp_runtime::tool;

/// Say it again.
#[tool(read_only)]
fn echo(
    /// What to say.
    text: String,
) -> String {
    text
}

use mcp_runtime::tool;

/// Return the message.
#[tool]
fn echo(
    /// The message.
    text: String,
) -> String {
    text
}

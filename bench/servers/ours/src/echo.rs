use mcp_runtime::tool;

/// Say something back.
#[tool]
fn echo(
    /// What is said.
    text: String,
) -> String {
    text
}

//! An argument that clients mirror in an HTTP header, for proxies that do not read bodies.

use mcp_runtime::tool;

/// Return the argument.
#[tool(read_only)]
fn test_custom_header(
    /// The text to return, mirrored in the header `Mcp-Param-Value`.
    #[arg(header = "Value")]
    value: String,
) -> String {
    value
}

//! An argument that is mirrored in an HTTP header, for proxies that do not read bodies.

use mcp_runtime::tool;

/// Return what was given.
#[tool(read_only)]
fn test_custom_header(
    /// The text, which is in the header `Mcp-Param-Value` as well.
    #[arg(header = "Value")]
    value: String,
) -> String {
    value
}

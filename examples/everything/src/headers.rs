//! An argument that HTTP repeats in a header, for proxies that look no further.

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

//! A library with a tool.

use mcp_runtime::tool;

/// Sharpen a pencil.
#[tool]
pub fn sharpen() -> &'static str {
    "sharp"
}

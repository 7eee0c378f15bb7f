//! The library of the package.

use mcp_runtime::tool;

/// Erase a line.
#[tool]
pub fn erase() -> &'static str {
    "erased"
}

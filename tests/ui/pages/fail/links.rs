//! Pages of tools that exist but do not fit.

use mcp_runtime::{resource, tool, ui};

#[ui("ui://notes/board")]
fn board() -> String {
    String::new()
}

#[resource("notes://all")]
fn all() -> String {
    String::new()
}

#[tool(ui = all)]
fn no_page() -> String {
    String::new()
}

#[tool(ui = board)]
fn without_content() -> Result<(), String> {
    Ok(())
}

fn main() {}

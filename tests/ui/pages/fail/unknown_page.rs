//! A tool whose page does not exist.

use mcp_runtime::{tool, ui};

#[ui("ui://notes/board")]
fn board() -> String {
    String::new()
}

#[tool(ui = bord)]
fn show() -> String {
    String::new()
}

fn main() {}

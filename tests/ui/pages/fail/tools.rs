//! Mistakes in the options of tools with pages.

use mcp_runtime::{resource, tool, ui};

#[ui("ui://notes/board")]
fn board() -> String {
    String::new()
}

#[resource("ui://notes/resource", mime = "text/html")]
fn page_as_resource() -> String {
    String::new()
}

#[tool(ui = "board")]
fn text_as_page() -> String {
    String::new()
}

#[tool(visibility = [modell, app, app])]
fn visibility() {}

#[tool(visibility = [])]
fn no_visibility() {}

#[tool(ui = board, meta("ui" = { "resourceUri": "ui://notes/other" }))]
fn own_meta() -> String {
    String::new()
}

#[tool(ui = board)]
fn without_content() {}

fn main() {}

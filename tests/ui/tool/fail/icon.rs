use mcp_runtime::{prompt, tool};

#[tool(icon = "http://example.com/a.png", icons("javascript:alert(1)", icon("data:text/html,a")))]
fn sources() {}

#[tool(icon("https://example.com/a", mime = "text/html", sizes("48", "any", "48x48", "x48", "any"), theme = blue))]
fn options() {}

#[prompt(icons("https://example.com/a", icon("https://example.com/b", mimetype = "image/png", sizes = "any")))]
fn names() -> String {
    String::new()
}

#[tool(icon("https://example.com/a", mime = "image/", sizes("48x", "x", "48x48x48")))]
fn incomplete() {}

#[tool(icon("https://example.com/a", theme = "dark"), icons(picture("https://example.com/b")))]
fn syntax() {}

fn main() {}

//! Mistakes in the options and signatures of pages.

use mcp_runtime::ui;

#[ui]
fn without_uri() -> String {
    String::new()
}

#[ui("https://example.com/board")]
fn scheme() -> String {
    String::new()
}

#[ui("ui://")]
fn no_path() -> String {
    String::new()
}

#[ui("ui://notes/{id}")]
fn template(id: String) -> String {
    id
}

#[ui("ui://notes/argument")]
fn argument(id: String) -> String {
    id
}

#[ui(
    "ui://notes/origins",
    connect = ["api.example.com", "https://a.example", "https://a.example"],
    resources = ["https://a.example/path", "wss://a.example", "https://a.example; script-src *"],
    frames = ["https://*"],
    base_uris = "https://a.example"
)]
fn origins() -> String {
    String::new()
}

#[ui("ui://notes/more", permissions = [clipboard, camera, camera], domain = "https://a.example", mime = "text/html")]
fn more() -> String {
    String::new()
}

#[ui("ui://notes/meta", prefers_border, meta("ui" = { "prefersBorder": false }))]
fn meta() -> String {
    String::new()
}

#[ui("ui://notes/nothing")]
fn nothing();

#[ui("ui://notes/missing", file = "pages/missing.html")]
fn missing();

#[ui("ui://notes/both", file = "pages/missing.html")]
fn both() -> &'static str {
    ""
}

#[ui("ui://notes/type")]
fn output() -> Vec<u8> {
    Vec::new()
}

struct Notes;

impl Notes {
    #[ui("ui://notes/method")]
    fn method(&self) -> String {
        String::new()
    }
}

fn main() {}

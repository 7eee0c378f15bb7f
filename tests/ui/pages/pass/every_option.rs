#![forbid(unsafe_code)]
#![deny(missing_docs, unused, unreachable_pub, non_camel_case_types, missing_debug_implementations)]
#![deny(clippy::all, clippy::pedantic)]
//! Every form of a page, and every option of tools with pages.

use std::borrow::Cow;

use mcp_runtime::{tool, ui};

/// State.
#[derive(Debug)]
pub struct Db;

/// A file.
#[ui("ui://notes/file", file = "page.html", prefers_border = false)]
pub fn file();

/// Text with every option.
#[ui(
    "ui://notes/board",
    name = "the-board",
    title = "Board",
    connect = ["https://api.example.com", "wss://api.example.com:8443"],
    resources = ["https://*.example.com"],
    frames = ["http://localhost:3000"],
    base_uris = ["https://cdn.example.com"],
    permissions = [camera, microphone, geolocation, clipboard_write],
    domain = "a904794854a047f6.example.net",
    prefers_border,
    ttl = "5m",
    public,
    tags("page"),
    timeout = "5s",
    meta("example.com/order" = 1),
    crate = ::mcp_runtime
)]
async fn board(_: &Db) -> Result<Cow<'static, str>, String> {
    Ok("<!doctype html>".into())
}

mod nested {
    /// Boxed text.
    #[mcp_runtime::ui("ui://notes/boxed", blocking)]
    pub(crate) fn boxed() -> Box<str> {
        "<!doctype html>".into()
    }
}

/// A page of another module.
#[tool(ui = nested::boxed, visibility = [model, app])]
fn of_module() -> String {
    String::new()
}

/// A page from a file.
#[tool(ui = file, visibility = [app])]
async fn of_file() -> Option<String> {
    None
}

/// A page of the same module.
#[tool(ui = board, visibility = [model])]
fn of_board() -> u8 {
    7
}

/// A tool for pages.
#[tool(visibility = [app])]
fn for_pages() {}

fn main() {}

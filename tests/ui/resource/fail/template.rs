#![allow(unused_variables)]

use mcp_runtime::resource;

#[resource("file:///{+path")]
fn unclosed(path: String) -> String {
    path
}

#[resource("notes://{id*}/{part:3}/{}/{!x}")]
fn modifiers() -> String {
    String::new()
}

#[resource("notes://a b/}")]
fn characters() -> String {
    String::new()
}

#[resource("notes/all")]
fn no_scheme() -> String {
    String::new()
}

#[resource(name = "x")]
fn no_uri() -> String {
    String::new()
}

#[resource]
fn nothing() -> String {
    String::new()
}

fn main() {}

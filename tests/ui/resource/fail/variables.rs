#![allow(unused_variables)]

use mcp_runtime::resource;

#[resource("notes://{book}/{page}")]
fn without_parameter(book: String) -> String {
    book
}

#[resource("notes://{book}")]
fn without_variable(book: String, mut page: u32) -> String {
    page += 1;
    format!("{book}{page}")
}

#[resource("notes://{boook}")]
fn misspelt(book: String) -> String {
    book
}

#[resource("notes://all")]
fn fixed(book: String) -> String {
    book
}

#[resource("notes://{book}")]
fn renamed(#[arg(rename = "name")] book: String) -> String {
    book
}

fn main() {}

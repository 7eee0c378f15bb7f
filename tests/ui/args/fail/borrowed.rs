#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn option(text: Option<&str>, words: Vec<&'static str>, pair: (&u8, u8)) {}

#[tool]
fn static_lifetime(text: &'static str, db: &'static u8) {}

#[tool]
fn slice(words: &[&str]) {}

fn main() {}

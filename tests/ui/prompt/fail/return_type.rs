#![allow(unused_variables)]

use mcp_runtime::prompt;

#[prompt]
fn number() -> u8 {
    0
}

#[prompt]
fn nothing() {}

#[prompt(read_only)]
fn hint() -> String {
    String::new()
}

fn main() {}

#![allow(dead_code)]

use std::collections::HashMap;

use mcp_runtime::Elicit;

#[derive(Elicit)]
struct Address {
    street: String,
}

#[derive(Elicit)]
struct Person {
    name: String,
    address: Address,
    tags: Vec<String>,
    extra: HashMap<String, String>,
    second: Option<Address>,
    #[elicit(length = 1..)]
    addresses: Vec<Address>,
    letter: char,
    misspelt: Strng,
}

fn main() {}

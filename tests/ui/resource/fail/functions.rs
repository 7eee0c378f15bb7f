#![allow(unused_variables)]

use mcp_runtime::{ResourceLink, resource};

fn not_a_list() -> String {
    String::new()
}

fn extra_parameter(_: u8, start: &str) -> Vec<String> {
    vec![start.to_owned()]
}

fn links() -> Vec<ResourceLink> {
    Vec::new()
}

#[resource("a://{id}", list = not_a_list)]
fn wrong_list(id: String) -> String {
    id
}

#[resource("b://{id}", complete(id = extra_parameter))]
fn wrong_completion(id: String) -> String {
    id
}

#[resource("c://{id}", complete(id = links))]
fn wrong_result(id: String) -> u8 {
    let _ = id;
    0
}

fn main() {}

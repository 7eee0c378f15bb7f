#![allow(unused_variables)]

use mcp_runtime::{prompt, resource, tool, tools};

#[tool(scopes())]
fn empty() {}

#[tool(scopes = "a")]
fn no_list() {}

#[tool(scopes)]
fn word() {}

#[tool(scopes(5))]
fn number() {}

#[tool(scopes(a))]
fn unquoted() {}

#[tool(scopes(any()))]
fn no_alternative() {}

#[tool(scopes(all("a", "b")))]
fn unknown_form() {}

#[tool(scopes(any("a", any("b"))))]
fn nested() {}

#[resource("a://b", scopes("", "a b", any("c", "d\"", "e\\"), "ö"))]
fn invalid() -> String {
    String::new()
}

#[prompt(scopes("offline_access"))]
fn offline() -> String {
    String::new()
}

#[tool(scopes("a"), scopes("b"))]
fn two_lists() {}

#[tool(scopes("a", "a", any("b", "c"), any("b", "c"), any("d", "d")))]
fn duplicates() {}

struct Notes;

#[tools(scopes("a b", "c", "c"))]
impl Notes {
    #[tool(scopes(any(5)))]
    fn read(&self) {}
}

struct Drafts;

#[tools(scopes("a"), scopes("b"))]
impl Drafts {
    #[tool]
    fn read(&self) {}
}

struct Letters;

#[tool(scopes("a"))]
impl Letters {
    fn read(&self) {}
}

fn main() {
    let _: [fn(); 2] = [unknown_form, two_lists];
    Notes.read();
}

#![allow(unused_variables)]

use mcp_runtime::{ResourceLink, resource};

fn all() -> Vec<ResourceLink> {
    Vec::new()
}

fn names(start: &str) -> Vec<String> {
    vec![start.to_owned()]
}

#[resource("notes://all", list = all, mime = "text", size = -1, audience(users), priority = 1.5)]
fn fixed() -> String {
    String::new()
}

#[resource("notes://{id}", size = 5, complete(ids = names), audience(user, user))]
fn template(id: String) -> String {
    id
}

#[resource("notes://times", last_modified = "yesterday", priority = 1e999)]
fn times() -> String {
    String::new()
}

#[resource("notes://days", last_modified = "2023-02-29", priority = -0.5)]
fn days() -> String {
    String::new()
}

#[resource("notes://years", last_modified = 2025)]
fn years() -> String {
    String::new()
}

#[resource("notes://{id}", complete(id = names))]
fn twice(#[arg(complete = names)] id: String) -> String {
    id
}

#[resource("notes://shared", public, scopes("notes:read"), ttl = "1h")]
fn shared() -> String {
    String::new()
}

struct Notes;

#[mcp_runtime::tools(scopes("notes:read"))]
impl Notes {
    #[resource("notes://common", public, ttl = "1h")]
    fn common(&self) -> String {
        String::new()
    }

    #[resource("notes://private", public = false, ttl = "1h")]
    fn private(&self) -> String {
        String::new()
    }
}

#[resource("notes://uncached", public)]
fn uncached() -> String {
    String::new()
}

#[resource("notes://forever", ttl = "forever")]
fn forever() -> String {
    String::new()
}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::{prompt, resource, tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Query {
    words: String,
}

#[tool]
fn not_alone(#[arg(flatten)] query: Query, limit: u32) {}

#[tool]
fn twice(#[arg(flatten)] query: Query, #[arg(flatten)] other: Query) {}

#[tool]
fn not_a_struct(#[arg(flatten)] count: u32) {}

#[tool]
fn borrowed(#[arg(flatten)] text: &str) {}

#[tool]
fn options(#[arg(flatten, default, rename = "q", description = "What is searched for.", header = "Query")] query: Query) {
}

#[tool]
fn constrained(
    #[arg(flatten, range = 1.., length = 1.., pattern = "a", format = "uri", title = "Query")]
    query: Query,
) {
}

#[tool]
fn documented(
    /// The words to search for.
    #[arg(flatten)]
    query: Query,
) {
}

#[tool]
fn not_flattened(#[arg(flatten = false)] query: Query, limit: u32) {}

#[prompt]
fn in_a_prompt(#[arg(flatten)] query: Query) -> String {
    query.words
}

#[resource("test://{query}")]
fn in_a_resource(#[arg(flatten)] query: Query) -> String {
    query.words
}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::{prompt, resource, tool};

#[tool]
fn misspelled(
    #[arg(format = "e-mail")] address: String,
    #[arg(format = "datetime")] time: Option<String>,
    #[arg(format = "color")] color: String,
    #[arg(format = "duration")] not_enforced: String,
    #[arg(format = "email")] right: &str,
) {
}

#[tool]
fn inapplicable(
    #[arg(format = "date")] number: u64,
    #[arg(format = "uuid")] list: Vec<String>,
    #[arg(format = "uri")] text: Option<String>,
) {
}

#[prompt]
fn in_a_prompt(#[arg(format = "Date")] day: String) -> String {
    day
}

#[resource("test://{id}")]
fn in_a_resource(#[arg(format = "guid")] id: String) -> String {
    id
}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::{prompt, resource, tool};

#[tool]
fn headers(
    #[arg(header = "Region: x")] bad: String,
    #[arg(header = "Region")] first: String,
    #[arg(header = "region")] second: String,
) {
}

#[tool]
fn values(
    #[arg(header = "")] empty: String,
    #[arg(header = "Größe")] not_ascii: String,
    #[arg(header = "Number")] number: f64,
    #[arg(header = "Small")] small: Option<f32>,
    #[arg(header = "List")] list: Vec<String>,
    #[arg(header = "Lists")] lists: Option<Vec<u8>>,
    #[arg(header = "Slice")] slice: &[String],
    #[arg(header = "Array")] array: [u8; 2],
    #[arg(header = "Pair")] pair: (String, bool),
    #[arg(header = "Text")] text: Option<Box<str>>,
    #[arg(header = "Borrowed")] borrowed: &str,
    #[arg(header = "Letter")] letter: char,
    #[arg(header = "Count")] count: Option<u64>,
    #[arg(header = "Truth")] truth: bool,
) {
}

#[resource("test://{name}")]
fn in_a_resource(#[arg(header = "Region")] name: String) -> String {
    name
}

#[prompt]
fn in_a_prompt(#[arg(header = "Region")] text: String) -> String {
    text
}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::{prompt, tool};

#[tool]
fn headers(
    #[arg(header = "Region: x")] bad: String,
    #[arg(header = "Region")] first: String,
    #[arg(header = "region")] second: String,
) {
}

#[prompt]
fn not_here(#[arg(header = "Region")] text: String) -> String {
    text
}

fn main() {}

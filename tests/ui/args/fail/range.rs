#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn ranges(
    #[arg(range = 5..=1)] reversed: u8,
    #[arg(range = 5..5)] empty: u8,
    #[arg(range = ..)] unbounded: u8,
    #[arg(range = 5)] single: u8,
    #[arg(range = MIN..=9)] named: u8,
    #[arg(length = -1..3)] negative: String,
    #[arg(length = 1.5)] fraction: String,
    #[arg(length = "x")] text: String,
    #[arg(length = ..0)] nothing: String,
) {
}

#[tool]
fn inapplicable(
    #[arg(range = 1..2)] text: &str,
    #[arg(range = 1..2)] truth: bool,
    #[arg(length = 1..2)] number: u64,
    #[arg(pattern = "x")] list: &[String],
) {
}

fn main() {}

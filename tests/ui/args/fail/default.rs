#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn outside(
    #[arg(default = 101, range = 1..=100)] limit: usize,
    #[arg(default = 1.0, range = ..1.0)] half_open: f64,
    #[arg(default = "abcd", length = ..=3)] short: String,
    #[arg(default = "x1", pattern = "^[a-z]+$")] letters: String,
    #[arg(default = [1, 2], length = 3)] three: Vec<u8>,
) {
}

#[tool]
fn ill_typed(
    #[arg(default = "many")] limit: usize,
    #[arg(default = -1)] natural: u8,
    #[arg(default = 1.5)] whole: i8,
    #[arg(default = 1)] truth: bool,
    #[arg(default = 5)] text: &str,
    #[arg(default = "x", range = 1..)] number: Option<u8>,
    #[arg(default = 5, length = 1..)] word: Option<String>,
    #[arg(default = 5, pattern = "x")] other: Option<String>,
) {
}

#[tool]
fn example(#[arg(examples(1, 20, "x", y), range = ..10)] a: u8) {}

struct Other;

#[tool]
fn other_types(
    #[arg(default = "x")] share: f64,
    #[arg(default = 5)] letter: char,
    #[arg(default = "x", range = 1..)] number: Other,
    #[arg(default = true, length = 1..)] word: Other,
    #[arg(default = 5, pattern = "x")] text: Other,
    // Characters are counted, not bytes.
    #[arg(default = "é", length = 1)] accent: String,
) {
}

fn main() {}

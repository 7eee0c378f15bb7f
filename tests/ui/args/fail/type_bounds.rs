#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn ranges(
    #[arg(range = 1..=1000)] small: u8,
    #[arg(range = -5..)] natural: Option<u32>,
    #[arg(range = ..300)] half_open: u8,
    #[arg(range = 0..256)] whole: u8,
    #[arg(range = 0.5..)] fraction: i8,
) {
}

#[tool]
fn values(
    #[arg(default = 300)] small: u8,
    #[arg(default = -129)] signed: Option<i8>,
    #[arg(examples(1, 65536))] example: u16,
    #[arg(default = "many")] list: Vec<u8>,
    #[arg(default = 5)] text: String,
) {
}

fn main() {}

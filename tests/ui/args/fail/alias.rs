//! The type behind an alias is known where the macro expands.
#![allow(unused_variables)]

use mcp_runtime::tool;

type Small = u8;

mod types {
    pub type Index = Option<u16>;
}

#[tool]
fn high(#[arg(range = 1..=1000)] number: Small) {}

#[tool]
fn low(#[arg(range = -1..)] number: types::Index) {}

#[tool]
fn half_open(#[arg(range = ..300)] number: Small) {}

#[tool]
fn braces(#[arg(rename = "{number}", range = ..0)] number: Small) {}

#[tool]
fn preset(#[arg(default = 256)] number: Small) {}

#[tool]
fn valid(#[arg(range = ..256, default = 255)] number: Small) {}

fn main() {}

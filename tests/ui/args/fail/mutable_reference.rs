#![allow(unused_variables)]

use mcp_runtime::tool;

struct Db;

#[tool]
fn state(db: &mut Db) {}

#[tool]
fn text(text: &mut str, list: &mut [u8]) {}

fn main() {}

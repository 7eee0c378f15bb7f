#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn tuple((a, b): (u8, u8)) {}

#[tool]
fn nameless(_: u8) {}

#[tool]
fn bound(ref a: u8, b @ 0..=255: u8) {}

struct State<T>(T);

#[tool]
fn extractor(State(db): State<u8>) {}

#[tool]
fn conditional(#[cfg(unix)] a: u8) {}

fn main() {}

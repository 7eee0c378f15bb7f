#![allow(unused_variables)]

use mcp_runtime::{Context, tool};
use schemars::JsonSchema;
use serde::Deserialize;

struct Nothing;

#[derive(Deserialize)]
struct OnlyDeserialize;

#[derive(JsonSchema)]
struct OnlySchema;

#[tool]
fn neither(value: Nothing) {}

#[tool]
async fn without_schema(values: Vec<OnlyDeserialize>) {}

#[tool(blocking)]
fn without_deserialize(value: Option<OnlySchema>) {}

#[tool]
fn in_a_slice(values: &[Nothing]) {}

#[tool]
fn context_by_value(ctx: Context) {}

#[tool]
fn misspelt(text: Strng) {}

fn main() {}

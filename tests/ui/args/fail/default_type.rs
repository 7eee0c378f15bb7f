#![allow(unused_variables)]

use mcp_runtime::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Default, Deserialize, JsonSchema)]
struct Unshown;

#[derive(Deserialize, JsonSchema, serde::Serialize)]
struct Shown;

#[tool]
fn not_shown(#[arg(default)] value: Unshown) {}

#[tool]
fn no_default(#[arg(default)] value: Shown) {}

#[tool]
fn other_type(#[arg(default = Unshown)] value: Shown) {}

fn main() {}

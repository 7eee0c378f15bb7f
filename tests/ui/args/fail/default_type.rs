#![allow(unused_variables)]

use mcp_runtime::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Default, Deserialize, JsonSchema)]
struct NotSerialize;

#[derive(Deserialize, JsonSchema, serde::Serialize)]
struct NoDefault;

#[tool]
fn not_serializable(#[arg(default)] value: NotSerialize) {}

#[tool]
fn no_default(#[arg(default)] value: NoDefault) {}

#[tool]
fn other_type(#[arg(default = NotSerialize)] value: NoDefault) {}

fn main() {}

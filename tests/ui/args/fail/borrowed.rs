#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn option(text: Option<&str>, words: Vec<&'static str>, pair: (&u8, u8)) {}

#[tool]
fn static_lifetime(text: &'static str, db: &'static u8) {}

#[tool]
fn slice(words: &[&str]) {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query<'a> {
    text: &'a str,
}

#[tool]
fn elided(query: Query<'_>) {}

#[tool]
fn named<'a>(query: Query<'a>, list: Vec<std::borrow::Cow<'a, str>>, other: Option<Query<'a>>) {}

#[tool]
fn owned(text: std::borrow::Cow<'static, str>) {}

fn main() {}

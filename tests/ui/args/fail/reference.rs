#![allow(unused_variables)]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use mcp_runtime::{resource, tool};

#[tool]
fn paths(path: &Path, owned: &PathBuf) {}

#[tool]
fn collections(names: &Vec<String>, ages: &HashMap<String, u8>, limit: &Option<u32>) {}

#[tool]
async fn scalars(name: &String, count: &u32) {}

// These are arguments.
#[tool]
fn unsized_types(text: &str, bytes: &[u8]) {}

#[resource("notes://{id}")]
fn variable(id: &String) -> String {
    id.clone()
}

fn main() {}

#![allow(unused_variables)]

use mcp_runtime::{Json, tool};
use serde::{Deserialize, Serialize};

/// `schemars` 0.8, whose trait has the same name.
mod schemars {
    pub trait JsonSchema {}
}

#[derive(Deserialize, Serialize)]
struct Note {
    text: String,
}

impl schemars::JsonSchema for Note {}

#[tool]
fn argument(note: Note) {}

#[tool]
fn result() -> Json<Note> {
    Json(Note { text: String::new() })
}

fn main() {}

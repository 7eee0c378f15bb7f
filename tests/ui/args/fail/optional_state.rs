#![allow(unused_variables)]

use mcp_runtime::{Context, resource, tool};

struct Db;

#[tool]
fn context(ctx: Option<&Context>) {}

#[tool]
fn state(db: Option<&Db>, clock: Option<&dyn Clock>, index: Option<&mut [u8; 4]>) {}

trait Clock: Send + Sync {}

#[resource("notes://{id}")]
fn note(id: u8, ctx: Option<&mcp_runtime::Context>) -> String {
    String::new()
}

// These are arguments.
#[tool]
fn arguments(text: Option<&str>, bytes: Option<&[u8]>) {}

fn main() {}

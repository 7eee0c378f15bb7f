//! Lifetime parameters, and functions without a receiver.
#![deny(warnings)]

use mcp_runtime::{resource, tool, tools};

struct Db(String);

#[tool]
fn longest<'a>(db: &'a Db, text: &'a str) -> &'a str {
    if db.0.len() > text.len() { &db.0 } else { text }
}

#[tool]
async fn first<'a, 'b: 'a>(words: &'a [String], default: &'b str) -> Option<&'a str> {
    words.first().map(String::as_str).or(Some(default))
}

#[resource("db://{name}")]
fn read<'a>(db: &'a Db, name: &str) -> Result<&'a str, String> {
    if name == "all" { Ok(&db.0) } else { Err(format!("`{name}` not found")) }
}

#[tools]
impl Db {
    #[tool]
    fn name<'a>(&'a self) -> &'a str {
        &self.0
    }

    #[tool]
    fn associated(text: &str) -> usize {
        text.len()
    }
}

const TEXT: &str = "A constant.";

#[tool(description = TEXT)]
fn described(#[arg(description = TEXT)] text: String) -> String {
    text
}

fn main() {
    let server = mcp_runtime::Server::new("lifetimes", "1.0.0").with_state(Db("db".to_owned()));
    server.check().unwrap();
}

#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
const fn constant() {}

#[tool]
unsafe fn dangerous() {}

#[tool]
extern "C" fn foreign() {}

#[tool(blocking)]
async fn both() {}

#[tool]
struct NotAFunction;

#[tool]
#[mcp_runtime::prompt]
fn two_kinds() -> String {
    String::new()
}

trait Declared {
    #[tool]
    fn declared();
}

#[tool]
fn bounded(text: String)
where
    String: Clone,
{
}

fn main() {}

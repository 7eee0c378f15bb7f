#![allow(unused_variables)]

use mcp_runtime::tools;

trait Store {
    fn save(&self);
}

struct Notes;

#[tools]
impl Store for Notes {
    #[tool]
    fn save(&self) {}
}

struct Generic<T>(T);

#[tools]
impl<T> Generic<T> {
    #[tool]
    fn value(&self) {}
}

#[tools]
impl Notes {
    fn plain(&self) {}
}

#[tools]
fn function() {}

struct Others;

#[tools(name = "x")]
impl Others {
    #[tool]
    fn other(&self) {}
}

fn main() {}

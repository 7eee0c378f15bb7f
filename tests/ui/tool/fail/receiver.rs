#![allow(unused_variables)]

use mcp_runtime::{tool, tools};

struct Notes;

#[tools]
impl Notes {
    #[tool]
    fn by_value(self) {}

    #[tool]
    fn mutable(&mut self) {}

    #[tool]
    fn boxed(self: std::sync::Arc<Self>) {}

    #[tool]
    fn good(&self) {}
}

struct Lonely;

impl Lonely {
    #[tool]
    fn outside(&self) {}
}

fn main() {
    let _ = mcp_runtime::Server::empty("a", "1").with::<Notes>();
}

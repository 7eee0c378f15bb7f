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
    fn by_arc(self: std::sync::Arc<Self>) {}

    #[tool]
    fn good(&self) {}
}

struct WithoutTools;

impl WithoutTools {
    #[tool]
    fn outside(&self) {}
}

fn main() {
    let _ = mcp_runtime::Server::empty("a", "1").with::<Notes>();
}

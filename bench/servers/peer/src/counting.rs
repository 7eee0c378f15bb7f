//! The server with one more tool, which returns the number of allocations.

mod tools;

use rmcp::{handler::server::router::tool::ToolRoute, model::Tool};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn main() -> std::io::Result<()> {
    tools::main(|router| {
        let tool = Tool::new("allocations", "Return the number of allocations.", tools::no_arguments());
        router.with_route(ToolRoute::new(tool, || counting::allocations().to_string()))
    })
}

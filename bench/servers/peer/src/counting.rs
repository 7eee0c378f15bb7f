//! The server with more tools, which return what the allocator has counted or never return.

mod tools;

use rmcp::{handler::server::router::tool::ToolRoute, model::Tool};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn main() -> std::io::Result<()> {
    tools::main(|router| {
        let tool = |name, description| Tool::new(name, description, tools::no_arguments());
        let allocations = tool("allocations", "Return the number of allocations.");
        let memory = tool("memory", "Return the growth of the allocated memory.");
        let wait = tool("wait", "Wait until the call is cancelled.");
        router
            .with_route(ToolRoute::new(allocations, || counting::allocations().to_string()))
            .with_route(ToolRoute::new(memory, counting::memory))
            .with_route(ToolRoute::new(wait, std::future::pending::<String>))
    })
}

//! A server with 103 tools, and another tool that returns the number of allocations.

mod echo;
mod tools;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Return the number of allocations.
#[mcp_runtime::tool]
fn allocations() -> u64 {
    counting::allocations()
}

mcp_runtime::main!();

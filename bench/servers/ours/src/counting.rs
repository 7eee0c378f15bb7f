//! A server of 103 tools, and one more that tells how much was allocated so far.

mod echo;
mod tools;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Tell how many allocations there were.
#[mcp_runtime::tool]
fn allocations() -> u64 {
    counting::allocations()
}

mcp_runtime::main!();

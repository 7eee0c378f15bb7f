//! A server with 103 tools, and others that return what the allocator has counted, run as tasks or never return.

mod echo;
mod tools;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Return the number of allocations.
#[mcp_runtime::tool]
fn allocations() -> u64 {
    counting::allocations()
}

/// Return the growth of the allocated memory.
#[mcp_runtime::tool]
fn memory() -> String {
    counting::memory()
}

/// Return nothing.
#[mcp_runtime::tool(task)]
async fn job() {}

/// Wait until the call is cancelled.
#[mcp_runtime::tool]
async fn wait() {
    std::future::pending().await
}

/// Serves the functions. Finished tasks count towards the limit until they expire.
#[mcp_runtime::server]
fn main(server: mcp_runtime::Server) -> mcp_runtime::Server {
    server.max_tasks(mcp_runtime::TaskLimits::default().total(1 << 20).per_peer(1 << 20))
}

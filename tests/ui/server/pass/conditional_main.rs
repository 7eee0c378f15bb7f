//! A program that chooses its `main` by a condition, and mentions `main!()` elsewhere.

#[cfg(not(all()))]
mcp_runtime::main!();

const HELP: &str = "
mcp_runtime::main!();
";

#[mcp_runtime::server]
fn main(server: mcp_runtime::Server) -> mcp_runtime::Server {
    server.description(HELP)
}

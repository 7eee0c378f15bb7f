//! The same server without `mcp-runtime-otel`.

#[path = "../../ours/src/echo.rs"]
mod echo;

#[mcp_runtime::server]
fn main(server: mcp_runtime::Server) -> mcp_runtime::Server {
    server
}

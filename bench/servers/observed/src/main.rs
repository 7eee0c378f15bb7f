//! A server with one tool, whose telemetry the environment switches on.

#[path = "../../ours/src/echo.rs"]
mod echo;

#[mcp_runtime::server]
fn main(server: mcp_runtime::Server) -> Result<mcp_runtime::Server, mcp_otel::Error> {
    Ok(mcp_otel::from_env()?.observe(server))
}

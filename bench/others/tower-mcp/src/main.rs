//! A server with one tool over stdio.

use schemars::JsonSchema;
use serde::Deserialize;
use tower_mcp::{BoxError, CallToolResult, McpRouter, StdioTransport, ToolBuilder};

#[derive(Debug, Deserialize, JsonSchema)]
struct Echo {
    /// The message.
    text: String,
}

fn main() -> Result<(), BoxError> {
    let echo = ToolBuilder::new("echo")
        .description("Return the message.")
        .handler(|echo: Echo| async move { Ok(CallToolResult::text(echo.text)) })
        .build();
    let router = McpRouter::new().server_info("echo", "0.0.0").tool(echo);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(StdioTransport::new(router).run())?)
}

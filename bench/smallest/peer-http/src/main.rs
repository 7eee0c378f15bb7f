//! A server with one function.

use rmcp::{
    handler::server::wrapper::Parameters,
    tool, tool_router,
    transport::streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager},
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// The name.
    name: String,
}

#[derive(Clone)]
struct Greeter;

#[tool_router(server_handler)]
impl Greeter {
    /// Greet somebody by name.
    #[tool]
    fn greet(&self, Parameters(Greet { name }): Parameters<Greet>) -> String {
        format!("Hello, {name}!")
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let service = StreamableHttpService::new(|| Ok(Greeter), LocalSessionManager::default().into(), Default::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await
}

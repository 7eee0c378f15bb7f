//! A server with one function.

use rmcp::{ServiceExt, handler::server::wrapper::Parameters, tool, tool_router, transport::io::stdio_pipes};
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Greeter.serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}

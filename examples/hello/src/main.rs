//! A minimal MCP server with one tool.

use mcp_runtime::tool;

/// Greet a person by name.
#[tool(read_only)]
fn greet(
    /// The name of the person to greet.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

mcp_runtime::main!();

#[cfg(test)]
mod tests {
    use mcp_runtime::{Revision, Server};
    use serde_json::json;

    use super::greet;

    #[test]
    fn the_function_can_be_called_directly() {
        assert_eq!(greet("Ada".to_owned()), "Hello, Ada!");
    }

    #[tokio::test]
    async fn a_client_can_call_the_tool() {
        let mut client = Server::new("hello", "0.1.0").test_client(Revision::V2026_07_28);
        let result = client.call("greet", json!({"name": "Ada"})).await.unwrap();
        assert_eq!(result.text(), "Hello, Ada!");
    }
}

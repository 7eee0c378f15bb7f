//! The smallest MCP server: one function.

use mcp_runtime::tool;

/// Greet somebody by name.
#[tool(read_only)]
fn greet(
    /// Who is greeted.
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
    fn the_function_stays_a_function() {
        assert_eq!(greet("Ada".to_owned()), "Hello, Ada!");
    }

    #[tokio::test]
    async fn a_client_is_greeted() {
        let mut client = Server::new("hello", "0.1.0").test_client(Revision::V2026_07_28);
        let answer = client.call("greet", json!({"name": "Ada"})).await.unwrap();
        assert_eq!(answer.text(), "Hello, Ada!");
    }
}

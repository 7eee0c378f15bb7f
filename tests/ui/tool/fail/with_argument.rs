use mcp_runtime::{Server, tool};

#[tool]
fn add() {}

fn main() {
    Server::empty("test", "1.0.0").with(add);
}

use mcp_runtime::Server;

struct NotAnnotated;

fn main() {
    Server::empty("test", "1.0.0").with::<NotAnnotated>();
}

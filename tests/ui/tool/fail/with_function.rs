use mcp_runtime::Server;

fn main() {
    Server::empty("test", "1.0.0").with::<not_annotated>();
}

fn not_annotated() {}

use mcp_runtime::{
    Server,
    layers::{Call, Next, Outcome},
};

struct NotAnnotated;

fn main() {
    Server::empty("test", "1.0.0").with::<NotAnnotated>();
    Server::empty("test", "1.0.0").layer(not_a_layer);
}

async fn not_a_layer(call: Call, next: Next) -> Outcome {
    next.run(call).await
}

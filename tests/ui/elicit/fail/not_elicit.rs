use mcp_runtime::{Elicit, ask::Elicitation};

#[derive(Elicit)]
enum Size {
    Small,
    Large,
}

struct Plain {}

fn main() {
    let _ = Elicitation::<Size>::new("size", "Which?");
    let _ = Elicitation::<Plain>::new("plain", "Sure?");
    let _ = Elicitation::<String>::new("name", "Who?");
}

use mcp_runtime::layers::{Call, Next, Outcome, from_fn};

fn main() {
    from_fn(|call: Call, _: Next| Outcome::error(&call, "closed"));
    from_fn(|call: Call| async move { Outcome::error(&call, "closed") });
}

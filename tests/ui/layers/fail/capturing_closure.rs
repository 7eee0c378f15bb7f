use mcp_runtime::layers::{Call, Next, Outcome, from_fn};

fn main() {
    let name = String::from("Ada");
    from_fn(async move |call: Call, next: Next| match call.caller().principal() {
        Some(principal) if principal == name => next.run(call).await,
        _ => Outcome::error(&call, "you are not on the list"),
    });
}

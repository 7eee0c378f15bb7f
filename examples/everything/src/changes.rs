//! Changes at run time: tools and prompts are enabled and disabled, and a resource is updated.

use std::sync::atomic::{AtomicU64, Ordering};

use mcp_runtime::{Handle, Server, prompt, resource, resource_uri, tool};

/// Disables the optional entries and adds the state of the resource.
pub(crate) fn hide(server: Server) -> Server {
    server.disabled::<now_and_then>().disabled::<seldom>().with_state(News::default())
}

/// The number of updates.
#[derive(Default)]
struct News(AtomicU64);

/// Offer the tool `now_and_then`, or take it away again.
#[tool]
fn test_trigger_tool_change(handle: &Handle) -> &'static str {
    if handle.enable::<now_and_then>() {
        return "There is a tool more.";
    }
    handle.disable::<now_and_then>();
    "There is a tool less."
}

/// Offer the prompt `seldom`, or take it away again.
#[tool]
fn test_trigger_prompt_change(handle: &Handle) -> &'static str {
    if handle.enable::<seldom>() {
        return "There is a prompt more.";
    }
    handle.disable::<seldom>();
    "There is a prompt less."
}

/// Change the resource `test://watched-resource`.
#[tool]
fn test_trigger_resource_change(handle: &Handle, news: &News) -> String {
    let number = news.0.fetch_add(1, Ordering::Relaxed) + 1;
    handle.resource_updated(resource_uri::<watched_resource>(&[]));
    format!("There is news number {number}.")
}

/// A resource that clients subscribe to.
#[resource("test://watched-resource", mime = "text/plain")]
fn watched_resource(news: &News) -> String {
    format!("So far there were {} news.", news.0.load(Ordering::Relaxed))
}

/// Be there, which is not always so.
#[tool(read_only)]
fn now_and_then() -> &'static str {
    "I am here now."
}

/// A prompt that is not always there.
#[prompt]
fn seldom() -> &'static str {
    "Say something rare."
}

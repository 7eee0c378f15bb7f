//! Changes at run time: tools, resources and prompts are enabled and disabled, and a resource is updated.

use std::sync::atomic::{AtomicU64, Ordering};

use mcp_runtime::{Handle, Server, prompt, resource, resource_uri, tool};

/// Disables the optional entries and adds the state of the resource.
pub(crate) fn register(server: Server) -> Server {
    server
        .disabled::<optional_tool>()
        .disabled::<optional_resource>()
        .disabled::<optional_prompt>()
        .with_state(Updates::default())
}

/// The number of updates.
#[derive(Default)]
struct Updates(AtomicU64);

/// Enable the tool `optional_tool`, or disable it again.
#[tool]
fn test_trigger_tool_change(handle: &Handle) -> &'static str {
    if handle.enable::<optional_tool>() {
        return "The tool is enabled.";
    }
    handle.disable::<optional_tool>();
    "The tool is disabled."
}

/// Enable the prompt `optional_prompt`, or disable it again.
#[tool]
fn test_trigger_prompt_change(handle: &Handle) -> &'static str {
    if handle.enable::<optional_prompt>() {
        return "The prompt is enabled.";
    }
    handle.disable::<optional_prompt>();
    "The prompt is disabled."
}

/// Enable the resource `test://optional-resource`, or disable it again.
#[tool]
fn test_trigger_resource_list_change(handle: &Handle) -> &'static str {
    if handle.enable::<optional_resource>() {
        return "The resource is enabled.";
    }
    handle.disable::<optional_resource>();
    "The resource is disabled."
}

/// Update the resource `test://watched-resource`.
#[tool]
fn test_trigger_resource_change(handle: &Handle, updates: &Updates) -> String {
    let number = updates.0.fetch_add(1, Ordering::Relaxed) + 1;
    handle.resource_updated(resource_uri::<watched_resource>(&[]));
    format!("Update {number} was made.")
}

/// A resource that clients subscribe to.
#[resource("test://watched-resource", mime = "text/plain")]
fn watched_resource(updates: &Updates) -> String {
    format!("The resource was updated {} times.", updates.0.load(Ordering::Relaxed))
}

/// A tool that is sometimes disabled.
#[tool(read_only)]
fn optional_tool() -> &'static str {
    "This tool is enabled."
}

/// A resource that is sometimes disabled.
#[resource("test://optional-resource", mime = "text/plain")]
fn optional_resource() -> &'static str {
    "This resource is enabled."
}

/// A prompt that is sometimes disabled.
#[prompt]
fn optional_prompt() -> &'static str {
    "This prompt is enabled."
}

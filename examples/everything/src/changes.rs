//! Changes at run time: tools, resources and prompts are enabled and disabled, and a resource is updated.

use std::time::Duration;

use mcp_runtime::{
    Fault, Handle, Server,
    backend::{Backend, BackendError, RecordCondition},
    prompt, resource, resource_uri, tool,
};

/// The key of the number of updates, and its time to live.
const UPDATES: &str = "everything/updates";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Disables the optional entries.
pub(crate) fn register(server: Server) -> Server {
    server.with_disabled::<optional_tool>().with_disabled::<optional_resource>().with_disabled::<optional_prompt>()
}

/// The number of updates of the watched resource, in all processes of the server.
struct Updates<'a>(&'a dyn Backend);

impl Updates<'_> {
    async fn count(&self) -> Result<u64, BackendError> {
        Ok(self.0.get(UPDATES).await?.map_or(0, |record| number(&record.value)))
    }

    /// Adds an update and returns the new number.
    async fn add(&self) -> Result<u64, BackendError> {
        loop {
            let record = self.0.get(UPDATES).await?;
            let next = record.as_ref().map_or(0, |record| number(&record.value)) + 1;
            let condition = record.map_or(RecordCondition::Absent, |record| RecordCondition::Version(record.version));
            // Another call or process may have added one meanwhile.
            if self.0.set(UPDATES, condition, next.to_be_bytes().to_vec(), DAY).await?.is_some() {
                return Ok(next);
            }
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

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
async fn test_trigger_resource_change(handle: &Handle, backend: &dyn Backend) -> Result<String, Fault> {
    let number = Updates(backend).add().await?;
    handle.resource_updated(resource_uri::<watched_resource>(&[]));
    Ok(format!("Update {number} was made."))
}

/// A resource that clients subscribe to.
#[resource("test://watched-resource", mime = "text/plain")]
async fn watched_resource(backend: &dyn Backend) -> Result<String, Fault> {
    Ok(format!("The resource was updated {} times.", Updates(backend).count().await?))
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

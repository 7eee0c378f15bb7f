//! Creating the lock of a server from everything that it lists.

use mcp_runtime_lock::{Listing, Lock};
use serde_json::Value;

use super::error::LockError;
use crate::{revision, server::BuiltServer, testing::TestClient};

/// Reads the lists of a server in the newest revision, whose lists contain the most information.
///
/// # Errors
///
/// Returns an error if a function that lists resources fails.
pub(crate) async fn lock(server: &BuiltServer) -> Result<Lock, LockError> {
    let mut client = server.test_client(revision::newest().revision());
    Ok(Lock::of(&Listing {
        instructions: server.engine().profile.instructions.clone(),
        tools: list(&mut client, "tools/list", "tools").await?,
        resources: list(&mut client, "resources/list", "resources").await?,
        resource_templates: list(&mut client, "resources/templates/list", "resourceTemplates").await?,
        prompts: list(&mut client, "prompts/list", "prompts").await?,
    }))
}

async fn list(client: &mut TestClient, method: &'static str, member: &str) -> Result<Vec<Value>, LockError> {
    match client.list(method, member).await {
        Ok(items) => Ok(items),
        // The server does not have this capability.
        Err(error) if error.code == -32601 => Ok(Vec::new()),
        Err(error) => Err(LockError::Request { method, error }),
    }
}

//! The owners of tasks.

use super::service::new_id;
use crate::{engine::request::context::RequestContext, error::Fault, revision::Feature};

/// Returns the owner of the tasks of a request: its principal or, if the transport does not know one, its session.
/// Without a session the owner is empty, and knowing the id of a task is enough to use it.
///
/// # Errors
///
/// Returns a fault if no random id can be generated for the session.
pub(crate) fn task_owner(request: &RequestContext<'_>) -> Result<String, Fault> {
    if let Some(principal) = request.principal() {
        return Ok(format!("principal:{principal}"));
    }
    let session = request.session().filter(|_| request.has(Feature::SessionTasks));
    let Some(session) = session else { return Ok(String::new()) };
    if session.id.get().is_none() {
        // If two requests race, the first id counts.
        let _ = session.id.set(new_id()?);
    }
    Ok(format!("session:{}", session.id.get().map_or("", String::as_str)))
}

use super::record::SessionChange;
use crate::{engine::client_requests::InputResponse, handler::ask::ClientProgress};

/// A message of a client that concerns other replicas.
#[derive(Debug)]
pub(crate) enum SessionMessage {
    Change(SessionChange),
    /// The response to a request of another replica.
    Answer(u64, InputResponse),
    /// Progress of a request of another replica.
    Progress(u64, ClientProgress),
    /// The cancellation of a request that does not run on this replica. Contains its id as JSON.
    Cancel(String),
}

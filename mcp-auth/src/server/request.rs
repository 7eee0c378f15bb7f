use serde::{Deserialize, Serialize};

/// A request whose client and redirect URI are valid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AuthorizationRequest {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) challenge: String,
    pub(super) scopes: Vec<String>,
}

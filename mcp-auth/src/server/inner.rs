use std::{fmt, sync::Arc};

use super::{
    clients::Clients, cookies::Cookies, ended::Ended, keys::SigningKeys, options::Options, seal::Sealer, store::Store,
    upstream::Upstream,
};
use crate::{audience::Audience, clock::Clock, dpop::Proofs};

/// State shared by all requests to an authorization server.
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) audience: Audience,
    pub(super) upstream: Upstream,
    pub(super) clients: Clients,
    /// Verifies proofs of clients. Absent if tokens are not bound to keys.
    pub(super) proofs: Option<Proofs>,
    pub(super) keys: Arc<SigningKeys>,
    pub(super) ended: Ended,
    pub(super) store: Store,
    pub(super) sealer: Sealer,
    pub(super) cookies: Cookies,
    pub(super) clock: Clock,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServer").field("issuer", &self.options.issuer).finish_non_exhaustive()
    }
}

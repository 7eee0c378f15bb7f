use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::{
    auth::Identity,
    engine::{MirroredFields, Permit, RequestSource},
    error::Fault,
    handler::RequestHead,
};

/// The source of the messages of an authenticated test client: a request without headers.
#[derive(Debug)]
pub(super) struct TestSource {
    identity: Identity,
    #[cfg(feature = "http")]
    headers: http::HeaderMap,
    #[cfg(feature = "http")]
    extensions: http::Extensions,
}

impl TestSource {
    pub(super) fn new(identity: Identity) -> Self {
        Self {
            identity,
            #[cfg(feature = "http")]
            headers: http::HeaderMap::new(),
            #[cfg(feature = "http")]
            extensions: http::Extensions::new(),
        }
    }
}

impl RequestHead for TestSource {
    #[cfg(feature = "http")]
    fn headers(&self) -> &http::HeaderMap {
        &self.headers
    }

    #[cfg(feature = "http")]
    fn extensions(&self) -> &http::Extensions {
        &self.extensions
    }

    #[cfg(feature = "http")]
    fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        None
    }

    fn identity(&self) -> Option<&Identity> {
        Some(&self.identity)
    }

    /// Does nothing: the error names the scopes.
    fn demand_scopes(&self, _: &[String]) {}

    fn blocking_share(&self) -> Option<&Arc<Semaphore>> {
        None
    }
}

/// Nothing is repeated or limited.
impl RequestSource for TestSource {
    fn check_request(&self, _: &MirroredFields<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check_unversioned(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn check_arguments(&self, _: &[(&str, Option<&str>)]) -> Result<(), Fault> {
        Ok(())
    }

    fn admit(&self) -> Result<Permit, Fault> {
        Ok(Box::new(()))
    }

    fn check_capacity(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn admit_listener(&self) -> Result<Permit, Fault> {
        Ok(Box::new(()))
    }

    fn principal(&self) -> Option<&str> {
        Some(self.identity.principal().as_str())
    }
}

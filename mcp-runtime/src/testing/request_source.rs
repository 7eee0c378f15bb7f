use std::{borrow::Cow, net::SocketAddr, sync::Arc};

use http::{Extensions, HeaderMap};
use tokio::sync::Semaphore;

use crate::{
    auth::{Identity, Principal, RequestHead},
    engine::{MirroredFields, Permit, RequestSource},
    error::Fault,
    revision::{self, Dialect},
    telemetry::trace::trace_header,
};

/// The head of the HTTP request with which each message of a test client seems to arrive.
#[derive(Debug, Clone, Default)]
pub(super) struct TestRequestSource {
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
}

impl RequestHead for TestRequestSource {
    fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    fn network(&self) -> (&'static str, &'static str) {
        ("tcp", "1.1")
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        None
    }

    fn trace_header(&self, key: usize) -> Option<Cow<'_, str>> {
        trace_header(&self.headers, key)
    }

    fn sender_key(&self) -> Option<String> {
        None
    }

    fn identity(&self) -> Option<&Identity> {
        self.extensions.get()
    }

    fn principal(&self) -> Option<&str> {
        self.identity().map(Identity::principal).or_else(|| self.extensions.get().map(Principal::as_str))
    }

    /// Only HTTP responses name the scopes to request.
    fn demand_scopes(&self, _: &[String]) {}

    fn blocking_share(&self) -> Option<&Arc<Semaphore>> {
        None
    }

    fn check_share(&self) -> Option<&Arc<Semaphore>> {
        None
    }
}

/// Nothing is mirrored in headers, and nothing is limited.
impl RequestSource for TestRequestSource {
    fn check_request(&self, _: &MirroredFields<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check_unversioned(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn notification_dialect(&self) -> Option<&'static Dialect> {
        Some(revision::newest())
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
}

use http::{Extensions, HeaderMap, Version};

use crate::{
    auth::{Identity, Principal, RequestHead},
    engine::{Permit, RequestSource},
    error::Fault,
    revision::{self, Dialect},
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

    fn version(&self) -> Version {
        Version::HTTP_11
    }

    fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    fn identity(&self) -> Option<&Identity> {
        self.extensions.get()
    }

    fn principal(&self) -> Option<&str> {
        self.identity().map(Identity::principal).or_else(|| self.extensions.get().map(Principal::as_str))
    }
}

/// Nothing is mirrored in headers, and nothing is limited.
impl RequestSource for TestRequestSource {
    fn notification_dialect(&self) -> Option<&'static Dialect> {
        Some(revision::newest())
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

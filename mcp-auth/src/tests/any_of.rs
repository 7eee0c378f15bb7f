use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, request::Parts};
use mcp_runtime::auth::{
    AuthenticateFuture, AuthenticationError, AuthenticationErrorKind as Kind, Authenticator, AuthorizationRoutes,
    Challenge, Identity, ProtectedResource, RouteFuture,
};

use super::{refusal, with_headers};
use crate::AnyOf;

/// An authenticator that always has the same result.
struct Fixed(&'static str, fn() -> Result<Identity, AuthenticationError>);

impl Authenticator for Fixed {
    fn authenticate<'a>(&'a self, _: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(std::future::ready(self.1()))
    }

    fn protected_resource(&self) -> ProtectedResource {
        ProtectedResource::new().with_authorization_server(self.0)
    }

    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        vec![Arc::new(Route(self.0))]
    }
}

/// A route of an authenticator.
#[derive(Debug)]
struct Route(&'static str);

impl AuthorizationRoutes for Route {
    fn serves(&self, path: &str) -> bool {
        path == self.0
    }

    fn respond(&self, _: Request<Bytes>) -> RouteFuture<'_> {
        Box::pin(std::future::ready(Response::default()))
    }
}

const MISSING: Fixed = Fixed("https://a.example", || Err(AuthenticationError::missing()));
const MALFORMED: Fixed = Fixed("https://b.example", || Err(AuthenticationError::malformed("malformed")));
const INVALID: Fixed = Fixed("https://c.example", || {
    let challenge = Challenge::new("DPoP").with_parameter("error", "use_dpop_nonce");
    let header = (HeaderName::from_static("dpop-nonce"), HeaderValue::from_static("n"));
    let error = AuthenticationError::invalid("invalid").with_detail("detail").with_challenge(challenge);
    Err(error.with_response_header(header.0, header.1))
});
const UNAVAILABLE: Fixed =
    Fixed("https://d.example", || Err(AuthenticationError::unavailable(Duration::from_secs(9), "unavailable")));
const ADA: Fixed = Fixed("https://e.example", || Ok(Identity::new("ada")));
const EVE: Fixed = Fixed("https://f.example", || Ok(Identity::new("eve")));

#[tokio::test]
async fn the_first_identity_counts() {
    for any in [
        AnyOf::new(ADA).or(EVE),
        AnyOf::new(MISSING).or(ADA),
        AnyOf::new(INVALID).or(UNAVAILABLE).or(MALFORMED).or(ADA).or(EVE),
    ] {
        assert_eq!(with_headers(&any, &[]).await.unwrap().principal(), "ada");
    }
}

#[tokio::test]
async fn refusals_are_combined() {
    for (any, expected) in [
        (AnyOf::new(MISSING).or(MISSING), (Kind::Missing, "authentication is required", None)),
        (AnyOf::new(MISSING).or(MALFORMED), (Kind::Malformed, "malformed", None)),
        (AnyOf::new(INVALID).or(MISSING), (Kind::Invalid, "invalid", Some("detail"))),
        (AnyOf::new(MALFORMED).or(INVALID), (Kind::Invalid, "malformed; invalid", Some("detail"))),
        (AnyOf::new(INVALID).or(INVALID), (Kind::Invalid, "invalid; invalid", Some("detail; detail"))),
    ] {
        let error = with_headers(&any, &[]).await.map(|_| ()).unwrap_err();
        assert_eq!(refusal(&error), expected);
    }
    let sooner = Fixed("", || Err(AuthenticationError::unavailable(Duration::from_secs(3), "busy")));
    let error = with_headers(&AnyOf::new(sooner).or(UNAVAILABLE), &[]).await.map(|_| ()).unwrap_err();
    assert!(matches!(error.kind(), Kind::Unavailable { retry_after, .. } if retry_after.as_secs() == 3), "{error:?}");
    let error = with_headers(&AnyOf::new(INVALID).or(UNAVAILABLE), &[]).await.map(|_| ()).unwrap_err();
    let Kind::Unavailable { retry_after, .. } = error.kind() else { panic!("{error:?}") };
    assert_eq!((retry_after.as_secs(), error.message()), (9, "invalid; unavailable"));
    assert_eq!(error.challenges()[0].to_string(), r#"DPoP error="use_dpop_nonce""#);
    assert_eq!(error.response_headers()["dpop-nonce"], "n");
}

#[test]
fn descriptions_and_routes_are_joined() {
    let (any, servers) = (AnyOf::new(MISSING).or(ADA), ["https://a.example", "https://e.example"]);
    assert_eq!(any.protected_resource().authorization_servers(), servers);
    let routes = any.routes();
    assert!(servers.iter().all(|server| routes.iter().any(|route| route.serves(server))), "{routes:?}");
}

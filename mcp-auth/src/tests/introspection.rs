use std::{sync::Arc, time::Duration};

use mcp_runtime::auth::{AuthenticationErrorKind as Kind, Authenticator as _, PeerAddr};
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinSet};

use super::{RESOURCE, TestIssuer, authenticate, bearer, issuer::Reply, refusal, request, signer::now};
use crate::{ClientCredentials, Introspection, clock::Clock, fetch::Fetcher, url::SecureUrl};

const TIMEOUT: Duration = Duration::from_millis(500);

async fn start(credentials: ClientCredentials, timeout: Duration) -> (TestIssuer, Introspection, Clock) {
    let (issuer, clock, mut fetcher) = (TestIssuer::start().await, Clock::default(), Fetcher::new());
    fetcher.timeout = timeout;
    let endpoint = SecureUrl::parse(&format!("{}/introspect", issuer.url)).unwrap();
    let unbound = Introspection::unbound(issuer.url.clone(), endpoint, credentials, fetcher, clock.clone());
    (issuer, unbound.resource(RESOURCE), clock)
}

fn basic() -> ClientCredentials {
    ClientCredentials::basic("notes", "secret")
}

fn active(changes: Value) -> Value {
    let mut response =
        json!({"active": true, "sub": "ada", "aud": RESOURCE, "scope": "notes:read", "exp": now() + 300});
    for (name, value) in changes.as_object().unwrap() {
        response[name] = value.clone();
    }
    response.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    response
}

#[tokio::test]
async fn an_active_token_identifies_its_subject() {
    let issuer = TestIssuer::start().await;
    let url = issuer.url.clone();
    issuer.respond(move |path| match path {
        "/introspect" => Reply::Json(active(json!({"email": "ada@example.com"}))),
        _ => Reply::Json(json!({"issuer": url, "introspection_endpoint": format!("{url}/introspect")})),
    });
    let unbound = Introspection::discover(&issuer.url, basic()).await.unwrap();
    let introspection = unbound.resource(RESOURCE);
    let identity = bearer(&introspection, "opaque").await.unwrap();
    assert_eq!(identity.principal(), format!("{}#ada", issuer.url));
    assert_eq!(identity.scopes().collect::<Vec<_>>(), ["notes:read"]);
    assert_eq!(identity.claim("email"), Some(&json!("ada@example.com")));
    assert!(identity.expires_at().is_some());
    let description = introspection.protected_resource();
    assert_eq!(description.identifier(), Some(RESOURCE));
    assert_eq!(description.authorization_servers(), [issuer.url.as_str()]);
    issuer.respond({
        let url = issuer.url.clone();
        move |_| Reply::Json(json!({"issuer": url}))
    });
    let error = Introspection::discover(&issuer.url, basic()).await.unwrap_err().to_string();
    assert!(error.contains("no `introspection_endpoint`"), "{error}");
    let error = Introspection::endpoint("https://id.example.com", "http://id.example.com", basic()).unwrap_err();
    assert!(error.to_string().contains("is not secure"), "{error}");
}

#[tokio::test]
async fn the_server_authenticates_to_the_issuer() {
    for (credentials, header, form) in [
        (
            ClientCredentials::basic("notes server", "s:e/c"),
            // The id `notes%20server` and the secret `s%3Ae%2Fc`.
            Some("authorization: Basic bm90ZXMlMjBzZXJ2ZXI6cyUzQWUlMkZj"),
            "token=a%2Fb%2B%3D&token_type_hint=access_token",
        ),
        (
            ClientCredentials::post("notes server", "s:e/c"),
            None,
            "token=a%2Fb%2B%3D&token_type_hint=access_token&client_id=notes%20server&client_secret=s%3Ae%2Fc",
        ),
    ] {
        assert!(!format!("{credentials:?}").contains("s:e/c"));
        let (issuer, introspection, _) = start(credentials, TIMEOUT).await;
        issuer.respond(|_| Reply::Json(active(json!({}))));
        bearer(&introspection, "a/b+=").await.unwrap();
        let received = &issuer.received("/introspect")[0];
        assert!(received.head.starts_with("POST /introspect HTTP/1.1"), "{}", received.head);
        assert!(received.head.contains("content-type: application/x-www-form-urlencoded"), "{}", received.head);
        assert_eq!(received.head.lines().find(|line| line.starts_with("authorization")), header);
        assert_eq!(received.body, form);
    }
}

#[tokio::test]
async fn each_refusal_says_why() {
    let audience = "the token was not issued for this server";
    let inactive = "the token is not active";
    let expected = |aud: &str| Some(format!("`aud` is {aud}, expected `{RESOURCE}`"));
    for (response, message, detail) in [
        (json!({"active": false}), inactive, None),
        (json!({}), inactive, None),
        (active(json!({"active": "true"})), inactive, None),
        (active(json!({"active": 1})), inactive, None),
        (active(json!({"aud": "https://other.example"})), audience, expected("`https://other.example`")),
        (active(json!({"aud": null})), audience, expected("absent")),
        (
            active(json!({"iss": "https://evil.example"})),
            "the token is of another issuer",
            Some("`iss` is `https://evil.example`, expected `".to_owned()),
        ),
        (active(json!({"exp": now() - 90})), "the token has expired", Some("it expired 9".to_owned())),
        (active(json!({"nbf": now() + 90})), "the token is not valid yet", Some("it is valid in ".to_owned())),
        (active(json!({"sub": null})), "the token has no subject", None),
        (active(json!({"token_use": "refresh_token"})), "the token is not an access token", None),
        (
            active(json!({"cnf": {"jkt": "a"}})),
            "the token is bound to a key in a way that this server cannot verify",
            None,
        ),
        (
            active(json!({"cnf": {"x5t#S256": "a"}})),
            "the token is bound to a key in a way that this server cannot verify",
            None,
        ),
    ] {
        let (issuer, introspection, clock) = start(basic(), TIMEOUT).await;
        let name = response.to_string();
        issuer.respond(move |_| Reply::Json(response.clone()));
        for _ in 0..3 {
            let error = bearer(&introspection, "opaque").await.map(|_| ()).expect_err(&name);
            assert_eq!((error.kind(), error.message()), (Kind::Invalid, message), "{name}");
            assert_eq!(error.detail().is_some(), detail.is_some(), "{name}");
            assert!(error.detail().unwrap_or_default().starts_with(detail.as_deref().unwrap_or_default()), "{error:?}");
        }
        assert_eq!(issuer.received("/introspect").len(), 1, "a refusal is cached");
        issuer.respond(|_| Reply::Json(active(json!({}))));
        clock.advance(Duration::from_secs(11));
        bearer(&introspection, "opaque").await.expect("a refusal is cached for 10 seconds");
    }
    let (issuer, introspection, _) = start(basic(), TIMEOUT).await;
    for authorization in ["Basic abc", "DPoP abc", "Bearer", "Bearer a b"] {
        assert!(authenticate(&introspection, authorization).await.is_err(), "{authorization}");
    }
    assert!(issuer.received("/introspect").is_empty(), "nothing else is sent to the issuer");
}

#[tokio::test]
async fn an_unusable_issuer_is_unavailable_and_not_cached() {
    let (issuer, introspection, _) = start(basic(), TIMEOUT).await;
    type Responder = Box<dyn Fn(&str) -> Reply + Send + Sync>;
    let raw = |head: &'static str, body: Vec<u8>| -> Responder {
        Box::new(move |_| Reply::Raw(format!("HTTP/1.1 {head}"), body.clone()))
    };
    let cases: [(Responder, &str); 7] = [
        (Box::new(|_| Reply::Never), "no response within 500 ms"),
        (Box::new(|_| Reply::Close), "client error (SendRequest)"),
        (raw("401 Unauthorized", vec![]), "the response has the status 401 Unauthorized"),
        (raw("307 Temporary Redirect\r\nlocation: /", vec![]), "the response is a redirect (307 Temporary Redirect)"),
        (raw("200 OK", vec![b' '; 1024 * 1024 + 1]), "the response is larger than 1 MiB"),
        (raw("200 OK", b"<html>".to_vec()), "expected value at line 1 column 1"),
        (raw("200 OK", br#"{"active": false, "active": true}"#.to_vec()), "duplicate name `active`"),
    ];
    for (responder, detail) in cases {
        issuer.respond(responder);
        let error = bearer(&introspection, "opaque").await.map(|_| ()).unwrap_err();
        assert!(
            matches!(error.kind(), Kind::Unavailable { retry_after, .. } if retry_after.as_secs() == 5),
            "{error:?}"
        );
        assert_eq!(error.message(), "the issuer of the token is temporarily unavailable");
        assert!(error.detail().unwrap().starts_with(detail), "{error:?}");
    }
    issuer.respond(|_| Reply::Json(active(json!({}))));
    bearer(&introspection, "opaque").await.unwrap();
}

#[tokio::test]
async fn the_clocks_of_issuer_and_server_may_differ_by_less_than_a_minute() {
    for changes in [json!({"exp": now() - 50}), json!({"nbf": now() + 50})] {
        let (issuer, introspection, _) = start(basic(), TIMEOUT).await;
        let response = active(changes.clone());
        issuer.respond(move |_| Reply::Json(response.clone()));
        assert!(bearer(&introspection, "opaque").await.is_ok(), "{changes}");
    }
}

#[tokio::test]
async fn active_tokens_are_cached_but_not_beyond_their_expiry() {
    for (response, cached_for) in [
        (active(json!({"exp": now() + 30})), 30),
        (active(json!({"exp": now() + 300})), 60),
        (active(json!({"exp": null})), 60),
        (active(json!({"groups": ["x".repeat(1000)]})), 60),
    ] {
        let (issuer, introspection, clock) = start(basic(), TIMEOUT).await;
        issuer.respond(move |_| Reply::Json(response.clone()));
        bearer(&introspection, "opaque").await.unwrap();
        issuer.respond(|_| Reply::Json(json!({"active": false})));
        clock.advance(Duration::from_secs(cached_for - 5));
        bearer(&introspection, "opaque").await.unwrap();
        clock.advance(Duration::from_secs(6));
        let error = bearer(&introspection, "opaque").await.map(|_| ()).unwrap_err();
        assert_eq!(refusal(&error), (Kind::Invalid, "the token is not active", None), "{cached_for}");
    }
    let (issuer, introspection, _) = start(basic(), TIMEOUT).await;
    let introspection = introspection.cache(0);
    for is_active in [true, true, false, true] {
        let before = issuer.received("/introspect").len();
        issuer.respond(move |_| Reply::Json(active(json!({"active": is_active}))));
        assert_eq!(bearer(&introspection, "opaque").await.is_ok(), is_active);
        assert_eq!(issuer.received("/introspect").len(), before + 1);
    }
}

#[tokio::test]
async fn requests_to_the_issuer_are_bounded() {
    let (issuer, introspection, _) = start(basic(), Duration::from_secs(60)).await;
    issuer.respond(|_| Reply::Json(active(json!({}))));
    bearer(&introspection, "known").await.unwrap();
    issuer.respond(|_| Reply::Never);
    let introspection = Arc::new(introspection);
    for index in 0..64 {
        let introspection = Arc::clone(&introspection);
        tokio::spawn(async move { bearer(&*introspection, &format!("token{index}")).await.map(|_| ()) });
    }
    issuer.until_received("/introspect", 65).await;
    let further = bearer(&*introspection, "further");
    assert!(tokio::time::timeout(Duration::ZERO, further).await.is_err(), "the request waits");
    let known = tokio::time::timeout(Duration::ZERO, bearer(&*introspection, "known")).await;
    assert!(known.is_ok_and(|known| known.is_ok()), "a known token needs no request");
    assert_eq!(issuer.received("/introspect").len(), 65);
}

/// Requests that have waited use the answer about their token.
#[tokio::test]
async fn waiting_requests_with_one_token_are_answered_together() {
    let (issuer, introspection, _) = start(basic(), Duration::from_secs(60)).await;
    let (gate, introspection) = (Arc::new(Notify::new()), Arc::new(introspection));
    let held = Arc::clone(&gate);
    issuer.respond(move |_| Reply::After(Arc::clone(&held), Box::new(Reply::Json(active(json!({}))))));
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        let introspection = Arc::clone(&introspection);
        waiting.spawn(async move { bearer(&*introspection, "opaque").await.is_ok() });
    }
    issuer.until_received("/introspect", 64).await;
    issuer.respond(|_| Reply::Json(active(json!({}))));
    gate.notify_waiters();
    assert_eq!(waiting.join_all().await, [true; 100]);
    assert_eq!(issuer.received("/introspect").len(), 64);
}

/// A sender of invented tokens is refused once it has its share, and others wait for three rounds of requests at most.
#[tokio::test]
async fn a_sender_of_invented_tokens_leaves_requests_for_others() {
    let (issuer, introspection, _) = start(basic(), Duration::from_secs(60)).await;
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    issuer.respond(move |_| Reply::After(Arc::clone(&held), Box::new(Reply::Json(json!({"active": false})))));
    let introspection = Arc::new(introspection);
    let ask = |address: &str, token: String| {
        let (introspection, mut request) =
            (Arc::clone(&introspection), request(&[("authorization", &format!("Bearer {token}"))]));
        request.extensions.insert(PeerAddr(address.parse().unwrap()));
        async move { introspection.authenticate(&request).await.map(|_| ()).unwrap_err().kind() }
    };
    let mut waiting = JoinSet::new();
    for index in 0..192 {
        waiting.spawn(ask("192.0.2.1:1", format!("invented{index}")));
    }
    issuer.until_received("/introspect", 64).await;
    assert!(matches!(ask("192.0.2.1:2", "further".to_owned()).await, Kind::Unavailable { .. }));
    let mut other = Box::pin(ask("192.0.2.2:1", "other".to_owned()));
    assert!(tokio::time::timeout(Duration::ZERO, &mut other).await.is_err(), "another sender waits");
    issuer.respond(|_| Reply::Json(json!({"active": false})));
    gate.notify_waiters();
    assert_eq!(other.await, Kind::Invalid);
    while let Some(result) = waiting.join_next().await {
        assert_eq!(result.unwrap(), Kind::Invalid);
    }
}

#[tokio::test]
async fn options_change_what_is_accepted_and_for_how_long() {
    for (time, cached_for) in [(10, 10), (2 * 3600, 3600)] {
        let (issuer, introspection, clock) = start(basic(), TIMEOUT).await;
        let introspection = introspection.cache_for(Duration::from_secs(time));
        issuer.respond(|_| Reply::Json(active(json!({"exp": null}))));
        for (pause, requests) in [(0, 1), (cached_for - 5, 1), (6, 2)] {
            clock.advance(Duration::from_secs(pause));
            bearer(&introspection, "opaque").await.unwrap();
            assert_eq!(issuer.received("/introspect").len(), requests, "{time} {pause}");
        }
    }
    let (issuer, introspection, _) = start(basic(), TIMEOUT).await;
    let introspection = introspection.with_audience("api://notes").scope_claim("permissions");
    issuer.respond(|_| Reply::Json(active(json!({"aud": "api://notes", "permissions": ["notes:admin"]}))));
    let identity = bearer(&introspection, "opaque").await.unwrap();
    assert_eq!(identity.scopes().collect::<Vec<_>>(), ["notes:admin"]);
}

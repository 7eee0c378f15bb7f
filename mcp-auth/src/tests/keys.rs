use std::{sync::Arc, time::Duration};

use mcp_runtime::auth::AuthenticationErrorKind as Kind;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    RESOURCE, Signer, TestIssuer, bearer,
    issuer::{Reply, not_found},
    refusal,
    signer::claims,
};
use crate::{Error, Jwt, clock::Clock, fetch::Fetcher};

const METADATA: &str = "/.well-known/oauth-authorization-server";

async fn discover(issuer: &TestIssuer) -> Result<(Jwt, Clock), Error> {
    discover_within(Duration::from_secs(20), issuer).await
}

async fn discover_within(timeout: Duration, issuer: &TestIssuer) -> Result<(Jwt, Clock), Error> {
    let (clock, mut fetcher) = (Clock::default(), Fetcher::new());
    fetcher.timeout = timeout;
    let jwt = Jwt::discover_with(issuer.url.clone(), fetcher, clock.clone()).await?;
    Ok((jwt.resource(RESOURCE), clock))
}

fn token(issuer: &TestIssuer, signer: &Signer) -> String {
    // The clock of a test moves by days.
    signer.token(&claims(json!({"iss": issuer.url, "exp": super::signer::now() + 10 * 24 * 60 * 60})))
}

const UNKNOWN_KEY: (Kind, &str, Option<&str>) = (Kind::Invalid, "the key of the token is unknown", None);

#[tokio::test]
async fn the_keys_of_an_issuer_are_discovered() {
    let signer = Signer::p256("a");
    let issuer = TestIssuer::with_keys(&[&signer]).await;
    let (jwt, _) = discover(&issuer).await.unwrap();
    let identity = bearer(&jwt, &token(&issuer, &signer)).await.unwrap();
    assert_eq!(identity.principal(), format!("{}#ada", issuer.url));
}

#[tokio::test]
async fn an_issuer_with_a_path_has_three_addresses() {
    let signer = Signer::p256("a");
    for (found, path) in [
        ("/.well-known/oauth-authorization-server/realms/a", "/realms/a"),
        ("/.well-known/openid-configuration/realms/a", "/realms/a"),
        ("/realms/a/.well-known/openid-configuration", "/realms/a"),
        ("/realms/a/.well-known/openid-configuration", "/realms/a/"),
        ("/.well-known/openid-configuration", ""),
        ("/.well-known/openid-configuration", "/"),
    ] {
        let mut issuer = TestIssuer::start().await;
        let (origin, keys) = (issuer.url.clone(), signer.jwk());
        issuer.url.push_str(path);
        let url = issuer.url.clone();
        issuer.respond(move |requested| match requested {
            "/other/keys" => Reply::Json(json!({"keys": [keys]})),
            _ if requested == found => Reply::Json(json!({"issuer": url, "jwks_uri": format!("{origin}/other/keys")})),
            _ => not_found(),
        });
        let (jwt, _) = discover(&issuer).await.unwrap();
        bearer(&jwt, &token(&issuer, &signer)).await.unwrap();
    }
}

#[tokio::test]
async fn an_unusable_issuer_prevents_the_start() {
    let metadata = |changes: Value| {
        move |url: &str| {
            let mut metadata = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
            for (name, value) in changes.as_object().unwrap() {
                metadata[name] = value.clone();
            }
            Reply::Json(metadata)
        }
    };
    type Responder = Box<dyn Fn(&str) -> Reply + Send + Sync>;
    let keys = || -> Responder { Box::new(|_| Reply::Json(json!({"keys": [Signer::p256("a").jwk()]}))) };
    let raw = |head: &'static str, body: Vec<u8>| -> Responder {
        Box::new(move |_| Reply::Raw(format!("HTTP/1.1 {head}"), body.clone()))
    };
    let cases: Vec<(Responder, Responder, &str)> = vec![
        (raw("500 Internal Server Error", vec![]), keys(), "the response has the status 500 Internal Server Error"),
        (Box::new(|_| Reply::Never), keys(), "no response within 500 ms"),
        (Box::new(|_| Reply::Close), keys(), "connection closed before message completed"),
        (
            raw("302 Found\r\nlocation: https://evil.example", vec![]),
            keys(),
            "the response is a redirect (302 Found), which is not followed",
        ),
        (raw("200 OK", vec![b' '; 1024 * 1024 + 1]), keys(), "the response is larger than 1 MiB"),
        (raw("200 OK", b"<html>".to_vec()), keys(), "expected value at line 1 column 1"),
        (
            Box::new(metadata(json!({"issuer": "https://other.example"}))),
            keys(),
            "the metadata is of the issuer `https://other.example`",
        ),
        (
            Box::new(|url| Reply::Json(json!({"issuer": format!("{url}/"), "jwks_uri": format!("{url}/keys")}))),
            keys(),
            "issuers are compared exactly, including a final `/`",
        ),
        (Box::new(metadata(json!({"issuer": null}))), keys(), "the metadata has no `issuer`"),
        (Box::new(metadata(json!({"jwks_uri": null}))), keys(), "no `jwks_uri`"),
        (
            Box::new(metadata(json!({"jwks_uri": "http://id.example.com/keys"}))),
            keys(),
            "the URL `http://id.example.com/keys` is not secure",
        ),
        (Box::new(metadata(json!({"jwks_uri": "file:///etc/passwd"}))), keys(), "the URL `file:///etc/passwd` is"),
        (Box::new(metadata(json!({}))), raw("200 OK", b"{}".to_vec()), "expected a JSON object with an array `keys`"),
        (
            Box::new(metadata(json!({}))),
            Box::new(|_| Reply::Json(json!({"keys": [{"kty": "oct", "k": "AA"}]}))),
            "none of 1 keys can verify a token",
        ),
        (Box::new(metadata(json!({}))), Box::new(|_| Reply::Never), "no response within 500 ms"),
    ];
    for (metadata, keys, expected) in cases {
        let issuer = TestIssuer::start().await;
        let url = issuer.url.clone();
        issuer.respond(move |path| match path {
            "/keys" => keys(&url),
            METADATA => metadata(&url),
            _ => not_found(),
        });
        let timeout = if expected.contains("500 ms") { Duration::from_millis(500) } else { Duration::from_secs(20) };
        let error = discover_within(timeout, &issuer).await.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
    // A server without TLS is not taken for one with TLS.
    let mut issuer = TestIssuer::with_keys(&[&Signer::p256("a")]).await;
    issuer.url = issuer.url.replace("http", "https");
    let error = discover_within(Duration::from_millis(500), &issuer).await.unwrap_err().to_string();
    assert!(error.contains("no response within 500 ms") && issuer.received(METADATA).is_empty(), "{error}");
    let error = Jwt::discover("http://id.example.com").await.unwrap_err();
    assert!(error.to_string().contains("is not secure"), "{error}");
    let error = Jwt::discover("https://id.example.com?tenant=a").await.unwrap_err();
    assert_eq!(error.to_string(), "the URL `https://id.example.com?tenant=a` has a query");
}

#[tokio::test]
async fn new_keys_are_fetched_when_a_token_names_one() {
    let (old, new) = (Signer::p256("old"), Signer::p256("new"));
    let issuer = TestIssuer::with_keys(&[&old]).await;
    let (jwt, clock) = discover(&issuer).await.unwrap();
    let old_token = token(&issuer, &old);
    bearer(&jwt, &old_token).await.unwrap();
    issuer.publish(&[&new]);
    let error = bearer(&jwt, &token(&issuer, &new)).await.unwrap_err();
    assert_eq!(refusal(&error), UNKNOWN_KEY, "the keys were fetched less than 10 seconds ago");
    assert_eq!(issuer.received("/keys").len(), 1);
    clock.advance(Duration::from_secs(11));
    bearer(&jwt, &token(&issuer, &new)).await.unwrap();
    let error = bearer(&jwt, &old_token).await.unwrap_err();
    assert_eq!(refusal(&error), UNKNOWN_KEY, "the verified token of a withdrawn key is not cached any more");
    assert_eq!(issuer.received("/keys").len(), 2);
}

#[tokio::test]
async fn keys_without_names_are_fetched_when_none_fits() {
    let (old, new) = (Signer::p256("").without_id(), Signer::p256("").without_id());
    let issuer = TestIssuer::with_keys(&[&old]).await;
    let (jwt, clock) = discover(&issuer).await.unwrap();
    issuer.publish(&[&new]);
    clock.advance(Duration::from_secs(11));
    bearer(&jwt, &token(&issuer, &new)).await.unwrap();
    let error = bearer(&jwt, &token(&issuer, &old)).await.unwrap_err();
    assert_eq!(error.message(), "the signature of the token is invalid");
    // A token that names a key is not of one without a name.
    let named = Signer::p256("named");
    issuer.publish(&[&new, &named]);
    clock.advance(Duration::from_secs(11));
    bearer(&jwt, &token(&issuer, &named)).await.unwrap();
}

#[tokio::test]
async fn tokens_with_invented_keys_cause_one_request() {
    let (known, invented) = (Signer::p256("known"), Signer::p256("invented"));
    let issuer = TestIssuer::with_keys(&[&known]).await;
    let (jwt, clock) = discover(&issuer).await.unwrap();
    let (jwt, invented) = (Arc::new(jwt), token(&issuer, &invented));
    clock.advance(Duration::from_secs(11));
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let (jwt, invented) = (Arc::clone(&jwt), invented.clone());
            tokio::spawn(async move { bearer(&jwt, &invented).await })
        })
        .collect();
    for call in calls {
        assert_eq!(refusal(&call.await.unwrap().unwrap_err()), UNKNOWN_KEY);
    }
    assert_eq!(issuer.received("/keys").len(), 2);
    // Tokens of another issuer cause none, nor do those that name a known key.
    clock.advance(Duration::from_secs(11));
    let foreign = Signer::p256("foreign").token(&claims(json!({})));
    assert_eq!(bearer(&jwt, &foreign).await.unwrap_err().message(), "the token is of another issuer");
    let forged = token(&issuer, &Signer::p256("known"));
    assert_eq!(bearer(&jwt, &forged).await.unwrap_err().message(), "the signature of the token is invalid");
    assert_eq!(issuer.received("/keys").len(), 2);
}

#[tokio::test]
async fn a_token_waits_for_one_attempt_to_fetch_its_key_however_long_that_takes() {
    let (known, unknown) = (Signer::p256("known"), Signer::p256("unknown"));
    let issuer = TestIssuer::with_keys(&[&known]).await;
    let (clock, mut fetcher) = (Clock::default(), Fetcher::new());
    fetcher.timeout = Duration::from_secs(60);
    let jwt = Jwt::discover_with(issuer.url.clone(), fetcher, clock.clone()).await.unwrap().resource(RESOURCE);
    clock.advance(Duration::from_secs(11));
    let (gate, keys) = (Arc::new(Notify::new()), json!({"keys": [known.jwk()]}));
    let held = Arc::clone(&gate);
    issuer.respond(move |_| Reply::After(Arc::clone(&held), Box::new(Reply::Json(keys.clone()))));
    let respond = async {
        issuer.until_received("/keys", 2).await;
        issuer.publish(&[&known]);
        clock.advance(Duration::from_secs(11));
        gate.notify_one();
    };
    let unknown = token(&issuer, &unknown);
    let (refused, ()) = tokio::join!(bearer(&jwt, &unknown), respond);
    assert_eq!(refusal(&refused.unwrap_err()), UNKNOWN_KEY);
    assert_eq!(issuer.received("/keys").len(), 2);
}

#[tokio::test]
async fn a_failing_issuer_does_not_lock_out_known_keys() {
    let (known, unknown) = (Signer::p256("known"), Signer::p256("unknown"));
    let issuer = TestIssuer::with_keys(&[&known]).await;
    let (jwt, clock) = discover_within(Duration::from_secs(2), &issuer).await.unwrap();
    let jwt = jwt.cache(0);
    issuer.respond(|_| Reply::Never);
    // The keys are due, and each call begins at most one attempt.
    for _ in 0..3 {
        clock.advance(Duration::from_secs(3600));
        bearer(&jwt, &token(&issuer, &known)).await.unwrap();
    }
    let error = bearer(&jwt, &token(&issuer, &unknown)).await.unwrap_err();
    let Kind::Unavailable { retry_after, .. } = error.kind() else { panic!("{error:?}") };
    assert_eq!(
        (retry_after, error.message()),
        (Duration::from_secs(10), "the keys of the issuer are temporarily unavailable")
    );
    // It responds again.
    issuer.publish(&[&unknown]);
    clock.advance(Duration::from_secs(11));
    bearer(&jwt, &token(&issuer, &unknown)).await.unwrap();
    let error = bearer(&jwt, &token(&issuer, &known)).await.unwrap_err();
    assert_eq!(refusal(&error), UNKNOWN_KEY, "the outage is over");
    // Keys that have not been confirmed for more than a day after their expiry are not used.
    issuer.respond(|_| Reply::Close);
    clock.advance(Duration::from_secs(2 * 24 * 3600));
    let error = bearer(&jwt, &token(&issuer, &unknown)).await.unwrap_err();
    assert_eq!(error.message(), "the keys of the issuer are temporarily unavailable");
}

#[tokio::test]
async fn a_failing_issuer_is_asked_once_in_ten_seconds() {
    let (known, unknown) = (Signer::p256("known"), Signer::p256("unknown"));
    let issuer = TestIssuer::with_keys(&[&known]).await;
    let (jwt, clock) = discover(&issuer).await.unwrap();
    issuer.respond(|_| Reply::Close);
    clock.advance(Duration::from_secs(11));
    for _ in 0..3 {
        let error = bearer(&jwt, &token(&issuer, &unknown)).await.unwrap_err();
        assert_eq!(error.message(), "the keys of the issuer are temporarily unavailable");
    }
    assert_eq!(issuer.received("/keys").len(), 2);
    issuer.publish(&[&known]);
    clock.advance(Duration::from_secs(11));
    let error = bearer(&jwt, &token(&issuer, &unknown)).await.unwrap_err();
    assert_eq!(refusal(&error), UNKNOWN_KEY, "the outage is over");
}

#[tokio::test]
async fn an_issuer_may_publish_a_hundred_keys() {
    let (last, ignored) = (Signer::p256("last"), Signer::p256("ignored"));
    let mut keys: Vec<Value> = (0..99).map(|_| json!({"kty": "oct", "k": "AA"})).collect();
    keys.extend([last.jwk(), ignored.jwk()]);
    let jwt =
        Jwt::keys("https://id.example.com", json!({"keys": keys}).to_string().parse().unwrap()).resource(RESOURCE);
    for (signer, accepted) in [(&last, true), (&ignored, false)] {
        assert_eq!(bearer(&jwt, &signer.token(&claims(json!({})))).await.is_ok(), accepted);
    }
}

#[tokio::test]
async fn verified_tokens_are_not_accepted_longer_than_their_keys() {
    let signer = Signer::p256("a");
    let issuer = TestIssuer::with_keys(&[&signer]).await;
    let (jwt, clock) = discover(&issuer).await.unwrap();
    let token = token(&issuer, &signer);
    bearer(&jwt, &token).await.unwrap();
    issuer.respond(|_| Reply::Close);
    clock.advance(Duration::from_secs(24 * 3600));
    bearer(&jwt, &token).await.unwrap();
    clock.advance(Duration::from_secs(2 * 3600));
    let error = bearer(&jwt, &token).await.map(|_| ()).unwrap_err();
    assert_eq!(error.message(), "the keys of the issuer are temporarily unavailable");
}

#[tokio::test]
async fn keys_are_fetched_before_they_expire() {
    let signer = Signer::p256("a");
    for (cache_control, lifetime) in [
        ("max-age=1", 5 * 60),
        ("no-store", 5 * 60),
        ("public, max-age=600", 600),
        ("max-age=600, must-revalidate", 600),
        ("public", 60 * 60),
        ("max-age=99999999999", 24 * 60 * 60),
    ] {
        let issuer = TestIssuer::start().await;
        let (url, keys) = (issuer.url.clone(), json!({"keys": [signer.jwk()]}).to_string());
        issuer.respond(move |path| match path {
            METADATA => Reply::Json(json!({"issuer": url, "jwks_uri": format!("{url}/keys")})),
            _ => Reply::Raw(format!("HTTP/1.1 200 OK\r\ncache-control: {cache_control}"), keys.clone().into_bytes()),
        });
        let (jwt, clock) = discover(&issuer).await.unwrap();
        let token = token(&issuer, &signer);
        clock.advance(Duration::from_secs(lifetime / 4 * 3 - 5));
        assert!(!jwt.is_fetching_keys(), "{cache_control}");
        clock.advance(Duration::from_secs(10));
        assert!(jwt.is_fetching_keys(), "{cache_control}");
        bearer(&jwt, &token).await.unwrap();
    }
}

#[tokio::test]
async fn moved_keys_are_found_through_the_metadata() {
    let (old, new) = (Signer::p256("old"), Signer::p256("new"));
    let issuer = TestIssuer::with_keys(&[&old]).await;
    let (jwt, clock) = discover(&issuer).await.unwrap();
    let (url, keys) = (issuer.url.clone(), json!({"keys": [new.jwk()]}));
    issuer.respond(move |path| match path {
        METADATA => Reply::Json(json!({"issuer": url, "jwks_uri": format!("{url}/moved")})),
        "/moved" => Reply::Json(keys.clone()),
        _ => not_found(),
    });
    clock.advance(Duration::from_secs(11));
    bearer(&jwt, &token(&issuer, &new)).await.unwrap();
    let requests = issuer.received("/keys").len();
    clock.advance(Duration::from_secs(11));
    let error = bearer(&jwt, &token(&issuer, &old)).await.unwrap_err();
    assert_eq!(refusal(&error), UNKNOWN_KEY);
    assert_eq!((issuer.received("/moved").len(), issuer.received("/keys").len()), (2, requests));
}

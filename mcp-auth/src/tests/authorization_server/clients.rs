//! Registered clients, and clients with metadata documents.

use std::{sync::Arc, time::Duration};

use mcp_runtime::backend::{RecordCondition, Records as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Browser, JSON, REDIRECT, VERIFIER, World, authorize_path,
    records::{age_records, stored},
};
use crate::{
    ConfiguredClient,
    tests::{
        RESOURCE,
        issuer::{Reply, TestIssuer},
        log::Log,
    },
};

#[tokio::test]
async fn registrations_are_checked() {
    let world = World::new().await;
    let many: Vec<String> = (0..11).map(|index| format!("https://app.example/{index}")).collect();
    let long = format!("https://app.example/{}", "x".repeat(1100));
    for (metadata, status, error) in [
        (json!({"redirect_uris": [REDIRECT]}), 201, Value::Null),
        (json!({"redirect_uris": ["http://localhost:1/a", "http://[::1]/b"], "client_name": "x"}), 201, Value::Null),
        (json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_post"}), 201, Value::Null),
        (json!({}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": []}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": many}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": [long]}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": [1]}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": ["http://app.example/"]}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": ["app://callback"]}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": ["javascript:alert(1)"]}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": ["https://app.example/#x"]}), 400, json!("invalid_redirect_uri")),
        (json!({"redirect_uris": [REDIRECT], "response_types": ["token"]}), 400, json!("invalid_client_metadata")),
        (json!({"redirect_uris": [REDIRECT], "grant_types": ["implicit"]}), 400, json!("invalid_client_metadata")),
        (
            json!({"redirect_uris": [REDIRECT], "grant_types": ["client_credentials"]}),
            400,
            json!("invalid_client_metadata"),
        ),
        (json!({"redirect_uris": [REDIRECT], "client_name": {"x": 1}}), 400, json!("invalid_client_metadata")),
        (
            json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "tls_client_auth"}),
            400,
            json!("invalid_client_metadata"),
        ),
        (json!([1]), 400, json!("invalid_client_metadata")),
    ] {
        let response = world.register(&metadata).await;
        assert_eq!((response.status, &response.json()["error"]), (status, &error), "{metadata}");
    }
    let duplicate = r#"{"redirect_uris": ["https://a.example/"], "redirect_uris": ["https://b.example/"]}"#;
    assert_eq!(world.send("POST", "/register", &[JSON], duplicate).await.status, 400);
    assert_eq!(world.send("GET", "/register", &[], "").await.status, 405);
    let valid = json!({"redirect_uris": [REDIRECT]}).to_string();
    for (headers, status) in [
        (&[] as &[(&str, &str)], 415),
        (&[("content-type", "text/plain")], 415),
        (&[("content-type", "application/x-www-form-urlencoded")], 415),
        (&[("content-type", "Application/JSON; charset=utf-8")], 201),
        (&[("content-type", "application/json ; charset=utf-8")], 201),
    ] {
        assert_eq!(world.send("POST", "/register", headers, &valid).await.status, status, "{headers:?}");
    }
    let preflight = world.send("OPTIONS", "/register", &[("origin", "https://inspector.example")], "").await;
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, "*"));
    assert_eq!(preflight.header("access-control-max-age"), "3600");
}

#[tokio::test]
async fn a_registration_states_what_the_client_gets() {
    let world = World::new().await;
    let (post, both) = ("client_secret_post", json!(["authorization_code", "refresh_token"]));
    for (mut metadata, mut expected) in [
        (json!({}), json!({"grant_types": ["authorization_code"], "token_endpoint_auth_method": "none"})),
        (
            json!({"grant_types": both, "token_endpoint_auth_method": post, "client_name": "x".repeat(101)}),
            json!({
                "grant_types": both, "token_endpoint_auth_method": post, "client_name": "x".repeat(100),
                "client_secret_expires_at": 0,
            }),
        ),
    ] {
        metadata["redirect_uris"] = json!([REDIRECT]);
        (expected["redirect_uris"], expected["response_types"]) = (json!([REDIRECT]), json!(["code"]));
        let mut registered = world.register(&metadata).await.json();
        let mut remove = |name| registered.as_object_mut().unwrap().remove(name).unwrap_or_default();
        let (id, secret) = (remove("client_id"), remove("client_secret"));
        assert_eq!(registered, expected);
        let client = [("client_id", id.as_str().unwrap()), ("client_secret", secret.as_str().unwrap_or_default())];
        let code = world.code(&client[..1]).await;
        let tokens = world.exchange(&code, &client).await.json();
        assert_eq!(tokens["refresh_token"].is_string(), expected["grant_types"] == both, "{tokens}");
    }
}

#[tokio::test]
async fn a_registered_client_logs_in_with_its_secret_and_another_port() {
    let world = World::new().await;
    let metadata = json!({
        "redirect_uris": ["http://127.0.0.1:1/cb"], "client_name": "Native",
        "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "client_secret_basic",
    });
    let client = world.register(&metadata).await.json();
    let (id, secret) = (client["client_id"].as_str().unwrap(), client["client_secret"].as_str().unwrap());
    assert_eq!(client["client_secret_expires_at"], 0);
    let redirect = "http://127.0.0.1:50123/cb";
    let code = world.code(&[("client_id", id), ("redirect_uri", redirect)]).await;
    let body = super::form(&[
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", redirect),
    ]);
    let basic = |secret: &str| {
        let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("{id}:{secret}"));
        format!("Basic {text}")
    };
    let both = [("authorization", &*basic(secret)), ("authorization", &*basic("wrong"))];
    assert_eq!(world.send("POST", "/token", &both, &body).await.status, 401);
    for (authorization, status) in
        [("Basic !".to_owned(), 401), ("Bearer x".to_owned(), 401), (basic("wrong"), 401), (basic(secret), 200)]
    {
        let response = world.send("POST", "/token", &[("authorization", &authorization)], &body).await;
        assert_eq!(response.status, status, "{authorization} {response:?}");
        if status == 401 {
            assert_eq!(response.header("www-authenticate"), r#"Basic realm="clients""#);
        } else {
            assert!(response.json()["refresh_token"].is_string());
        }
    }
}

/// A flood of registrations is refused, while other senders still register, until the hour is full.
#[tokio::test]
async fn registrations_are_limited_by_address_and_in_total() {
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
    let register = |sender: String| {
        let (world, metadata) = (&world, &metadata);
        async move { world.send_from(&sender, "POST", "/register", &[JSON], metadata).await }
    };
    for index in 0..25 {
        // An invalid registration takes no place.
        let invalid = world.send_from("[2001:db8:0:1::]:1", "POST", "/register", &[JSON], "{}").await;
        assert_eq!(invalid.status, 400, "{index}");
        // One network of IPv6 is one sender.
        let response = register(format!("[2001:db8:0:1::{index:x}]:1")).await;
        assert_eq!(response.status, if index < 20 { 201 } else { 429 }, "{index}");
    }
    for index in 0..1000 {
        let response = register(format!("198.51.{}.{}:1", index / 250, index % 250)).await;
        assert_eq!(response.status, if index < 980 { 201 } else { 429 }, "{index}");
    }
    let refused = register("203.0.113.1:1".to_owned()).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "60"));
    age_records(Duration::from_secs(3600)).await;
    assert_eq!(register("203.0.113.1:1".to_owned()).await.status, 201);
}

/// A server with an `https` URL has a proxy in front of it. Its address says nothing about the sender.
#[tokio::test]
async fn registrations_from_a_proxy_are_not_those_of_one_sender() {
    let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
    for (resource, sender, status) in [
        (RESOURCE, "127.0.0.1:1", 201),
        (RESOURCE, "[::ffff:10.0.0.1]:1", 201),
        (RESOURCE, "[fd00::1]:1", 201),
        (RESOURCE, "198.51.100.1:1", 429),
        (RESOURCE, "", 201),
        ("http://localhost/mcp", "127.0.0.1:1", 429),
        ("http://localhost/mcp", "", 429),
    ] {
        let world = World::start(resource, [7; 32], |builder| builder).await;
        for index in 0..22 {
            let response = world.send_from(sender, "POST", "/register", &[JSON], &metadata).await;
            assert_eq!(response.status, if index < 20 { 201 } else { status }, "{resource} {sender} {index}");
        }
    }
}

/// Without a proxy, the addresses are those of the senders.
#[tokio::test]
async fn without_a_proxy_registrations_from_a_private_network_are_counted_by_sender() {
    let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
    let world = World::start("http://localhost/mcp", [7; 32], |builder| builder).await;
    let register = async |sender: &str| world.send_from(sender, "POST", "/register", &[JSON], &metadata).await.status;
    for index in 0..21 {
        assert_eq!(register("127.0.0.1:1").await, if index < 20 { 201 } else { 429 }, "{index}");
    }
    assert_eq!(register("10.0.0.1:1").await, 201);
}

/// An attacker gains nothing from registering at several processes.
#[tokio::test]
async fn processes_that_share_a_store_count_registrations_together() {
    let first = World::new().await;
    let second = first.replica(RESOURCE, [7; 32], |builder| builder).await;
    let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
    let register = async |world: &World, sender: &str| {
        world.send_from(sender, "POST", "/register", &[JSON], &metadata).await.status
    };
    for index in 0..30 {
        let status = register([&first, &second][index % 2], "198.51.100.1:1").await;
        assert_eq!(status, if index < 20 { 201 } else { 429 }, "{index}");
    }
    for index in 0..990 {
        let sender = format!("198.51.{}.{}:1", 101 + index / 250, index % 250);
        let status = register([&first, &second][index % 2], &sender).await;
        assert_eq!(status, if index < 980 { 201 } else { 429 }, "{index}");
    }
    age_records(Duration::from_secs(3600)).await;
    assert_eq!(register(&second, "198.51.100.1:1").await, 201);
}

#[tokio::test]
async fn clients_register_at_several_processes_at_the_same_moment() {
    let first = World::new().await;
    let second = first.replica(RESOURCE, [7; 32], |builder| builder).await;
    let worlds = [Arc::new(first), Arc::new(second)];
    let mut requests = JoinSet::new();
    for index in 0..40 {
        let world = Arc::clone(&worlds[index % 2]);
        requests.spawn(async move {
            let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
            world.send_from(&format!("198.51.100.{index}:1"), "POST", "/register", &[JSON], &metadata).await
        });
    }
    for response in requests.join_all().await {
        assert_eq!(response.status, 201, "{response:?}");
    }
}

#[tokio::test]
async fn registrations_that_the_store_could_not_count_are_not_counted() {
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]});
    world.records.set_down(true);
    for _ in 0..20 {
        assert_eq!(world.register(&metadata).await.status, 503);
    }
    world.records.set_down(false);
    for index in 0..21 {
        assert_eq!(world.register(&metadata).await.status, if index < 20 { 201 } else { 429 }, "{index}");
    }
}

/// Registrations are counted without the secret.
#[tokio::test]
async fn clients_register_after_the_secret_was_lost() {
    let old = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]});
    assert_eq!(old.register(&metadata).await.status, 201);
    let stored = stored(&old.records).await;
    let (keys, _) = stored.iter().find(|(key, _)| key.ends_with("/keys/signing")).unwrap();
    assert_eq!(old.records.reliable().delete(keys, RecordCondition::Always).await, Ok(true));
    let new = old.replica(RESOURCE, [8; 32], |builder| builder).await;
    let registered = new.register(&metadata).await;
    assert_eq!(registered.status, 201, "{registered:?}");
}

/// Serves a metadata document at `/client.json`.
pub(super) async fn document(change: impl Fn(&mut Value) + Send + Sync + 'static) -> (TestIssuer, String) {
    let host = TestIssuer::start().await;
    let id = format!("{}/client.json", host.url);
    let url = id.clone();
    host.respond(move |path| {
        let mut document = json!({"client_id": url, "client_name": "Documented", "redirect_uris": [REDIRECT]});
        change(&mut document);
        match path {
            "/client.json" => Reply::Json(document),
            "/redirect.json" => Reply::Raw("HTTP/1.1 302 Found\r\nlocation: /client.json".to_owned(), Vec::new()),
            "/hangs.json" => Reply::Never,
            _ => crate::tests::issuer::not_found(),
        }
    });
    (host, id)
}

#[tokio::test]
async fn a_client_with_a_metadata_document_logs_in_and_the_document_is_cached() {
    let world = World::new().await;
    let (host, id) = document(|_| {}).await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[("client_id", &id)]).await;
    assert!(
        page.body.contains("<dt>Published at</dt><dd><code>") && page.body.contains(&format!("<code>{id}</code>")),
        "{page:?}"
    );
    let code = world.code(&[("client_id", &id)]).await;
    assert_eq!(world.exchange(&code, &[("client_id", &id)]).await.status, 200);
    assert_eq!(host.received("/client.json").len(), 1, "the document is fetched once");
    let (parallel, parallel_id) = document(|_| {}).await;
    let (mut left, mut right) = (Browser::default(), Browser::default());
    let changes = [("client_id", parallel_id.as_str())];
    let (left, right) = tokio::join!(world.authorize(&mut left, &changes), world.authorize(&mut right, &changes));
    assert_eq!((left.status, right.status, parallel.received("/client.json").len()), (200, 200, 1));
    world.clock.advance(Duration::from_secs(3601));
    world.authorize(&mut browser, &[("client_id", &id)]).await;
    assert_eq!(host.received("/client.json").len(), 2, "after an hour, it is fetched again");
    let other = [("client_id", id.as_str()), ("redirect_uri", "https://evil.example/")];
    assert_eq!(world.authorize(&mut browser, &other).await.status, 400);
    for disabled in [
        World::with(|builder| builder.client_documents(false)).await,
        World::with(|builder| builder.admit_documents(|url| url.starts_with("https://app.example/"))).await,
    ] {
        assert_eq!(disabled.authorize(&mut browser, &[("client_id", &id)]).await.status, 400);
    }
    let own = id.clone();
    let admitting = World::with(move |builder| builder.admit_documents(move |url| url == own)).await;
    assert_eq!(admitting.authorize(&mut browser, &[("client_id", &id)]).await.status, 200);
    assert_eq!(host.received("/client.json").len(), 3);
}

#[tokio::test]
async fn documents_are_cached_for_as_long_as_they_say_within_bounds() {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    for (headers, seconds) in [
        ("", HOUR),
        ("cache-control: public", HOUR),
        ("cache-control: max-age=soon", HOUR),
        ("cache-control: max-age=-1", HOUR),
        ("cache-control: max-age=600", 600),
        ("Cache-Control: PUBLIC,Max-Age=\"600\"", 600),
        ("cache-control: max-age=600\r\ncache-control: max-age=300", 300),
        ("cache-control: max-age=0", MINUTE),
        ("cache-control: no-store", MINUTE),
        ("cache-control: max-age=600, no-cache", MINUTE),
        ("cache-control: max-age=31536000", DAY),
    ] {
        let world = World::new().await;
        let host = TestIssuer::start().await;
        let id = format!("{}/client.json", host.url);
        let document = json!({"client_id": id, "client_name": "Documented", "redirect_uris": [REDIRECT]}).to_string();
        let head = format!("HTTP/1.1 200 OK\r\n{headers}");
        host.respond(move |_| Reply::Raw(head.trim_end().to_owned(), document.clone().into_bytes()));
        for (pause, fetched) in [(0, 1), (seconds - 1, 1), (2, 2)] {
            world.clock.advance(Duration::from_secs(pause));
            assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &id)]).await.status, 200, "{headers}");
            assert_eq!(host.received("/client.json").len(), fetched, "{headers}: {pause}");
        }
    }
}

#[tokio::test]
async fn unusable_documents_are_refused_and_not_asked_for_again_at_once() {
    let (log, _guard) = Log::listen();
    let world = World::new().await;
    let (huge, huge_id) = document(|document| document["padding"] = json!("x".repeat(17 << 10))).await;
    let (foreign, foreign_id) = document(|document| document["client_id"] = json!("https://app.example/x")).await;
    let (other, _) = document(|_| {}).await;
    for (id, host, path) in [
        (huge_id, &huge, "/client.json"),
        (foreign_id, &foreign, "/client.json"),
        (format!("{}/redirect.json", other.url), &other, "/redirect.json"),
        (format!("{}/absent.json", other.url), &other, "/absent.json"),
    ] {
        for (seconds, status, requests) in [(0, 400, 1), (0, 503, 1), (9, 503, 1), (2, 400, 2)] {
            world.clock.advance(Duration::from_secs(seconds));
            let page = world.authorize(&mut Browser::default(), &[("client_id", &id)]).await;
            assert_eq!((page.status, host.received(path).len()), (status, requests), "{id} {seconds}");
            assert!(page.body.contains("The login cannot continue"));
        }
    }
    assert!(other.received("/client.json").is_empty(), "redirects are not followed");
    assert!(log.all().contains("the response is larger than 16 KiB"), "{}", log.all());
}

#[tokio::test]
async fn identifiers_of_clients_have_at_most_512_bytes() {
    let world = World::new().await;
    let host = TestIssuer::start().await;
    for (length, status) in [(512, 200), (513, 400)] {
        let id = format!("{}/{}", host.url, "x".repeat(length - host.url.len() - 1));
        let document = json!({"client_id": id, "client_name": "Documented", "redirect_uris": [REDIRECT]});
        host.respond(move |_| Reply::Json(document.clone()));
        let page = world.authorize(&mut Browser::default(), &[("client_id", &id)]).await;
        assert_eq!(page.status, status, "{length}: {page:?}");
    }
}

/// Clients forget their credentials after `invalid_client`, and an outage of their own website is no reason.
#[tokio::test]
async fn the_last_document_remains_in_use_while_its_host_does_not_respond() {
    const HOUR: Duration = Duration::from_secs(3600);
    let world = World::new().await;
    let (host, id) = document(|_| {}).await;
    let status = async || world.authorize(&mut Browser::default(), &[("client_id", &id)]).await.status;
    assert_eq!(status().await, 200);
    for reply in [
        (|| Reply::Close) as fn() -> Reply,
        || Reply::Raw("HTTP/1.1 503 Service Unavailable".to_owned(), Vec::new()),
        || Reply::Raw("HTTP/1.1 429 Too Many Requests".to_owned(), Vec::new()),
    ] {
        host.respond(move |_| reply());
        world.clock.advance(HOUR + Duration::from_secs(1));
        assert_eq!(status().await, 200);
        let asked = host.received("/client.json").len();
        assert_eq!((status().await, host.received("/client.json").len()), (200, asked), "not asked again at once");
    }
    world.clock.advance(24 * HOUR);
    assert_eq!(status().await, 503);
    let response = world.exchange("x", &[("client_id", &id)]).await;
    assert_eq!((response.status, response.json()["error"].clone()), (503, json!("temporarily_unavailable")));
    world.clock.advance(HOUR);
    host.respond(|_| crate::tests::issuer::not_found());
    assert_eq!(status().await, 400);
}

/// A host that responds has withdrawn the document, which no later outage restores.
#[tokio::test]
async fn a_document_that_was_withdrawn_is_not_used_any_more() {
    let world = World::new().await;
    let (host, id) = document(|_| {}).await;
    let status = async || world.authorize(&mut Browser::default(), &[("client_id", &id)]).await.status;
    assert_eq!(status().await, 200);
    for (reply, seconds, expected) in [
        (crate::tests::issuer::not_found as fn() -> Reply, 3601, 400),
        (crate::tests::issuer::not_found, 1, 503),
        (|| Reply::Close, 11, 503),
        (crate::tests::issuer::not_found, 11, 400),
    ] {
        host.respond(move |_| reply());
        world.clock.advance(Duration::from_secs(seconds));
        assert_eq!(status().await, expected, "after {seconds} seconds");
    }
}

/// Strangers can invent clients whose hosts hang, which must not block others.
#[tokio::test]
async fn documents_that_hang_hold_up_few_requests_and_evict_nothing() {
    let world = Arc::new(World::new().await);
    let (host, id) = document(|_| {}).await;
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &id)]).await.status, 200);
    for index in 0..1100 {
        let invented = format!("{}/{index}.json", host.url);
        assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &invented)]).await.status, 400);
    }
    let hanging = format!("{}/hangs.json", host.url);
    let mut waiting = JoinSet::new();
    // The share of one sender.
    for _ in 0..24 {
        let (world, hanging) = (Arc::clone(&world), hanging.clone());
        waiting.spawn(async move { world.authorize(&mut Browser::default(), &[("client_id", &hanging)]).await.status });
    }
    host.until_received("/hangs.json", 1).await;
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &hanging)]).await.status, 503);
    let path = authorize_path(&[("client_id", &format!("{}/absent.json", host.url))]);
    assert_eq!(
        world.send_from("192.0.2.2:1", "GET", &path, &[], "").await.status,
        400,
        "another sender is not affected"
    );
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &id)]).await.status, 200);
    assert_eq!(host.received("/client.json").len(), 1, "the document is still cached");
    assert_eq!(host.received("/hangs.json").len(), 1, "one request at a time for each document");
    // An old document may be used only if its own host does not respond.
    world.clock.advance(Duration::from_secs(3601));
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &id)]).await.status, 503);
    waiting.shutdown().await;
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &id)]).await.status, 200);
    assert_eq!(host.received("/client.json").len(), 2);
}

/// A program on the user's machine could use the id of another one, so the user is always asked.
#[tokio::test]
async fn approvals_with_loopback_redirects_are_not_remembered() {
    let world = World::new().await;
    let local = "http://127.0.0.1:1234/callback";
    let (_host, document) = document(move |document| document["redirect_uris"] = json!([local])).await;
    let registered = world.register(&json!({"redirect_uris": [local]})).await.json();
    for id in [document.as_str(), registered["client_id"].as_str().unwrap()] {
        for port in ["1234", "4321"] {
            let redirect = local.replace("1234", port);
            let changes = [("client_id", id), ("redirect_uri", &redirect)];
            let mut browser = Browser::default();
            assert!(world.log_in(&mut browser, &changes).await.parameter("code").is_some());
            assert_eq!(world.authorize(&mut browser, &changes).await.status, 200, "{id} {redirect}");
        }
    }
}

#[test]
fn each_redirect_of_a_configured_client_is_checked() {
    for other in ["http://evil.example/callback", "https://evil.example/callback#fragment", "/callback"] {
        for redirects in [[REDIRECT, other], [other, REDIRECT]] {
            assert!(ConfiguredClient::public("editor", "Editor", redirects).is_err(), "{redirects:?}");
        }
    }
}

/// Every program on the machine of a user can claim such a scheme, so the operator decides, and the user is always asked.
#[tokio::test]
async fn only_configured_clients_have_redirects_with_schemes_of_their_own() {
    for (redirect, scheme) in [("com.example.app:/callback", "com.example.app"), ("editor://tools/cb?a=b", "editor")] {
        let editor = ConfiguredClient::public("editor", "Editor", [redirect]).unwrap();
        let world = World::with(|builder| builder.with_client(editor)).await;
        let changes = [("client_id", "editor"), ("redirect_uri", redirect)];
        let mut browser = Browser::default();
        let page = world.authorize(&mut browser, &changes).await;
        let target = format!("<dd>{scheme}<br><code>{}</code></dd>", redirect.replace('&', "&amp;"));
        assert!(page.body.contains(&target) && page.body.contains("on this computer"), "{page:?}");
        let response = world.log_in(&mut browser, &changes).await;
        let separator = if redirect.contains('?') { '&' } else { '?' };
        assert!(response.header("location").starts_with(&format!("{redirect}{separator}code=")), "{response:?}");
        let code = response.parameter("code").unwrap();
        let exchanged = world.exchange(&code, &[("client_id", "editor"), ("redirect_uri", redirect)]).await;
        assert_eq!(exchanged.status, 200, "{exchanged:?}");
        assert_eq!(world.authorize(&mut browser, &changes).await.status, 200, "the user is asked again");
        let other = [("client_id", "editor"), ("redirect_uri", &*format!("{redirect}2"))];
        assert_eq!(world.authorize(&mut browser, &other).await.status, 400);
        let registered = world.register(&json!({"redirect_uris": [redirect]})).await;
        assert_eq!(registered.json()["error"], "invalid_redirect_uri");
        let (_host, document) = document(move |document| document["redirect_uris"] = json!([redirect])).await;
        assert_eq!(world.authorize(&mut browser, &[("client_id", &document)]).await.status, 400);
    }
}

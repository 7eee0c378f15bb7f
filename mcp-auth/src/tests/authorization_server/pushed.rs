//! Authorization requests that clients push.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Browser, REDIRECT, Reaction, World, authorize_path, form, hash, records::age_records};
use crate::{AuthorizationServerBuilder, ConfiguredClient, tests::RESOURCE};

/// Pushes a valid request with changes. An empty value removes a parameter.
async fn push(world: &World, changes: &[(&str, &str)]) -> Reaction {
    push_from(world, "192.0.2.1:1", changes).await
}

async fn push_from(world: &World, sender: &str, changes: &[(&str, &str)]) -> Reaction {
    let path = authorize_path(changes);
    let body = path.split_once('?').unwrap().1;
    world.send_from(sender, "POST", "/par", &[], body).await
}

fn uri(pushed: &Reaction) -> String {
    pushed.json()["request_uri"].as_str().unwrap_or_else(|| panic!("no URI: {pushed:?}")).to_owned()
}

/// Opens a request like a client that sends the user.
async fn open(world: &World, browser: &mut Browser, client: &str, uri: &str) -> Reaction {
    let query = form(&[("client_id", client), ("request_uri", uri)]);
    world.visit(browser, "GET", &format!("/authorize?{query}"), "").await
}

#[tokio::test]
async fn a_user_approves_a_pushed_request_whose_parameters_cannot_be_changed() {
    let world = World::new().await;
    let pushed = push(&world, &[("scope", "notes:write")]).await;
    assert_eq!((pushed.status, pushed.header("cache-control")), (201, "no-store"), "{pushed:?}");
    assert_eq!(pushed.json()["expires_in"], 60);
    let uri = uri(&pushed);
    assert!(uri.starts_with("urn:ietf:params:oauth:request_uri:") && uri.len() > 70, "{uri}");
    let mut browser = Browser::default();
    let changed = [
        ("client_id", "app"),
        ("request_uri", uri.as_str()),
        ("scope", "notes:read"),
        ("redirect_uri", "https://evil.example/"),
        ("state", "another"),
        ("code_challenge", &hash("another verifier")),
    ];
    let page = world.visit(&mut browser, "GET", &format!("/authorize?{}", form(&changed)), "").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("notes:write") && !page.body.contains("notes:read"), "{page:?}");
    let login = world.answer(&mut browser, &page, "approve").await;
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert!(response.header("location").starts_with(&format!("{REDIRECT}?code=")), "{response:?}");
    assert_eq!(response.parameter("state").as_deref(), Some("a state"));
    let tokens = world.exchange(&response.parameter("code").unwrap(), &[]).await;
    assert_eq!(tokens.json()["scope"], "notes:write", "{tokens:?}");
}

#[tokio::test]
async fn a_pushed_request_is_opened_once_in_a_minute_by_its_client_at_any_process() {
    let one = World::new().await;
    let two = one.replica(RESOURCE, [7; 32], |builder| builder).await;
    let first = uri(&push(&one, &[]).await);
    let head = format!("/authorize?{}", form(&[("client_id", "app"), ("request_uri", &first)]));
    for head in [&head, &head.replace("request_uri", "request%5Furi")] {
        assert_eq!(one.send("HEAD", head, &[], "").await.status, 405, "{head}");
    }
    let invented = format!("{}x", &first[..first.len() - 1]);
    for (client, uri, status) in [
        ("other", &first, 400),
        ("unknown", &first, 400),
        ("app", &invented, 400),
        ("app", &first, 200),
        ("app", &first, 400),
    ] {
        let page = open(&two, &mut Browser::default(), client, uri).await;
        assert_eq!((page.status, page.header("location")), (status, ""), "{client} {page:?}");
    }
    let late = uri(&push(&one, &[]).await);
    age_records(Duration::from_secs(60)).await;
    assert_eq!(open(&one, &mut Browser::default(), "app", &late).await.status, 400);
}

#[tokio::test]
async fn of_two_browsers_that_open_a_pushed_request_at_the_same_moment_one_succeeds() {
    let world = World::new().await;
    let uri = uri(&push(&world, &[]).await);
    let (mut left, mut right) = (Browser::default(), Browser::default());
    let (left, right) = tokio::join!(open(&world, &mut left, "app", &uri), open(&world, &mut right, "app", &uri));
    let mut statuses = [left.status, right.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
}

/// The document of a client may have changed since.
#[tokio::test]
async fn a_redirect_uri_that_the_client_has_lost_is_not_used() {
    let at = |uri: &'static str| {
        move |builder: AuthorizationServerBuilder| {
            builder.with_client(ConfiguredClient::public("moving", "Moving", [uri]).unwrap())
        }
    };
    let world = World::with(at(REDIRECT)).await;
    let pushed = uri(&push(&world, &[("client_id", "moving")]).await);
    let changed = world.replica(RESOURCE, [7; 32], at("https://app.example/moved")).await;
    let page = open(&changed, &mut Browser::default(), "moving", &pushed).await;
    assert_eq!((page.status, page.header("location")), (400, ""), "{page:?}");
}

#[tokio::test]
async fn pushed_requests_are_checked_like_others() {
    let world = World::new().await;
    let secret = [("client_id", "web"), ("client_secret", "a web secret")];
    for (changes, status, error) in [
        (&[] as &[(&str, &str)], 201, Value::Null),
        (&secret, 201, Value::Null),
        (&secret[..1], 401, json!("invalid_client")),
        (&[("client_id", "")], 401, json!("invalid_client")),
        (&[("client_id", "unknown")], 401, json!("invalid_client")),
        (&[("redirect_uri", "https://evil.example/")], 400, json!("invalid_request")),
        (&[("code_challenge_method", "plain")], 400, json!("invalid_request")),
        (&[("response_type", "token")], 400, json!("unsupported_response_type")),
        (&[("scope", "notes:admin")], 400, json!("invalid_scope")),
        (&[("resource", "https://evil.example/mcp")], 400, json!("invalid_target")),
        (&[("request", "x.y.z")], 400, json!("request_not_supported")),
        (&[("request_uri", "urn:ietf:params:oauth:request_uri:x")], 400, json!("invalid_request")),
    ] {
        let response = push(&world, changes).await;
        assert_eq!((response.status, &response.json()["error"]), (status, &error), "{changes:?}");
        assert_eq!(response.header("location"), "");
    }
    assert_eq!(world.send("GET", "/par", &[], "").await.status, 405);
    world.records.set_down(true);
    assert_eq!(push(&world, &[]).await.status, 503);
}

#[tokio::test]
async fn pushed_requests_are_bounded_by_address_and_in_total() {
    let world = World::new().await;
    let mut opened = String::new();
    for index in 0..101 {
        let pushed = push_from(&world, "198.51.100.1:1", &[]).await;
        assert_eq!(pushed.status, if index < 100 { 201 } else { 429 }, "{index}");
        if index == 0 {
            opened = uri(&pushed);
        }
    }
    for index in 0..901 {
        let pushed = push_from(&world, &format!("198.51.{}.1:1", 101 + index / 100), &[]).await;
        assert_eq!(pushed.status, if index < 900 { 201 } else { 429 }, "{index}");
    }
    // Strangers do not displace configured clients that authenticate.
    let web = push_from(&world, "198.51.100.1:1", &[("client_id", "web"), ("client_secret", "a web secret")]).await;
    assert_eq!(open(&world, &mut Browser::default(), "app", &uri(&web)).await.status, 400);
    assert_eq!(open(&world, &mut Browser::default(), "web", &uri(&web)).await.status, 200);
    // One that was opened leaves its place.
    assert_eq!(open(&world, &mut Browser::default(), "app", &opened).await.status, 200);
    assert_eq!(push_from(&world, "198.51.100.1:1", &[]).await.status, 201);
    assert_eq!(push_from(&world, "203.0.113.1:1", &[]).await.status, 429);
    age_records(Duration::from_secs(60)).await;
    assert_eq!(push_from(&world, "203.0.113.1:1", &[]).await.status, 201);
}

/// Registration of clients with credentials is open.
#[tokio::test]
async fn pushed_requests_of_registered_clients_are_counted_by_address() {
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_post"});
    for (count, status) in [(100, 201), (1, 429)] {
        let client = world.register(&metadata).await.json();
        let credentials = ["client_id", "client_secret"].map(|name| (name, client[name].as_str().unwrap()));
        for index in 0..count {
            assert_eq!(push(&world, &credentials).await.status, status, "{index}");
        }
    }
}

/// All of them may have the address of one proxy.
#[tokio::test]
async fn pushed_requests_of_configured_clients_are_counted_by_client() {
    let second = ConfiguredClient::confidential("second", "its secret", "Second", [REDIRECT]).unwrap();
    let world = World::with(|builder| builder.with_client(second)).await;
    for (client, secret, count) in [("web", "a web secret", 101), ("second", "its secret", 1)] {
        for index in 0..count {
            let pushed = push(&world, &[("client_id", client), ("client_secret", secret)]).await;
            assert_eq!(pushed.status, if index < 100 { 201 } else { 429 }, "{client} {index}");
        }
    }
}

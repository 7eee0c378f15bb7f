//! A store of records that fails.

use std::time::Duration;

use mcp_runtime::auth::AuthenticationErrorKind;
use serde_json::json;

use super::{super::signer::now, Browser, REDIRECT, World, clients::document, form};
use crate::{jose::Jws, tests::log::Log};

#[tokio::test]
async fn requests_that_need_the_store_fail_for_a_while_and_nothing_is_lost() {
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]});
    let registered = world.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let tokens = world.tokens().await;
    let code = world.code(&[]).await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let login = world.answer(&mut browser, &page, "approve").await;
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let mut asked = Browser::default();
    world.authorize(&mut asked, &[]).await;
    let revocation = form(&[("client_id", "app"), ("token", refresh)]);

    world.records.set_down(true);
    for response in [
        world.exchange(&code, &[]).await,
        world.refresh(refresh).await,
        world.register(&metadata).await,
        world.send("POST", "/revoke", &[], &revocation).await,
    ] {
        assert_eq!((response.status, response.header("retry-after")), (503, "5"), "{response:?}");
        assert_eq!(response.json()["error"], "temporarily_unavailable");
        assert!(!response.body.contains("secret"), "{response:?}");
    }
    let page = world.authorize(&mut Browser::default(), &[("client_id", &registered)]).await;
    assert_eq!(page.status, 503, "{page:?}");
    let response = world.authorize(&mut asked, &[]).await;
    assert_eq!(response.parameter("error").as_deref(), Some("temporarily_unavailable"), "{response:?}");
    // A redirect could take a user to a website that registered itself.
    let (_host, document) = document(|_| {}).await;
    let remembering = [("client_id", document.as_str())];
    let (log, guard) = Log::listen();
    let page = world.authorize(&mut asked, &remembering).await;
    assert_eq!((page.status, page.header("location")), (503, ""), "{page:?}");
    let reason = "the server cannot handle the request at the moment";
    assert_eq!(log.take(), [format!("refusal client={document} peer=192.0.2.1 reason={reason}")]);
    drop(guard);
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert_eq!(response.parameter("error").as_deref(), Some("temporarily_unavailable"), "{response:?}");
    assert!(world.accepts(&tokens["access_token"]).await, "access tokens need no store");

    world.records.set_down(false);
    assert_eq!(world.exchange(&code, &[]).await.status, 200);
    assert_eq!(world.refresh(refresh).await.status, 200);
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &registered)]).await.status, 200);
}

/// Other processes accept its access tokens until they expire, and no further ones are issued.
#[tokio::test]
async fn a_grant_ends_although_its_end_cannot_be_announced() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    let refresh = tokens["refresh_token"].as_str().unwrap();
    world.records.set_silent(true);
    let revocation = form(&[("client_id", "app"), ("token", refresh)]);
    assert_eq!(world.send("POST", "/revoke", &[], &revocation).await.status, 503);
    world.records.set_silent(false);
    assert_eq!(world.refresh(refresh).await.json()["error"], "invalid_grant");
    assert!(!world.accepts(&tokens["access_token"]).await);
}

/// Processes whose clocks differ agree on the times that they store.
#[tokio::test]
async fn times_are_those_of_the_store() {
    const BEHIND: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);
    let world = World::new().await;
    world.records.set_clock_back(BEHIND);
    // The clock of the store is read once a minute.
    world.clock.advance(MINUTE);
    let tokens = world.tokens().await;
    let claims = Jws::parse(tokens["access_token"].as_str().unwrap()).unwrap().claims().unwrap();
    let (issued, expected) = (claims["iat"].as_u64().unwrap(), now() + MINUTE.as_secs() - BEHIND.as_secs());
    assert!(issued.abs_diff(expected) < 30, "{issued}, expected {expected}");
    assert!(world.accepts(&tokens["access_token"]).await);
    assert_eq!(world.refresh(tokens["refresh_token"].as_str().unwrap()).await.status, 200);
}

/// Invented keys in tokens cost no operation each.
#[tokio::test]
async fn signing_keys_are_looked_up_once_while_the_store_fails() {
    let (world, other) = (World::new().await, World::with(|builder| builder.with_secret([8; 32])).await);
    let foreign = other.tokens().await["access_token"].as_str().unwrap().to_owned();
    world.clock.advance(Duration::from_secs(60));
    world.records.set_down(true);
    let before = world.records.failed();
    for _ in 0..10 {
        let error = crate::tests::bearer(&world.server, &foreign).await.unwrap_err();
        assert!(matches!(error.kind(), AuthenticationErrorKind::Unavailable { .. }), "{error:?}");
    }
    assert_eq!(world.records.failed() - before, 2, "one for the keys, and one for what has ended");
}

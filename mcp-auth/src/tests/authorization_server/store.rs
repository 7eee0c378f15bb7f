//! A store of records that fails.

use std::time::Duration;

use serde_json::json;

use super::{super::signer::now, Browser, REDIRECT, World, form};
use crate::jose::Jws;

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
    let revocation = form(&[("client_id", "app"), ("token", refresh)]);

    world.records.set_down(true);
    for response in [
        world.exchange(&code, &[]).await,
        world.refresh(refresh).await,
        world.register(&metadata).await,
        world.send("POST", "/revoke", &[], &revocation).await,
    ] {
        assert_eq!((response.status, response.header("retry-after")), (503, "60"), "{response:?}");
        assert_eq!(response.json()["error"], "temporarily_unavailable");
        assert!(!response.body.contains("secret"), "{response:?}");
    }
    let page = world.authorize(&mut Browser::default(), &[("client_id", &registered)]).await;
    assert_eq!(page.status, 503, "{page:?}");
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert_eq!(response.parameter("error").as_deref(), Some("temporarily_unavailable"), "{response:?}");
    assert!(world.accepts(&tokens["access_token"]).await, "access tokens need no store");

    world.records.set_down(false);
    assert_eq!(world.exchange(&code, &[]).await.status, 200);
    assert_eq!(world.refresh(refresh).await.status, 200);
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &registered)]).await.status, 200);
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

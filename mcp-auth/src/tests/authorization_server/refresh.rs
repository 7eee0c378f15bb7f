//! Refresh tokens that are used several times.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    auth::Identity,
    backend::{RecordCondition, Records as _},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    Reaction, World,
    dpop::{TOKEN, ask, exchange, key, proof},
    records::stored,
    tokens::upstream_token_of,
};
use crate::{
    Dpop,
    tests::{RESOURCE, bearer},
};

/// Two processes with the same records.
async fn replicas() -> [Arc<World>; 2] {
    let first = World::new().await;
    let second = first.replica(RESOURCE, [7; 32], |builder| builder).await;
    [Arc::new(first), Arc::new(second)]
}

fn refresh_token(tokens: &Value) -> &str {
    tokens["refresh_token"].as_str().unwrap()
}

/// Requests for new tokens that arrived at the provider, beside that of the login.
fn renewals(world: &World) -> usize {
    world.issuer.received("/token").len() - 1
}

/// Current SDKs refresh once for each call that finds an expired token.
#[tokio::test]
async fn parallel_refreshes_get_the_same_tokens() {
    let worlds = replicas().await;
    let tokens = worlds[0].tokens().await;
    let refresh = async |index: usize| worlds[index].refresh(refresh_token(&tokens)).await;
    let responses: [Reaction; 5] = tokio::join!(refresh(0), refresh(1), refresh(0), refresh(1), refresh(0)).into();
    for response in &responses {
        assert_eq!((response.status, &response.body), (200, &responses[0].body), "{response:?}");
    }
    assert_eq!(renewals(&worlds[0]), 1);
    let renewed = responses[0].json();
    assert!(worlds[1].accepts(&renewed["access_token"]).await);
    assert_eq!(worlds[1].refresh(refresh_token(&renewed)).await.status, 200);
}

/// The same request gets the same answer for a moment. Everything else is a second use, which ends the grant.
#[tokio::test]
async fn only_a_repetition_of_the_last_refresh_is_answered() {
    const SECRET: (&str, &str) = ("client_secret", "a web secret");
    for (seconds, changes, refreshes, status) in [
        (29, &[] as &[(&str, &str)], 1, 200),
        (29, &[("scope", "notes:read")], 1, 200),
        (31, &[], 1, 400),
        (0, &[], 2, 400),
        (0, &[("scope", "")], 1, 200),
        (0, &[("scope", "notes:write")], 1, 400),
        (0, &[("client_id", "other")], 1, 400),
        (0, &[("client_id", "web"), SECRET], 1, 400),
    ] {
        let world = World::new().await;
        let tokens = world.tokens().await;
        let mut last = tokens.clone();
        for _ in 0..refreshes {
            last = world.refresh(refresh_token(&last)).await.json();
        }
        world.clock.advance(Duration::from_secs(seconds));
        let valid = [("grant_type", "refresh_token"), ("client_id", "app"), ("refresh_token", refresh_token(&tokens))];
        let response = world.token(&super::replaced(&valid, changes)).await;
        let case = format!("{seconds} {changes:?} {refreshes}");
        assert_eq!(response.status, status, "{case}");
        if status == 200 {
            assert_eq!(response.json(), last, "{case}");
        } else {
            assert_eq!(response.json()["error"], "invalid_grant", "{case}");
        }
        let after = world.refresh(refresh_token(&last)).await;
        assert_eq!(after.status, status, "the grant has ended, or not: {case}");
    }
}

/// The first answer may allow more than the second request asks for.
#[tokio::test]
async fn a_repetition_with_other_scopes_is_not_answered() {
    let world = World::new().await;
    let tokens = world.exchange(&world.code(&[("scope", "notes:read notes:write")]).await, &[]).await.json();
    assert_eq!(world.refresh(refresh_token(&tokens)).await.status, 200);
    let narrower = [
        ("grant_type", "refresh_token"),
        ("client_id", "app"),
        ("refresh_token", refresh_token(&tokens)),
        ("scope", "notes:read"),
    ];
    let response = world.token(&narrower).await;
    assert_eq!((response.status, &response.json()["error"]), (400, &json!("invalid_grant")), "{response:?}");
}

/// A process that has waited too long is refused by the provider, and finds that another one has succeeded.
#[tokio::test]
async fn a_refused_refresh_gets_the_tokens_that_another_process_has_obtained() {
    let first = World::with(|builder| builder.dpop(Dpop::required())).await;
    let second = first.replica(RESOURCE, [7; 32], |builder| builder.dpop(Dpop::required())).await;
    let [first, second] = &[Arc::new(first), Arc::new(second)];
    let (key, code) = (Arc::new(key()), first.code(&[]).await);
    let tokens = exchange(first, &[&proof(first, &key, TOKEN, json!({}))], &code, &[]).await.json();
    let refresh = |world: &Arc<World>, token: &str| {
        let (world, key, token) = (Arc::clone(world), Arc::clone(&key), token.to_owned());
        async move {
            let parameters = [("grant_type", "refresh_token"), ("client_id", "app"), ("refresh_token", &token)];
            ask(&world, &[&proof(&world, &key, TOKEN, json!({}))], &parameters).await
        }
    };
    let held = Arc::new(Notify::new());
    first.provider(|provider| {
        provider.held = Some(Arc::clone(&held));
        provider.token = Some((400, json!({"error": "invalid_grant"})));
    });
    let refused = tokio::spawn(refresh(first, refresh_token(&tokens)));
    first.issuer.until_received("/token", 2).await;
    expire_locks(first).await;
    first.provider(|provider| (provider.held, provider.token) = (None, None));
    let renewed = refresh(second, refresh_token(&tokens)).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    held.notify_one();
    let answer = refused.await.unwrap();
    assert_eq!((answer.status, &answer.body), (200, &renewed.body));
}

async fn expire_locks(world: &World) {
    for (key, _) in stored(&world.records).await.into_iter().filter(|(key, _)| key.contains("/lock/")) {
        world.records.reliable().delete(&key, RecordCondition::Always).await.unwrap();
    }
}

/// A client that disconnects while the provider answers has not lost the login.
#[tokio::test]
async fn an_abandoned_refresh_is_finished() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    let held = Arc::new(Notify::new());
    world.provider(|provider| provider.held = Some(Arc::clone(&held)));
    let is_received = async {
        world.issuer.until_received("/token", 2).await;
    };
    tokio::select! {
        () = is_received => {}
        early = world.refresh(refresh_token(&tokens)) => panic!("{early:?}"),
    }
    world.provider(|provider| provider.token = Some((400, json!({"error": "invalid_grant"}))));
    held.notify_one();
    let repeated = world.refresh(refresh_token(&tokens)).await;
    assert_eq!(repeated.status, 200, "{repeated:?}");
    assert_eq!(world.issuer.received("/token").len(), 2);
}

/// The provider has replaced its refresh token, so a failure of the store for a moment must not lose the new one.
#[tokio::test]
async fn renewed_tokens_are_written_although_the_store_fails_for_a_moment() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    world.provider(|provider| {
        let renewed = json!({"access_token": "renewed", "expires_in": 3600, "refresh_token": "next"});
        provider.token = Some((200, renewed));
    });
    world.records.fail_grants(2);
    let renewed = world.refresh(refresh_token(&tokens)).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let identity = bearer(&world.server, renewed.json()["access_token"].as_str().unwrap()).await.unwrap().0;
    world.clock.advance(Duration::from_secs(3600));
    world.records.fail_grants(2);
    assert_eq!(upstream_token_of(&world, identity).await, "renewed");
    assert_eq!(renewals(&world), 2);
}

#[tokio::test]
async fn functions_at_several_processes_renew_the_token_of_the_provider_once() {
    let worlds = replicas().await;
    let tokens = worlds[0].tokens().await;
    let renewed = json!({"access_token": "renewed", "expires_in": 3600, "refresh_token": "next"});
    let identity: Identity = bearer(&worlds[0].server, tokens["access_token"].as_str().unwrap()).await.unwrap().0;
    for world in &worlds {
        world.clock.advance(Duration::from_secs(3600));
        world.provider(|provider| provider.token = Some((200, renewed.clone())));
    }
    let call = async |index: usize| upstream_token_of(&worlds[index], identity.clone()).await;
    let found: [String; 4] = tokio::join!(call(0), call(1), call(0), call(1)).into();
    assert_eq!(found, ["renewed"; 4]);
    assert_eq!(renewals(&worlds[0]), 1);
}

/// A provider that is slow for one login holds up no other.
#[tokio::test]
async fn a_refresh_does_not_wait_for_that_of_another_grant() {
    let world = Arc::new(World::new().await);
    let (slow, other) = (world.tokens().await, world.tokens().await);
    let identity = bearer(&world.server, slow["access_token"].as_str().unwrap()).await.unwrap().0;
    let held = Arc::new(Notify::new());
    world.provider(|provider| provider.held = Some(Arc::clone(&held)));
    let (shared, token) = (Arc::clone(&world), refresh_token(&slow).to_owned());
    let waiting = tokio::spawn(async move { shared.refresh(&token).await });
    world.issuer.until_received("/token", 3).await;
    world.provider(|provider| provider.held = None);
    let refreshed = tokio::time::timeout(Duration::from_secs(4), world.refresh(refresh_token(&other))).await;
    assert_eq!(refreshed.expect("it waits for another grant").status, 200);
    // A function does not wait while the token of the provider is valid.
    let token = tokio::time::timeout(Duration::from_secs(4), upstream_token_of(&world, identity)).await;
    assert_eq!(token.expect("it waits for the refresh"), "upstream-access");
    held.notify_one();
    assert_eq!(waiting.await.unwrap().status, 200);
}

//! Logout at the provider.

use std::time::Duration;

use mcp_runtime::backend::{RecordCondition, Records as _};
use serde_json::{Value, json};

use super::{Browser, Reaction, World, form};
use crate::tests::{RESOURCE, Signer, signer::now};

const PATH: &str = "/authorize/backchannel-logout";

/// Returns the claims of a valid logout token with changes. `null` removes a claim.
fn claims(world: &World, changes: &Value) -> Value {
    let event = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
    let mut claims = json!({
        "iss": world.issuer.url, "aud": "notes", "iat": now(), "exp": now() + 120, "jti": "1", "events": event,
        "sub": "ada", "sid": "first",
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn sign(world: &World, kind: &str, changes: &Value) -> String {
    let signer = world.provider.lock().unwrap().signer.clone();
    signer.token_with(json!({"typ": kind}), &claims(world, changes))
}

async fn send(world: &World, token: &str) -> Reaction {
    world.send("POST", PATH, &[], &form(&[("logout_token", token)])).await
}

/// Lets a user log in, in this session at the provider.
async fn tokens(world: &World, subject: &str, session: &str) -> Value {
    world.provider(|provider| {
        (provider.subject, provider.claims) = (subject.to_owned(), json!({"sid": session}));
    });
    world.tokens().await
}

#[tokio::test]
async fn a_code_that_is_exchanged_during_a_logout_leaves_no_grant() {
    let world = World::new().await;
    for delay in 0..40 {
        let user = format!("user-{delay}");
        world.set_user(&user);
        let code = world.code(&[]).await;
        let token = sign(&world, "logout+jwt", &json!({"sub": user, "sid": null}));
        let logout = async {
            for _ in 0..delay {
                tokio::task::yield_now().await;
            }
            send(&world, &token).await
        };
        let (logout, exchanged) = tokio::join!(logout, world.exchange(&code, &[]));
        assert_eq!(logout.status, 200, "{logout:?}");
        if exchanged.status == 200 {
            assert!(!world.accepts(&exchanged.json()["access_token"]).await, "after {delay} steps");
        }
    }
}

#[tokio::test]
async fn the_sessions_of_a_user_are_deleted_with_the_grants() {
    let world = World::new().await;
    tokens(&world, "ada", "first").await;
    tokens(&world, "bob", "second").await;
    let sessions = async || {
        let records = super::records::stored(&world.records).await;
        records.into_iter().filter(|(key, _)| key.contains("/session/")).count()
    };
    assert_eq!(sessions().await, 2);
    world.server.revoke_grants("ada").await.unwrap();
    assert_eq!(sessions().await, 1);
}

#[tokio::test]
async fn a_logout_at_the_provider_ends_the_grants_of_the_session_or_of_the_user_at_every_process() {
    for (changes, expected) in [
        (json!({"sub": null}), [false, true, true]),
        (json!({}), [false, true, true]),
        (json!({"sid": null}), [false, false, true]),
        (json!({"sid": ""}), [false, false, true]),
        (json!({"sub": ""}), [false, true, true]),
        (json!({"sid": "unknown"}), [true, true, true]),
        (json!({"sub": "bob"}), [true, true, true]),
        (json!({"sub": "bob", "sid": "third"}), [true, true, false]),
        (json!({"sub": null, "sid": "unknown"}), [true, true, true]),
        (json!({"sid": null, "sub": "unknown"}), [true, true, true]),
    ] {
        let one = World::new().await;
        let two = one.replica(RESOURCE, [7; 32], |builder| builder).await;
        let all = [
            tokens(&one, "ada", "first").await,
            tokens(&two, "ada", "second").await,
            tokens(&one, "bob", "third").await,
        ];
        let response = send(&two, &sign(&one, "logout+jwt", &changes)).await;
        assert_eq!((response.status, response.header("cache-control")), (200, "no-store"), "{response:?}");
        one.clock.advance(Duration::from_secs(1));
        for ((tokens, expected), user) in all.iter().zip(expected).zip(["ada", "ada", "bob"]) {
            one.provider(|provider| provider.subject = user.to_owned());
            assert_eq!(two.accepts(&tokens["access_token"]).await, expected, "{changes}");
            assert_eq!(one.accepts(&tokens["access_token"]).await, expected, "{changes}");
            let refreshed = one.refresh(tokens["refresh_token"].as_str().unwrap()).await;
            assert_eq!(refreshed.status == 200, expected, "{changes} {refreshed:?}");
        }
    }
}

#[tokio::test]
async fn codes_of_a_login_that_has_ended_create_no_grants_and_later_logins_do() {
    for (changes, status_of_other) in [(json!({}), 200), (json!({"sid": null}), 400)] {
        let world = World::new().await;
        world.provider(|provider| provider.claims = json!({"sid": "second"}));
        let other = world.code(&[]).await;
        world.provider(|provider| provider.claims = json!({"sid": "first"}));
        let response = world.log_in(&mut Browser::default(), &[]).await;
        let token = sign(&world, "JWT", &changes);
        assert_eq!(send(&world, &token).await.status, 200);
        // The order in which tokens arrive does not matter.
        let mut earlier = changes.clone();
        earlier["iat"] = json!(now() - 300);
        assert_eq!(send(&world, &sign(&world, "JWT", &earlier)).await.status, 200);
        // Nor does a later login in the same session.
        world.log_in(&mut Browser::default(), &[]).await;
        let exchanged = world.exchange(&response.parameter("code").unwrap(), &[]).await;
        assert_eq!(exchanged.json()["error"], "invalid_grant", "{changes} {exchanged:?}");
        assert_eq!(world.exchange(&other, &[]).await.status, status_of_other, "another session: {changes}");
        // A login after the logout is a new one.
        world.clock.advance(Duration::from_secs(2));
        tokens(&world, "ada", "first").await;
        world.clock.advance(Duration::from_secs(61));
        let later = tokens(&world, "ada", "first").await;
        // A provider repeats a token that it could not deliver, and an attacker one that was seen.
        assert_eq!(send(&world, &token).await.status, 200);
        assert!(world.accepts(&later["access_token"]).await, "{changes}");
    }
}

#[tokio::test]
async fn each_refusal_of_a_logout_token_says_why() {
    let world = World::new().await;
    let kept = tokens(&world, "ada", "first").await;
    let valid = |changes: Value| sign(&world, "logout+jwt", &changes);
    let purpose = "it is a token for another purpose";
    let stranger = Signer::p256("key").token_with(json!({"typ": "logout+jwt"}), &claims(&world, &json!({})));
    let access = kept["access_token"].as_str().unwrap().to_owned();
    for (name, token, expected) in [
        ("none", String::new(), "the token is not a signed JWT"),
        ("another type", sign(&world, "at+jwt", &json!({})), purpose),
        ("our own access token", access, purpose),
        ("no event", valid(json!({"events": null})), purpose),
        ("another event", valid(json!({"events": {"x": {}}})), purpose),
        ("an identity token", valid(json!({"nonce": "x"})), purpose),
        ("no identifier", valid(json!({"jti": null})), purpose),
        ("another issuer", valid(json!({"iss": "https://other.example"})), "the token is of another issuer"),
        ("another client", valid(json!({"aud": "other"})), "the token was not issued for this server"),
        ("expired", valid(json!({"exp": now() - 61})), "the token has expired"),
        ("no expiry", valid(json!({"exp": null})), "it does not expire"),
        ("no time", valid(json!({"iat": null})), "it has no `iat`"),
        ("another key", stranger, "the signature of the token is invalid"),
        ("nothing", valid(json!({"sub": null, "sid": null})), "it names no session and no user"),
    ] {
        let response = send(&world, &token).await;
        let description = format!("the logout token is not accepted: {expected}");
        assert_eq!((response.status, &response.json()["error_description"]), (400, &json!(description)), "{name}");
    }
    assert!(world.accepts(&kept["access_token"]).await);
    world.records.set_down(true);
    assert_eq!(send(&world, &valid(json!({}))).await.status, 503, "the provider may try again");
    assert_eq!(world.send("GET", PATH, &[], "").await.status, 405);
}

#[tokio::test]
async fn the_sessions_of_a_user_are_bounded() {
    let world = World::new().await;
    let mut all = Vec::new();
    for number in 0..55 {
        all.push(tokens(&world, "ada", &number.to_string()).await);
    }
    let stored = super::records::stored(&world.records).await;
    assert_eq!(stored.iter().filter(|(key, _)| key.contains("/session/")).count(), 50);
    // The oldest are forgotten.
    for number in [5, 53] {
        let token = sign(&world, "logout+jwt", &json!({"sub": null, "sid": number.to_string()}));
        assert_eq!(send(&world, &token).await.status, 200);
        assert!(!world.accepts(&all[number]["access_token"]).await, "{number}");
    }
}

#[tokio::test]
async fn a_code_is_valid_although_its_session_was_forgotten() {
    let world = World::new().await;
    world.provider(|provider| provider.claims = json!({"sid": "first"}));
    let code = world.code(&[]).await;
    let mut keys = super::records::stored(&world.records).await;
    keys.retain(|(key, _)| key.contains("/session/"));
    assert!(!keys.is_empty());
    for (key, _) in keys {
        world.records.reliable().delete(&key, RecordCondition::Always).await.unwrap();
    }
    assert_eq!(world.exchange(&code, &[]).await.status, 200);
}

#[tokio::test]
async fn a_session_is_found_for_as_long_as_its_login_lasts() {
    let world = World::new().await;
    let tokens = tokens(&world, "ada", "first").await;
    super::records::age_records(Duration::from_secs(29 * 24 * 3600)).await;
    assert_eq!(send(&world, &sign(&world, "logout+jwt", &json!({"sub": null}))).await.status, 200);
    assert!(!world.accepts(&tokens["access_token"]).await);
}

/// Identity tokens of refreshes need not state the session.
#[tokio::test]
async fn a_grant_belongs_to_its_session_after_a_refresh() {
    let world = World::new().await;
    let first = tokens(&world, "ada", "first").await;
    world.provider(|provider| provider.claims = json!({}));
    let refreshed = world.refresh(first["refresh_token"].as_str().unwrap()).await.json();
    assert!(world.accepts(&refreshed["access_token"]).await);
    assert_eq!(send(&world, &sign(&world, "logout+jwt", &json!({}))).await.status, 200);
    assert!(!world.accepts(&refreshed["access_token"]).await);
}

/// Without identity tokens, the provider has no keys.
#[tokio::test]
async fn other_providers_have_no_logout_tokens() {
    let world = World::new().await;
    world.provider(|provider| provider.is_openid = false);
    let other = world.replica(RESOURCE, [7; 32], |builder| builder).await;
    assert!(world.routes.serves(PATH) && !other.routes.serves(PATH));
}

/// `sub` may then be the name of any user of this server.
#[tokio::test]
async fn a_logout_token_names_no_user_by_sub_if_another_claim_identifies_users() {
    let world = World::new().await;
    world.provider(|provider| provider.subject_claim = "oid");
    let world = world.replica(RESOURCE, [7; 32], |builder| builder).await;
    world.provider(|provider| provider.claims = json!({"oid": "ada", "sid": "first"}));
    world.set_user("pairwise");
    let tokens = world.tokens().await;
    let other = send(&world, &sign(&world, "logout+jwt", &json!({"sub": "ada", "sid": null}))).await;
    assert_eq!((other.status, world.accepts(&tokens["access_token"]).await), (400, true), "{other:?}");
    let own = send(&world, &sign(&world, "logout+jwt", &json!({"sub": "pairwise"}))).await;
    assert_eq!((own.status, world.accepts(&tokens["access_token"]).await), (200, false), "{own:?}");
}

/// Many logins in one session are one session.
#[tokio::test]
async fn a_session_is_found_after_many_logins_in_it() {
    let world = World::new().await;
    let mut last = Value::Null;
    for _ in 0..51 {
        last = tokens(&world, "ada", "first").await;
    }
    assert!(world.accepts(&last["access_token"]).await);
    assert_eq!(send(&world, &sign(&world, "logout+jwt", &json!({"sub": null}))).await.status, 200);
    assert!(!world.accepts(&last["access_token"]).await);
}

//! A provider that fails, refuses, or responds with something else.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Browser, ISSUER, REDIRECT, World, operations::account};
use crate::{
    jose::Jws,
    tests::{RESOURCE, bearer},
};

/// Begins a login, and returns with these parameters.
async fn outcome(world: &World, parameters: &[(&str, &str)]) -> Option<String> {
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let login = world.answer(&mut browser, &page, "approve").await;
    let response = world.return_with(&mut browser, &login, parameters).await;
    assert!(response.header("location").starts_with(REDIRECT), "{response:?}");
    assert_eq!(response.parameter("iss").as_deref(), Some(super::ISSUER));
    response.parameter("error")
}

#[tokio::test]
async fn errors_of_the_provider_reach_the_client() {
    let world = World::new().await;
    for (parameters, expected) in [
        (&[("error", "access_denied"), ("error_description", "<script>")] as &[(&str, &str)], "access_denied"),
        (&[("error", "temporarily_unavailable")], "temporarily_unavailable"),
        (&[("error", "server_error")], "server_error"),
        (&[("error", "invalid_scope")], "server_error"),
        (&[("code", "x"), ("iss", "https://evil.example")], "server_error"),
    ] {
        assert_eq!(outcome(&world, parameters).await.as_deref(), Some(expected), "{parameters:?}");
    }
    assert!(world.issuer.received("/token").is_empty());
    let code = [("code", "x")];
    for (status, body, expected) in [
        (400, json!({"error": "invalid_grant"}), "server_error"),
        (401, json!({"error": "invalid_client"}), "temporarily_unavailable"),
        (500, json!({}), "temporarily_unavailable"),
        (302, json!({}), "temporarily_unavailable"),
        (200, json!({"error": "bad_verification_code"}), "server_error"),
        (200, json!({"access_token": "x"}), "temporarily_unavailable"),
        (200, json!({"id_token": "x"}), "temporarily_unavailable"),
        (200, json!({"access_token": "x", "id_token": "x"}), "temporarily_unavailable"),
        (200, json!("text"), "temporarily_unavailable"),
        (200, json!({"access_token": "x".repeat(2 << 20)}), "temporarily_unavailable"),
    ] {
        world.provider(|provider| provider.token = Some((status, body)));
        assert_eq!(outcome(&world, &code).await.as_deref(), Some(expected), "{status}");
    }
}

#[tokio::test]
async fn identity_tokens_are_verified() {
    let world = World::new().await;
    for claims in [
        json!({"nonce": "another"}),
        json!({"nonce": null}),
        json!({"aud": "another"}),
        json!({"aud": ["notes", "another"], "azp": "another"}),
        json!({"aud": ["notes", "another"]}),
        json!({"iss": "https://evil.example"}),
        json!({"exp": 1000}),
        json!({"exp": null}),
        json!({"sub": ""}),
        json!({"sub": null}),
        json!({"sub": "client:robot"}),
        json!({"sub": "x".repeat(256)}),
    ] {
        world.provider(|provider| provider.claims = claims.clone());
        assert!(outcome(&world, &[("code", "x")]).await.is_some(), "{claims}");
    }
    world.provider(|provider| provider.claims = json!({"aud": ["notes", "another"], "azp": "notes"}));
    assert_eq!(outcome(&world, &[("code", "x")]).await, None);
    for kind in ["logout+jwt", "oauth-id-jag+jwt", "at+jwt", ""] {
        world.provider(|provider| provider.id_token_type = kind);
        assert!(outcome(&world, &[("code", "x")]).await.is_some(), "{kind}");
    }
}

/// A provider that states its issuer in responses must state it in all of them.
#[tokio::test]
async fn a_response_without_the_issuer_is_refused_if_the_provider_states_it() {
    let world = World::new().await;
    let issuer = world.issuer.url.clone();
    world.provider(|provider| provider.claims = json!({"iss": issuer}));
    let world = world.replica(RESOURCE, [7; 32], |builder| builder).await;
    let code = ("code", "x");
    for (parameters, expected) in [
        (&[code] as &[(&str, &str)], Some("server_error")),
        (&[code, ("iss", issuer.as_str())], None),
        (&[code, ("iss", "https://evil.example")], Some("server_error")),
    ] {
        assert_eq!(outcome(&world, parameters).await.as_deref(), expected, "{parameters:?}");
    }
}

#[tokio::test]
async fn only_admitted_users_may_log_in_and_not_too_often() {
    let world = World::with(|builder| builder.admit(|claims| claims["email"] == "ada@example.com")).await;
    assert_eq!(outcome(&world, &[("code", "x")]).await, None);
    world.provider(|provider| provider.claims = json!({"email": "eve@evil.example"}));
    assert_eq!(outcome(&world, &[("code", "x")]).await.as_deref(), Some("access_denied"));
    world.provider(|provider| provider.claims = json!({}));
    for login in 1..61 {
        let expected = (login >= 60).then_some("temporarily_unavailable");
        assert_eq!(outcome(&world, &[("code", "x")]).await.as_deref(), expected, "{login}");
    }
    let page = account(&world, &mut Browser::default()).await;
    assert!(page.status == 400 && page.body.contains("You have logged in too often within an hour."), "{page:?}");
    world.provider(|provider| provider.subject = "bob".to_owned());
    assert_eq!(outcome(&world, &[("code", "x")]).await, None, "other users are not affected");
    world.set_user("ada");
    world.clock.advance(Duration::from_secs(1800));
    for _ in 0..60 {
        assert!(outcome(&world, &[("code", "x")]).await.is_some());
    }
    world.clock.advance(Duration::from_secs(2000));
    assert_eq!(outcome(&world, &[("code", "x")]).await, None, "an hour later, however often the user was refused");
}

/// The login at the provider ends ours; an outage does not.
#[tokio::test]
async fn a_refresh_asks_the_provider_whether_the_login_still_exists() {
    for has_refresh_tokens in [true, false] {
        let world = World::new().await;
        world.provider(|provider| provider.has_refresh_tokens = has_refresh_tokens);
        let tokens = world.tokens().await;
        let token = tokens["refresh_token"].as_str().unwrap();
        if has_refresh_tokens {
            for (status, error) in [(500, Value::Null), (401, json!("invalid_client")), (400, json!("invalid_request"))]
            {
                world.provider(|provider| provider.token = Some((status, json!({"error": error}))));
                let response = world.refresh(token).await;
                assert_eq!(response.json()["error"], "temporarily_unavailable");
                assert_eq!((response.status, response.header("retry-after")), (503, "5"));
            }
        }
        if !has_refresh_tokens {
            // Some providers limit the number of requests with this status.
            world.provider(|provider| provider.token = Some((403, Value::Null)));
            assert_eq!(world.refresh(token).await.json()["error"], "temporarily_unavailable");
        }
        world.provider(|provider| provider.token = None);
        let refreshed = world.refresh(token).await.json();
        let status = if has_refresh_tokens { 400 } else { 401 };
        world.provider(|provider| provider.token = Some((status, json!({"error": "invalid_grant"}))));
        let token = refreshed["refresh_token"].as_str().unwrap();
        assert_eq!(world.refresh(token).await.json()["error"], "invalid_grant");
        world.provider(|provider| provider.token = None);
        assert_eq!(world.refresh(token).await.json()["error"], "invalid_grant", "the grant has ended");
        assert!(!world.accepts(&refreshed["access_token"]).await);
    }
}

/// GitHub reports refusals with status 200 and errors of its own.
#[tokio::test]
async fn a_refusal_of_the_refresh_token_with_status_200_ends_the_grant() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    world.provider(|provider| provider.token = Some((200, json!({"error": "bad_refresh_token"}))));
    assert_eq!(world.refresh(tokens["refresh_token"].as_str().unwrap()).await.json()["error"], "invalid_grant");
    assert!(!world.accepts(&tokens["access_token"]).await);
}

/// The response of the provider to each refresh decides who may use the server, and which claims access tokens contain.
#[tokio::test]
async fn a_refresh_asks_again_who_may_use_the_server() {
    let allowed = json!({"role": "staff", "email": "new@example.com"});
    let removed = json!({"role": "none"});
    let other = json!({"sub": "eve", "role": "staff"});
    let email = |token: &Value| Jws::parse(token.as_str().unwrap()).unwrap().claims().unwrap()["email"].clone();
    for (has_refresh_tokens, has_identity_token, claims, status, expected) in [
        (true, true, &allowed, 200, "new@example.com"),
        (true, true, &removed, 400, ""),
        (true, true, &other, 400, ""),
        (true, false, &allowed, 200, "new@example.com"),
        (true, false, &removed, 400, ""),
        (true, false, &other, 400, ""),
        (true, false, &json!({}), 200, "ada@example.com"),
        (false, false, &allowed, 200, "new@example.com"),
        (false, false, &removed, 400, ""),
        (false, false, &other, 400, ""),
    ] {
        let world = World::with(|builder| builder.admit(|claims| claims["role"] == "staff")).await;
        world.provider(|provider| {
            provider.has_refresh_tokens = has_refresh_tokens;
            provider.claims = json!({"role": "staff"});
        });
        let tokens = world.tokens().await;
        world.provider(|provider| {
            provider.nonce = String::new();
            for (name, claim) in claims.as_object().unwrap() {
                provider.user[name] = claim.clone();
                if has_identity_token {
                    provider.claims[name] = claim.clone();
                }
            }
            if !has_identity_token {
                provider.token = Some((200, json!({"access_token": "next", "refresh_token": "next"})));
            }
        });
        let case = format!("{has_refresh_tokens} {has_identity_token} {claims}");
        let response = world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
        assert_eq!(response.status, status, "{case}");
        if status == 200 {
            assert_eq!(email(&response.json()["access_token"]), expected, "{case}");
        } else {
            assert_eq!(response.json()["error"], "invalid_grant", "{case}");
            assert!(!world.accepts(&tokens["access_token"]).await, "{case}");
        }
    }
}

/// The tokens of the provider would be those of another user, even if nothing depends on claims.
#[tokio::test]
async fn a_refresh_that_is_answered_for_another_user_ends_the_grant() {
    let world = World::with(|builder| builder.claims([] as [&str; 0])).await;
    let tokens = world.tokens().await;
    world.provider(|provider| {
        provider.nonce = String::new();
        provider.claims = json!({"sub": "eve"});
    });
    let response = world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!((response.status, &response.json()["error"]), (400, &json!("invalid_grant")));
    assert!(!world.accepts(&tokens["access_token"]).await);
}

/// The user endpoint may stop stating a claim, for example of a group that the user has left.
#[tokio::test]
async fn claims_that_the_user_endpoint_omits_are_forgotten() {
    for (is_openid, expected) in [(true, json!("ada@example.com")), (false, Value::Null)] {
        let world = World::new().await;
        world.provider(|provider| provider.is_openid = is_openid);
        let world = world.replica(RESOURCE, [7; 32], |builder| builder).await;
        let mut tokens = world.tokens().await;
        world.provider(|provider| {
            provider.token = Some((200, json!({"access_token": "next", "refresh_token": "next"})));
        });
        for (user, email) in [
            (json!({"sub": "ada", "email": "new@example.com"}), json!("new@example.com")),
            (json!({"sub": "ada"}), expected),
        ] {
            world.provider(|provider| provider.user = user);
            tokens = world.refresh(tokens["refresh_token"].as_str().unwrap()).await.json();
            let claims = Jws::parse(tokens["access_token"].as_str().unwrap()).unwrap().claims().unwrap();
            assert_eq!(claims.get("email").cloned().unwrap_or_default(), email, "{is_openid}");
        }
    }
}

/// A provider that has replaced its refresh token before it fails must not be asked with the old one.
#[tokio::test]
async fn tokens_of_a_provider_that_fails_halfway_are_kept() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    world.provider(|provider| {
        provider.token = Some((200, json!({"access_token": "next", "refresh_token": "the-next-one"})));
        provider.user = json!("no object");
    });
    let refresh = || world.refresh(tokens["refresh_token"].as_str().unwrap());
    assert_eq!(refresh().await.status, 503);
    world.provider(|provider| provider.user = json!({"sub": "ada"}));
    assert_eq!(refresh().await.status, 200);
    assert!(world.issuer.received("/token").last().unwrap().body.contains("refresh_token=the-next-one"));
}

/// A provider that does not respond delays the login by the time-out of the request, and then ends it.
#[tokio::test]
async fn a_provider_that_hangs_ends_the_login() {
    let world = World::new().await;
    world.provider(|provider| provider.hangs = true);
    // A paused clock advances to the next timer when nothing else can happen, here to the time limit of the request.
    tokio::time::pause();
    let began_at = Instant::now();
    assert_eq!(outcome(&world, &[("code", "x")]).await.as_deref(), Some("temporarily_unavailable"));
    assert!(began_at.elapsed() < Duration::from_secs(10), "{:?}", began_at.elapsed());
}

/// Without a user endpoint, only the refresh tokens of the provider tell whether a login still exists.
#[tokio::test]
async fn a_provider_without_a_user_endpoint_is_asked_with_its_refresh_tokens_only() {
    let world = World::new().await;
    world.provider(|provider| provider.has_users = false);
    let world = world.replica(RESOURCE, [7; 32], |builder| builder).await;
    let tokens = world.tokens().await;
    world.provider(|provider| {
        provider.token = Some((200, json!({"access_token": "next", "refresh_token": "next"})));
    });
    let refreshed = world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, 200, "{refreshed:?}");
    world.provider(|provider| (provider.token, provider.has_refresh_tokens) = (None, false));
    assert_eq!(world.tokens().await.get("refresh_token"), None);
}

#[tokio::test]
async fn a_refresh_does_not_ask_for_claims_that_nothing_depends_on() {
    // Without discovery, the login has asked, and identity tokens are ignored.
    for (is_openid, identity, asked) in [(true, Value::Null, 0), (false, json!("x.y.z"), 1)] {
        let world = World::new().await;
        world.provider(|provider| provider.is_openid = is_openid);
        let world = world.replica(RESOURCE, [7; 32], |builder| builder.claims([] as [&str; 0])).await;
        let tokens = world.tokens().await;
        world.provider(|provider| {
            let renewed = json!({"access_token": "next", "refresh_token": "next", "id_token": identity});
            provider.token = Some((200, renewed));
        });
        assert_eq!(world.refresh(tokens["refresh_token"].as_str().unwrap()).await.status, 200, "{is_openid}");
        assert_eq!(world.issuer.received("/me").len(), asked, "{is_openid}");
    }
}

/// Providers of OAuth 2 describe users at an endpoint, some of them with numbers.
#[tokio::test]
async fn the_user_endpoint_identifies_users_by_the_configured_claim() {
    let world = World::new().await;
    world.provider(|provider| {
        (provider.is_openid, provider.subject_claim, provider.user) = (false, "id", json!({"id": 42}));
    });
    let world = world.replica(RESOURCE, [7; 32], |builder| builder).await;
    let tokens = world.tokens().await;
    let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(identity.principal(), format!("{ISSUER}#42"));
    let asked = world.issuer.received("/me")[0].head.to_ascii_lowercase();
    assert!(asked.contains("authorization: bearer upstream-access"), "{asked}");
    // The description is stored with each grant.
    let max = (32 << 10) - json!({"id": 42, "bio": ""}).to_string().len();
    for (length, expected) in [(max + 1, Some("temporarily_unavailable")), (max, None)] {
        world.provider(|provider| provider.user = json!({"id": 42, "bio": "x".repeat(length)}));
        assert_eq!(outcome(&world, &[("code", "x")]).await.as_deref(), expected, "{length}");
    }
}

#[tokio::test]
async fn copied_claims_replace_no_claim_of_the_server() {
    let names = ["iss", "sub", "aud", "client_id", "scope", "iat", "exp", "jti", "grant"];
    let world = World::with(|builder| builder.claims(names)).await;
    world.provider(|provider| {
        provider.claims = json!({"client_id": "robot", "scope": "notes:admin", "jti": "x", "grant": "x"});
    });
    let tokens = world.tokens().await;
    let claims = Jws::parse(tokens["access_token"].as_str().unwrap()).unwrap().claims().unwrap();
    for (name, expected) in
        [("iss", ISSUER), ("sub", "ada"), ("aud", RESOURCE), ("client_id", "app"), ("scope", "notes:read")]
    {
        assert_eq!(claims[name], expected, "{name}");
    }
    assert!(claims["jti"] != "x" && claims["grant"] != "x", "{claims:?}");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 600);
}

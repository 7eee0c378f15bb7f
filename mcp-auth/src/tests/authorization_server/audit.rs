//! The audit log, and that no event contains a secret.

use mcp_runtime::auth::AuthenticationErrorKind;
use serde_json::json;

use super::{Browser, JSON, REDIRECT, VERIFIER, World, form, operations::account};
use crate::tests::log::Log;

const ADA: &str = "principal=https://mcp.example.com#ada client=app peer=192.0.2.1";

#[tokio::test]
async fn each_event_names_principal_client_peer_and_reason() {
    let (log, _guard) = Log::listen();
    let world = World::new().await;
    let expect = |name: &str, expected: &[String]| assert_eq!(log.take(), expected, "{name}");
    let ada = |event: &str| format!("{event} {ADA}");
    let because = |event: &str, reason: &str| format!("{event} {ADA} reason={reason}");
    let refused = |reason: &str| format!("refusal client=app peer=192.0.2.1 reason={reason}");
    expect("start", &[]);

    let registered = world.register(&json!({"redirect_uris": [REDIRECT]})).await.json();
    let id = registered["client_id"].as_str().unwrap();
    expect("registration", &[format!("registration client={id} peer=192.0.2.1")]);
    world.register(&json!({})).await;
    expect("invalid", &["refusal peer=192.0.2.1 reason=`redirect_uris` must have 1 to 10 URIs".to_owned()]);

    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    world.answer(&mut browser, &page, "deny").await;
    expect("denial", &[refused("the user has refused")]);
    world.log_in(&mut browser, &[]).await;
    expect("first login", &[ada("login"), ada("approval")]);
    let login = world.authorize(&mut browser, &[]).await;
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    expect("login without a question", &[ada("login")]);
    account(&world, &mut browser).await;
    expect("account page", &["login principal=https://mcp.example.com#ada peer=192.0.2.1".to_owned()]);
    let login = world.visit(&mut browser, "GET", "/authorize/account", "").await;
    world.return_with(&mut browser, &login, &[("error", "access_denied")]).await;
    expect("no account page", &["refusal peer=192.0.2.1 reason=the user or the provider has refused".to_owned()]);
    world.authorize(&mut browser, &[("scope", "notes:admin")]).await;
    expect("scope", &[refused("the server has none of the requested scopes")]);
    world.authorize(&mut browser, &[("client_id", "a secret in the wrong place")]).await;
    let unknown = "the client is unknown, or its registration has expired";
    expect("client", &[format!("refusal peer=192.0.2.1 reason={unknown}")]);
    world.send("GET", "/authorize/callback?code=x&code=y", &[], "").await;
    expect("callback", &["refusal peer=192.0.2.1 reason=The response is malformed.".to_owned()]);

    world.send("POST", "/revoke", &[], "client_id=app").await;
    expect("revocation", &[refused("`token` is missing")]);
    let code = response.parameter("code").unwrap();
    let tokens = world.exchange(&code, &[]).await.json();
    expect("exchange", &[ada("issuance")]);
    let first = tokens["refresh_token"].as_str().unwrap();
    let second = world.refresh(first).await.json();
    expect("refresh", &[ada("refresh")]);
    world.refresh(first).await;
    expect("repetition", &[because("refresh", "the client has repeated the request")]);
    let third = world.refresh(second["refresh_token"].as_str().unwrap()).await.json();
    expect("refresh", &[ada("refresh")]);
    world.refresh(first).await;
    let reason = "a refresh token was used twice";
    let invalid = "the refresh token is invalid, was used before or has expired";
    expect("reuse", &[because("WARN reuse", reason), because("revocation", reason), refused(invalid)]);
    world.refresh(third["refresh_token"].as_str().unwrap()).await;
    expect("ended", &[refused(invalid)]);

    let tokens = world.tokens().await;
    log.take();
    let revocation = form(&[("client_id", "app"), ("token", tokens["refresh_token"].as_str().unwrap())]);
    world
        .send(
            "POST",
            "/revoke",
            &[],
            &form(&[("client_id", "other"), ("token", tokens["refresh_token"].as_str().unwrap())]),
        )
        .await;
    expect(
        "foreign",
        &["refusal client=other peer=192.0.2.1 reason=the token was issued to another client".to_owned()],
    );
    world.send("POST", "/revoke", &[], &revocation).await;
    expect("revocation", &[because("revocation", "the client has revoked it")]);
    world.send("POST", "/revoke", &[], &revocation).await;
    expect("twice", &[]);

    let code = world.code(&[]).await;
    world.exchange(&code, &[]).await;
    log.take();
    world.exchange(&code, &[]).await;
    let (reason, invalid) = ("a code was used twice", "the code is unknown, was used before or has expired");
    expect("code", &[because("WARN reuse", reason), because("revocation", reason), refused(invalid)]);

    let tokens = world.tokens().await;
    log.take();
    world.provider(|provider| provider.token = Some((400, json!({"error": "invalid_grant"}))));
    world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
    let ended = "the login at the provider has ended";
    expect("provider", &[because("revocation", "invalid_grant"), refused(ended)]);
    world.provider(|provider| provider.token = None);

    let robot = [("grant_type", "client_credentials"), ("client_id", "robot"), ("client_secret", "a robot secret")];
    let robot_tokens = world.token(&robot).await.json();
    let machine = "principal=https://mcp.example.com#client:robot client=robot peer=192.0.2.1";
    expect("machine", &[format!("issuance {machine}")]);
    let token = robot_tokens["access_token"].as_str().unwrap();
    world.send("POST", "/revoke", &[], &form(&[robot[1], robot[2], ("token", token)])).await;
    expect("machine", &[format!("revocation {machine} reason=the client has revoked it")]);
    world.token(&[robot[0], robot[1], ("client_secret", "wrong")]).await;
    expect(
        "secret",
        &["refusal client=robot peer=192.0.2.1 reason=the credentials of the client are wrong".to_owned()],
    );

    world.tokens().await;
    log.take();
    world.server.revoke_grants("ada").await.unwrap();
    let by_operator =
        "revocation principal=https://mcp.example.com#ada client=app reason=the operator has ended all grants";
    // The grant of the login without a question was never used.
    assert!(log.take().contains(&by_operator.to_owned()));
    world.server.revoke_signing_keys().await.unwrap();
    expect("keys", &["revocation reason=the operator has replaced the signing keys".to_owned()]);
}

/// Sends every secret that there is to every endpoint, whether it belongs there or not.
#[tokio::test]
async fn no_event_contains_a_secret() {
    let (log, _guard) = Log::listen();
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_post"});
    let registered = world.register(&metadata).await.json();
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let login = world.answer(&mut browser, &page, "approve").await;
    let pending = browser.clone();
    let response = world.return_with(&mut browser, &login, &[("code", "upstream-code")]).await;
    let code = response.parameter("code").unwrap();
    let tokens = world.exchange(&code, &[]).await.json();
    let refreshed = world.refresh(tokens["refresh_token"].as_str().unwrap()).await.json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut secrets = vec![
        code,
        VERIFIER.to_owned(),
        page.sealed(),
        login.parameter("state").unwrap(),
        login.parameter("nonce").unwrap(),
        text(&registered["client_secret"]),
        text(&tokens["access_token"]),
        text(&tokens["refresh_token"]),
        text(&refreshed["access_token"]),
        text(&refreshed["refresh_token"]),
        "upstream-code".to_owned(),
        "upstream-access".to_owned(),
        "upstream-refresh".to_owned(),
        "a web secret".to_owned(),
        "a robot secret".to_owned(),
    ];
    secrets.extend(browser.0.values().chain(pending.0.values()).cloned());
    let names = [
        "client_id",
        "client_secret",
        "client_assertion",
        "client_assertion_type",
        "request_uri",
        "code",
        "code_verifier",
        "refresh_token",
        "token",
        "state",
        "redirect_uri",
        "scope",
        "grant_type",
        "resource",
        "request",
        "response",
        "account",
        "end",
        "decision",
        "error",
    ];
    for secret in secrets.clone() {
        for name in names {
            for (method, path) in [
                ("GET", "/authorize"),
                ("POST", "/authorize"),
                ("GET", "/authorize/callback"),
                ("POST", "/authorize/account"),
                ("POST", "/token"),
                ("POST", "/revoke"),
                ("POST", "/introspect"),
                ("POST", "/par"),
            ] {
                let valid = [("client_id", "app"), ("grant_type", "refresh_token")];
                let kept = valid.iter().filter(|(valid, _)| *valid != name);
                let query = form(&kept.copied().chain([(name, secret.as_str())]).collect::<Vec<_>>());
                if method == "GET" {
                    world.visit(&mut browser.clone(), method, &format!("{path}?{query}"), "").await;
                } else {
                    world.visit(&mut browser.clone(), method, path, &query).await;
                }
            }
            world.send("POST", "/register", &[JSON], &json!({ name: secret }).to_string()).await;
        }
        world.send("POST", "/register", &[JSON], &secret).await;
        let error = crate::tests::bearer(&world.server, &secret).await.map(|_| ());
        assert!(error.is_ok() || error.is_err_and(|error| error.kind() != AuthenticationErrorKind::Missing));
    }
    let all = log.all();
    assert!(all.contains("refusal") && all.contains("issuance"), "{all}");
    for secret in secrets {
        assert!(!all.contains(&secret), "{secret}: {all}");
    }
}

//! Attacks of RFC 9700 at the endpoints for browsers and clients, each with its answer.

use std::time::Duration;

use serde_json::json;

use super::{Browser, ISSUER, JSON, REDIRECT, VERIFIER, World, authorize_path, form, hash, records::age_records};

/// Open redirects and manipulated redirect URIs: the user sees a page, and is not redirected.
#[tokio::test]
async fn untrusted_redirect_uris_and_clients_end_on_a_page() {
    let world = World::new().await;
    for changes in [
        [("redirect_uri", "https://evil.example/callback")],
        [("redirect_uri", "https://app.example/callback/../evil")],
        [("redirect_uri", "https://app.example/callback?evil")],
        [("redirect_uri", "https://app.example/callback#evil")],
        [("redirect_uri", "https://app.example.evil.example/callback")],
        [("redirect_uri", "https://app.example@evil.example/callback")],
        [("redirect_uri", "http://app.example/callback")],
        [("redirect_uri", "javascript:alert(1)")],
        [("client_id", "unknown")],
        [("client_id", "../keys/signing")],
        [("client_id", "robot")],
        [("client_id", "")],
        [("client_id", "ftp://app.example/client.json")],
        [("client_id", "https://127.0.0.1:9/")],
    ] {
        let page = world.authorize(&mut Browser::default(), &changes).await;
        assert_eq!((page.status, page.header("location")), (400, ""), "{changes:?} {page:?}");
        assert!(page.body.contains("<h1>The login cannot continue</h1>") && !page.body.contains("evil"), "{page:?}");
    }
    let twice = format!("{}&redirect_uri=https%3A%2F%2Fevil.example", authorize_path(&[]));
    assert_eq!(world.visit(&mut Browser::default(), "GET", &twice, "").await.status, 400);
    let long = "x".repeat(1025);
    assert_eq!(world.authorize(&mut Browser::default(), &[("state", &long)]).await.status, 400);
}

/// Once the redirect URI is trusted, the client is told, with the issuer against mix-up.
#[tokio::test]
async fn invalid_requests_are_answered_to_the_client() {
    let world = World::new().await;
    let other = hash("other");
    for (changes, error) in [
        (&[("response_type", "token")] as &[(&str, &str)], "unsupported_response_type"),
        (&[("response_type", "")], "unsupported_response_type"),
        (&[("response_mode", "fragment")], "invalid_request"),
        (&[("request_uri", "https://evil.example/request")], "request_not_supported"),
        (&[("code_challenge_method", "plain")], "invalid_request"),
        (&[("code_challenge_method", "")], "invalid_request"),
        (&[("code_challenge", "")], "invalid_request"),
        (&[("code_challenge", "short")], "invalid_request"),
        (&[("code_challenge", &other[..42])], "invalid_request"),
        (&[("code_challenge", ""), ("code_challenge_method", "")], "invalid_request"),
        (&[("scope", "notes:admin")], "invalid_scope"),
        (&[("scope", "notes:read\tnotes:write")], "invalid_scope"),
        (&[("scope", "notes:read\nx")], "invalid_scope"),
        (&[("resource", "https://evil.example/mcp")], "invalid_target"),
        (&[("resource", "https://mcp.example.com/other")], "invalid_target"),
    ] {
        let response = world.authorize(&mut Browser::default(), changes).await;
        assert_eq!(response.status, 303, "{changes:?} {response:?}");
        assert!(response.header("location").starts_with(&format!("{REDIRECT}?error=")), "{response:?}");
        assert_eq!(response.parameter("error").as_deref(), Some(error), "{changes:?}");
        assert_eq!(response.parameter("state").as_deref(), Some("a state"));
        assert_eq!(response.parameter("iss").as_deref(), Some(ISSUER));
    }
}

/// An attacker who registers a client must not send users from here to a phishing page: they see where they would go.
#[tokio::test]
async fn errors_take_nobody_to_a_website_that_registered_itself() {
    let world = World::new().await;
    for (redirect, status, location) in [
        ("https://phishing.example/a?b=\"c", 201, None),
        ("https://phishing.example/a?b=c", 400, Some("")),
        ("http://127.0.0.1:3000/callback", 303, Some("http://127.0.0.1:3000/callback?error=invalid_scope")),
    ] {
        let client = world.register(&json!({"redirect_uris": [redirect]})).await;
        let Some(location) = location else {
            assert_ne!(client.status, status, "quotation marks are no part of a URI");
            continue;
        };
        let client = client.json();
        let id = client["client_id"].as_str().unwrap();
        let changes = [("client_id", id), ("redirect_uri", redirect), ("scope", "notes:admin")];
        let response = world.authorize(&mut Browser::default(), &changes).await;
        assert_eq!(response.status, status, "{response:?}");
        assert!(response.header("location").starts_with(location), "{response:?}");
        if status == 400 {
            let link = "href=\"https://phishing.example/a?b=c&amp;error=invalid_scope&amp;";
            assert!(response.body.contains(link), "{response:?}");
            assert!(response.body.contains(">Return to phishing.example</a>"), "{response:?}");
        }
    }
}

/// Code injection, and PKCE downgrade at the token endpoint. The attempts do not use up the code.
#[tokio::test]
async fn a_code_is_bound_to_client_redirect_uri_challenge_and_resource() {
    let world = World::new().await;
    let code = world.code(&[]).await;
    let (wrong, long) = ("x".repeat(43), "x".repeat(129));
    for (changes, status, error) in [
        (&[("code_verifier", wrong.as_str())] as &[(&str, &str)], 400, "invalid_grant"),
        (&[("code_verifier", &long)], 400, "invalid_grant"),
        (&[("code_verifier", &hash(VERIFIER))], 400, "invalid_grant"),
        (&[("code_verifier", "")], 400, "invalid_request"),
        (&[("code", "")], 400, "invalid_request"),
        (&[("code", "unknown")], 400, "invalid_grant"),
        (&[("client_id", "other")], 400, "invalid_grant"),
        (&[("client_id", "web"), ("client_secret", "a web secret")], 400, "invalid_grant"),
        (&[("client_id", "")], 401, "invalid_client"),
        (&[("client_id", "unknown")], 401, "invalid_client"),
        (&[("redirect_uri", "https://app.example/other")], 400, "invalid_grant"),
        (&[("resource", "https://evil.example")], 400, "invalid_target"),
        (&[("grant_type", "password")], 400, "unsupported_grant_type"),
        (&[("grant_type", "")], 400, "invalid_request"),
    ] {
        let response = world.exchange(&code, changes).await;
        assert_eq!((response.status, &response.json()["error"]), (status, &error.into()), "{changes:?}");
    }
    assert_eq!(world.exchange(&code, &[]).await.status, 200);
    let late = world.code(&[]).await;
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(world.exchange(&late, &[]).await.json()["error"], "invalid_grant");
}

#[tokio::test]
async fn a_replayed_code_ends_the_grant_that_it_has_created() {
    let world = World::new().await;
    let code = world.code(&[]).await;
    let tokens = world.exchange(&code, &[]).await.json();
    assert!(world.accepts(&tokens["access_token"]).await);
    assert_eq!(world.exchange(&code, &[]).await.json()["error"], "invalid_grant");
    assert!(!world.accepts(&tokens["access_token"]).await, "the access token is rejected");
    let refreshed = world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!((refreshed.status, &refreshed.json()["error"]), (400, &"invalid_grant".into()));
}

#[tokio::test]
async fn of_two_simultaneous_exchanges_of_a_code_neither_keeps_its_tokens() {
    let world = World::new().await;
    let code = world.code(&[]).await;
    let (left, right) = tokio::join!(world.exchange(&code, &[]), world.exchange(&code, &[]));
    let tokens: Vec<_> = [&left, &right].into_iter().filter(|response| response.status == 200).collect();
    assert!(tokens.len() <= 1, "{left:?} {right:?}");
    for response in tokens {
        let tokens = response.json();
        assert!(!world.accepts(&tokens["access_token"]).await);
        assert_eq!(world.refresh(tokens["refresh_token"].as_str().unwrap()).await.status, 400);
    }
}

#[tokio::test]
async fn a_replayed_refresh_token_ends_its_family() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    let first = tokens["refresh_token"].as_str().unwrap();
    let second = world.refresh(first).await.json();
    let third = world.refresh(second["refresh_token"].as_str().unwrap()).await.json();
    assert!(world.accepts(&third["access_token"]).await);
    assert_eq!(world.refresh(first).await.json()["error"], "invalid_grant");
    assert!(!world.accepts(&third["access_token"]).await);
    assert_eq!(world.refresh(third["refresh_token"].as_str().unwrap()).await.json()["error"], "invalid_grant");
}

/// Invented tokens, and those of other clients, end no family.
#[tokio::test]
async fn foreign_and_invented_refresh_tokens_are_rejected_without_effect() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    let valid = tokens["refresh_token"].as_str().unwrap();
    let mut changed = valid.to_owned();
    changed.replace_range(40..41, if &valid[40..41] == "A" { "B" } else { "A" });
    for (client, token) in [("app", ""), ("app", "invented"), ("app", &changed), ("other", valid)] {
        let parameters = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
        let response = world.token(&parameters).await;
        assert_eq!((response.status, &response.json()["error"]), (400, &"invalid_grant".into()), "{client}");
    }
    let wider = [
        ("grant_type", "refresh_token"),
        ("client_id", "app"),
        ("refresh_token", valid),
        ("scope", "notes:read notes:write"),
    ];
    assert_eq!(world.token(&wider).await.json()["error"], "invalid_scope");
    assert_eq!(world.refresh(valid).await.status, 200);
}

/// CSRF on consent: only the browser that has seen the page can answer it, once it has not expired.
#[tokio::test]
async fn forged_answers_to_the_consent_page_are_rejected() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let body = form(&[("request", &page.sealed()), ("decision", "approve")]);
    let cookie = format!("__Host-mcp-browser={}", browser.0["__Host-mcp-browser"]);
    let twice = format!("{cookie}; {cookie}");
    let broken = form(&[("request", &page.sealed()[1..]), ("decision", "approve")]);
    let undecided = form(&[("request", &page.sealed())]);
    for (headers, body, status) in [
        (&[] as &[(&str, &str)], &body, 400),
        (&[("cookie", "__Host-mcp-browser=another")], &body, 400),
        (&[("cookie", &twice)], &body, 400),
        (&[("cookie", &cookie), ("origin", "https://evil.example")], &body, 403),
        (&[("cookie", &cookie), ("origin", "null")], &body, 403),
        (&[("cookie", &cookie), ("sec-fetch-site", "cross-site")], &body, 403),
        (&[("cookie", &cookie), ("sec-fetch-site", "same-site")], &body, 403),
        (&[("cookie", &cookie)], &broken, 400),
        (&[("cookie", &cookie)], &undecided, 400),
        (&[("cookie", &cookie)], &String::new(), 400),
        (&[("cookie", &cookie), ("origin", ISSUER), ("sec-fetch-site", "same-origin")], &body, 303),
    ] {
        let response = world.send("POST", "/authorize", headers, body).await;
        assert_eq!(response.status, status, "{headers:?} {response:?}");
    }
    world.clock.advance(Duration::from_secs(601));
    assert_eq!(world.send("POST", "/authorize", &[("cookie", &cookie)], &body).await.status, 400);
}

/// Login CSRF: a response of the provider counts only in the browser that has started the login, and once.
#[tokio::test]
async fn responses_of_the_provider_count_once_in_the_browser_of_the_login() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let login = world.answer(&mut browser, &page, "approve").await;
    let state = login.parameter("state").unwrap();
    let path = |state: &str| format!("/authorize/callback?{}", form(&[("code", "x"), ("state", state)]));
    let mut without_browser = browser.clone();
    without_browser.0.remove("__Host-mcp-browser");
    for (mut browser, path) in [
        (Browser::default(), path(&state)),
        (without_browser, path(&state)),
        (browser.clone(), path("another")),
        (browser.clone(), "/authorize/callback?code=x".to_owned()),
        (browser.clone(), format!("{}&state=x", path(&state))),
    ] {
        let response = world.visit(&mut browser, "GET", &path, "").await;
        assert_eq!((response.status, response.header("location")), (400, ""), "{path}");
    }
    assert!(world.issuer.received("/token").is_empty(), "the provider was not asked");
    // Copied cookies cannot be used again.
    let mut copied = browser.clone();
    let response = world.return_with(&mut browser, &login, &[("code", "upstream-code")]).await;
    assert!(response.parameter("code").is_some(), "{response:?}");
    let response = world.return_with(&mut copied, &login, &[("code", "upstream-code")]).await;
    assert_eq!(response.parameter("error").as_deref(), Some("invalid_request"), "{response:?}");
    let mut late = Browser::default();
    let page = world.authorize(&mut late, &[]).await;
    let login = world.answer(&mut late, &page, "approve").await;
    world.clock.advance(Duration::from_secs(601));
    assert_eq!(world.return_with(&mut late, &login, &[("code", "upstream-code")]).await.status, 400);
}

/// One user cannot fill the store with browsers, and the newest ones remember what was approved.
#[tokio::test]
async fn approvals_are_remembered_for_some_browsers_of_a_user() {
    let world = World::new().await;
    let mut browsers = Vec::new();
    for _ in 0..12 {
        let mut browser = Browser::default();
        assert!(world.log_in(&mut browser, &[]).await.parameter("code").is_some());
        browsers.push(browser);
    }
    for (index, mut browser) in browsers.into_iter().enumerate() {
        let status = world.authorize(&mut browser, &[]).await.status;
        assert_eq!(status, if index < 2 { 200 } else { 303 }, "{index}");
    }
}

/// One user cannot fill the store with registrations: those beyond a number expire as if nobody had approved them.
#[tokio::test]
async fn a_user_prolongs_a_limited_number_of_registrations() {
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
    let mut clients = Vec::new();
    for index in 0..52 {
        let registered =
            world.send_from(&format!("198.51.100.{index}:1"), "POST", "/register", &[JSON], &metadata).await;
        let id = registered.json()["client_id"].as_str().unwrap().to_owned();
        assert!(world.log_in(&mut Browser::default(), &[("client_id", &id)]).await.parameter("code").is_some());
        clients.push(id);
    }
    age_records(Duration::from_secs(2 * 60 * 60)).await;
    for (index, id) in clients.iter().enumerate() {
        let page = world.authorize(&mut Browser::default(), &[("client_id", id)]).await;
        assert_eq!(page.status, if index < 50 { 200 } else { 400 }, "{index}");
    }
}

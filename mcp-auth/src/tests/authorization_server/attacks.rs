//! Attacks of RFC 9700 at the endpoints for browsers and clients, each with its answer.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::{
    Browser, ISSUER, JSON, REDIRECT, VERIFIER, World, authorize_path, form, hash,
    records::{age_records, stored},
};
use crate::tests::RESOURCE;

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
    let several = world.register(&json!({"redirect_uris": [REDIRECT, "https://app.example/other"]})).await.json();
    let changes = [("client_id", several["client_id"].as_str().unwrap()), ("redirect_uri", "")];
    let page = world.authorize(&mut Browser::default(), &changes).await;
    assert_eq!((page.status, page.header("location")), (400, ""), "none of several is chosen: {page:?}");
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
        (&[("request_uri", "https://evil.example/urn:ietf:params:oauth:request_uri:x")], "request_not_supported"),
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
        (&[("resource", RESOURCE), ("resource", "https://evil.example/mcp")], "invalid_target"),
        (&[("resource", "https://evil.example/mcp"), ("resource", RESOURCE)], "invalid_target"),
    ] {
        let response = world.authorize(&mut Browser::default(), changes).await;
        assert_eq!(response.status, 303, "{changes:?} {response:?}");
        assert!(response.header("location").starts_with(&format!("{REDIRECT}?error=")), "{response:?}");
        assert_eq!(response.parameter("error").as_deref(), Some(error), "{changes:?}");
        assert_eq!(response.parameter("state").as_deref(), Some("a state"));
        assert_eq!(response.parameter("iss").as_deref(), Some(ISSUER));
    }
    let state = "x".repeat(1025);
    let response = world.authorize(&mut Browser::default(), &[("state", &state)]).await;
    let [error, returned] = ["error", "state"].map(|name| response.parameter(name));
    assert_eq!((response.status, error.as_deref(), returned), (303, Some("invalid_request"), Some(state)));
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
        // Neither does the user who refuses.
        let mut browser = Browser::default();
        let page = world.authorize(&mut browser, &[("client_id", id), ("redirect_uri", redirect)]).await;
        let refused = world.answer(&mut browser, &page, "deny").await;
        assert_eq!(refused.status, status, "{refused:?}");
        if status == 400 {
            assert!(
                refused.body.contains("href=\"https://phishing.example/a?b=c&amp;error=access_denied"),
                "{refused:?}"
            );
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
        (&[("resource", RESOURCE), ("resource", "https://evil.example")], 400, "invalid_target"),
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

/// A short verifier can be guessed from its challenge.
#[tokio::test]
async fn verifiers_have_the_length_and_the_characters_of_the_standard() {
    let world = World::new().await;
    for (text, length, status) in [
        ("x", 42, 400),
        ("x", 43, 200),
        ("aZ9-._~", 7, 200),
        ("x", 128, 200),
        ("x", 129, 400),
        ("ü", 22, 400),
        ("x ", 22, 400),
        ("x+", 22, 400),
    ] {
        let verifier = text.repeat(length);
        let code = world.code(&[("code_challenge", &hash(&verifier))]).await;
        assert_eq!(world.exchange(&code, &[("code_verifier", &verifier)]).await.status, status, "{text} {length}");
    }
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

/// Each name is compared with all others.
#[tokio::test]
async fn the_number_of_parameters_is_bounded() {
    let world = World::new().await;
    for (count, description) in
        [(195, "the code is unknown, was used before or has expired"), (196, "there are too many parameters")]
    {
        let names: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        let more: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let response = world.exchange("unknown", &more).await;
        assert_eq!((response.status, &response.json()["error_description"]), (400, &json!(description)));
    }
}

/// An attacker who sees a used code in a log cannot end the grant.
#[tokio::test]
async fn a_used_code_ends_its_grant_only_for_its_client() {
    let world = World::new().await;
    let code = world.code(&[]).await;
    let tokens = world.exchange(&code, &[]).await.json();
    let wrong = "x".repeat(43);
    for changes in [
        &[("client_id", "other")] as &[(&str, &str)],
        &[("client_id", "web"), ("client_secret", "a web secret")],
        &[("code_verifier", wrong.as_str())],
        &[("redirect_uri", "https://app.example/other")],
    ] {
        assert_eq!(world.exchange(&code, changes).await.json()["error"], "invalid_grant", "{changes:?}");
        assert!(world.accepts(&tokens["access_token"]).await, "{changes:?}");
    }
    age_records(Duration::from_secs(10 * 60)).await;
    assert_eq!(world.exchange(&code, &[]).await.json()["error"], "invalid_grant");
    assert!(!world.accepts(&tokens["access_token"]).await, "a code is remembered for longer than it is valid");
}

/// Two services may have one store and one secret.
#[tokio::test]
async fn nothing_is_valid_at_another_server_with_the_same_records() {
    let first = World::new().await;
    let other_resource = first.replica("https://mcp.example.com/other", [7; 32], |builder| builder);
    let other_issuer = first.replica(RESOURCE, [7; 32], |builder| builder.issuer(&format!("{ISSUER}/x")).unwrap());
    let other_provider = World::with(|builder| builder.records(Arc::clone(&first.records)));
    let registered = first.register(&json!({"redirect_uris": [REDIRECT]})).await.json();
    let registered = registered["client_id"].as_str().unwrap();
    for (other, path) in [(other_resource.await, ""), (other_issuer.await, "/x"), (other_provider.await, "")] {
        let (code, tokens) = (first.code(&[]).await, first.tokens().await);
        let redeem =
            [("grant_type", "authorization_code"), ("client_id", "app"), ("code", &code), ("code_verifier", VERIFIER)];
        let refresh = [
            ("grant_type", "refresh_token"),
            ("client_id", "app"),
            ("refresh_token", tokens["refresh_token"].as_str().unwrap()),
        ];
        for parameters in [&redeem[..], &refresh[..]] {
            let response = other.send("POST", &format!("{path}/token"), &[], &form(parameters)).await;
            assert_eq!(response.json()["error"], "invalid_grant", "{path} {parameters:?}");
        }
        let unknown = authorize_path(&[("client_id", registered), ("resource", "")]);
        assert_eq!(other.send("GET", &format!("{path}{unknown}"), &[], "").await.status, 400);
        assert!(!other.accepts(&tokens["access_token"]).await);
        assert!(first.accepts(&tokens["access_token"]).await);
        assert_eq!(first.exchange(&code, &[]).await.status, 200);
        let mut browser = Browser::default();
        let page = first.authorize(&mut browser, &[]).await;
        let answer = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
        let response = other.visit(&mut browser, "POST", &format!("{path}/authorize"), &answer).await;
        assert_eq!(response.status, 400, "{path}: {response:?}");
    }
}

/// A browser states origins in lower case and without the default port.
#[tokio::test]
async fn answers_are_accepted_at_a_server_whose_url_is_written_differently() {
    for (resource, origin, status) in [
        ("https://MCP.Example.com:443/mcp", ISSUER, 303),
        ("https://MCP.Example.com:443/mcp", "https://mcp.example.com:444", 403),
        ("https://mcp.example.com/mcp", "http://mcp.example.com", 403),
        // Pages of other ports of a host can set its cookies, so the origin must be stated.
        ("http://localhost:3000/mcp", "http://localhost:3000", 303),
        ("http://localhost:3000/mcp", "http://localhost:4000", 403),
        ("http://localhost:3000/mcp", "", 403),
        ("https://mcp.example.com/mcp", "", 303),
    ] {
        let world = World::start(resource, [7; 32], |builder| builder).await;
        let mut browser = Browser::default();
        let page = world.authorize(&mut browser, &[("resource", "")]).await;
        let (name, value) = browser.0.iter().next().unwrap();
        let cookie = format!("{name}={value}");
        let mut headers = vec![("cookie", cookie.as_str())];
        headers.extend((!origin.is_empty()).then_some(("origin", origin)));
        let body = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
        let response = world.send("POST", "/authorize", &headers, &body).await;
        assert_eq!(response.status, status, "{resource} {origin}");
    }
}

/// Every website can begin logins of a user who has approved a client before.
#[tokio::test]
async fn logins_without_a_question_lock_no_user_out() {
    let world = World::new().await;
    let mut browser = Browser::default();
    world.log_in(&mut browser, &[]).await;
    for index in 0..20 {
        let login = world.authorize(&mut browser, &[]).await;
        assert_eq!(login.status, 303, "{index}");
        let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
        assert!(response.parameter("code").is_some(), "{index} {response:?}");
    }
    let page = world.authorize(&mut browser, &[]).await;
    assert_eq!(page.status, 200, "then the user is asked");
    let login = world.answer(&mut browser, &page, "approve").await;
    assert!(world.return_with(&mut browser, &login, &[("code", "x")]).await.parameter("code").is_some());
    assert_eq!(world.authorize(&mut browser, &[]).await.status, 303);
    for _ in 0..50 {
        assert!(world.log_in(&mut Browser::default(), &[]).await.parameter("code").is_some());
    }
}

/// Every website can open the account page, whose logins count.
#[tokio::test]
async fn websites_cannot_use_up_the_logins_of_a_user() {
    let world = World::new().await;
    let mut browser = Browser::default();
    for (site, clicked, status) in [
        (Some("cross-site"), false, 200),
        (Some("same-site"), false, 200),
        (Some("cross-site"), true, 303),
        (Some("same-origin"), false, 303),
        (Some("none"), false, 303),
        (None, false, 303),
    ] {
        let mut headers: Vec<_> = site.map(|site| ("sec-fetch-site", site)).into_iter().collect();
        headers.extend(clicked.then_some(("sec-fetch-user", "?1")));
        let response = world.visit_with(&mut browser, "GET", "/authorize/account", &headers, "").await;
        assert_eq!(response.status, status, "{site:?} {clicked}: {response:?}");
        let link = r#"<a href="/authorize/account">Log in</a>"#;
        assert_eq!(response.body.contains(link), status == 200, "{response:?}");
    }
}

/// Each would be a request of this server to the provider.
#[tokio::test]
async fn a_login_exchanges_one_code() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let login = world.answer(&mut browser, &page, "approve").await;
    world.provider(|provider| provider.token = Some((400, json!({"error": "invalid_grant"}))));
    let cookies = browser.0.clone();
    for _ in 0..3 {
        browser.0.clone_from(&cookies);
        let response = world.return_with(&mut browser, &login, &[("code", "invented")]).await;
        assert!(response.parameter("error").is_some(), "{response:?}");
    }
    assert_eq!(world.issuer.received("/token").len(), 1);
}

#[tokio::test]
async fn consent_is_remembered_again_an_hour_after_many_logins() {
    let world = World::new().await;
    let mut browser = Browser::default();
    world.log_in(&mut browser, &[]).await;
    for _ in 0..20 {
        let login = world.authorize(&mut browser, &[]).await;
        world.return_with(&mut browser, &login, &[("code", "x")]).await;
    }
    for (seconds, status) in [(0, 200), (3500, 200), (110, 303)] {
        world.clock.advance(Duration::from_secs(seconds));
        assert_eq!(world.authorize(&mut browser, &[]).await.status, status, "{seconds}");
    }
}

/// Cookies that are too long together make every request fail.
#[tokio::test]
async fn the_oldest_logins_of_a_browser_end_if_their_cookies_are_too_long() {
    let world = World::new().await;
    let (mut browser, state) = (Browser::default(), "x".repeat(1024));
    world.log_in(&mut browser, &[("state", &state)]).await;
    let mut login = None;
    for _ in 0..10 {
        let response = world.authorize(&mut browser, &[("state", &state)]).await;
        assert_eq!(response.status, 303);
        login = Some(response);
        let length: usize = browser.0.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
        assert!(length < 9000, "{length}");
    }
    assert!(browser.0.keys().filter(|name| name.contains("login")).count() > 1, "only the oldest have ended");
    let response = world.return_with(&mut browser, &login.unwrap(), &[("code", "x")]).await;
    assert!(response.parameter("code").is_some(), "the newest one succeeds: {response:?}");
}

/// A browser drops a cookie that is too long, and the user would be told after the login that it was not started there.
#[tokio::test]
async fn a_request_that_fits_in_no_cookie_is_refused_before_the_login() {
    let world = World::new().await;
    let redirect = format!("https://app.example/{}", "x".repeat(1000));
    let registered = world.register(&json!({"redirect_uris": [redirect]})).await.json();
    let id = registered["client_id"].as_str().unwrap();
    let client = [("client_id", id), ("redirect_uri", redirect.as_str())];
    // Each character has two in JSON.
    let state = "\"".repeat(1024);
    let too_long = [client[0], client[1], ("state", state.as_str())];
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &too_long).await;
    let refused = world.answer(&mut browser, &page, "approve").await;
    assert_eq!(refused.parameter("error").as_deref(), Some("invalid_request"), "{refused:?}");
    assert!(world.log_in(&mut browser, &client).await.parameter("code").is_some());
    // The user is not sent to a client that the operator does not know without a question, pushed or not.
    let path = authorize_path(&too_long);
    let pushed = world.send("POST", "/par", &[], path.split_once('?').unwrap().1).await.json();
    let pushed = form(&[("client_id", id), ("request_uri", pushed["request_uri"].as_str().unwrap())]);
    for path in [path, format!("/authorize?{pushed}")] {
        let page = world.visit(&mut browser, "GET", &path, "").await;
        assert_eq!((page.status, page.header("location")), (400, ""), "{page:?}");
    }
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
    assert!(!stored(&world.records).await.iter().any(|(key, _)| key.contains("/grant/")));
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
    let body = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
    let cookie = format!("__Host-mcp-browser={}", browser.0["__Host-mcp-browser"]);
    let twice = format!("{cookie}; {cookie}");
    let broken = form(&[("request", &page.sealed()[1..]), ("decision", "approve"), ("scope-0", "yes")]);
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
        (&[("cookie", &cookie), ("sec-fetch-site", "none")], &body, 303),
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
    // The cookies would be accepted for ten minutes.
    age_records(Duration::from_secs(9 * 60)).await;
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

/// One user cannot fill the store with registrations: of too many, those that were approved first expire, unless another
/// user has approved them, too.
#[tokio::test]
async fn a_user_prolongs_a_limited_number_of_registrations() {
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
    let mut clients = Vec::new();
    for index in 0..52 {
        let registered =
            world.send_from(&format!("198.51.100.{index}:1"), "POST", "/register", &[JSON], &metadata).await;
        let id = registered.json()["client_id"].as_str().unwrap().to_owned();
        // A user who approves a client again is no other user.
        for _ in 0..if index == 0 { 2 } else { 1 } {
            assert!(world.log_in(&mut Browser::default(), &[("client_id", &id)]).await.parameter("code").is_some());
        }
        clients.push(id);
    }
    world.provider(|provider| provider.subject = "eve".to_owned());
    for id in &clients[1..4] {
        let approved = world.log_in(&mut Browser::default(), &[("client_id", id)]).await;
        assert!(approved.parameter("code").is_some());
    }
    world.provider(|provider| provider.subject = "ada".to_owned());
    for _ in 0..3 {
        let id = world.register(&json!({"redirect_uris": [REDIRECT]})).await.json()["client_id"].clone();
        world.log_in(&mut Browser::default(), &[("client_id", id.as_str().unwrap())]).await;
    }
    age_records(Duration::from_secs(2 * 60 * 60)).await;
    for (index, id) in clients.iter().enumerate() {
        let page = world.authorize(&mut Browser::default(), &[("client_id", id)]).await;
        assert_eq!(page.status, if [0, 4].contains(&index) { 400 } else { 200 }, "{index}");
    }
}

#[tokio::test]
async fn each_login_prolongs_the_registration_of_its_client() {
    let world = World::new().await;
    let id = world.register(&json!({"redirect_uris": [REDIRECT]})).await.json()["client_id"].clone();
    for _ in 0..3 {
        let response = world.log_in(&mut Browser::default(), &[("client_id", id.as_str().unwrap())]).await;
        assert!(response.parameter("code").is_some(), "{response:?}");
        age_records(Duration::from_secs(60 * 24 * 60 * 60)).await;
    }
}

/// A client that a user approves again and again is one client.
#[tokio::test]
async fn many_logins_with_one_client_do_not_shorten_its_registration() {
    let world = World::new().await;
    let id = world.register(&json!({"redirect_uris": [REDIRECT]})).await.json()["client_id"].clone();
    let changes = [("client_id", id.as_str().unwrap())];
    for _ in 0..51 {
        let response = world.log_in(&mut Browser::default(), &changes).await;
        assert!(response.parameter("code").is_some(), "{response:?}");
    }
    age_records(Duration::from_secs(2 * 60 * 60)).await;
    assert_eq!(world.authorize(&mut Browser::default(), &changes).await.status, 200);
}

/// A user who approves the client of another user, and then many others, does not end its registration.
#[tokio::test]
async fn a_registration_that_two_users_have_approved_is_shortened_by_neither() {
    let world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]}).to_string();
    let mut shared = None;
    for (index, user) in ["ada", "eve"].into_iter().chain(["eve"; 51]).enumerate() {
        world.provider(|provider| provider.subject = user.to_owned());
        let sender = format!("198.51.100.{index}:1");
        let registered = world.send_from(&sender, "POST", "/register", &[JSON], &metadata).await.json();
        let id = registered["client_id"].as_str().unwrap().to_owned();
        let id = if index < 2 { shared.get_or_insert(id).clone() } else { id };
        assert!(world.log_in(&mut Browser::default(), &[("client_id", &id)]).await.parameter("code").is_some());
    }
    age_records(Duration::from_secs(2 * 60 * 60)).await;
    let page = world.authorize(&mut Browser::default(), &[("client_id", &shared.unwrap())]).await;
    assert_eq!(page.status, 200);
}

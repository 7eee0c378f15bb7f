//! Ending what was allowed: by the user, by the operator, at all processes, and by idleness.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_runtime::backend::{RecordQuota, Records as _};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Browser, ISSUER, REDIRECT, Reaction, World,
    clients::document,
    form,
    records::{age_records, stored},
};
use crate::{
    ConfiguredClient,
    claims::system_time,
    jose::Jws,
    tests::{RESOURCE, log::Log},
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Returns the access tokens that the process accepts.
async fn accepted(world: &World, tokens: &[&Value]) -> Vec<bool> {
    let mut accepted = Vec::new();
    for tokens in tokens {
        accepted.push(world.accepts(&tokens["access_token"]).await);
    }
    accepted
}

/// Two processes with the same records.
async fn replicas() -> (World, World) {
    let one = World::new().await;
    let two = one.replica(RESOURCE, [7; 32], |builder| builder).await;
    (one, two)
}

#[tokio::test]
async fn what_ends_at_one_process_ends_at_the_others_within_a_second() {
    let (one, two) = replicas().await;
    let (ended, kept) = (one.tokens().await, one.tokens().await);
    let robot = [("grant_type", "client_credentials"), ("client_id", "robot"), ("client_secret", "a robot secret")];
    let robot_token = one.token(&robot).await.json();
    let all = [&ended, &kept, &robot_token];
    assert_eq!(accepted(&two, &all).await, [true, true, true]);
    let revoke = |client: &[(&'static str, &'static str)], tokens: &Value| {
        form(&[client, &[("token", tokens["access_token"].as_str().unwrap())]].concat())
    };
    one.send("POST", "/revoke", &[], &revoke(&[("client_id", "app")], &ended)).await;
    one.send("POST", "/revoke", &[], &revoke(&robot[1..], &robot_token)).await;
    assert_eq!(accepted(&one, &all).await, [false, true, false]);
    two.clock.advance(SECOND);
    assert_eq!(accepted(&two, &all).await, [false, true, false]);
    // A process that starts later knows it, too.
    let three = one.replica(RESOURCE, [7; 32], |builder| builder).await;
    assert_eq!(accepted(&three, &all).await, [false, true, false]);
    // While the store fails, a process keeps what it knows, and asks again after five seconds.
    two.records.set_down(true);
    two.clock.advance(SECOND);
    assert_eq!(accepted(&two, &all).await, [false, true, false]);
    two.records.set_down(false);
    one.server.revoke_grants("ada").await.unwrap();
    assert_eq!(accepted(&two, &all).await, [false, true, false]);
    two.clock.advance(5 * SECOND);
    assert_eq!(accepted(&two, &all).await, [false, false, false]);
}

#[tokio::test]
async fn withdrawn_signing_keys_verify_nothing_at_any_process() {
    let (one, two) = replicas().await;
    let tokens = one.tokens().await;
    assert_eq!((accepted(&one, &[&tokens]).await, accepted(&two, &[&tokens]).await), (vec![true], vec![true]));
    one.server.revoke_signing_keys().await.unwrap();
    assert_eq!(accepted(&one, &[&tokens]).await, [false]);
    two.clock.advance(SECOND);
    assert_eq!(accepted(&two, &[&tokens]).await, [false]);
    let refreshed = two.refresh(tokens["refresh_token"].as_str().unwrap()).await.json();
    assert_eq!((accepted(&one, &[&refreshed]).await, accepted(&two, &[&refreshed]).await), (vec![true], vec![true]));
    two.clock.advance(SECOND);
    let before = two.records.operations();
    assert_eq!(accepted(&two, &[&refreshed]).await, [true]);
    assert_eq!(two.records.operations() - before, 1, "the keys are not read again for what is known");
}

#[tokio::test]
async fn withdrawn_signing_keys_are_announced_although_many_grants_have_ended() {
    let (one, two) = replicas().await;
    let tokens = one.tokens().await;
    let records = stored(&one.records).await;
    let group = records.iter().find_map(|(key, _)| Some(format!("{}/ended", key.strip_suffix("/keys/signing")?)));
    let quota = RecordQuota { account: "", per_account: 0, total: 10_000 };
    for index in 0..quota.total {
        let name = index.to_string();
        one.records.insert(group.as_ref().unwrap(), &name, Vec::new(), HOUR, quota).await.unwrap();
    }
    one.server.revoke_signing_keys().await.unwrap();
    two.clock.advance(SECOND);
    assert_eq!(accepted(&two, &[&tokens]).await, [false]);
}

/// The announcement expires when a process that was idle for so long would read the keys anyway.
#[tokio::test]
async fn an_idle_process_reads_the_signing_keys_before_it_trusts_an_old_one() {
    for hours in [23, 27] {
        let (one, two) = replicas().await;
        let tokens = one.tokens().await;
        one.server.revoke_signing_keys().await.unwrap();
        super::records::age_records(hours * HOUR).await;
        two.clock.advance(hours * HOUR);
        let error = crate::tests::bearer(&two.server, tokens["access_token"].as_str().unwrap()).await.unwrap_err();
        assert_eq!(error.message(), "the key of the token is unknown", "{hours} hours");
    }
}

#[tokio::test]
async fn a_replaced_key_verifies_for_two_more_hours() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    world.clock.advance(24 * HOUR);
    world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
    for (later, message) in [(HOUR * 119 / 60, "the token has expired"), (HOUR / 30, "the key of the token is unknown")]
    {
        world.clock.advance(later);
        let error = crate::tests::bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap_err();
        assert_eq!(error.message(), message);
    }
}

#[tokio::test]
async fn all_logins_of_a_user_end_and_codes_and_approvals_with_them() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let response = world.log_in(&mut browser, &[]).await;
    let (code, tokens) = (response.parameter("code").unwrap(), world.tokens().await);
    world.provider(|provider| provider.subject = "bob".to_owned());
    let other = world.tokens().await;
    world.clock.advance(SECOND);
    assert_eq!(world.server.revoke_grants("ada").await.unwrap(), 1);
    assert_eq!(accepted(&world, &[&tokens, &other]).await, [false, true]);
    assert_eq!(world.refresh(tokens["refresh_token"].as_str().unwrap()).await.json()["error"], "invalid_grant");
    assert_eq!(world.exchange(&code, &[]).await.json()["error"], "invalid_grant");
    assert_eq!(world.authorize(&mut browser, &[]).await.status, 200, "the user is asked again");
    assert_eq!(world.server.revoke_grants("ada").await.unwrap(), 0);
    assert_eq!(world.server.revoke_grants("unknown").await.unwrap(), 0);
    // The user may come back.
    world.provider(|provider| provider.subject = "ada".to_owned());
    world.clock.advance(SECOND);
    let tokens = world.tokens().await;
    assert_eq!(accepted(&world, &[&tokens]).await, [true]);
}

/// A client may refresh its tokens for weeks without another login of the user.
#[tokio::test]
async fn the_operator_ends_logins_for_as_long_as_they_can_be_refreshed() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    age_records(HOUR * (29 * 24)).await;
    assert_eq!(world.server.revoke_grants("ada").await.unwrap(), 1);
    assert_eq!(accepted(&world, &[&tokens]).await, [false]);
}

#[tokio::test]
async fn codes_end_with_all_logins_at_a_process_whose_clock_is_ahead() {
    let (one, two) = replicas().await;
    two.clock.advance(SECOND * 3 / 4);
    let code = two.code(&[]).await;
    one.server.revoke_grants("ada").await.unwrap();
    assert_eq!(two.exchange(&code, &[]).await.json()["error"], "invalid_grant");
    assert!(!stored(&two.records).await.iter().any(|(key, _)| key.contains("/grant/")));
}

#[tokio::test]
async fn a_grant_ends_that_is_not_refreshed() {
    for (grant_idle_timeout, status) in [(None, 200), (Some(HOUR), 400)] {
        let world = World::with(|builder| builder.grant_idle_timeout(grant_idle_timeout)).await;
        let mut tokens = world.tokens().await;
        for _ in 0..3 {
            world.clock.advance(HOUR * 9 / 10);
            tokens = world.refresh(tokens["refresh_token"].as_str().unwrap()).await.json();
            assert_eq!(accepted(&world, &[&tokens]).await, [true]);
        }
        world.clock.advance(HOUR * 11 / 10);
        assert_eq!(
            world.refresh(tokens["refresh_token"].as_str().unwrap()).await.status,
            status,
            "{grant_idle_timeout:?}"
        );
        let page = account(&world, &mut Browser::default()).await;
        assert_eq!(page.body.contains("There are none."), status == 400, "{page:?}");
    }
}

#[tokio::test]
async fn the_account_page_shows_identifiers_as_text() {
    let client = ConfiguredClient::public("<b>a&copy", "The App", [REDIRECT]).unwrap();
    let world = World::with(|builder| builder.with_client(client)).await;
    let client = [("client_id", "<b>a&copy")];
    assert_eq!(world.exchange(&world.code(&client).await, &client).await.status, 200);
    let page = account(&world, &mut Browser::default()).await;
    assert!(page.body.contains("<code>&lt;b&gt;a&amp;copy</code>"), "{page:?}");
}

/// The user cannot end what is no access any more.
#[tokio::test]
async fn a_grant_without_a_refresh_token_ends_with_its_access_token() {
    let world = World::new().await;
    let client = world.register(&json!({"redirect_uris": [REDIRECT]})).await.json();
    let client = [("client_id", client["client_id"].as_str().unwrap())];
    let tokens = world.exchange(&world.code(&client).await, &client).await.json();
    assert_eq!((&tokens["expires_in"], tokens.get("refresh_token")), (&json!(600), None), "{tokens}");
    for (seconds, ended) in [(500, false), (200, true)] {
        world.clock.advance(SECOND * seconds);
        let page = account(&world, &mut Browser::default()).await;
        assert_eq!(page.body.contains("There are none."), ended, "{page:?}");
    }
}

/// The clock of another process may be behind, so that it accepts a token after its expiry.
#[tokio::test]
async fn what_has_ended_is_announced_for_longer_than_its_tokens_are_valid() {
    let (one, two) = replicas().await;
    let tokens = one.tokens().await;
    one.server.revoke_grants("ada").await.unwrap();
    age_records(SECOND * 620).await;
    assert_eq!(accepted(&two, &[&tokens]).await, [false]);
}

/// A registration that expires before the login ends it.
#[tokio::test]
async fn a_registration_outlives_the_logins_of_its_client() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let world = World::with(|builder| builder.login_lifetime(DAY * 200)).await;
    let metadata = json!({"redirect_uris": [REDIRECT], "grant_types": ["authorization_code", "refresh_token"]});
    let client = world.register(&metadata).await.json();
    let client = [("client_id", client["client_id"].as_str().unwrap())];
    let tokens = world.exchange(&world.code(&client).await, &client).await.json();
    age_records(DAY * 100).await;
    let parameters = [("grant_type", "refresh_token"), ("refresh_token", tokens["refresh_token"].as_str().unwrap())];
    let refreshed = world.token(&[&parameters[..], &client].concat()).await;
    assert_eq!(refreshed.status, 200, "{refreshed:?}");
}

/// A refresh token that is not used ends before the grant does.
#[tokio::test]
async fn introspection_states_when_a_refresh_token_ends_that_is_not_used() {
    let world = World::with(|builder| builder.grant_idle_timeout(Some(HOUR))).await;
    let client = [("client_id", "web"), ("client_secret", "a web secret")];
    let tokens = world.exchange(&world.code(&client[..1]).await, &client).await.json();
    let body = form(&[client[0], client[1], ("token", tokens["refresh_token"].as_str().unwrap())]);
    let ask = async || world.send("POST", "/introspect", &[], &body).await.json();
    let left = ask().await["exp"].as_f64().unwrap() - world.clock.unix();
    assert!((left - HOUR.as_secs_f64()).abs() < 60.0, "{left}");
    world.clock.advance(HOUR * 11 / 10);
    assert_eq!(ask().await, json!({"active": false}));
}

/// The lock of a grant is released if the author's function panics.
#[tokio::test]
async fn a_refresh_that_panics_does_not_delay_the_next_one() {
    let panics = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&panics);
    let world = World::with(|builder| {
        builder.admit(move |_| {
            assert!(!flag.load(Ordering::Relaxed), "an author's mistake");
            true
        })
    })
    .await;
    let tokens = world.tokens().await;
    let refresh = || world.refresh(tokens["refresh_token"].as_str().unwrap());
    panics.store(true, Ordering::Relaxed);
    assert_eq!(refresh().await.status, 503);
    panics.store(false, Ordering::Relaxed);
    let began_at = Instant::now();
    assert_eq!(refresh().await.status, 200);
    assert!(began_at.elapsed() < 5 * SECOND, "{:?}", began_at.elapsed());
}

/// Opens the page of the user who logs in at the provider.
pub(super) async fn account(world: &World, browser: &mut Browser) -> Reaction {
    let login = world.visit(browser, "GET", "/authorize/account", "").await;
    assert_eq!(login.status, 303, "{login:?}");
    world.return_with(browser, &login, &[("code", "x")]).await
}

/// Returns the day that the clock of a server shows.
fn today(world: &World) -> String {
    humantime::format_rfc3339_seconds(system_time(world.clock.unix())).to_string()[..10].to_owned()
}

#[tokio::test]
async fn users_see_what_they_have_allowed_and_end_it() {
    let world = World::new().await;
    let hostile = "</h2><script>alert(1)</script>";
    let metadata = json!({"client_name": hostile, "redirect_uris": [super::REDIRECT], "grant_types": ["authorization_code", "refresh_token"]});
    let registered = world.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let (app, created) = (world.tokens().await, today(&world));
    world.clock.advance(24 * HOUR);
    let (app, used) = (world.refresh(app["refresh_token"].as_str().unwrap()).await.json(), today(&world));
    let changes = [("client_id", registered.as_str())];
    let other = world.exchange(&world.code(&changes).await, &changes).await.json();
    let third = world.tokens().await;
    world.provider(|provider| provider.subject = "bob".to_owned());
    let bob = world.tokens().await;
    let bob_page = account(&world, &mut Browser::default()).await;
    world.provider(|provider| provider.subject = "ada".to_owned());

    let mut browser = Browser::default();
    let page = account(&world, &mut browser).await;
    assert_eq!(page.status, 200);
    assert_eq!(browser.0.keys().collect::<Vec<_>>(), ["__Host-mcp-browser"], "the cookie of the login is deleted");
    for text in [
        "<h1>Applications that may use Notes for you</h1>",
        "<h2>The App</h2>",
        "<code>app</code>",
        "Read your notes (<code>notes:read</code>)",
        &format!("<dt>Allowed on</dt><dd>{created}</dd><dt>Last used on</dt><dd>{used}</dd>"),
    ] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    assert!(page.body.contains("&lt;script&gt;") && !page.body.contains("<script"), "{}", page.body);
    assert!(!page.body.contains("Your organization"), "{}", page.body);
    assert!(page.header("content-security-policy").contains("frame-ancestors 'none'"));
    let ids = |page: &Reaction| -> Vec<String> {
        page.body
            .split("name=\"end\" value=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&page).len(), 4, "three grants, and all: {page:?}");
    let end = async |browser: &mut Browser, page: &Reaction, id: &str| {
        let body = form(&[("account", &page.hidden("account")), ("end", id)]);
        world.visit(browser, "POST", "/authorize/account", &body).await
    };
    // The grants and tokens of another user remain.
    let claims = Jws::parse(bob["access_token"].as_str().unwrap()).unwrap().claims().unwrap();
    assert_eq!(end(&mut browser, &page, claims["jti"].as_str().unwrap()).await.status, 200);
    assert_eq!(end(&mut browser, &page, &ids(&bob_page)[0]).await.status, 200);
    assert_eq!(accepted(&world, &[&bob]).await, [true]);
    let page = end(&mut browser, &page, &ids(&page)[1]).await;
    assert_eq!((page.status, ids(&page).len()), (200, 3), "{page:?}");
    assert_eq!(accepted(&world, &[&app, &other, &third, &bob]).await, [true, false, true, true]);
    let page = end(&mut browser, &page, "all").await;
    assert!(page.body.contains("There are none."), "{page:?}");
    assert_eq!(accepted(&world, &[&app, &other, &third, &bob]).await, [false, false, false, true]);
}

/// A client whose access has ended asks the user again, also in browsers that remember the approval.
#[tokio::test]
async fn ended_access_is_not_approved_silently() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let exchange = async |browser: &mut Browser| {
        let code = world.log_in(browser, &[]).await.parameter("code").unwrap();
        world.exchange(&code, &[]).await.json()["refresh_token"].as_str().unwrap().to_owned()
    };
    let end = async |browser: &mut Browser, page: &Reaction, id: &str| {
        let body = form(&[("account", &page.hidden("account")), ("end", id)]);
        world.visit(browser, "POST", "/authorize/account", &body).await
    };
    exchange(&mut browser).await;
    assert_eq!(world.authorize(&mut browser, &[]).await.status, 303, "the approval is remembered");
    // On another device.
    let mut other = Browser::default();
    let page = account(&world, &mut other).await;
    let id = page.body.split("name=\"end\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let page = end(&mut other, &page, id).await;
    assert!(page.body.contains("There are none.") && !page.body.contains("End all access"), "{page:?}");
    assert_eq!(world.authorize(&mut browser, &[]).await.status, 200, "the user is asked");

    // An approval remains if the client ends its access.
    let token = exchange(&mut browser).await;
    let revocation = form(&[("client_id", "app"), ("token", &token)]);
    assert_eq!(world.send("POST", "/revoke", &[], &revocation).await.status, 200);
    let page = account(&world, &mut other).await;
    assert!(page.body.contains("There are none.") && page.body.contains("End all access"), "{page:?}");
    end(&mut other, &page, "all").await;
    assert_eq!(world.authorize(&mut browser, &[]).await.status, 200, "the user is asked");
}

/// A client whose document no longer exists is listed by its id.
#[tokio::test]
async fn users_see_clients_that_cannot_be_found() {
    let world = World::new().await;
    let (host, id) = document(|it| it["grant_types"] = json!(["authorization_code", "refresh_token"])).await;
    let changes = [("client_id", id.as_str())];
    let tokens = world.exchange(&world.code(&changes).await, &changes).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    host.respond(|_| crate::tests::issuer::not_found());
    world.clock.advance(2 * HOUR);
    let page = account(&world, &mut Browser::default()).await;
    assert!(page.status == 200 && page.body.contains(&format!("<code>{id}</code>")), "{page:?}");
}

/// CSRF on the page: only the browser that has seen the page can send its forms, once it has not expired.
#[tokio::test]
async fn forged_forms_of_the_account_page_are_rejected() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    let mut browser = Browser::default();
    let page = account(&world, &mut browser).await;
    let sealed = page.hidden("account");
    let body = form(&[("account", sealed.as_str()), ("end", "all")]);
    let broken = form(&[("account", &sealed[1..]), ("end", "all")]);
    let consent = world.authorize(&mut Browser::default(), &[]).await.sealed();
    let of_consent = form(&[("account", consent.as_str()), ("end", "all")]);
    let cookie = format!("__Host-mcp-browser={}", browser.0["__Host-mcp-browser"]);
    for (headers, body, status) in [
        (&[] as &[(&str, &str)], &body, 400),
        (&[("cookie", "__Host-mcp-browser=another")], &body, 400),
        (&[("cookie", &cookie), ("origin", "https://evil.example")], &body, 403),
        (&[("cookie", &cookie), ("sec-fetch-site", "cross-site")], &body, 403),
        (&[("cookie", &cookie)], &broken, 400),
        (&[("cookie", &cookie)], &of_consent, 400),
    ] {
        let response = world.send("POST", "/authorize/account", headers, body).await;
        assert_eq!(response.status, status, "{headers:?} {response:?}");
    }
    assert_eq!(world.send("HEAD", "/authorize/account", &[], "").await.status, 405);
    world.clock.advance(Duration::from_secs(601));
    assert_eq!(world.send("POST", "/authorize/account", &[("cookie", &cookie)], &body).await.status, 400);
    let refreshed = world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, 200, "nothing has ended");
    let headers = [("cookie", cookie.as_str()), ("origin", ISSUER), ("sec-fetch-site", "same-origin")];
    assert_eq!(world.send("POST", "/authorize/account", &headers, &body).await.status, 400, "the page has expired");
}

/// The response of the provider may belong to a login that an attacker has begun.
#[tokio::test]
async fn without_tls_an_error_of_the_provider_ends_the_login_on_a_page() {
    let world = World::start("http://localhost:3000/mcp", [7; 32], |builder| builder).await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[("resource", "")]).await;
    let answer = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
    let own = [("origin", "http://localhost:3000")];
    let login = world.visit_with(&mut browser, "POST", "/authorize", &own, &answer).await;
    let page = world.return_with(&mut browser, &login, &[("error", "access_denied")]).await;
    assert_eq!((page.status, page.header("location")), (400, ""), "{page:?}");
    assert!(page.body.contains("The login at the provider has failed."), "{page:?}");
    assert_eq!(browser.0.keys().collect::<Vec<_>>(), ["mcp-browser"], "the cookie of the login is deleted");
}

/// A page of another port may have begun the login, for a client that it has registered.
#[tokio::test]
async fn without_tls_a_user_who_refuses_is_not_sent_to_the_website_of_an_unknown_client() {
    let world = World::start("http://localhost:3000/mcp", [7; 32], |builder| builder).await;
    let own = [("origin", "http://localhost:3000")];
    let redirect = "https://phishing.example/a";
    let client = world.register(&json!({"redirect_uris": [redirect]})).await.json();
    let mut browser = Browser::default();
    let changes = [("resource", ""), ("client_id", client["client_id"].as_str().unwrap()), ("redirect_uri", redirect)];
    let page = world.authorize(&mut browser, &changes).await;
    let answer = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
    let login = world.visit_with(&mut browser, "POST", "/authorize", &own, &answer).await;
    let page = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    let refusal = form(&[("response", &page.hidden("response")), ("decision", "deny")]);
    let response = world.visit_with(&mut browser, "POST", "/authorize", &own, &refusal).await;
    assert_eq!((response.status, response.header("location")), (400, ""), "{response:?}");
    assert!(response.body.contains("href=\"https://phishing.example/a?error=access_denied"), "{response:?}");
}

/// A page of another port may have set the cookies, and may set them again.
#[tokio::test]
async fn without_tls_a_login_that_the_user_has_refused_has_ended() {
    let world = World::start("http://localhost:3000/mcp", [7; 32], |builder| builder).await;
    let own = [("origin", "http://localhost:3000")];
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[("resource", "")]).await;
    let answer = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
    let login = world.visit_with(&mut browser, "POST", "/authorize", &own, &answer).await;
    let page = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    let confirm = |decision| form(&[("response", &page.hidden("response")), ("decision", decision)]);
    let mut planted = browser.clone();
    let response = world.visit_with(&mut browser, "POST", "/authorize", &own, &confirm("deny")).await;
    assert_eq!(response.parameter("error").as_deref(), Some("access_denied"), "{response:?}");
    assert_eq!(browser.0.keys().collect::<Vec<_>>(), ["mcp-browser"], "the cookie of the login is deleted");
    for browser in [&mut browser, &mut planted] {
        let response = world.visit_with(browser, "POST", "/authorize", &own, &confirm("approve")).await;
        assert_eq!(response.parameter("code"), None, "{response:?}");
    }
}

#[tokio::test]
async fn without_tls_the_page_that_confirms_a_login_shows_names_as_text() {
    let world = World::start("http://localhost:3000/mcp", [7; 32], |builder| builder).await;
    let (name, redirect) = ("</q><form action=\"https://evil.example\">", "http://127.0.0.1:1/callback");
    let client = world.register(&json!({"client_name": name, "redirect_uris": [redirect]})).await.json();
    let id = client["client_id"].as_str().unwrap();
    let mut browser = Browser::default();
    let changes = [("resource", ""), ("client_id", id), ("redirect_uri", redirect)];
    let page = world.authorize(&mut browser, &changes).await;
    let answer = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
    let own = [("origin", "http://localhost:3000")];
    let login = world.visit_with(&mut browser, "POST", "/authorize", &own, &answer).await;
    let page = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert!(page.body.contains("<h1>Continue to <q>&lt;/q&gt;&lt;form action=&quot;"), "{page:?}");
    assert!(!page.body.contains("<form action"), "{page:?}");
}

/// Another website could show the account of another user.
#[tokio::test]
async fn a_login_to_the_account_page_ends_only_with_its_own_response() {
    let world = World::new().await;
    let mut browser = Browser::default();
    world.visit(&mut browser, "GET", "/authorize/account", "").await;
    let page = world.visit(&mut browser, "GET", "/authorize/callback?code=x&state=another", "").await;
    assert!(page.status == 400 && page.body.contains("The login was not started in this browser"), "{page:?}");
    assert!(world.issuer.received("/token").is_empty(), "the code of another login is not used");
}

/// Any website can open the account page.
#[tokio::test]
async fn the_account_page_ends_no_login_of_a_client() {
    let world = World::new().await;
    let mut browser = Browser::default();
    // Their cookies take the space that there is for cookies of logins.
    let state = "x".repeat(912);
    let page = world.authorize(&mut browser, &[("state", &state)]).await;
    let login = world.answer(&mut browser, &page, "approve").await;
    for _ in 0..3 {
        world.answer(&mut browser, &page, "approve").await;
    }
    let logins = |browser: &Browser| {
        let cookies = browser.0.iter().filter(|(name, _)| name.contains("mcp-login-"));
        cookies.map(|(name, value)| (name.clone(), value.len())).collect::<Vec<_>>()
    };
    let before = logins(&browser);
    let length: usize = before.iter().map(|(_, length)| length).sum();
    assert!((7500..=7800).contains(&length), "{before:?}");
    for _ in 0..40 {
        world.visit(&mut browser, "GET", "/authorize/account", "").await;
    }
    assert_eq!(logins(&browser), before);
    assert_eq!(account(&world, &mut browser).await.status, 200);
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert!(response.parameter("code").is_some(), "{response:?}");
}

/// Without TLS, a page of another port can set the cookies of a login that an attacker has approved elsewhere. The user
/// sees the client before it gets a code.
#[tokio::test]
async fn without_tls_the_user_confirms_the_login() {
    const LOCAL: &str = "http://localhost:3000";
    let world = World::start("http://localhost:3000/mcp", [7; 32], |builder| builder).await;
    let origin = |origin: &'static str| vec![("origin", origin)];
    let changes = [("resource", "")];
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &changes).await;
    let answer = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
    let login = world.visit_with(&mut browser, "POST", "/authorize", &origin(LOCAL), &answer).await;
    assert_eq!(login.status, 303, "{login:?}");
    let cookie = login.header("set-cookie");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Lax"), "not all browsers accept `Secure` here: {cookie}");
    let page = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert_eq!((page.status, page.header("location")), (200, ""), "{page:?}");
    assert!(page.body.contains("<h1>Continue to <q>The App</q>?</h1>"), "{page:?}");
    assert!(page.body.contains("<code>https://app.example/callback</code>"), "{page:?}");
    assert!(world.issuer.received("/token").is_empty(), "the code of the provider is not used yet");
    let sealed = page.hidden("response");
    let confirm = |decision| form(&[("response", sealed.as_str()), ("decision", decision)]);
    for (headers, status) in [(origin("http://localhost:4000"), 403), (Vec::new(), 403)] {
        let response =
            world.visit_with(&mut browser.clone(), "POST", "/authorize", &headers, &confirm("approve")).await;
        assert_eq!(response.status, status, "{headers:?}");
    }
    let mut other = Browser::default();
    let response = world.visit_with(&mut other, "POST", "/authorize", &origin(LOCAL), &confirm("approve")).await;
    assert_eq!(response.status, 400, "{response:?}");
    let response = world.visit_with(&mut browser, "POST", "/authorize", &origin(LOCAL), &confirm("approve")).await;
    assert!(response.parameter("code").is_some(), "{response:?}");
    // An error does not take the user to the client either.
    let client = world.register(&json!({"redirect_uris": ["https://evil.example/"]})).await.json();
    let id = client["client_id"].as_str().unwrap();
    let unknown = [("resource", ""), ("client_id", id), ("redirect_uri", "https://evil.example/")];
    let page = world.authorize(&mut browser, &unknown).await;
    let answer = form(&[("request", &page.sealed()), ("decision", "approve"), ("scope-0", "yes")]);
    let login = world.visit_with(&mut browser, "POST", "/authorize", &origin(LOCAL), &answer).await;
    super::records::age_records(2 * HOUR).await;
    let (log, _guard) = Log::listen();
    let page = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert_eq!((page.status, page.header("location")), (400, ""), "{page:?}");
    let reason = "the client is unknown, or its registration has expired";
    assert_eq!(log.take(), [format!("refusal client={id} peer=192.0.2.1 reason={reason}")]);
}

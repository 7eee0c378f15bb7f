//! The page that asks the user.

use serde_json::json;

use super::{
    Browser, ISSUER, REDIRECT, Reaction, World,
    records::{age_records, stored},
};
use crate::{ConfiguredClient, tests::RESOURCE};

#[tokio::test]
async fn the_page_names_client_redirect_host_and_scopes_and_cannot_be_framed() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[("scope", "notes:read notes:write")]).await;
    for text in [
        "<html lang=\"en\">",
        "<h1>Allow <q>The App</q> to use Notes for you?</h1>",
        "<dd>app.example<br><code>https://app.example/callback</code></dd>",
        "<dd><code>openid email notes.edit</code></dd>",
        "<label><input type=\"checkbox\" name=\"scope-0\" value=\"yes\" checked> Read your notes (<code>notes:read</code>)</label>",
        "name=\"scope-1\" value=\"yes\" checked> Change your notes (<code>notes:write</code>)</label>",
        "The operator of Notes has set it up.",
        "<form method=\"post\" action=\"/authorize\">",
        "value=\"approve\">Allow</button>",
        "value=\"deny\">Cancel</button>",
    ] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    assert!(!page.body.contains("<script") && !page.body.contains("on this computer"), "{}", page.body);
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"), "{policy}");
    for (name, expected) in [
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("access-control-allow-origin", ""),
    ] {
        assert_eq!(page.header(name), expected, "{name}");
    }
    let cookie = page.header("set-cookie");
    assert!(cookie.starts_with("__Host-mcp-browser="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    // Nothing is stored and the provider is not asked before the user has approved.
    let stored = stored(&world.records).await;
    assert_eq!(stored.len(), 1, "only the signing keys: {stored:?}");
}

/// The default of the policy does not cover `base-uri`.
#[tokio::test]
async fn pages_load_nothing_and_only_their_own_style_elements_apply() {
    let world = World::new().await;
    let mut nonces = Vec::new();
    for changes in [&[] as &[(&str, &str)], &[("client_id", "unknown")]] {
        let page = world.authorize(&mut Browser::default(), changes).await;
        let (_, nonce) = page.body.split_once("<style nonce=\"").unwrap();
        let nonce = nonce.split('"').next().unwrap().to_owned();
        let policy = format!("default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'none'; base-uri 'none'");
        assert_eq!(page.header("content-security-policy"), policy, "{changes:?}");
        nonces.push(nonce);
    }
    assert_ne!(nonces[0], nonces[1]);
}

#[tokio::test]
async fn hostile_names_are_shown_as_text() {
    let world = World::new().await;
    let hostile = "</q><script>alert(1)</script>\u{202e}\"'&".to_owned() + &"x".repeat(10_000);
    let metadata = json!({"client_name": hostile, "redirect_uris": ["http://127.0.0.1:1/cb"], "logo_uri": "https://evil.example/x.svg"});
    let client = world.register(&metadata).await.json();
    assert!(client.get("logo_uri").is_none() && client["client_name"].as_str().unwrap().len() < 500);
    let id = client["client_id"].as_str().unwrap();
    let changes = [("client_id", id), ("redirect_uri", "http://127.0.0.1:5000/cb")];
    let page = world.authorize(&mut Browser::default(), &changes).await;
    assert!(
        page.body.contains("<q>&lt;/q&gt;&lt;script&gt;alert(1)&lt;/script&gt; &quot;&#39;&amp;xxx"),
        "{}",
        page.body
    );
    assert!(!page.body.contains("<script") && !page.body.contains("evil.example"), "{}", page.body);
    assert!(page.body.contains("nobody has verified who it is"), "{}", page.body);
    assert!(!page.body.contains('\u{202e}') && !page.body.contains(&"x".repeat(61)), "{}", page.body);
    // The answer goes to a program on the user's machine, which any program can have started.
    assert!(page.body.contains("<dd>127.0.0.1:5000<br>") && page.body.contains("a program on this computer"));
}

#[tokio::test]
async fn the_user_who_says_no_is_sent_back() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let response = world.answer(&mut browser, &page, "deny").await;
    assert!(response.header("location").starts_with(REDIRECT), "{response:?}");
    assert_eq!(response.parameter("error").as_deref(), Some("access_denied"));
    assert_eq!(response.parameter("state").as_deref(), Some("a state"));
    assert!(!browser.0.keys().any(|name| name.contains("login")), "{browser:?}");
}

#[tokio::test]
async fn the_user_can_allow_fewer_scopes() {
    let world = World::new().await;
    let both = [("scope", "notes:read notes:write")];
    let reversed = [("scope", "notes:write notes:read")];
    for (both, chosen, expected) in [
        (both, &["scope-0", "scope-1"] as &[&str], "notes:read notes:write"),
        (both, &["scope-1"], "notes:write"),
        (both, &["scope-0", "scope-2"], "notes:read"),
        (reversed, &["scope-1"], "notes:write"),
        (reversed, &["scope-0"], "notes:read"),
    ] {
        let mut browser = Browser::default();
        let page = world.authorize(&mut browser, &both).await;
        let login = world.answer_with(&mut browser, &page, "approve", chosen).await;
        let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
        let tokens = world.exchange(&response.parameter("code").unwrap(), &[]).await.json();
        assert_eq!(tokens["scope"], expected, "{both:?} {chosen:?}");
        let is_asked = world.authorize(&mut browser, &both).await.status == 200;
        assert_eq!(is_asked, chosen.len() < 2 || expected == "notes:read", "what was refused is not remembered");
    }
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &both).await;
    assert_eq!(world.answer_with(&mut browser, &page, "approve", &[]).await.status, 400);
    assert_eq!(world.answer_with(&mut browser, &page, "approve", &["scope-2"]).await.status, 400);
}

/// Returns the path of the request that is repeated after another user has logged in.
pub(super) fn restarted(response: &Reaction) -> String {
    let path = response.header("location").strip_prefix(ISSUER).unwrap_or_else(|| panic!("{response:?}"));
    assert!(path.starts_with("/authorize?"), "{response:?}");
    path.to_owned()
}

/// The confused deputy: the provider would let every user pass who is logged in, so each client needs its own approval.
#[tokio::test]
async fn approvals_are_remembered_for_one_client_redirect_uri_scopes_and_user() {
    let world = World::new().await;
    let mut browser = Browser::default();
    world.log_in(&mut browser, &[]).await;
    for (changes, is_asked) in [
        (&[] as &[(&str, &str)], false),
        (&[("state", "another")], false),
        (&[("scope", "notes:read notes:write")], true),
        (&[("client_id", "web")], true),
        (&[("client_id", "other"), ("redirect_uri", "https://other.example/callback")], true),
    ] {
        let response = world.authorize(&mut browser, changes).await;
        assert_eq!(response.status == 200, is_asked, "{changes:?} {response:?}");
    }
    assert_eq!(world.authorize(&mut Browser::default(), &[]).await.status, 200, "another browser is asked");
    // The same user is not asked again …
    let login = world.authorize(&mut browser, &[]).await;
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert!(response.parameter("code").is_some(), "{response:?}");
    // … but another user of the same browser is, after the login has revealed who it is.
    world.provider(|provider| provider.subject = "bob".to_owned());
    let login = world.authorize(&mut browser, &[]).await;
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    let path = restarted(&response);
    let page = world.visit(&mut browser, "GET", &path, "").await;
    assert_eq!(page.status, 200);
    let login = world.answer(&mut browser, &page, "approve").await;
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert_eq!(response.parameter("state").as_deref(), Some("a state"), "{response:?}");
    assert_eq!(world.exchange(&response.parameter("code").unwrap(), &[]).await.status, 200);
    age_records(std::time::Duration::from_secs(29 * 24 * 3600)).await;
    assert_eq!(world.authorize(&mut browser, &[]).await.status, 303, "for 30 days, the user is not asked again");
    world.clock.advance(std::time::Duration::from_secs(31 * 24 * 3600));
    assert_eq!(world.authorize(&mut browser, &[]).await.status, 200, "after 30 days, the user is asked again");
}

/// A new configuration may need scopes at the provider that no page has shown.
#[tokio::test]
async fn approvals_cover_the_scopes_at_the_provider() {
    let world = World::new().await;
    let mut browser = Browser::default();
    world.log_in(&mut browser, &[]).await;
    world.provider(|provider| provider.read_scopes = &["email"]);
    let same = world.replica(RESOURCE, [7; 32], |builder| builder).await;
    assert_eq!(same.authorize(&mut browser, &[]).await.status, 303);
    world.provider(|provider| provider.read_scopes = &["email", "notes.delete"]);
    let wider = world.replica(RESOURCE, [7; 32], |builder| builder).await;
    let page = wider.authorize(&mut browser, &[]).await;
    assert!(page.status == 200 && page.body.contains("notes.delete"), "{page:?}");
    // The page of the other configuration has not shown them.
    let mut other = Browser::default();
    let shown = same.authorize(&mut other, &[]).await;
    let refused = wider.answer(&mut other, &shown, "approve").await;
    assert!(refused.status == 400 && refused.body.contains("has changed"), "{refused:?}");
    assert_eq!(wider.answer(&mut browser, &page, "approve").await.status, 303);
}

#[tokio::test]
async fn logins_without_a_question_are_counted_for_an_hour() {
    let world = World::new().await;
    let mut browser = Browser::default();
    world.log_in(&mut browser, &[]).await;
    let mut sizes = Vec::new();
    for _ in 0..10 {
        let login = world.authorize(&mut browser, &[]).await;
        world.return_with(&mut browser, &login, &[("code", "x")]).await;
        world.clock.advance(std::time::Duration::from_secs(3600));
        let records = stored(&world.records).await;
        sizes.push(records.iter().find(|(key, _)| key.contains("/browser/")).unwrap().1.value.len());
    }
    // Timestamps may differ in length by a few digits.
    assert!(sizes.iter().all(|size| size.abs_diff(sizes[0]) < 20), "{sizes:?}");
}

#[tokio::test]
async fn a_browser_remembers_the_newest_approvals() {
    let clients: Vec<String> = (0..22).map(|index| format!("client-{index}")).collect();
    let add = |builder: crate::AuthorizationServerBuilder, id: &String| {
        builder.with_client(ConfiguredClient::public(id, id, [REDIRECT]).unwrap())
    };
    let world = World::with(|builder| clients.iter().fold(builder, add)).await;
    let mut browser = Browser::default();
    for id in &clients {
        assert!(world.log_in(&mut browser, &[("client_id", id)]).await.parameter("code").is_some());
    }
    for (index, id) in clients.iter().enumerate() {
        let status = world.authorize(&mut browser, &[("client_id", id)]).await.status;
        assert_eq!(status, if index < 2 { 200 } else { 303 }, "{index}");
    }
}

#[tokio::test]
async fn the_page_can_be_themed_or_replaced() {
    let themed = World::with(|builder| builder.style("h1{color:red}</style><script>")).await;
    let page = themed.authorize(&mut Browser::default(), &[]).await;
    assert!(page.body.contains("h1{color:red}") && !page.body.contains("</style><script>"), "{}", page.body);
    let replaced = World::with(|builder| {
        builder.consent_page(|page| {
            let scopes: Vec<_> = page.scopes().map(|(name, _)| name).collect();
            let (client, host) = (page.client_name(), page.redirect_host());
            format!("{client} {host} {scopes:?} {} {}", page.service_name(), page.form("Yes", "No"))
        })
    })
    .await;
    let mut browser = Browser::default();
    let page = replaced.authorize(&mut browser, &[]).await;
    assert!(page.body.starts_with("The App app.example [\"notes:read\"] Notes <form"), "{}", page.body);
    assert!(page.header("content-security-policy").contains("frame-ancestors 'none'"));
    assert_eq!(replaced.answer(&mut browser, &page, "approve").await.status, 303);
}

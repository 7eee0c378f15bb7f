//! Access tokens: machines, revocation, expiry, and tokens of the provider for functions.

use std::time::Duration;

use http::HeaderMap;
use mcp_runtime::{
    Context, HttpOptions, Revision, Server, auth::Identity, http as mcp_http, testing::TestClient, tool,
};
use serde_json::{Value, json};

use super::{ISSUER, World, form};
use crate::{UpstreamTokenError, UpstreamTokens, jose::Jws, tests::bearer};

#[tokio::test]
async fn machines_get_tokens_in_their_own_name_and_nobody_else_does() {
    let world = World::new().await;
    let request = |client: &str, secret: &str, scope: &str| {
        let parameters =
            [("grant_type", "client_credentials"), ("client_id", client), ("client_secret", secret), ("scope", scope)];
        let body = form(&parameters);
        let world = &world;
        async move { world.send("POST", "/token", &[], &body).await }
    };
    for (client, secret, scope, status, error) in [
        ("robot", "wrong", "", 401, json!("invalid_client")),
        ("robot", "", "", 401, json!("invalid_client")),
        ("robot", "a robot secret", "notes:admin", 400, json!("invalid_scope")),
        ("robot", "a robot secret", " ", 400, json!("invalid_scope")),
        ("robot", "a robot secret", "notes:read notes:admin", 400, json!("invalid_scope")),
        ("web", "a web secret", "", 400, json!("unauthorized_client")),
        ("app", "", "", 400, json!("unauthorized_client")),
        ("robot", "a robot secret", "notes:read", 200, Value::Null),
    ] {
        let response = request(client, secret, scope).await;
        assert_eq!((response.status, &response.json()["error"]), (status, &error), "{client} {scope}");
    }
    let tokens = request("robot", "a robot secret", "").await.json();
    assert_eq!((&tokens["scope"], tokens.get("refresh_token")), (&json!("notes:read notes:audit"), None));
    let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(identity.principal(), format!("{ISSUER}#client:robot"));
    let spaced = request("robot", "a robot secret", " notes:read  notes:audit ").await;
    assert_eq!(spaced.json()["scope"], "notes:read notes:audit", "{spaced:?}");
    let repeated = request("robot", "a robot secret", &"notes:audit ".repeat(1000)).await;
    assert_eq!(repeated.json()["scope"], "notes:audit", "{repeated:?}");
}

#[tokio::test]
async fn a_client_revokes_its_own_tokens_only() {
    // An access token that has expired names its grant.
    for (kind, seconds) in [("refresh_token", 0), ("access_token", 0), ("access_token", 3600)] {
        let world = World::new().await;
        let tokens = world.tokens().await;
        world.clock.advance(Duration::from_secs(seconds));
        let token = tokens[kind].as_str().unwrap();
        let revoke = |client: &str, token: &str| {
            let body = form(&[("client_id", client), ("token", token)]);
            let world = &world;
            async move { world.send("POST", "/revoke", &[], &body).await.status }
        };
        for (client, token, status) in
            [("other", token, 400), ("app", "unknown", 200), ("app", "", 400), ("unknown", token, 401)]
        {
            assert_eq!(revoke(client, token).await, status, "{client}");
            assert_eq!(world.accepts(&tokens["access_token"]).await, seconds == 0);
        }
        assert_eq!(revoke("app", token).await, 200);
        assert!(!world.accepts(&tokens["access_token"]).await);
        let refreshed = world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
        assert_eq!(refreshed.json()["error"], "invalid_grant");
        assert_eq!(revoke("app", token).await, 200);
    }
}

/// A list of scopes has at least one. Claims of the provider do not take their place.
#[tokio::test]
async fn what_is_issued_without_scopes_has_no_member_for_them() {
    let world = World::with(|builder| builder.without_scopes().claims(["scope", "scp"])).await;
    world.provider(|provider| provider.claims = json!({"scope": "notes:admin", "scp": "notes:admin"}));
    let own = [("client_id", "web"), ("client_secret", "a web secret")];
    let tokens = world.exchange(&world.code(&own[..1]).await, &own).await.json();
    let text = |name: &str| tokens[name].as_str().unwrap();
    let claims = Jws::parse(text("access_token")).unwrap().claims().unwrap();
    assert_eq!([tokens.get("scope"), claims.get("scope"), claims.get("scp")], [None; 3]);
    let identity = bearer(&world.server, text("access_token")).await.unwrap();
    assert_eq!(identity.scopes().next(), None);
    for token in [text("access_token"), text("refresh_token")] {
        let described = world.send("POST", "/introspect", &[], &form(&[own[0], own[1], ("token", token)])).await.json();
        assert_eq!((&described["active"], described.get("scope")), (&json!(true), None), "{described}");
    }
    let refresh = [("grant_type", "refresh_token"), own[0], own[1], ("refresh_token", text("refresh_token"))];
    let (first, repeated) = (world.token(&refresh).await, world.token(&refresh).await);
    assert_eq!((first.status, first.json().get("scope"), repeated.body), (200, None, first.body));
}

#[tokio::test]
async fn a_machine_revokes_its_token() {
    let world = World::new().await;
    let credentials = [("client_id", "robot"), ("client_secret", "a robot secret")];
    let request = form(&[&credentials[..], &[("grant_type", "client_credentials")]].concat());
    let token = async || world.send("POST", "/token", &[], &request).await.json()["access_token"].clone();
    let (revoked, other) = (token().await, token().await);
    let body = form(&[&credentials[..], &[("token", revoked.as_str().unwrap())]].concat());
    assert_eq!(world.send("POST", "/revoke", &[], &body).await.status, 200);
    assert_eq!((world.accepts(&revoked).await, world.accepts(&other).await), (false, true));
}

/// No client finds out whether a token of another one is valid.
#[tokio::test]
async fn a_client_with_credentials_asks_about_its_own_tokens() {
    let world = World::new().await;
    let (web, robot) = (("web", "a web secret"), ("robot", "a robot secret"));
    let own = [("client_id", web.0), ("client_secret", web.1)];
    let code = world.code(&own[..1]).await;
    let first = world.exchange(&code, &own).await.json();
    let refresh = |tokens: &Value| tokens["refresh_token"].as_str().unwrap().to_owned();
    let parameters = [("grant_type", "refresh_token"), own[0], own[1]];
    let second = world.token(&[&parameters[..], &[("refresh_token", &refresh(&first))]].concat()).await.json();
    let credentials = [("grant_type", "client_credentials"), ("client_id", robot.0), ("client_secret", robot.1)];
    let machine = world.token(&credentials).await.json();
    let of_app = world.tokens().await;
    let access = |tokens: &Value| tokens["access_token"].as_str().unwrap().to_owned();
    let ask = async |(client, secret): (&str, &str), token: &str| {
        let body = form(&[("client_id", client), ("client_secret", secret), ("token", token)]);
        world.send("POST", "/introspect", &[], &body).await
    };
    let own_access = ask(web, &access(&second)).await;
    assert_eq!((own_access.status, own_access.header("cache-control")), (200, "no-store"));
    let described = own_access.json();
    for (name, expected) in [
        ("active", json!(true)),
        ("iss", json!(ISSUER)),
        ("sub", json!("ada")),
        ("aud", json!(crate::tests::RESOURCE)),
        ("client_id", json!("web")),
        ("scope", json!("notes:read")),
        ("token_type", json!("Bearer")),
        ("email", Value::Null),
    ] {
        assert_eq!(described[name], expected, "{name}");
    }
    let lifetime = described["exp"].as_u64().unwrap() - described["iat"].as_u64().unwrap();
    assert_eq!(lifetime, 600);
    let (signed, _) = first["access_token"].as_str().unwrap().rsplit_once('.').unwrap();
    let (_, signature) = of_app["access_token"].as_str().unwrap().rsplit_once('.').unwrap();
    for (client, token, active) in [
        (web, format!("{signed}.{signature}"), false),
        (web, access(&first), true),
        (web, refresh(&second), true),
        (web, refresh(&first), false),
        (robot, access(&machine), true),
        (robot, access(&second), false),
        (robot, refresh(&second), false),
        (web, access(&machine), false),
        (web, access(&of_app), false),
        (web, refresh(&of_app), false),
        (web, "unknown".to_owned(), false),
    ] {
        let response = ask(client, &token).await.json();
        assert_eq!(response["active"], active, "{client:?} {response}");
        assert!(active || response == json!({"active": false}), "{response}");
    }
    // Asking about a refresh token that was replaced is no attempt to use it.
    let mut described = ask(web, &refresh(&second)).await.json();
    let expires = described["exp"].take().as_f64().unwrap() - world.clock.unix();
    assert!((expires - 30.0 * 24.0 * 3600.0).abs() < 60.0, "{expires}");
    assert_eq!(
        described,
        json!({
            "active": true, "iss": ISSUER, "sub": "ada", "client_id": "web", "scope": "notes:read", "exp": null,
        })
    );
    // Some clients without a secret send an empty one in the header.
    for (credentials, status) in [("app:", 200), ("web:", 401)] {
        let basic = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, credentials);
        let headers = [("authorization", &*format!("Basic {basic}"))];
        assert_eq!(world.send("POST", "/revoke", &headers, "token=x").await.status, status, "{credentials}");
    }
    // Credentials in the header are encoded like those of a form.
    let basic = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, "web:a+web%20secret");
    for (scheme, status) in [("Basic", 200), ("basic ", 200), ("Bearer", 401)] {
        let headers = [("authorization", &*format!("{scheme} {basic}"))];
        let response = world.send("POST", "/introspect", &headers, &form(&[("token", &refresh(&second))])).await;
        assert_eq!((response.status, response.json()["active"] == true), (status, status == 200), "{response:?}");
    }
    let (headers, both) = ([("authorization", &*format!("Basic {basic}"))], form(&[own[1], ("token", "x")]));
    let refused = world.send("POST", "/introspect", &headers, &both).await;
    assert_eq!(refused.json()["error_description"], "the client authenticates in two ways", "{refused:?}");
    for (client, token, status) in
        [(("app", ""), access(&of_app), 401), (("web", "wrong"), access(&second), 401), (web, String::new(), 400)]
    {
        assert_eq!(ask(client, &token).await.status, status, "{client:?}");
    }
    world.send("POST", "/revoke", &[], &form(&[own[0], own[1], ("token", &access(&first))])).await;
    for token in [access(&first), access(&second), refresh(&second)] {
        assert_eq!(ask(web, &token).await.json(), json!({"active": false}));
    }
    let revoke = async |tokens: &Value| {
        let body = form(&[("client_id", robot.0), ("client_secret", robot.1), ("token", &access(tokens))]);
        assert_eq!(world.send("POST", "/revoke", &[], &body).await.status, 200);
    };
    let revoked = world.token(&credentials).await.json();
    revoke(&revoked).await;
    assert_eq!(ask(robot, &access(&revoked)).await.json(), json!({"active": false}));
    world.clock.advance(Duration::from_secs(601));
    assert_eq!(ask(robot, &access(&machine)).await.json(), json!({"active": false}));
    // The clock of the resource server may be behind, so the token can still be revoked.
    assert!(world.accepts(&machine["access_token"]).await);
    revoke(&machine).await;
    assert!(!world.accepts(&machine["access_token"]).await);
}

#[tokio::test]
async fn tokens_and_logins_expire_and_keys_rotate() {
    let world = World::with(|builder| builder.login_lifetime(Duration::from_secs(3 * 24 * 3600))).await;
    let tokens = world.tokens().await;
    world.clock.advance(Duration::from_secs(601));
    assert!(world.accepts(&tokens["access_token"]).await, "the clocks may differ by a minute");
    world.clock.advance(Duration::from_secs(60));
    assert!(!world.accepts(&tokens["access_token"]).await);
    let key = |token: &Value| {
        let header = token.as_str().unwrap().split('.').next().unwrap();
        let header = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, header).unwrap();
        serde_json::from_slice::<Value>(&header).unwrap()["kid"].clone()
    };
    let mut refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    let mut keys = vec![key(&tokens["access_token"])];
    for _ in 0..2 {
        world.clock.advance(Duration::from_secs(24 * 3600));
        let refreshed = world.refresh(&refresh).await.json();
        assert!(world.accepts(&refreshed["access_token"]).await);
        keys.push(key(&refreshed["access_token"]));
        refresh = refreshed["refresh_token"].as_str().unwrap().to_owned();
    }
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "{keys:?}");
    world.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(world.refresh(&refresh).await.json()["error"], "invalid_grant", "the user has to log in again");
}

/// Tokens with another audience, issuer or key are those of others, even if the rest is right.
#[tokio::test]
async fn tokens_of_other_servers_are_rejected() {
    let (one, other) = (World::new().await, World::with(|builder| builder.with_secret([8; 32])).await);
    let tokens = other.tokens().await;
    assert!(other.accepts(&tokens["access_token"]).await);
    assert!(!one.accepts(&tokens["access_token"]).await);
    assert!(!one.accepts(&tokens["refresh_token"]).await);
}

#[tokio::test]
async fn the_oldest_grant_of_a_user_ends_if_there_are_too_many() {
    let world = World::new().await;
    let first = world.tokens().await;
    for _ in 0..50 {
        assert!(world.accepts(&first["access_token"]).await);
        world.tokens().await;
    }
    assert!(!world.accepts(&first["access_token"]).await);
}

/// Return a token with which a calendar can be called for the caller.
#[tool]
async fn calendar_token(tokens: &UpstreamTokens, ctx: &Context) -> Result<String, String> {
    let token = tokens.exchange(ctx, "https://calendar.example", ["events:read", "events:write"]).await;
    token.map_err(|error| error.to_string())
}

#[tokio::test]
async fn functions_exchange_the_token_of_the_provider_for_one_of_another_service() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap().0.clone();
    let call = async |identity: Identity| {
        let server = Server::empty("notes", "1.0.0").with::<calendar_token>();
        let server = server.with_state(world.server.upstream_tokens()).stdio_identity(identity);
        server.test_client(Revision::V2026_07_28).call("calendar_token", ()).await.unwrap().text().to_owned()
    };
    let access = "urn:ietf:params:oauth:token-type:access_token";
    let issued =
        |kind: &str, scheme: &str| json!({"access_token": "x", "issued_token_type": kind, "token_type": scheme});
    let (refused, unavailable) =
        ("the provider issues no token for this service", "the token of the provider is temporarily unavailable");
    for (status, response, expected) in [
        (200, issued(access, "Bearer"), "x"),
        (200, issued(access, "bearer"), "x"),
        (200, issued(access, "DPoP"), unavailable),
        (200, issued("urn:ietf:params:oauth:token-type:refresh_token", "N_A"), unavailable),
        (200, json!({"access_token": "x", "token_type": "Bearer"}), unavailable),
        (400, json!({"error": "invalid_target"}), refused),
        (400, json!({"error": "invalid_grant"}), refused),
        (403, json!({"error": "access_denied"}), refused),
        (401, json!({"error": "invalid_client"}), unavailable),
        (503, json!({}), unavailable),
    ] {
        world.provider(|provider| provider.token = Some((status, response.clone())));
        assert_eq!(call(identity.clone()).await, expected, "{response}");
        let scopes = ["events:read", "events:write"];
        let exchanged =
            world.server.upstream_tokens().exchange_for(&identity, "https://calendar.example", scopes).await;
        assert_eq!(exchanged.unwrap_or_else(|error| error.to_string()), expected, "outside of a call: {response}");
    }
    let sent = world.issuer.received("/token");
    let sent: std::collections::BTreeMap<_, _> = form_urlencoded::parse(sent[1].body.as_bytes()).collect();
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", "upstream-access"),
        ("subject_token_type", access),
        ("requested_token_type", access),
        ("audience", "https://calendar.example"),
        ("scope", "events:read events:write"),
    ] {
        assert_eq!(sent.get(name).map(|value| &**value), Some(value), "{name}");
    }
    world.provider(|provider| provider.token = Some((200, issued(access, "Bearer"))));
    let exchanged = world.server.upstream_tokens().exchange_for(&identity, "https://calendar.example", [""; 0]).await;
    assert_eq!(exchanged, Ok("x".to_owned()));
    let sent = world.issuer.received("/token");
    assert!(!sent.last().unwrap().body.contains("&scope="), "the provider chooses the scopes");
    assert!(world.accepts(&tokens["access_token"]).await, "a refusal ends nothing");
    let machine = Identity::new("x").with_claims(json!({"iss": ISSUER, "sub": "client:robot"}));
    assert_eq!(call(machine).await, "the caller has not logged in at the provider");
}

/// Return the credentials of the request.
#[tool]
fn received(ctx: &Context) -> String {
    let header = ctx.headers().and_then(|headers| headers.get("authorization"));
    header.map_or("none", |value| value.to_str().unwrap()).to_owned()
}

/// The token of a caller was issued for the gateway, so an upstream behind it receives another one.
#[tokio::test]
async fn a_gateway_exchanges_tokens_for_its_upstreams() {
    let world = World::new().await;
    let mut own = Vec::new();
    for user in ["ada", "bob", "eve"] {
        world.set_user(user);
        let tokens = world.tokens().await;
        own.push(format!("Bearer {}", tokens["access_token"].as_str().unwrap()));
    }
    let logins = world.issuer.received("/token").len();
    let upstream = Server::empty("tracker", "1.0.0").with::<received>().build().unwrap();
    let listener = mcp_http::Listener::bind(([127, 0, 0, 1], 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.address().unwrap());
    tokio::spawn(mcp_http::serve(listener, upstream.into_http_service(HttpOptions::default()).unwrap()).into_future());
    let exchange = world.server.upstream_tokens();
    let upstream = mcp_proxy::Upstream::http(&url).headers_for(move |user: Option<Identity>| {
        let exchange = exchange.clone();
        async move {
            let mut headers = HeaderMap::new();
            if let Some(user) = user {
                let token = exchange.exchange_for(&user, "https://tracker.example", ["read"]).await?;
                headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
            }
            Ok::<_, UpstreamTokenError>(headers)
        }
    });
    let gateway = Server::empty("gateway", "1.0.0").authenticate(world.server);
    let gateway = upstream.add_to(gateway, "up").await.unwrap().build().unwrap();
    let service = gateway.into_http_service(HttpOptions::default()).unwrap();
    let unavailable = "up: the upstream is unavailable: there are no credentials for this caller";
    for round in 0..2 {
        // The response of the provider, for the first call of each user.
        for (user, status, token) in [(0, 200, "for-ada"), (1, 403, ""), (2, 200, "for-eve")] {
            let issued = json!({"access_token": token, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer"});
            let response = if status == 200 { issued } else { json!({"error": "access_denied"}) };
            world.provider.lock().unwrap().token = Some((status, response));
            for revision in Revision::ALL {
                let client = TestClient::over_http(service.clone(), "/", revision);
                let result = client.with_header("authorization", &own[user]).call("up_received", ()).await.unwrap();
                let expected = if status == 200 { format!("Bearer {token}") } else { unavailable.to_owned() };
                assert_eq!(result.text(), expected, "{round} {user} {revision}");
            }
        }
    }
    let sent = world.issuer.received("/token").split_off(logins);
    let subjects =
        |sent: &str| form_urlencoded::parse(sent.as_bytes()).filter(|(name, _)| name == "subject_token").count();
    assert!(
        (3..=8).contains(&sent.len()),
        "one exchange for each connection, and some attempts of one user: {}",
        sent.len()
    );
    assert!(sent.iter().all(|request| subjects(&request.body) == 1));
    let sent: std::collections::BTreeMap<_, _> = form_urlencoded::parse(sent[0].body.as_bytes()).collect();
    assert_eq!((&*sent["subject_token"], &*sent["audience"]), ("upstream-access", "https://tracker.example"));
}

/// Return the token of the caller at the provider.
#[tool]
async fn upstream_token(tokens: &UpstreamTokens, ctx: &Context) -> Result<String, String> {
    tokens.of(ctx).await.map_err(|error| error.to_string())
}

/// Returns what a function gets that a caller calls.
pub(super) async fn upstream_token_of(world: &World, identity: Identity) -> String {
    let server = Server::empty("notes", "1.0.0").with::<upstream_token>();
    let server = server.with_state(world.server.upstream_tokens()).stdio_identity(identity);
    let mut client = server.test_client(Revision::V2026_07_28);
    client.call("upstream_token", ()).await.unwrap().text().to_owned()
}

#[tokio::test]
async fn functions_get_the_token_of_the_provider_if_the_author_says_so() {
    let world = World::new().await;
    let (tokens, other) = (world.tokens().await, world.tokens().await);
    let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap();
    let other = bearer(&world.server, other["access_token"].as_str().unwrap()).await.unwrap();
    let call = |identity| upstream_token_of(&world, identity);
    assert_eq!(call(identity.0.clone()).await, "upstream-access");
    world.clock.advance(Duration::from_secs(3600));
    world.provider(|provider| provider.token = Some((200, json!({"access_token": "renewed", "expires_in": 3600}))));
    assert_eq!(call(identity.0.clone()).await, "renewed");
    world.provider(|provider| provider.token = Some((503, json!({}))));
    world.clock.advance(Duration::from_secs(3540));
    assert_eq!(call(identity.0.clone()).await, "renewed", "it is kept until shortly before it expires");
    world.clock.advance(Duration::from_secs(45));
    assert_eq!(call(identity.0.clone()).await, "the token of the provider is temporarily unavailable");
    world.provider(|provider| provider.token = Some((400, json!({"error": "invalid_grant"}))));
    assert_eq!(call(identity.0.clone()).await, "the login at the provider has ended: authorize again");
    world.provider(|provider| provider.token = Some((200, json!({"access_token": "lasting"}))));
    assert_eq!(call(other.0.clone()).await, "lasting");
    world.provider(|provider| provider.token = Some((503, json!({}))));
    assert_eq!(call(other.0.clone()).await, "lasting", "it does not expire");
    let stranger = Identity::new("ada").with_claims(json!({"iss": "https://x.example", "grant": "x"}));
    assert_eq!(call(stranger).await, "the caller has not logged in at the provider");
}

/// Such a token is used until it expires.
#[tokio::test]
async fn a_token_of_the_provider_that_cannot_be_renewed_ends() {
    let world = World::new().await;
    world.provider(|provider| provider.has_refresh_tokens = false);
    let tokens = world.tokens().await;
    let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap();
    for (seconds, expected) in [(3590, "upstream-access"), (11, "the login at the provider has ended: authorize again")]
    {
        world.clock.advance(Duration::from_secs(seconds));
        assert_eq!(upstream_token_of(&world, identity.0.clone()).await, expected);
    }
}

/// Keys verify tokens for longer than any token is valid.
#[tokio::test]
async fn the_lifetime_of_access_tokens_is_bounded() {
    for (seconds, expected) in [(1, 60), (1800, 1800), (24 * 3600, 3600)] {
        let world = World::with(|builder| builder.access_token_lifetime(Duration::from_secs(seconds))).await;
        assert_eq!(world.tokens().await["expires_in"], expected, "{seconds}");
    }
}

#[tokio::test]
async fn the_lifetime_of_logins_is_bounded() {
    const DAY: u64 = 24 * 3600;
    for (days, expected) in [(1, 1), (10_000, 365)] {
        let world = World::with(|builder| builder.login_lifetime(Duration::from_secs(days * DAY))).await;
        let client = [("client_id", "web"), ("client_secret", "a web secret")];
        let tokens = world.exchange(&world.code(&client[..1]).await, &client).await.json();
        let body = form(&[client[0], client[1], ("token", tokens["refresh_token"].as_str().unwrap())]);
        let described = world.send("POST", "/introspect", &[], &body).await.json();
        let left = described["exp"].as_f64().unwrap() - world.clock.unix();
        assert!((left - (expected * DAY) as f64).abs() < 60.0, "{days} days: {left}");
    }
}

//! The way of a user from a client to the provider and back.

use mcp_runtime::auth::Authenticator as _;
use serde_json::{Value, json};

use super::{Browser, ISSUER, REDIRECT, RESOURCE, Reaction, World, authorize_path, form, hash, records::stored};
use crate::{
    AuthorizationServer, AuthorizationServerBuilder, ClientCredentials, ConfiguredClient, Endpoint, Upstream,
    tests::{Signer, bearer},
};

#[tokio::test]
async fn metadata_is_found_by_clients_of_every_revision() {
    let world = World::new().await;
    let well_known = "/.well-known/oauth-authorization-server";
    let algorithms = ["ES256", "ES384", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
    let methods = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"];
    for path in [well_known.to_owned(), format!("{well_known}/mcp"), format!("{well_known}/mcp/")] {
        let response = world.send("GET", &path, &[("origin", "https://inspector.example")], "").await;
        assert_eq!((response.status, response.header("access-control-allow-origin")), (200, "*"), "{path}");
        assert_eq!(response.header("cache-control"), "public, max-age=300");
        assert_eq!(
            response.json(),
            json!({
                "issuer": ISSUER,
                "authorization_endpoint": format!("{ISSUER}/authorize"),
                "token_endpoint": format!("{ISSUER}/token"),
                "revocation_endpoint": format!("{ISSUER}/revoke"),
                "introspection_endpoint": format!("{ISSUER}/introspect"),
                "pushed_authorization_request_endpoint": format!("{ISSUER}/par"),
                "registration_endpoint": format!("{ISSUER}/register"),
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
                "token_endpoint_auth_methods_supported": methods,
                "token_endpoint_auth_signing_alg_values_supported": algorithms,
                "revocation_endpoint_auth_methods_supported": methods,
                "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
                "introspection_endpoint_auth_methods_supported": methods[1..],
                "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "client_id_metadata_document_supported": true,
                "protected_resources": [RESOURCE],
                "scopes_supported": ["notes:read", "notes:write"],
            })
        );
    }
    let routes = world.server.routes().remove(0);
    assert!(!routes.serves("/.well-known/oauth-authorization-server/other") && !routes.serves("/mcp"));
    let described = world.server.protected_resource();
    assert_eq!(described.authorization_servers(), [ISSUER]);
    assert_eq!(described.identifier(), Some(RESOURCE));
}

#[tokio::test]
async fn an_issuer_with_a_path_has_its_endpoints_below_it() {
    for issuer in ["https://mcp.example.com/auth", "https://mcp.example.com/auth/"] {
        let world = World::with(|builder| {
            let builder = builder.issuer(issuer).unwrap();
            builder.endpoint(crate::Endpoint::Token, "/oauth/token").registration(false).client_documents(false)
        })
        .await;
        let metadata = world.send("GET", "/.well-known/oauth-authorization-server/auth", &[], "").await.json();
        assert_eq!(metadata["issuer"], issuer);
        assert_eq!(metadata["authorization_endpoint"], "https://mcp.example.com/auth/authorize");
        assert_eq!(metadata["token_endpoint"], "https://mcp.example.com/oauth/token");
        assert_eq!(metadata.get("registration_endpoint"), None);
        assert_eq!(metadata["client_id_metadata_document_supported"], false);
        let methods = ["none", "client_secret_basic", "client_secret_post"];
        assert_eq!(metadata["token_endpoint_auth_methods_supported"], json!(methods), "no client has keys");
        assert_eq!(metadata.get("token_endpoint_auth_signing_alg_values_supported"), None);
        assert!(!world.server.routes().remove(0).serves("/auth/register"));
    }
    let keys = json!({"keys": [Signer::p256("key").jwk()]}).to_string().parse().unwrap();
    let client = ConfiguredClient::machine_with_keys("worker", keys, ["notes:read"]);
    let server = plain().client_documents(false).with_client(client);
    let server = server.with_client(ConfiguredClient::public("app", "The App", [REDIRECT]).unwrap());
    let metadata = metadata(&server.build().await.unwrap()).await;
    assert_eq!(metadata["token_endpoint_auth_methods_supported"][3], "private_key_jwt", "one client has keys");
}

#[tokio::test]
async fn a_user_approves_logs_in_and_the_client_gets_tokens() {
    let world = World::new().await;
    let mut browser = Browser::default();
    let changes = [("scope", "notes:read notes:write openid"), ("response_mode", "query")];
    let page = world.authorize(&mut browser, &changes).await;
    assert_eq!(page.status, 200, "{page:?}");
    let login = world.answer(&mut browser, &page, "approve").await;
    assert_eq!((login.status, login.header("referrer-policy")), (303, "no-referrer"));
    assert!(login.header("location").starts_with(&format!("{}/auth?", world.issuer.url)), "{login:?}");
    for (name, expected) in [
        ("response_type", "code"),
        ("client_id", "notes"),
        ("redirect_uri", "https://mcp.example.com/authorize/callback"),
        ("code_challenge_method", "S256"),
        ("scope", "openid email notes.edit"),
    ] {
        assert_eq!(login.parameter(name).as_deref(), Some(expected), "{name}");
    }
    let response = world.return_with(&mut browser, &login, &[("code", "upstream-code")]).await;
    assert_eq!((response.status, response.header("referrer-policy")), (303, "no-referrer"));
    assert!(response.header("location").starts_with(&format!("{REDIRECT}?code=")), "{response:?}");
    assert_eq!(response.parameter("state").as_deref(), Some("a state"));
    assert_eq!(response.parameter("iss").as_deref(), Some(ISSUER));
    assert_eq!(browser.0.keys().collect::<Vec<_>>(), ["__Host-mcp-browser"], "the cookie of the login is deleted");

    let sent = &world.issuer.received("/token")[0];
    // Without `accept`, some providers respond with a form.
    for header in ["authorization: basic ", "accept: application/json"] {
        assert!(sent.head.to_ascii_lowercase().contains(header), "{}", sent.head);
    }
    for part in ["code=upstream-code", "code_verifier=", "grant_type=authorization_code"] {
        assert!(sent.body.contains(part), "{}", sent.body);
    }
    let verifier = form_urlencoded::parse(sent.body.as_bytes()).find(|(name, _)| name == "code_verifier").unwrap().1;
    assert_eq!(login.parameter("code_challenge"), Some(hash(&verifier)), "the code is bound to this server");

    let tokens = world.exchange(&response.parameter("code").unwrap(), &[]).await;
    assert_eq!((tokens.status, tokens.header("cache-control")), (200, "no-store"), "{tokens:?}");
    let tokens = tokens.json();
    assert_eq!(tokens["token_type"], "Bearer");
    assert_eq!(tokens["scope"], "notes:read notes:write");
    assert_eq!(tokens["expires_in"], 600);
    let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(identity.principal(), format!("{ISSUER}#ada"));
    assert_eq!(identity.scopes().collect::<Vec<_>>(), ["notes:read", "notes:write"]);
    assert_eq!(identity.claim("email"), Some(&json!("ada@example.com")));
    assert_eq!(identity.claim("client_id"), Some(&json!("app")));

    let refreshed = world.refresh(tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, 200, "{refreshed:?}");
    assert!(world.accepts(&refreshed.json()["access_token"]).await);
    assert!(world.issuer.received("/token")[1].body.contains("refresh_token=upstream-refresh"));
}

/// Access tokens are sent in a header, whose length servers limit.
#[tokio::test]
async fn claims_that_are_too_long_are_not_copied() {
    let world = World::new().await;
    for (length, is_copied) in [(1022, true), (1023, false)] {
        let email = "x".repeat(length);
        world.provider(|provider| provider.claims = json!({"email": email}));
        let tokens = world.tokens().await;
        let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap();
        assert_eq!(identity.claim("email"), is_copied.then_some(&json!(email)), "{length} bytes and two quotes");
    }
}

/// A client of 2025-03-26 names no resource, and one that has registered only one redirect URI may omit it.
#[tokio::test]
async fn clients_of_2025_03_26_need_no_resource() {
    let world = World::new().await;
    let code = world.code(&[("resource", ""), ("redirect_uri", ""), ("scope", "")]).await;
    let tokens = world.exchange(&code, &[("redirect_uri", "")]).await.json();
    assert_eq!(tokens["scope"], "notes:read notes:write");
    assert!(world.accepts(&tokens["access_token"]).await);
}

#[tokio::test]
async fn resources_are_named_in_any_equivalent_form() {
    let world = World::new().await;
    for (resource, accepted) in [
        ("https://mcp.example.com/mcp", true),
        ("HTTPS://MCP.example.com:443/mcp", true),
        ("https://mcp.example.com/MCP", false),
        ("https://mcp.example.com/mcp?tenant=1", false),
    ] {
        let response = world.authorize(&mut Browser::default(), &[("resource", resource)]).await;
        assert_eq!(response.status == 200, accepted, "{resource}: {response:?}");
    }
}

#[tokio::test]
async fn what_is_stored_and_what_clients_get_reveals_nothing_of_the_provider() {
    let world = World::new().await;
    world.provider(|provider| provider.claims = json!({"sid": "upstream-session"}));
    let tokens = world.tokens().await;
    assert!(!tokens.to_string().contains("upstream"), "{tokens}");
    let payload = tokens["access_token"].as_str().unwrap().split('.').nth(1).unwrap();
    let payload = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, payload).unwrap();
    assert!(!String::from_utf8(payload).unwrap().contains("upstream"));
    let stored = stored(&world.records).await;
    let kinds: Vec<&str> = stored.iter().filter_map(|(key, _)| key.split('/').nth(3)).collect();
    assert_eq!(kinds, ["browser", "code", "grant", "keys", "login", "session", "user"]);
    for (key, record) in &stored {
        let text = String::from_utf8_lossy(&record.value);
        assert!(!text.contains("upstream") && !text.contains("ada") && !text.contains("app"), "{key}");
        assert!(!key.contains("ada"), "{key}");
    }
}

#[tokio::test]
async fn two_processes_with_the_same_records_accept_each_others_tokens() {
    let one = World::new().await;
    let two = one.replica(crate::tests::RESOURCE, [7; 32], |builder| builder).await;
    let tokens = one.tokens().await;
    assert!(two.accepts(&tokens["access_token"]).await);
    let refreshed = two.refresh(tokens["refresh_token"].as_str().unwrap()).await.json();
    assert!(one.accepts(&refreshed["access_token"]).await);
    // A key that the other process creates is found when a token names it.
    for world in [&one, &two] {
        world.clock.advance(std::time::Duration::from_secs(25 * 60 * 60));
    }
    two.provider(|provider| {
        provider.claims = json!({"iat": super::now() + 25 * 3600, "exp": super::now() + 26 * 3600})
    });
    let later = two.tokens().await;
    assert!(one.accepts(&later["access_token"]).await);
}

#[tokio::test]
async fn records_need_a_secret_and_secrets_are_long_and_can_be_replaced() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    let build = |secrets: &[[u8; 32]]| {
        let (records, url) = (std::sync::Arc::clone(&world.records), world.issuer.url.clone());
        let secrets = secrets.to_vec();
        async move {
            let credentials = crate::ClientCredentials::basic("notes", "a secret");
            let upstream = crate::Upstream::discover(url, credentials).await.unwrap();
            let builder = crate::AuthorizationServer::builder(RESOURCE, upstream).unwrap().records(records);
            secrets.into_iter().fold(builder, |builder, secret| builder.with_secret(secret)).build().await
        }
    };
    let error = build(&[]).await.unwrap_err().to_string();
    assert!(error.starts_with("records without a secret"), "{error}");
    let error = build(&[[8; 32]]).await.unwrap_err().to_string();
    assert!(error.ends_with("was written with another secret"), "{error}");
    let replaced = build(&[[8; 32], [7; 32]]).await.unwrap();
    assert!(bearer(&replaced, tokens["access_token"].as_str().unwrap()).await.is_ok());
    for lengths in [vec![31_usize], vec![32, 31]] {
        let server = lengths.iter().fold(plain(), |builder, length| builder.with_secret(vec![8_u8; *length]));
        let error = server.build().await.unwrap_err();
        assert_eq!(error.to_string(), "a secret has fewer than 32 bytes", "{lengths:?}");
    }
}

/// The server and its provider are reached with TLS, except on the loopback interface.
#[tokio::test]
async fn urls_without_tls_are_rejected() {
    let credentials = || crate::ClientCredentials::basic("notes", "a secret");
    let secure = "https://id.example.com/oauth";
    let upstream = || crate::Upstream::endpoints(secure, secure, secure, credentials());
    let insecure = "http://id.example.com/oauth";
    for (what, error) in [
        ("resource", crate::AuthorizationServer::builder(insecure, upstream().unwrap()).err()),
        ("issuer", crate::AuthorizationServer::builder(RESOURCE, upstream().unwrap()).unwrap().issuer(insecure).err()),
        ("provider", crate::Upstream::discover(insecure, credentials()).await.err()),
        ("authorization endpoint", crate::Upstream::endpoints(insecure, secure, secure, credentials()).err()),
        ("token endpoint", crate::Upstream::endpoints(secure, insecure, secure, credentials()).err()),
        ("user endpoint", crate::Upstream::endpoints(secure, secure, insecure, credentials()).err()),
    ] {
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("is not secure"), "{what}: {error}");
    }
}

/// HEAD is GET without its body, except where GET has an effect.
#[tokio::test]
async fn head_is_answered_like_get() {
    let world = World::new().await;
    let authorize = super::authorize_path(&[]);
    for (path, status) in [
        ("/.well-known/oauth-authorization-server", 200),
        (authorize.as_str(), 200),
        ("/authorize/callback?code=x&state=y", 405),
        ("/token", 405),
    ] {
        assert_eq!(world.send("HEAD", path, &[], "").await.status, status, "{path}");
    }
}

#[tokio::test]
async fn other_methods_are_refused_with_those_that_are_allowed() {
    let world = World::new().await;
    for (method, path, allowed) in [
        ("POST", "/authorize/callback", "GET"),
        ("DELETE", "/authorize", "GET, HEAD, POST"),
        ("DELETE", "/authorize/account", "GET, POST"),
        ("DELETE", "/token", "POST, OPTIONS"),
        ("DELETE", "/.well-known/oauth-authorization-server", "GET, HEAD, OPTIONS"),
    ] {
        let response = world.send(method, path, &[], "").await;
        assert_eq!((response.status, response.header("allow")), (405, allowed), "{path}");
    }
}

/// Returns a server with a provider of OAuth 2 and no further options.
fn plain() -> AuthorizationServerBuilder {
    let url = "https://id.example.com/oauth";
    let upstream = Upstream::endpoints(url, url, url, ClientCredentials::basic("notes", "a secret")).unwrap();
    let upstream = upstream.scopes(["user"]).with_parameter("access_type", "offline");
    AuthorizationServer::builder(RESOURCE, upstream).unwrap()
}

async fn get(server: &AuthorizationServer, path: &str) -> http::Response<bytes::Bytes> {
    let (routes, request) = (server.routes().remove(0), http::Request::get(path).body(bytes::Bytes::new()));
    routes.respond(request.unwrap()).await
}

async fn metadata(server: &AuthorizationServer) -> Value {
    serde_json::from_slice(get(server, "/.well-known/oauth-authorization-server").await.body()).unwrap()
}

#[tokio::test]
async fn a_server_states_only_what_it_has_and_sends_users_with_the_parameters_of_the_provider() {
    let server = plain().build().await.unwrap();
    let metadata = metadata(&server).await;
    assert_eq!(metadata["grant_types_supported"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(metadata.get("scopes_supported"), None);
    let login = get(&server, "/authorize/account").await;
    let target = login.headers()["location"].to_str().unwrap();
    assert!(target.contains("access_type=offline&") && target.contains("scope=user"), "{target}");
    assert!(!target.contains("nonce="), "there is no identity token: {target}");
}

#[tokio::test]
async fn a_user_approves_a_client_at_a_server_without_scopes() {
    let client = ConfiguredClient::public("app", "The App", [REDIRECT]).unwrap();
    let server = plain().with_client(client).build().await.unwrap();
    let grant_types = &metadata(&server).await["grant_types_supported"];
    assert_eq!(*grant_types, json!(["authorization_code", "refresh_token"]), "no client is a machine");
    let (head, body) = get(&server, &authorize_path(&[("scope", "")])).await.into_parts();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let page = Reaction { status: head.status.as_u16(), headers: head.headers, body };
    let cookie = page.header("set-cookie").split(';').next().unwrap();
    let answer = http::Request::post("/authorize").header("cookie", cookie);
    let answer = answer.body(form(&[("request", &page.sealed()), ("decision", "approve")]).into()).unwrap();
    let login = server.routes().remove(0).respond(answer).await;
    assert_eq!(login.status(), 303, "{login:?}");
}

#[tokio::test]
async fn endpoints_have_paths_of_their_own_at_the_origin_of_the_resource() {
    for (endpoint, name) in [
        (Endpoint::Authorization, "authorization"),
        (Endpoint::Token, "token"),
        (Endpoint::Registration, "registration"),
        (Endpoint::Revocation, "revocation"),
        (Endpoint::Introspection, "introspection"),
        (Endpoint::PushedAuthorization, "pushed_authorization_request"),
    ] {
        let metadata = metadata(&plain().endpoint(endpoint, "/moved").build().await.unwrap()).await;
        assert_eq!(metadata[format!("{name}_endpoint")], format!("{ISSUER}/moved"), "{metadata}");
    }
    let moved = plain().endpoint(Endpoint::Callback, "/moved").build().await.unwrap();
    let login = get(&moved, "/authorize/account").await;
    let target = login.headers()["location"].to_str().unwrap();
    assert!(target.contains("redirect_uri=https%3A%2F%2Fmcp.example.com%2Fmoved&"), "{target}");
    let moved = plain().endpoint(Endpoint::Account, "/moved").build().await.unwrap();
    assert_eq!(get(&moved, "/moved").await.status(), 303);
    let moved = World::with(|builder| builder.endpoint(Endpoint::BackchannelLogout, "/moved")).await.routes;
    assert!(moved.serves("/moved") && !moved.serves("/authorize/backchannel-logout"));
    for (path, expected) in [
        ("/authorize", "two endpoints have the path `/authorize`"),
        ("token", "the path `token` is invalid: expected a path such as `/token`"),
        ("/token?a", "the path `/token?a` is invalid: expected a path such as `/token`"),
    ] {
        let error = plain().endpoint(Endpoint::Token, path).build().await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    for issuer in ["https://other.example", "https://mcp.example.com:444", "https://mcp.example.com/?a"] {
        let error = plain().issuer(issuer).err().unwrap_or_else(|| panic!("accepted: {issuer}"));
        let expected = format!("the URL `{issuer}` is not at the origin `{ISSUER}` of the resource");
        assert_eq!(error.to_string(), expected);
    }
}

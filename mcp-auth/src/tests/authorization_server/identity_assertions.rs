//! Enterprise-managed authorization: clients present identity assertions of the provider.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Browser, ISSUER, Reaction, World,
    dpop::{TOKEN, ask, key, proof},
    form,
    operations::account,
    records::stored,
};
use crate::{
    AuthorizationServer, AuthorizationServerBuilder, ClientCredentials, Dpop, Upstream,
    jose::Jws,
    tests::{RESOURCE, Signer, bearer, dpop::thumbprint, log::Log, signer::now},
};

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Returns the claims of a valid assertion with changes. `null` removes a claim.
fn claims(world: &World, changes: &Value) -> Value {
    let mut claims = json!({
        "iss": world.issuer.url, "sub": "ada", "aud": ISSUER, "resource": RESOURCE, "client_id": "web", "jti": "1",
        "iat": now(), "exp": now() + 300, "scope": "notes:read notes:write", "email": "ada@example.com",
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn sign(world: &World, changes: &Value) -> String {
    let signer = world.provider.lock().unwrap().signer.clone();
    signer.token_with(json!({"typ": "oauth-id-jag+jwt"}), &claims(world, changes))
}

async fn present(world: &World, assertion: &str, changes: &[(&str, &str)]) -> Reaction {
    let own =
        [("grant_type", GRANT_TYPE), ("client_id", "web"), ("client_secret", "a web secret"), ("assertion", assertion)];
    world.token(&super::replaced(&own, changes)).await
}

fn enabled(builder: AuthorizationServerBuilder) -> AuthorizationServerBuilder {
    builder.identity_assertions(true)
}

#[tokio::test]
async fn a_client_gets_tokens_for_an_assertion_of_the_provider() {
    let world = World::with(enabled).await;
    let metadata = world.send("GET", "/.well-known/oauth-authorization-server", &[], "").await.json();
    assert!(metadata["grant_types_supported"].as_array().unwrap().contains(&json!(GRANT_TYPE)), "{metadata}");
    let profiles = json!(["urn:ietf:params:oauth:grant-profile:id-jag"]);
    assert_eq!(metadata["authorization_grant_profiles_supported"], profiles);
    let assertion = sign(&world, &json!({}));
    let (log, _guard) = Log::listen();
    let tokens = present(&world, &assertion, &[]).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    assert_eq!(log.take(), [format!("issuance principal={ISSUER}#ada client=web peer=192.0.2.1")]);
    let tokens = tokens.json();
    assert_eq!((&tokens["scope"], tokens.get("refresh_token")), (&json!("notes:read notes:write"), None));
    let identity = bearer(&world.server, tokens["access_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(identity.principal(), format!("{ISSUER}#ada"));
    assert_eq!(identity.claim("email"), Some(&json!("ada@example.com")));
    assert_eq!(identity.claim("client_id"), Some(&json!("web")));
    // The same client may present it again while it is valid, and the record of the user is not written again.
    let version = async || {
        let records = stored(&world.records).await;
        records.into_iter().find(|(key, _)| key.contains("/user/")).unwrap().1.version
    };
    let before = version().await;
    assert_eq!(present(&world, &assertion, &[("scope", "notes:read")]).await.json()["scope"], "notes:read");
    assert_eq!(version().await, before);
    for (scope, requested, granted) in [
        (json!("notes:read"), "", json!("notes:read")),
        (json!("notes:read openid"), "", json!("notes:read")),
        (Value::Null, "", json!("notes:read notes:write")),
        (json!("notes:read"), "notes:write", json!("invalid_scope")),
        (json!("openid"), "", json!("invalid_scope")),
    ] {
        let response = present(&world, &sign(&world, &json!({"scope": scope})), &[("scope", requested)]).await.json();
        let found = response.get("scope").or(response.get("error"));
        assert_eq!(found, Some(&granted), "{scope} {requested}");
    }
}

#[tokio::test]
async fn the_only_audience_may_be_a_list_and_the_clock_of_the_provider_may_be_ahead() {
    let world = World::with(enabled).await;
    for changes in [json!({"aud": [ISSUER]}), json!({"exp": now() + 3630}), json!({"iat": now() + 30})] {
        let response = present(&world, &sign(&world, &changes), &[]).await;
        assert_eq!(response.status, 200, "{changes} {response:?}");
    }
}

#[tokio::test]
async fn an_assertion_has_a_subject_even_if_another_claim_identifies_users() {
    let world = World::new().await;
    world.provider(|provider| provider.subject_claim = "oid");
    let world = world.replica(RESOURCE, [7; 32], enabled).await;
    for (subject, user, expected) in [
        (json!("pairwise"), json!("ada"), None),
        (json!("pairwise"), Value::Null, Some("it names no user")),
        (Value::Null, json!("ada"), Some("it has no `sub`")),
        (json!(""), json!("ada"), Some("it has no `sub`")),
        (json!(1), json!("ada"), Some("it has no `sub`")),
    ] {
        let assertion = sign(&world, &json!({"sub": subject, "oid": user}));
        let response = present(&world, &assertion, &[]).await.json();
        let description = expected.map(|expected| format!("the assertion is not accepted: {expected}"));
        assert_eq!(response["error_description"].as_str(), description.as_deref(), "{subject} {user}");
    }
}

#[tokio::test]
async fn each_refusal_of_an_assertion_says_why() {
    let world = World::with(|builder| enabled(builder).admit(|claims| claims["email"] != "eve@example.com")).await;
    let valid = |changes: Value| sign(&world, &changes);
    let signer = world.provider.lock().unwrap().signer.clone();
    let typed = |kind: &str| signer.token_with(json!({"typ": kind}), &claims(&world, &json!({})));
    let purpose = "it is a token for another purpose";
    let stranger = Signer::p256("key").token_with(json!({"typ": "oauth-id-jag+jwt"}), &claims(&world, &json!({})));
    for (name, assertion, expected) in [
        ("no token", "x".to_owned(), "the token is not a signed JWT"),
        ("an identity token", typed("JWT"), purpose),
        ("an access token", typed("at+jwt"), purpose),
        ("another key", stranger, "the signature of the token is invalid"),
        ("another issuer", valid(json!({"iss": "https://other.example"})), "the token is of another issuer"),
        ("another server", valid(json!({"aud": "https://other.example"})), "the token was not issued for this server"),
        ("our client", valid(json!({"aud": "notes"})), "the token was not issued for this server"),
        ("several servers", valid(json!({"aud": [ISSUER, "https://other.example"]})), "it is for several servers"),
        ("another resource", valid(json!({"resource": "https://other.example"})), "it is for another resource"),
        ("no resource", valid(json!({"resource": null})), "it is for another resource"),
        ("another client", valid(json!({"client_id": "robot"})), "it was issued to another client"),
        ("no client", valid(json!({"client_id": null})), "it was issued to another client"),
        ("no identifier", valid(json!({"jti": null})), "it has no `jti`"),
        ("no time", valid(json!({"iat": null})), "it has no `iat`"),
        ("a time in the future", valid(json!({"iat": now() + 90})), "it was issued in the future"),
        ("no expiry", valid(json!({"exp": null})), "it does not expire"),
        ("expired", valid(json!({"exp": now() - 61})), "the token has expired"),
        ("too long", valid(json!({"exp": now() + 4000})), "it expires later than in an hour"),
        ("no subject", valid(json!({"sub": null})), "it has no `sub`"),
        ("a machine", valid(json!({"sub": "client:robot"})), "it names no user"),
        (
            "bound to a key",
            valid(json!({"cnf": {"jkt": "x"}})),
            "it is bound to a key, which this server cannot verify",
        ),
        (
            "details",
            valid(json!({"authorization_details": [{"type": "notes"}]})),
            "`authorization_details` are not supported",
        ),
        ("scopes in a list", valid(json!({"scope": ["notes:read"]})), "`scope` is not a string"),
        ("not admitted", valid(json!({"email": "eve@example.com"})), "the user may not use this server"),
    ] {
        let response = present(&world, &assertion, &[]).await;
        let description = format!("the assertion is not accepted: {expected}");
        assert_eq!((response.status, &response.json()["error_description"]), (400, &json!(description)), "{name}");
        assert_eq!(response.json()["error"], "invalid_grant", "{name}");
    }
    let assertion = valid(json!({"client_id": "app"}));
    for (changes, status, error) in [
        (&[("client_secret", "wrong")] as &[(&str, &str)], 401, "invalid_client"),
        (&[("client_id", "app"), ("client_secret", "")], 400, "unauthorized_client"),
        (&[("assertion", "")], 400, "invalid_request"),
        (&[("resource", "https://other.example")], 400, "invalid_target"),
    ] {
        let response = present(&world, &assertion, changes).await;
        assert_eq!((response.status, &response.json()["error"]), (status, &json!(error)), "{changes:?}");
    }
}

#[tokio::test]
async fn assertions_are_accepted_only_if_the_operator_says_so_and_the_provider_has_keys() {
    let world = World::new().await;
    let response = present(&world, &sign(&world, &json!({})), &[]).await;
    assert_eq!(response.json()["error"], "unsupported_grant_type");
    let url = "https://id.example.com/oauth";
    let upstream = Upstream::endpoints(url, url, url, ClientCredentials::basic("notes", "a secret")).unwrap();
    let error = enabled(AuthorizationServer::builder(RESOURCE, upstream).unwrap()).build().await.unwrap_err();
    assert!(error.to_string().starts_with("identity assertions cannot be verified"), "{error}");
}

#[tokio::test]
async fn what_was_issued_for_assertions_ends_with_the_grants_of_the_user_and_by_its_client() {
    let one = World::with(enabled).await;
    let two = one.replica(RESOURCE, [7; 32], enabled).await;
    let assertion = sign(&one, &json!({}));
    let get = async |assertion: &str| present(&one, assertion, &[]).await.json()["access_token"].clone();
    let (first, second) = (get(&assertion).await, get(&assertion).await);
    let other = get(&sign(&one, &json!({"sub": "bob"}))).await;
    let revoke = async |client: &[(&str, &str)]| {
        let body = form(&[client, &[("token", first.as_str().unwrap())]].concat());
        one.send("POST", "/revoke", &[], &body).await.status
    };
    assert_eq!(revoke(&[("client_id", "app")]).await, 400);
    assert!(one.accepts(&first).await);
    assert_eq!(revoke(&[("client_id", "web"), ("client_secret", "a web secret")]).await, 200);
    assert_eq!((one.accepts(&first).await, one.accepts(&second).await), (false, true));
    one.clock.advance(Duration::from_secs(2));
    let (log, _guard) = Log::listen();
    one.server.revoke_grants("ada").await.unwrap();
    assert_eq!(log.take(), [format!("revocation principal={ISSUER}#ada reason=the operator has ended all grants")]);
    two.clock.advance(Duration::from_secs(2));
    for world in [&one, &two] {
        assert_eq!((world.accepts(&second).await, world.accepts(&other).await), (false, true));
    }
    let refused = present(&two, &assertion, &[]).await.json();
    assert!(refused["error_description"].as_str().unwrap().contains("were ended after it was issued"), "{refused}");
    // The clock of the provider may be ahead by a minute.
    let ahead = present(&one, &sign(&one, &json!({"iat": now() + 30})), &[]).await;
    assert_eq!(ahead.status, 400, "{ahead:?}");
    one.clock.advance(Duration::from_secs(60));
    let later = get(&sign(&one, &json!({"iat": now() + 64}))).await;
    assert!(one.accepts(&later).await);
    // The older one remains refused, although the user has a new identifier.
    assert_eq!(present(&one, &assertion, &[]).await.status, 400);
    let mut browser = Browser::default();
    let page = account(&one, &mut browser).await;
    assert!(page.body.contains("Your organization allows") && page.body.contains("End all access"), "{page:?}");
    let body = form(&[("account", &page.hidden("account")), ("end", "all")]);
    let page = one.visit(&mut browser, "POST", "/authorize/account", &body).await;
    assert!(page.body.contains("There are none.") && !page.body.contains("End all access"), "{page:?}");
    assert!(!one.accepts(&later).await);
    one.clock.advance(Duration::from_secs(2));
    let later = get(&sign(&one, &json!({"iat": now() + 124}))).await;
    assert!(one.accepts(&later).await);
    // A logout of the user at the provider ends it, too.
    let event = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
    let signer = one.provider.lock().unwrap().signer.clone();
    let logout = json!({
        "iss": one.issuer.url, "aud": "notes", "sub": "ada", "iat": now() + 65, "exp": now() + 180, "jti": "1", "events": event,
    });
    let logout = signer.token_with(json!({"typ": "logout+jwt"}), &logout);
    let response = one.send("POST", "/authorize/backchannel-logout", &[], &form(&[("logout_token", &logout)])).await;
    assert_eq!((response.status, one.accepts(&later).await), (200, false), "{response:?}");
}

/// The record of a user would expire otherwise, and with it the time at which all access was ended.
#[tokio::test]
async fn the_record_of_a_user_is_prolonged_once_a_day_while_assertions_are_presented() {
    let world = World::with(enabled).await;
    let record = async || {
        let records = stored(&world.records).await;
        records.into_iter().find(|(key, _)| key.contains("/user/")).unwrap().1.value
    };
    let present = async |hours: u64| {
        let issued = now() + hours * 3600;
        let response = present(&world, &sign(&world, &json!({"iat": issued, "exp": issued + 300})), &[]).await;
        assert_eq!(response.status, 200, "{response:?}");
        record().await
    };
    let first = present(0).await;
    assert_eq!(present(0).await, first);
    world.clock.advance(Duration::from_secs(25 * 3600));
    assert_ne!(present(25).await, first);
}

#[tokio::test]
async fn an_assertion_that_is_presented_while_all_access_ends_gives_no_access() {
    let world = World::with(enabled).await;
    let wait = async |steps: usize| {
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
    };
    let mut issued = 0;
    // `join!` alternates which future it polls first.
    for (before, steps) in (0..2).flat_map(|before| (0..20).map(move |steps| (before, steps))) {
        let user = format!("user-{before}-{steps}");
        let assertion = sign(&world, &json!({"sub": user}));
        let presentation = async {
            wait(before).await;
            present(&world, &assertion, &[]).await
        };
        let revocation = async {
            wait(steps).await;
            world.server.revoke_grants(&user).await
        };
        let (presented, revoked) = tokio::join!(presentation, revocation);
        revoked.unwrap();
        if presented.status == 200 {
            assert!(!world.accepts(&presented.json()["access_token"]).await, "{before} {steps}");
            issued += 1;
        }
    }
    assert!(issued > 0, "every assertion was refused");
}

#[tokio::test]
async fn a_client_that_revokes_its_tokens_leaves_room_to_end_those_of_the_user() {
    let one = World::with(enabled).await;
    let two = one.replica(RESOURCE, [7; 32], enabled).await;
    let assertion = sign(&one, &json!({"exp": now() + 3000}));
    let get = async || present(&one, &assertion, &[]).await.json()["access_token"].clone();
    let revoke = async |token: &Value| {
        let token = token.as_str().unwrap();
        let body = form(&[("client_id", "web"), ("client_secret", "a web secret"), ("token", token)]);
        assert_eq!(one.send("POST", "/revoke", &[], &body).await.status, 200);
    };
    // Tokens that have expired are not remembered.
    let mut expired = Vec::new();
    for _ in 0..100 {
        expired.push(get().await);
    }
    for world in [&one, &two] {
        world.clock.advance(Duration::from_secs(16 * 60));
    }
    for token in &expired {
        revoke(token).await;
    }
    let (first, second) = (get().await, get().await);
    revoke(&first).await;
    two.clock.advance(Duration::from_secs(2));
    assert_eq!((two.accepts(&first).await, two.accepts(&second).await), (false, true));
    for _ in 0..100 {
        revoke(&get().await).await;
    }
    one.server.revoke_grants("ada").await.unwrap();
    two.clock.advance(Duration::from_secs(2));
    assert!(!two.accepts(&second).await);
}

#[tokio::test]
async fn a_token_for_an_assertion_is_bound_to_the_key_of_the_client() {
    let world = World::with(|builder| enabled(builder).dpop(Dpop::optional())).await;
    let (assertion, key) = (sign(&world, &json!({})), key());
    let parameters = [
        ("grant_type", GRANT_TYPE),
        ("client_id", "web"),
        ("client_secret", "a web secret"),
        ("assertion", assertion.as_str()),
    ];
    let proof = proof(&world, &key, TOKEN, json!({}));
    let tokens = ask(&world, &[&proof], &parameters).await;
    assert_eq!((tokens.status, &tokens.json()["token_type"]), (200, &json!("DPoP")), "{tokens:?}");
    let token = tokens.json()["access_token"].clone();
    let claims = Jws::parse(token.as_str().unwrap()).unwrap().claims().unwrap();
    assert_eq!(claims.get("cnf"), Some(&json!({"jkt": thumbprint(&key)})));
    assert!(!world.accepts(&token).await, "as a bearer token");
    let repeated = ask(&world, &[&proof], &parameters).await.json();
    assert_eq!(repeated["error_description"], "the proof was used before");
}

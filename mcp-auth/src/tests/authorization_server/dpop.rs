//! Tokens that are bound to keys of clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    auth::Authenticator as _,
    backend::{MemoryRecords, Records as _},
};
use serde_json::{Value, json};

use super::{Browser, REDIRECT, Reaction, VERIFIER, World, authorize_path, clients::document, consent, form, hash};
use crate::{
    Dpop,
    tests::{RESOURCE, Signer, dpop::thumbprint, with_headers},
};

pub(super) const TOKEN: &str = "https://mcp.example.com/token";
const PAR: &str = "https://mcp.example.com/par";

async fn world(options: Dpop) -> World {
    World::with(|builder| builder.dpop(options)).await
}

pub(super) fn key() -> Signer {
    Signer::ed25519("client").without_id()
}

/// Returns a proof with changed claims. `null` removes a claim.
pub(super) fn proof(world: &World, key: &Signer, url: &str, changes: Value) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let mut claims = json!({"jti": id, "htm": "POST", "htu": url, "iat": world.clock.unix() as u64});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    key.token_with(json!({"typ": "dpop+jwt", "jwk": key.jwk()}), &claims)
}

/// Asks for tokens with proofs.
pub(super) async fn ask(world: &World, proofs: &[&str], parameters: &[(&str, &str)]) -> Reaction {
    let headers: Vec<_> = proofs.iter().map(|proof| ("dpop", *proof)).collect();
    world.send("POST", "/token", &headers, &form(parameters)).await
}

/// Exchanges a code with proofs.
pub(super) async fn exchange(world: &World, proofs: &[&str], code: &str, changes: &[(&str, &str)]) -> Reaction {
    let valid = [
        ("grant_type", "authorization_code"),
        ("client_id", "app"),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    ask(world, proofs, &super::replaced(&valid, changes)).await
}

/// Calls the resource with a token and a proof of a key. Returns why it is refused.
async fn call(world: &World, key: &Signer, token: &Value, changes: Value) -> Option<String> {
    let token = token.as_str().unwrap();
    let mut claims = json!({"ath": hash(token)});
    claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let (authorization, proof) = (format!("DPoP {token}"), proof(world, key, RESOURCE, claims));
    let result = with_headers(&world.server, &[("authorization", &authorization), ("dpop", &proof)]).await;
    result.err().map(|error| error.message().to_owned())
}

fn error(response: &Reaction) -> (u16, Value, Value) {
    let body = response.json();
    (response.status, body["error"].clone(), body["error_description"].clone())
}

#[tokio::test]
async fn a_wrong_proof_gets_no_token_and_uses_no_code_up() {
    let (one, key, other) = (world(Dpop::optional()).await, key(), key());
    let two = one.replica(RESOURCE, [7; 32], |builder| builder.dpop(Dpop::optional())).await;
    let code = one.code(&[]).await;
    let with = |changes: Value| proof(&one, &key, TOKEN, changes);
    let claims = json!({"jti": "x", "htm": "POST", "htu": TOKEN, "iat": one.clock.unix() as u64});
    let now = one.clock.unix() as u64;
    for (proof, expected) in [
        ("x".to_owned(), "the proof is not a signed JWT that is supported"),
        (key.token_with(json!({"jwk": key.jwk()}), &claims), "the type of the proof is not `dpop+jwt`"),
        (key.token_with(json!({"typ": "dpop+jwt"}), &claims), "the proof does not contain its key"),
        (
            key.token_with(json!({"typ": "dpop+jwt", "jwk": other.jwk()}), &claims),
            "the signature of the proof is invalid",
        ),
        (with(json!({"htm": "GET"})), "the proof is for another method"),
        (with(json!({"htu": RESOURCE})), "the proof is for another URL"),
        (with(json!({"htu": PAR})), "the proof is for another URL"),
        (with(json!({"iat": now - 70})), "the proof was not created just now"),
        (with(json!({"iat": now + 70})), "the proof was not created just now"),
        (with(json!({"iat": null})), "the proof has no `iat`"),
        (with(json!({"jti": null})), "the proof has no `jti`"),
    ] {
        let response = exchange(&one, &[&proof], &code, &[]).await;
        assert_eq!(error(&response), (400, json!("invalid_dpop_proof"), json!(expected)));
    }
    let valid = with(json!({}));
    let response = exchange(&one, &[&valid, &valid], &code, &[]).await;
    assert_eq!(error(&response).2, "expected one proof of possession");
    let response = exchange(&one, &[&valid], &code, &[]).await;
    assert_eq!((response.status, &response.json()["token_type"]), (200, &json!("DPoP")), "{response:?}");
    let code = one.code(&[]).await;
    for world in [&one, &two] {
        let response = exchange(world, &[&valid], &code, &[]).await;
        assert_eq!(error(&response), (400, json!("invalid_dpop_proof"), json!("the proof was used before")));
    }
    assert_eq!(exchange(&two, &[&with(json!({}))], &code, &[]).await.status, 200);
}

#[tokio::test]
async fn a_bound_token_is_accepted_with_its_key_only() {
    let (world, key, other) = (world(Dpop::optional()).await, key(), key());
    let web = [("client_id", "web"), ("client_secret", "a web secret")];
    let code = world.code(&web[..1]).await;
    let tokens = exchange(&world, &[&proof(&world, &key, TOKEN, json!({}))], &code, &web).await.json();
    let token = &tokens["access_token"];
    assert_eq!(call(&world, &key, token, json!({})).await, None);
    assert_eq!(call(&world, &other, token, json!({})).await.as_deref(), Some("the token is bound to another key"));
    assert!(!world.accepts(token).await, "as a bearer token");
    let body = form(&[&web[..], &[("token", token.as_str().unwrap())]].concat());
    let described = world.send("POST", "/introspect", &[], &body).await.json();
    assert_eq!(described["token_type"], "DPoP");
    assert_eq!(described["cnf"], json!({"jkt": thumbprint(&key)}));
    // Other clients get bearer tokens.
    assert!(world.accepts(&world.tokens().await["access_token"]).await);
    let description = format!("{:?}", world.server.protected_resource());
    assert!(description.contains("ES256 ES384 EdDSA RS256"), "{description}");
    let metadata = world.send("GET", "/.well-known/oauth-authorization-server", &[], "").await;
    assert_eq!(metadata.json()["dpop_signing_alg_values_supported"][2], "EdDSA");
    assert_eq!(metadata.header("access-control-expose-headers"), "dpop-nonce");
    let preflight = world.send("OPTIONS", "/token", &[], "").await;
    let allowed = ["authorization", "content-type", "dpop", "mcp-protocol-version"];
    assert_eq!(preflight.header("access-control-allow-headers").split(", ").collect::<Vec<_>>(), allowed);
}

/// A refresh token of a client without credentials belongs to the key of its last proof.
#[tokio::test]
async fn refresh_tokens_of_public_clients_are_bound_to_their_keys() {
    let keys = [key(), key()];
    let (app, web) =
        ([("client_id", "app")].to_vec(), [("client_id", "web"), ("client_secret", "a web secret")].to_vec());
    for (client, first, second, expected) in [
        (&app, Some(0), Some(0), Ok("DPoP")),
        (&app, Some(0), Some(1), Err(Some(0))),
        (&app, Some(0), None, Err(Some(0))),
        (&app, None, Some(1), Ok("DPoP")),
        (&app, None, None, Ok("Bearer")),
        (&web, Some(0), Some(1), Ok("DPoP")),
        (&web, Some(0), None, Ok("Bearer")),
    ] {
        let case = format!("{client:?} {first:?} {second:?}");
        let world = world(Dpop::optional()).await;
        let proofs = |key: Option<usize>| Vec::from_iter(key.map(|key| proof(&world, &keys[key], TOKEN, json!({}))));
        let send = async |key: Option<usize>, parameters: &[(&str, &str)]| {
            let proofs = proofs(key);
            let proofs: Vec<&str> = proofs.iter().map(String::as_str).collect();
            ask(&world, &proofs, &[client, parameters].concat()).await
        };
        let refresh = async |key: Option<usize>, tokens: &Value| {
            let token = tokens["refresh_token"].as_str().unwrap();
            send(key, &[("grant_type", "refresh_token"), ("refresh_token", token)]).await
        };
        let code = world.code(&client[..1]).await;
        let parameters = [("grant_type", "authorization_code"), ("code", &code), ("code_verifier", VERIFIER)];
        let tokens = send(first, &parameters).await.json();
        let refreshed = refresh(second, &tokens).await;
        let renewed = match expected {
            Ok(kind) => {
                assert_eq!((refreshed.status, &refreshed.json()["token_type"]), (200, &json!(kind)), "{case}");
                // The same request of another key is a second use.
                let repeated = refresh(second, &tokens).await;
                assert_eq!((repeated.status, &repeated.body), (200, &refreshed.body), "{case}");
                let other = if second.is_none() { Some(0) } else { None };
                assert_eq!(error(&refresh(other, &tokens).await).1, "invalid_grant", "{case}");
                refresh(second, &refreshed.json()).await.status
            }
            Err(right) => {
                let why = json!("the refresh token is bound to another key");
                assert_eq!(error(&refreshed), (400, json!("invalid_grant"), why), "{case}");
                refresh(right, &tokens).await.status
            }
        };
        assert_eq!(renewed, if expected.is_ok() { 400 } else { 200 }, "the grant has ended, or not: {case}");
    }
}

#[tokio::test]
async fn a_code_is_bound_to_the_key_that_the_client_names_or_proves() {
    let (world, key, other) = (world(Dpop::optional()).await, key(), key());
    let named = thumbprint(&key);
    let jkt = [("dpop_jkt", named.as_str())];
    let push = async |changes: &[(&str, &str)], key: &Signer, url: &str| {
        let (path, proof) = (authorize_path(changes), proof(&world, key, url, json!({})));
        world.send("POST", "/par", &[("dpop", &proof)], path.split_once('?').unwrap().1).await
    };
    for (changes, signer, url, status, expected) in [
        (&[] as &[(&str, &str)], &key, PAR, 201, Value::Null),
        (&jkt, &key, PAR, 201, Value::Null),
        (&jkt, &other, PAR, 400, json!("invalid_request")),
        (&[("dpop_jkt", "short")], &key, PAR, 400, json!("invalid_request")),
        (&[], &key, TOKEN, 400, json!("invalid_dpop_proof")),
    ] {
        let response = push(changes, signer, url).await;
        assert_eq!((response.status, &response.json()["error"]), (status, &expected), "{changes:?} {url}");
    }
    let used = proof(&world, &key, PAR, json!({}));
    for status in [201, 400] {
        let path = authorize_path(&[]);
        let response = world.send("POST", "/par", &[("dpop", &used)], path.split_once('?').unwrap().1).await;
        assert_eq!(response.status, status);
    }
    let refused = world.authorize(&mut Browser::default(), &[("dpop_jkt", "short")]).await;
    assert_eq!(refused.parameter("error").as_deref(), Some("invalid_request"), "{refused:?}");
    // If another user has logged in, who has not been asked, the request starts again.
    for (is_pushed, is_repeated) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut path = authorize_path(&jkt);
        if is_pushed {
            let pushed = push(&[], &key, PAR).await.json();
            let uri = pushed["request_uri"].as_str().unwrap();
            path = format!("/authorize?{}", form(&[("client_id", "app"), ("request_uri", uri)]));
        }
        let mut browser = Browser::default();
        world.set_user("ada");
        if is_repeated {
            world.log_in(&mut browser, &[]).await;
            world.set_user("bob");
        }
        let mut page = world.visit(&mut browser, "GET", &path, "").await;
        if is_repeated {
            let restarted = consent::restarted(&world.return_with(&mut browser, &page, &[("code", "x")]).await);
            page = world.visit(&mut browser, "GET", &restarted, "").await;
        }
        let login = world.answer(&mut browser, &page, "approve").await;
        let code = world.return_with(&mut browser, &login, &[("code", "x")]).await.parameter("code").unwrap();
        let wrong = proof(&world, &other, TOKEN, json!({}));
        for proofs in [&[] as &[&str], &[&wrong]] {
            let why = json!("the code is bound to another key");
            let refused = exchange(&world, proofs, &code, &[]).await;
            assert_eq!(error(&refused), (400, json!("invalid_grant"), why), "{is_pushed} {is_repeated}");
        }
        let right = proof(&world, &key, TOKEN, json!({}));
        assert_eq!(exchange(&world, &[&right], &code, &[]).await.status, 200, "{is_pushed} {is_repeated}");
    }
}

#[tokio::test]
async fn clients_that_want_bound_tokens_get_no_others() {
    let key = key();
    let metadata = json!({"redirect_uris": [REDIRECT], "dpop_bound_access_tokens": true});
    let (_host, documented) = document(|document| document["dpop_bound_access_tokens"] = json!(true)).await;
    let missing = json!("the proof of possession is missing");
    for (options, is_required) in [(None, false), (Some(Dpop::optional()), false), (Some(Dpop::required()), true)] {
        let is_enabled = options.is_some();
        let configure = |builder: crate::AuthorizationServerBuilder| match options {
            Some(options) => builder.dpop(options),
            None => builder,
        };
        let world = World::with(configure).await;
        let invalid = json!({"redirect_uris": [REDIRECT], "dpop_bound_access_tokens": "yes"});
        assert_eq!(error(&world.register(&invalid).await).1, "invalid_client_metadata");
        let registered = world.register(&metadata).await.json();
        assert_eq!(registered["dpop_bound_access_tokens"], if is_enabled { json!(true) } else { Value::Null });
        for (client, wants_bound) in
            [(registered["client_id"].as_str().unwrap(), true), (&documented, true), ("app", false)]
        {
            let code = world.code(&[("client_id", client)]).await;
            let without = exchange(&world, &[], &code, &[("client_id", client)]).await;
            let case = format!("{is_enabled} {is_required} {wants_bound}");
            if is_required || (is_enabled && wants_bound) {
                assert_eq!(error(&without), (400, json!("invalid_dpop_proof"), missing.clone()), "{case}");
                let proof = proof(&world, &key, TOKEN, json!({}));
                let with = exchange(&world, &[&proof], &code, &[("client_id", client)]).await;
                assert_eq!(with.json()["token_type"], "DPoP", "{case}");
            } else {
                assert_eq!(without.json()["token_type"], "Bearer", "{case}");
            }
        }
        let machine =
            [("grant_type", "client_credentials"), ("client_id", "robot"), ("client_secret", "a robot secret")];
        let tokens = ask(&world, &[&proof(&world, &key, TOKEN, json!({}))], &machine).await.json();
        assert_eq!(tokens["token_type"], if is_enabled { "DPoP" } else { "Bearer" });
        assert_eq!(ask(&world, &[], &machine).await.status, if is_required { 400 } else { 200 });
        if is_enabled {
            assert_eq!(call(&world, &key, &tokens["access_token"], json!({})).await, None);
        }
    }
}

/// The endpoints of all processes have the same nonces.
#[tokio::test]
async fn proofs_contain_the_nonce_of_the_server() {
    let (one, key) = (world(Dpop::optional().nonces()).await, key());
    // A process that already has the next secret.
    let two =
        one.replica(RESOURCE, [7; 32], |builder| builder.with_secret([8; 32]).dpop(Dpop::optional().nonces())).await;
    let other = World::start(RESOURCE, [8; 32], |builder| builder.dpop(Dpop::optional().nonces())).await;
    // The nonce has just changed, and does not change again while the test runs.
    let change = Duration::from_secs_f64(151.0 - one.clock.unix() % 150.0);
    for world in [&one, &two, &other] {
        world.clock.advance(change);
    }
    let code = one.code(&[]).await;
    let refused = exchange(&one, &[&proof(&one, &key, TOKEN, json!({}))], &code, &[]).await;
    let why = json!("the proof must contain the nonce of the server");
    assert_eq!(error(&refused), (400, json!("use_dpop_nonce"), why));
    let nonce = refused.header("dpop-nonce");
    let tokens = exchange(&two, &[&proof(&one, &key, TOKEN, json!({"nonce": nonce}))], &code, &[]).await;
    assert_eq!((tokens.status, tokens.header("dpop-nonce")), (200, ""), "{tokens:?}");
    assert_eq!(call(&one, &key, &tokens.json()["access_token"], json!({"nonce": nonce})).await, None);
    let (code, foreign) = (other.code(&[]).await, proof(&other, &key, TOKEN, json!({"nonce": nonce})));
    let foreign = exchange(&other, &[&foreign], &code, &[]).await;
    assert_eq!(error(&foreign).1, "use_dpop_nonce", "the nonce of a server with another secret");
    one.clock.advance(Duration::from_secs(150));
    let code = one.code(&[]).await;
    let tokens = exchange(&one, &[&proof(&one, &key, TOKEN, json!({"nonce": nonce}))], &code, &[]).await;
    let next = tokens.header("dpop-nonce");
    assert!(tokens.status == 200 && !next.is_empty() && next != nonce, "{tokens:?}");
    let (path, pushing) = (authorize_path(&[]), proof(&one, &key, PAR, json!({"nonce": nonce})));
    let pushed = one.send("POST", "/par", &[("dpop", &pushing)], path.split_once('?').unwrap().1).await;
    assert_eq!((pushed.status, pushed.header("dpop-nonce")), (201, next), "{pushed:?}");
}

/// Resource servers elsewhere may need the same nonces and proofs.
#[tokio::test]
async fn the_key_of_nonces_and_the_records_of_proofs_can_be_those_of_others() {
    let (key, records) = (key(), Arc::new(MemoryRecords::default()));
    let options = |key: u8| Dpop::required().nonces_with_key([key; 32]).records(Arc::clone(&records));
    let one = world(options(1)).await;
    let [same, other] =
        [options(1), options(2)].map(|options| one.replica(RESOURCE, [7; 32], |builder| builder.dpop(options)));
    let (same, other) = (same.await, other.await);
    let machine = [("grant_type", "client_credentials"), ("client_id", "robot"), ("client_secret", "a robot secret")];
    let refused = ask(&one, &[&proof(&one, &key, TOKEN, json!({}))], &machine).await;
    let nonce = refused.header("dpop-nonce");
    for (world, status) in [(&other, 400), (&same, 200)] {
        let proof = proof(&one, &key, TOKEN, json!({"nonce": nonce}));
        assert_eq!(ask(world, &[&proof], &machine).await.status, status);
    }
    assert_eq!(records.list(crate::dpop::CLIENT_PROOFS, None, 10).await.unwrap().len(), 1);
}

/// Clients that ask for tokens leave room for the users of the resource.
#[tokio::test]
async fn proofs_for_tokens_and_for_the_resource_are_counted_apart() {
    let (world, key) = (world(Dpop::required().max_proofs(4)).await, key());
    let machine = [("grant_type", "client_credentials"), ("client_id", "robot"), ("client_secret", "a robot secret")];
    let mut token = Value::Null;
    for number in 0..3 {
        let tokens = ask(&world, &[&proof(&world, &key, TOKEN, json!({}))], &machine).await;
        assert_eq!(tokens.status, 200, "{number} {tokens:?}");
        token = tokens.json()["access_token"].clone();
    }
    let further = ask(&world, &[&proof(&world, &key, TOKEN, json!({}))], &machine).await;
    assert_eq!(error(&further).1, "temporarily_unavailable", "{further:?}");
    assert_eq!((further.status, further.header("retry-after")), (503, "5"));
    let code = world.code(&[]).await;
    assert_eq!(exchange(&world, &[&proof(&world, &key, TOKEN, json!({}))], &code, &[]).await.status, 200);
    assert_eq!(call(&world, &key, &token, json!({})).await, None);
    // Without its records, the server would not recognize the next use of a proof.
    world.records.set_down(true);
    let refused = call(&world, &key, &token, json!({})).await;
    assert_eq!(refused.as_deref(), Some("the proof cannot be remembered"));
}

/// A recorded request cannot be repeated, whatever it asks for.
#[tokio::test]
async fn a_proof_is_accepted_once_for_every_grant_type() {
    let (world, key) = (world(Dpop::optional()).await, key());
    let machine = [("grant_type", "client_credentials"), ("client_id", "robot"), ("client_secret", "a robot secret")];
    let used = proof(&world, &key, TOKEN, json!({}));
    assert_eq!(ask(&world, &[&used], &machine).await.status, 200);
    assert_eq!(error(&ask(&world, &[&used], &machine).await).2, "the proof was used before");
    let code = world.code(&[]).await;
    let mut tokens = exchange(&world, &[&proof(&world, &key, TOKEN, json!({}))], &code, &[]).await.json();
    let used = proof(&world, &key, TOKEN, json!({}));
    for expected in [Value::Null, json!("the proof was used before")] {
        let token = tokens["refresh_token"].as_str().unwrap().to_owned();
        let parameters = [("grant_type", "refresh_token"), ("client_id", "app"), ("refresh_token", token.as_str())];
        let response = ask(&world, &[&used], &parameters).await;
        assert_eq!(error(&response).2, expected);
        tokens = response.json();
    }
}

/// A client with a key sends its thumbprint to every server.
#[tokio::test]
async fn a_server_that_binds_no_tokens_ignores_keys() {
    let (world, key) = (World::new().await, key());
    let code = world.code(&[("dpop_jkt", &thumbprint(&key))]).await;
    let tokens = exchange(&world, &[&proof(&world, &key, TOKEN, json!({}))], &code, &[]).await;
    assert_eq!((tokens.status, &tokens.json()["token_type"]), (200, &json!("Bearer")), "{tokens:?}");
}

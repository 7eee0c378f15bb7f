//! Clients that authenticate with signed assertions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{Browser, ISSUER, Reaction, World, clients::document, form, records::age_records};
use crate::{
    ConfiguredClient, JwkSet,
    tests::{
        RESOURCE, Signer,
        issuer::{Reply, TestIssuer},
        signer::{hmac_token, now},
    },
};

const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

fn jwks(keys: &[&Signer]) -> Value {
    json!({"keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>()})
}

/// Returns the claims of a valid assertion with changes. `null` removes a claim.
fn claims(client: &str, changes: &Value) -> Value {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let mut claims = json!({"iss": client, "sub": client, "aud": ISSUER, "jti": id, "iat": now(), "exp": now() + 300});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn sign(signer: &Signer, client: &str, changes: &Value) -> String {
    signer.token_with(json!({"typ": "JWT"}), &claims(client, changes))
}

/// Asks for a token of a machine with an assertion, and further parameters.
async fn machine_token(world: &World, assertion: &str, parameters: &[(&str, &str)]) -> Reaction {
    let own = [("grant_type", "client_credentials"), ("client_assertion_type", TYPE), ("client_assertion", assertion)];
    world.token(&super::replaced(&own, parameters)).await
}

async fn world(keys: &[&Signer]) -> World {
    let keys: JwkSet = jwks(keys).to_string().parse().unwrap();
    World::with(|builder| builder.with_client(ConfiguredClient::machine_with_keys("worker", keys, ["notes:read"])))
        .await
}

#[tokio::test]
async fn a_machine_authenticates_with_an_assertion_and_each_refusal_says_why() {
    let (signer, old, stranger) = (Signer::p256("new"), Signer::ed25519("old"), Signer::p256("new"));
    let world = world(&[&signer, &old]).await;
    let assertion = |changes: Value| sign(&signer, "worker", &changes);
    let typed = |kind: &str| signer.token_with(json!({"typ": kind}), &claims("worker", &json!({})));
    let refused = |why: &str| Some(format!("the assertion of the client is not accepted: {why}"));
    let purpose = refused("it is a token for another purpose");
    let audience = refused("`aud` is not the issuer of this server alone");
    let algorithm = refused("the algorithm of the token is not accepted");
    let hmac = hmac_token(b"a secret", "new", &claims("worker", &json!({})));
    for (name, assertion, expected) in [
        ("valid", assertion(json!({})), None),
        ("an older key", sign(&old, "worker", &json!({})), None),
        ("the type of the update", typed("client-authentication+jwt"), None),
        ("an access token", typed("at+jwt"), purpose.clone()),
        ("a proof", typed("dpop+jwt"), purpose),
        ("a list of one", assertion(json!({"aud": [ISSUER]})), None),
        ("a client that writes the path", assertion(json!({"aud": format!("{ISSUER}/")})), None),
        ("a list of two", assertion(json!({"aud": [ISSUER, "https://other.example"]})), audience.clone()),
        ("the endpoint", assertion(json!({"aud": format!("{ISSUER}/token")})), audience.clone()),
        ("the resource", assertion(json!({"aud": RESOURCE})), audience.clone()),
        ("no audience", assertion(json!({"aud": null})), audience),
        ("another issuer", assertion(json!({"iss": "robot"})), refused("`iss` is not the client")),
        ("no issuer", assertion(json!({"iss": null})), refused("`iss` is not the client")),
        ("no identifier", assertion(json!({"jti": null})), refused("it has no `jti`")),
        ("no expiry", assertion(json!({"exp": null})), refused("it does not expire")),
        ("expired", assertion(json!({"exp": now() - 61})), refused("the token has expired")),
        ("expired within the leeway", assertion(json!({"exp": now() - 30})), None),
        ("ten minutes by a clock that is ahead", assertion(json!({"exp": now() + 630})), None),
        ("too long", assertion(json!({"exp": now() + 720})), refused("it expires later than in 10 minutes")),
        ("not yet", assertion(json!({"nbf": now() + 120})), refused("the token is not valid yet")),
        ("another key", sign(&stranger, "worker", &json!({})), refused("the signature of the token is invalid")),
        ("an unknown key", sign(&Signer::p256("x"), "worker", &json!({})), refused("its key is unknown")),
        ("a shared secret", hmac, algorithm.clone()),
        ("unsigned", signer.token_with(json!({"alg": "none"}), &claims("worker", &json!({}))), algorithm),
        ("no token", "x".to_owned(), refused("the token is not a signed JWT")),
        (
            "a client with a secret",
            sign(&signer, "robot", &json!({})),
            Some("the credentials of the client are wrong".to_owned()),
        ),
        (
            "a public client",
            sign(&signer, "app", &json!({})),
            Some("the credentials of the client are wrong".to_owned()),
        ),
        (
            "an unknown client",
            sign(&signer, "unknown", &json!({})),
            Some("the client is unknown, or its registration has expired".to_owned()),
        ),
        ("no client", assertion(json!({"sub": null})), Some("the client is not named".to_owned())),
    ] {
        let response = machine_token(&world, &assertion, &[]).await;
        let description = response.json()["error_description"].as_str().map(str::to_owned);
        let status = if expected.is_none() { 200 } else { 401 };
        assert_eq!((response.status, description), (status, expected), "{name}");
    }
    let unused = assertion(json!({}));
    for (parameters, status, error) in [
        (&[("client_id", "app")] as &[(&str, &str)], 400, "the request names two clients"),
        (&[("client_secret", "a robot secret")], 400, "the client authenticates in two ways"),
        (
            &[("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer")],
            401,
            "the assertion of the client is not accepted: it is missing, or its type is unknown",
        ),
        (
            &[("client_assertion", ""), ("client_id", "worker")],
            401,
            "the assertion of the client is not accepted: it is missing, or its type is unknown",
        ),
        (
            &[("client_assertion", ""), ("client_assertion_type", ""), ("client_id", "worker")],
            401,
            "the credentials of the client are wrong",
        ),
        (
            &[("client_assertion", ""), ("client_assertion_type", ""), ("client_id", "worker"), ("client_secret", "x")],
            401,
            "the credentials of the client are wrong",
        ),
    ] {
        let response = machine_token(&world, &unused, parameters).await;
        assert_eq!((response.status, &response.json()["error_description"]), (status, &json!(error)), "{parameters:?}");
    }
    let response = machine_token(&world, &unused, &[("client_id", "worker"), ("scope", "notes:read")]).await;
    assert_eq!(response.status, 200, "none of these requests has used the assertion up: {response:?}");
}

#[tokio::test]
async fn an_assertion_is_accepted_once_by_all_processes_and_at_every_endpoint() {
    let signer = Signer::p256("key");
    let one = world(&[&signer]).await;
    let keys: JwkSet = jwks(&[&signer]).to_string().parse().unwrap();
    let add = |builder: crate::AuthorizationServerBuilder| {
        builder.with_client(ConfiguredClient::machine_with_keys("worker", keys, ["notes:read"]))
    };
    let two = one.replica(RESOURCE, [7; 32], add).await;
    let assertion = sign(&signer, "worker", &json!({}));
    let token = machine_token(&one, &assertion, &[]).await.json()["access_token"].clone();
    let used = json!("the assertion of the client is not accepted: it was used before");
    for world in [&one, &two] {
        let response = machine_token(world, &assertion, &[]).await;
        assert_eq!((response.status, &response.json()["error_description"]), (401, &used));
    }
    let revoke = async |assertion: &str| {
        let parameters =
            [("client_assertion_type", TYPE), ("client_assertion", assertion), ("token", token.as_str().unwrap())];
        two.send("POST", "/revoke", &[], &form(&parameters)).await.status
    };
    assert_eq!(revoke(&assertion).await, 401);
    assert!(one.accepts(&token).await);
    assert_eq!(revoke(&sign(&signer, "worker", &json!({}))).await, 200);
    assert!(!two.accepts(&token).await);
    // While it cannot be remembered, none is accepted.
    one.records.set_down(true);
    assert_eq!(machine_token(&one, &sign(&signer, "worker", &json!({})), &[]).await.status, 503);
}

/// Clients choose identifiers without knowing those of other clients.
#[tokio::test]
async fn clients_may_choose_the_same_identifiers() {
    let signer = Signer::p256("key");
    let keys: JwkSet = jwks(&[&signer]).to_string().parse().unwrap();
    let machine = |id| ConfiguredClient::machine_with_keys(id, keys.clone(), ["notes:read"]);
    let world = World::with(|builder| builder.with_client(machine("one")).with_client(machine("two"))).await;
    for client in ["one", "two"] {
        let assertion = sign(&signer, client, &json!({"jti": "1"}));
        assert_eq!(machine_token(&world, &assertion, &[]).await.status, 200, "{client}");
        assert_eq!(machine_token(&world, &assertion, &[]).await.status, 401, "{client}");
    }
}

/// Strangers invent any number of clients, but have few addresses.
#[tokio::test]
async fn remembered_assertions_are_bounded_and_strangers_do_not_displace_configured_clients() {
    let signer = Signer::ed25519("key");
    let world = world(&[&signer]).await;
    let keys = jwks(&[&signer]);
    let (_host, id) = document(move |document| {
        document["token_endpoint_auth_method"] = json!("private_key_jwt");
        document["jwks"] = keys.clone();
    })
    .await;
    let revoke = async |client: &str, sender: &str| {
        let assertion = sign(&signer, client, &json!({}));
        let body = form(&[("client_assertion_type", TYPE), ("client_assertion", &assertion), ("token", "x")]);
        world.send_from(sender, "POST", "/revoke", &[], &body).await.status
    };
    for index in 0..150 {
        assert_eq!(revoke(&id, "198.51.100.1:1").await, 200, "{index}");
    }
    assert_eq!(revoke(&id, "198.51.100.1:1").await, 503);
    assert_eq!(revoke(&id, "198.51.100.2:1").await, 200);
    assert_eq!(revoke("worker", "198.51.100.1:1").await, 200);
    // For as long as clocks may differ, and once more.
    // The requests above may have taken some seconds.
    age_records(Duration::from_secs(390)).await;
    assert_eq!(revoke(&id, "198.51.100.1:1").await, 503);
    age_records(Duration::from_secs(31)).await;
    assert_eq!(revoke(&id, "198.51.100.1:1").await, 200);
}

/// Lets a client with a document obtain tokens with an assertion.
async fn log_in(world: &World, id: &str, assertion: &str) -> Reaction {
    let code = world.code(&[("client_id", id)]).await;
    let own = [("client_id", id), ("client_assertion_type", TYPE), ("client_assertion", assertion)];
    world.exchange(&code, &own).await
}

#[tokio::test]
async fn a_client_that_acts_for_users_authenticates_with_the_keys_of_its_document_or_configuration() {
    let signer = Signer::p256("key");
    let keys = jwks(&[&signer]);
    let configured = keys.to_string().parse::<JwkSet>().unwrap();
    let agent = ConfiguredClient::confidential_with_keys("agent", configured, "Agent", [super::REDIRECT]).unwrap();
    let world = World::with(|builder| builder.with_client(agent)).await;
    let (_host, id) = document(move |document| {
        document["token_endpoint_auth_method"] = json!("private_key_jwt");
        document["token_endpoint_auth_signing_alg"] = json!("ES256");
        document["grant_types"] = json!(["authorization_code", "refresh_token"]);
        document["jwks"] = keys.clone();
    })
    .await;
    for id in [id.as_str(), "agent"] {
        let tokens = log_in(&world, id, &sign(&signer, id, &json!({}))).await;
        assert_eq!(tokens.status, 200, "{tokens:?}");
        let tokens = tokens.json();
        let refresh = async |parameters: &[(&str, &str)]| {
            let own = [("grant_type", "refresh_token"), ("refresh_token", tokens["refresh_token"].as_str().unwrap())];
            world.token(&[&own[..], parameters].concat()).await
        };
        assert_eq!(refresh(&[("client_id", id)]).await.status, 401, "the identifier alone proves nothing");
        let assertion = sign(&signer, id, &json!({}));
        assert_eq!(refresh(&[("client_assertion_type", TYPE), ("client_assertion", &assertion)]).await.status, 200);
        // A machine is configured: documents are not trusted with scopes without a user.
        let response = machine_token(&world, &sign(&signer, id, &json!({})), &[]).await;
        assert_eq!((response.status, &response.json()["error"]), (400, &json!("unauthorized_client")));
    }
}

#[tokio::test]
async fn the_algorithm_of_a_document_is_the_only_one() {
    let (world, signer) = (World::new().await, Signer::rsa("key"));
    let keys = jwks(&[&signer]);
    let (_host, id) = document(move |document| {
        document["token_endpoint_auth_method"] = json!("private_key_jwt");
        document["token_endpoint_auth_signing_alg"] = json!("PS256");
        document["jwks"] = keys.clone();
    })
    .await;
    for (algorithm, status) in [("RS256", 401), ("PS256", 200)] {
        let assertion = signer.token_with(json!({"typ": "JWT", "alg": algorithm}), &claims(&id, &json!({})));
        assert_eq!(log_in(&world, &id, &assertion).await.status, status, "{algorithm}");
    }
}

/// Serves a document that names `/keys`, where the host publishes these keys.
async fn host_of_keys(keys: Arc<std::sync::Mutex<Option<Value>>>) -> (TestIssuer, String) {
    let host = TestIssuer::start().await;
    let (id, url) = (format!("{}/client.json", host.url), host.url.clone());
    host.respond(move |path| match path {
        "/client.json" => Reply::Json(json!({
            "client_id": format!("{url}/client.json"), "client_name": "Documented",
            "redirect_uris": [super::REDIRECT], "token_endpoint_auth_method": "private_key_jwt",
            "jwks_uri": format!("{url}/keys"),
        })),
        "/keys" => keys.lock().unwrap().clone().map_or(Reply::Close, Reply::Json),
        _ => crate::tests::issuer::not_found(),
    });
    (host, id)
}

#[tokio::test]
async fn published_keys_are_cached_and_fetched_again_if_an_assertion_names_another() {
    let (world, old, new) = (World::new().await, Signer::p256("old"), Signer::p256("new"));
    let published = Arc::new(std::sync::Mutex::new(Some(jwks(&[&old]))));
    let (host, id) = host_of_keys(Arc::clone(&published)).await;
    let revoke = async |signer: &Signer| {
        let assertion = sign(signer, &id, &json!({"exp": now() + 600}));
        let body = form(&[("client_assertion_type", TYPE), ("client_assertion", &assertion), ("token", "x")]);
        world.send("POST", "/revoke", &[], &body).await.status
    };
    let fetched = || host.received("/keys").len();
    assert_eq!((revoke(&old).await, revoke(&old).await, fetched()), (200, 200, 1));
    *published.lock().unwrap() = Some(jwks(&[&new]));
    assert_eq!((revoke(&new).await, fetched()), (401, 1), "not again at once");
    world.clock.advance(Duration::from_secs(61));
    assert_eq!((revoke(&new).await, fetched()), (200, 2));
    assert_eq!((revoke(&old).await, fetched()), (401, 2));
    // An assertion that names a known key causes no request, whether it is valid or not.
    world.clock.advance(Duration::from_secs(61));
    assert_eq!((revoke(&new).await, revoke(&Signer::p256("new")).await, fetched()), (200, 401, 2));
    // An assertion that names none may be of a key that has replaced one without a name.
    let [unnamed, next] = [(); 2].map(|()| Signer::p256("").without_id());
    for (signer, requests) in [(&unnamed, 3), (&next, 4)] {
        *published.lock().unwrap() = Some(jwks(&[&new, signer]));
        world.clock.advance(Duration::from_secs(61));
        assert_eq!((revoke(signer).await, fetched()), (200, requests));
    }
    world.clock.advance(Duration::from_secs(61));
    // Known keys remain in use while the host does not respond.
    *published.lock().unwrap() = None;
    assert_eq!((revoke(&old).await, revoke(&new).await, fetched()), (401, 200, 5));
}

#[tokio::test]
async fn published_keys_that_are_not_all_public_are_refused() {
    let (world, signer) = (World::new().await, Signer::p256("key"));
    let mut keys = jwks(&[&signer, &Signer::p256("other")]);
    keys["keys"][1]["d"] = json!("AA");
    let (_host, id) = host_of_keys(Arc::new(std::sync::Mutex::new(Some(keys)))).await;
    let assertion = sign(&signer, &id, &json!({"exp": now() + 600}));
    let body = form(&[("client_assertion_type", TYPE), ("client_assertion", &assertion), ("token", "x")]);
    assert_eq!(world.send("POST", "/revoke", &[], &body).await.status, 401);
}

/// A stranger names unknown keys while all requests of its address wait.
#[tokio::test]
async fn known_keys_remain_in_use_while_they_cannot_be_fetched_again() {
    let (world, signer) = (Arc::new(World::new().await), Signer::p256("key"));
    let (_host, id) = host_of_keys(Arc::new(std::sync::Mutex::new(Some(jwks(&[&signer]))))).await;
    let revoke = async |signer: &Signer| {
        let assertion = sign(signer, &id, &json!({"exp": now() + 600}));
        let body = form(&[("client_assertion_type", TYPE), ("client_assertion", &assertion), ("token", "x")]);
        world.send("POST", "/revoke", &[], &body).await.status
    };
    assert_eq!(revoke(&signer).await, 200);
    world.clock.advance(Duration::from_secs(61));
    let hanging = TestIssuer::start().await;
    hanging.respond(|_| Reply::Never);
    let mut waiting = tokio::task::JoinSet::new();
    for index in 0..24 {
        let (world, path) = (Arc::clone(&world), format!("/{index}.json"));
        let client = format!("{}{path}", hanging.url);
        waiting.spawn(async move { world.authorize(&mut Browser::default(), &[("client_id", &client)]).await.status });
        hanging.until_received(&path, 1).await;
    }
    assert_eq!((revoke(&Signer::p256("x")).await, revoke(&signer).await), (401, 200));
    waiting.shutdown().await;
}

#[tokio::test]
async fn keys_that_are_not_available_are_no_reason_to_forget_the_client() {
    let (world, signer) = (World::new().await, Signer::p256("key"));
    for (published, status) in [(None, 503), (Some(json!({"keys": []})), 401), (Some(json!(["x"])), 401)] {
        let (host, id) = host_of_keys(Arc::new(std::sync::Mutex::new(published))).await;
        for status in [status, 503] {
            assert_eq!(machine_token(&world, &sign(&signer, &id, &json!({})), &[]).await.status, status);
        }
        assert_eq!(host.received("/keys").len(), 1);
        // An assertion that does not fit this server causes no request.
        let (other, id) = host_of_keys(Arc::default()).await;
        let assertion = sign(&signer, &id, &json!({"aud": "https://other.example"}));
        assert_eq!(machine_token(&world, &assertion, &[]).await.status, 401);
        assert!(other.received("/keys").is_empty());
    }
}

/// All of them may have the address of one proxy.
#[tokio::test]
async fn assertions_of_configured_clients_are_counted_by_client() {
    let signer = Signer::ed25519("key");
    let keys: JwkSet = jwks(&[&signer]).to_string().parse().unwrap();
    let machine = |id| ConfiguredClient::machine_with_keys(id, keys.clone(), ["notes:read"]);
    let world = World::with(|builder| builder.with_client(machine("one")).with_client(machine("two"))).await;
    for (client, count) in [("one", 151), ("two", 1)] {
        for index in 0..count {
            let response = machine_token(&world, &sign(&signer, client, &json!({})), &[]).await;
            assert_eq!(response.status, if index < 150 { 200 } else { 503 }, "{client} {index}");
        }
    }
}

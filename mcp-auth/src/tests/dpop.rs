use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    auth::{AuthenticationErrorKind as Kind, Authenticator as _},
    backend::MemoryRecords,
};
use ring::digest;
use serde_json::{Value, json};

use super::{
    RESOURCE, Signer, bearer,
    signer::{claims, encode, now},
    with_headers,
};
use crate::{Dpop, Jwt, clock::Clock, dpop::test_nonce, jose::Jwk, jwt::Keys};

const ISSUER: &str = "https://id.example.com";

pub(super) struct Setup {
    issuer: Signer,
    client: Signer,
    pub(super) clock: Clock,
    jwt: Jwt,
}

pub(super) fn setup(options: Dpop) -> Setup {
    let (issuer, clock) = (Signer::p256("issuer"), Clock::default());
    let jwt = jwt(&issuer, &clock, options);
    Setup { issuer, client: Signer::ed25519("client").without_id(), clock, jwt }
}

fn jwt(issuer: &Signer, clock: &Clock, options: Dpop) -> Jwt {
    let keys = Keys::Fixed(json!({"keys": [issuer.jwk()]}).to_string().parse().unwrap());
    Jwt::unbound(ISSUER.to_owned(), keys, clock.clone()).resource(RESOURCE).dpop(options).unwrap()
}

pub(super) fn thumbprint(signer: &Signer) -> String {
    Jwk::parse(signer.jwk().as_object().unwrap()).unwrap().thumbprint()
}

impl Setup {
    /// Returns an access token that is bound to the key of the client.
    pub(super) fn token(&self) -> String {
        self.issuer.token(&claims(json!({"cnf": {"jkt": thumbprint(&self.client)}, "exp": now() + 3600})))
    }

    /// Returns a proof with changed claims.
    pub(super) fn proof(&self, token: &str, id: &str, changes: Value) -> String {
        self.client.token_with(self.header(), &self.proof_claims(token, id, changes))
    }

    fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "jwk": self.client.jwk()})
    }

    fn proof_claims(&self, token: &str, id: &str, changes: Value) -> Value {
        let hash = encode(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        let mut claims =
            json!({"jti": id, "htm": "POST", "htu": RESOURCE, "iat": self.clock.unix() as u64, "ath": hash});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        claims
    }

    /// Returns the message and the challenges of a refusal, or nothing if the request is accepted.
    pub(super) async fn refusal(&self, token: &str, proofs: &[&str]) -> Option<(Kind, String, Vec<String>)> {
        let authorization = format!("DPoP {token}");
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(proofs.iter().map(|proof| ("dpop", *proof)));
        let error = with_headers(&self.jwt, &headers).await.err()?;
        let challenges = error.challenges().iter().map(ToString::to_string).collect();
        Some((error.kind(), error.message().to_owned(), challenges))
    }
}

#[tokio::test]
async fn a_proof_is_accepted_once() {
    let setup = setup(Dpop::required());
    let token = setup.token();
    let proof = setup.proof(&token, "1", json!({}));
    assert_eq!(setup.refusal(&token, &[&proof]).await, None);
    let repeated = setup.refusal(&token, &[&proof]).await.unwrap();
    let challenge = r#"DPoP error="invalid_dpop_proof", error_description="the proof was used before""#.to_owned();
    assert_eq!(repeated, (Kind::Invalid, "the proof was used before".to_owned(), vec![challenge]));
    assert_eq!(setup.refusal(&token, &[&setup.proof(&token, "2", json!({}))]).await, None);
    // Neither is it accepted when it has been forgotten.
    setup.clock.advance(Duration::from_secs(121));
    assert_eq!(setup.refusal(&token, &[&proof]).await.unwrap().1, "the proof was not created just now");
}

#[tokio::test]
async fn each_refusal_of_a_proof_says_why() {
    let setup = setup(Dpop::required());
    let token = setup.token();
    let other = Signer::ed25519("other").without_id();
    let now = now();
    let mut private = setup.client.jwk();
    private["d"] = json!("AAAA");
    let with_header = |header: Value| {
        let mut all = setup.header();
        for (name, value) in header.as_object().unwrap() {
            all[name] = value.clone();
        }
        setup.client.token_with(all, &setup.proof_claims(&token, "x", json!({})))
    };
    let other_key =
        other.token_with(json!({"typ": "dpop+jwt", "jwk": other.jwk()}), &setup.proof_claims(&token, "x", json!({})));
    let with = |changes: Value| setup.proof(&token, "x", changes);
    let unsupported = "the proof is not a signed JWT that is supported";
    for (proof, expected) in [
        ("abc".to_owned(), unsupported),
        ("x".repeat(8 * 1024 + 1), "the proof is not a signed JWT"),
        (with_header(json!({"alg": "none"})), unsupported),
        (with_header(json!({"alg": "HS256"})), unsupported),
        (with_header(json!({"crit": ["b64"]})), unsupported),
        (with_header(json!({"typ": "JWT"})), "the type of the proof is not `dpop+jwt`"),
        (with_header(json!({"jwk": null})), "the proof does not contain its key"),
        (with_header(json!({"jwk": private})), "the key of the proof is not a supported public key"),
        (
            with_header(json!({"jwk": {"kty": "oct", "k": "AAAA"}})),
            "the key of the proof is not a supported public key",
        ),
        (with_header(json!({"jwk": other.jwk()})), "the signature of the proof is invalid"),
        (other_key, "the token is bound to another key"),
        (with(json!({"htm": "GET"})), "the proof is for another method"),
        (with(json!({"htm": "post"})), "the proof is for another method"),
        (with(json!({"htm": null})), "the proof is for another method"),
        (with(json!({"htu": "https://mcp.example.com/other"})), "the proof is for another URL"),
        (with(json!({"htu": "https://evil.example/mcp"})), "the proof is for another URL"),
        (with(json!({"htu": "https://evil.example/mcp#https://mcp.example.com/mcp"})), "the proof is for another URL"),
        (with(json!({"htu": "http://127.0.0.1:3000/mcp"})), "the proof is for another URL"),
        (with(json!({"htu": null})), "the proof is for another URL"),
        (with(json!({"ath": null})), "the proof is for another token"),
        (with(json!({"ath": encode(b"other")})), "the proof is for another token"),
        (with(json!({"jti": null})), "the proof has no `jti`"),
        (with(json!({"jti": ""})), "the proof has no `jti`"),
        (with(json!({"jti": 1})), "the proof has no `jti`"),
        (with(json!({"iat": null})), "the proof has no `iat`"),
        (with(json!({"iat": now - 70})), "the proof was not created just now"),
        (with(json!({"iat": now + 70})), "the proof was not created just now"),
        (with(json!({"iat": 1e300})), "the proof was not created just now"),
    ] {
        let (kind, message, challenges) = setup.refusal(&token, &[&proof]).await.expect(expected);
        assert_eq!((kind, message.as_str()), (Kind::Invalid, expected));
        let challenge = format!(r#"DPoP error="invalid_dpop_proof", error_description="{}""#, expected);
        assert_eq!(challenges, [challenge]);
    }
    let valid = setup.proof(&token, "1", json!({}));
    assert_eq!(setup.refusal(&token, &[]).await.unwrap().1, "the proof of possession is missing");
    assert_eq!(setup.refusal(&token, &[&valid, &valid]).await.unwrap().1, "expected one proof of possession");
    // Clocks may differ by a minute, and URLs are normalized.
    for (id, changes) in [
        ("2", json!({"iat": now - 50})),
        ("3", json!({"iat": now + 50})),
        ("4", json!({"htu": "HTTPS://MCP.example.com:443/mcp?query"})),
        ("5", json!({"htu": "https://mcp.example.com/mcp#fragment"})),
        ("6", json!({"htu": "https://mcp.example.com/mcp?query#fragment"})),
        ("7", json!({"htu": "https://mcp.example.com/./a/../%6dcp"})),
    ] {
        assert_eq!(setup.refusal(&token, &[&setup.proof(&token, id, changes)]).await, None, "{id}");
    }
}

#[tokio::test]
async fn the_binding_of_a_token_decides_its_scheme() {
    for (options, required) in [(Dpop::required(), true), (Dpop::optional(), false)] {
        let setup = setup(options);
        let (bound, unbound) = (setup.token(), setup.issuer.token(&claims(json!({}))));
        let error = bearer(&setup.jwt, &bound).await.map(|_| ()).unwrap_err();
        assert_eq!(error.message(), "the token is bound to a key, so it requires the scheme `DPoP`");
        assert!(error.challenges()[0].to_string().starts_with(r#"DPoP error="invalid_token", "#));
        let refusal = setup.refusal(&unbound, &[&setup.proof(&unbound, "1", json!({}))]).await.unwrap();
        assert_eq!(refusal.1, "the token is not bound to a key");
        let result = bearer(&setup.jwt, &unbound).await.map(|_| ()).map_err(|error| error.message().to_owned());
        assert_eq!(result.err().as_deref(), required.then_some("the token must be bound to a key"));
        // Other bindings cannot be verified.
        for confirmation in [json!({"x5t#S256": "abc"}), json!({"jkt": "a", "x5t#S256": "b"}), json!({}), json!("jkt")]
        {
            let token = setup.issuer.token(&claims(json!({"cnf": confirmation})));
            let message = "the token is bound to a key in a way that this server cannot verify";
            assert_eq!(setup.refusal(&token, &[]).await.unwrap().1, message);
        }
        let description = format!("{:?}", setup.jwt.protected_resource());
        assert!(description.contains("ES256 ES384 EdDSA RS256"), "{description}");
        assert_eq!(description.contains("dpop_bound_access_tokens_required"), required, "{description}");
        let no_header = r#""bearer_methods_supported": Array []"#;
        assert_eq!(description.contains(no_header), required, "{description}");
        // Clients without a key are told that they need none.
        assert_eq!(description.contains("\"Bearer\""), !required, "{description}");
    }
}

#[tokio::test]
async fn nonces_change_and_the_previous_one_is_accepted() {
    let setup = setup(Dpop::required().nonces());
    let token = setup.token();
    let send = |id: &str, nonce: Value| {
        let proof = setup.proof(&token, id, json!({"nonce": nonce}));
        let (jwt, authorization) = (&setup.jwt, format!("DPoP {token}"));
        async move { with_headers(jwt, &[("authorization", &authorization), ("dpop", &proof)]).await }
    };
    let next = |result: Result<super::Accepted, mcp_runtime::auth::AuthenticationError>| {
        let error = result.err().unwrap();
        assert_eq!(error.message(), "the proof must contain the nonce of the server");
        assert!(error.challenges()[0].to_string().starts_with(r#"DPoP error="use_dpop_nonce", "#));
        error.response_headers()["dpop-nonce"].to_str().unwrap().to_owned()
    };
    let first = next(send("1", json!(null)).await);
    assert_eq!(next(send("2", json!("invented")).await).len(), first.len());
    // The repetition may use the same identifier, because the first attempt was not accepted.
    assert!(send("1", json!(first)).await.unwrap().response_headers().is_none());
    setup.clock.advance(Duration::from_secs(150));
    let identity = send("3", json!(first)).await.unwrap();
    let second = identity.response_headers().unwrap()["dpop-nonce"].to_str().unwrap().to_owned();
    assert_ne!(first, second);
    assert!(send("4", json!(second)).await.unwrap().response_headers().is_none());
    setup.clock.advance(Duration::from_secs(150));
    assert_ne!(next(send("5", json!(first)).await), first);
}

#[test]
fn replicas_with_one_key_share_nonces_and_an_invalid_resource_is_an_error() {
    let keys = || Keys::Fixed(json!({"keys": [Signer::p256("a").jwk()]}).to_string().parse().unwrap());
    let unbound = || Jwt::unbound(ISSUER.to_owned(), keys(), Clock::default());
    let nonces = [(); 2].map(|()| test_nonce(Dpop::required().nonces_with_key([7; 32]), 1e9));
    assert_eq!(nonces[0], nonces[1]);
    let random = [(); 2].map(|()| test_nonce(Dpop::required().nonces(), 1e9));
    assert!(random[0] != nonces[0] && random[0] != random[1]);
    let error = unbound().resource("mcp").dpop(Dpop::required()).unwrap_err();
    assert_eq!(error.to_string(), "the URL `mcp` is not absolute: expected `https://…`");
    unbound().resource("urn:notes").dpop(Dpop::required().url("https://mcp.example.com/mcp")).unwrap();
}

#[test]
fn the_key_of_nonces_is_not_shown() {
    let shown = format!("{:?}", Dpop::required().nonces_with_key([7; 32]));
    assert!(!shown.contains('7'), "{shown}");
}

/// A proof that was used at one replica is known at the others, and after a restart.
#[tokio::test]
async fn proofs_are_remembered_in_shared_records() {
    let records = Arc::new(MemoryRecords::default());
    let options = || Dpop::required().records(Arc::clone(&records)).max_proofs(4);
    let mut setup = setup(options());
    let mut other = jwt(&setup.issuer, &setup.clock, options());
    let token = setup.token();
    for (id, expected) in [
        ("1", None),
        ("1", Some("the proof was used before")),
        ("2", None),
        ("2", Some("the proof was used before")),
        ("3", None),
        ("4", Some("too many proofs within a short time")),
    ] {
        let refusal = setup.refusal(&token, &[&setup.proof(&token, id, json!({}))]).await;
        assert_eq!(refusal.as_ref().map(|(_, message, _)| message.as_str()), expected, "{id}");
        std::mem::swap(&mut setup.jwt, &mut other);
    }
    // Another principal has the room that is left.
    let of_eve = json!({"sub": "eve", "cnf": {"jkt": thumbprint(&setup.client)}, "exp": now() + 3600});
    let token = setup.issuer.token(&claims(of_eve));
    assert_eq!(setup.refusal(&token, &[&setup.proof(&token, "5", json!({}))]).await, None);
}

/// A proof is remembered for as long as it would be accepted.
#[tokio::test]
async fn a_proof_is_accepted_once_whatever_its_maximum_age() {
    let setup = setup(Dpop::required().max_age(Duration::from_secs(600)));
    let token = setup.token();
    let proof = setup.proof(&token, "1", json!({"iat": now() + 290}));
    assert_eq!(setup.refusal(&token, &[&proof]).await, None);
    setup.clock.advance(Duration::from_secs(570));
    assert_eq!(setup.refusal(&token, &[&proof]).await.unwrap().1, "the proof was used before");
    setup.clock.advance(Duration::from_secs(40));
    let late = setup.refusal(&token, &[&proof]).await.unwrap().1;
    assert_eq!(late, "the proof was not created just now", "at most five minutes");
}

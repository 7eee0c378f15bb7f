use std::time::Duration;

use mcp_runtime::auth::{AuthenticationErrorKind as Kind, Authenticator as _, Principal};
use serde_json::{Value, json};

use super::{
    RESOURCE, Signer, authenticate, bearer,
    signer::{claims, encode, hmac_token, now},
    with_headers,
};
use crate::{JwkSet, Jwt, clock::Clock, jwt::Keys};

const ISSUER: &str = "https://id.example.com";
const MALFORMED: &str = "the credentials of the `Authorization` header are malformed";

fn key_set(signers: &[&Signer]) -> JwkSet {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({"keys": keys}).to_string().parse().unwrap()
}

fn jwt(signers: &[&Signer]) -> Jwt {
    Jwt::keys(ISSUER, key_set(signers)).resource(RESOURCE)
}

#[tokio::test]
async fn a_valid_token_identifies_its_subject() {
    let signers = [Signer::p256("a"), Signer::p384("b"), Signer::ed25519("c"), Signer::rsa("d")];
    let jwt = jwt(&signers.each_ref());
    for signer in &signers {
        let claims = claims(json!({"email": "ada@example.com"}));
        let identity = bearer(&jwt, &signer.token(&claims)).await.unwrap();
        assert_eq!(identity.principal(), Principal::of_subject(ISSUER, "ada").as_str());
        assert_eq!(identity.scopes().collect::<Vec<_>>(), ["notes:read", "notes:write"]);
        assert_eq!(identity.claim("email"), Some(&json!("ada@example.com")));
        assert_eq!(identity.expires_at(), Some(crate::claims::system_time(claims["exp"].as_f64().unwrap())));
    }
    for algorithm in ["RS384", "RS512", "PS256", "PS384", "PS512"] {
        bearer(&jwt, &signers[3].token_with(json!({"alg": algorithm}), &claims(json!({})))).await.expect(algorithm);
    }
    let description = jwt.protected_resource();
    assert_eq!(description.identifier(), Some(RESOURCE));
    assert_eq!(description.authorization_servers(), [ISSUER]);
}

#[tokio::test]
async fn variants_of_valid_tokens_are_accepted() {
    let signer = Signer::ed25519("key");
    let jwt = jwt(&[&signer]);
    let exp = now() as f64 + 60.5;
    for (header, changes) in [
        (json!({"typ": null}), json!({})),
        (json!({"typ": "JWT"}), json!({})),
        (json!({"typ": "application/AT+JWT"}), json!({})),
        (json!({"kid": null}), json!({})),
        (json!({"alg": "Ed25519"}), json!({})),
        (json!({}), json!({"token_use": "access"})),
        (json!({}), json!({"token_use": "access_token"})),
        (json!({}), json!({"aud": ["https://other.example", RESOURCE]})),
        (json!({}), json!({"exp": exp})),
        // The clocks of issuer and server differ by less than a minute.
        (json!({}), json!({"exp": now() - 50})),
        (json!({}), json!({"nbf": now() + 50, "iat": now() + 50})),
        // Keys in the header have no effect.
        (
            json!({"jku": "https://evil.example/keys", "x5u": "https://evil.example", "x5c": ["AA"], "jwk": {}}),
            json!({}),
        ),
    ] {
        let token = signer.token_with(header.clone(), &claims(changes.clone()));
        bearer(&jwt, &token).await.unwrap_or_else(|error| panic!("{header} {changes}: {error}"));
    }
    let token = signer.token(&claims(json!({})));
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer  "] {
        authenticate(&jwt, &format!("{scheme} {token}")).await.expect(scheme);
    }
}

#[tokio::test]
async fn credentials_of_another_form_are_missing_or_malformed() {
    let jwt = jwt(&[&Signer::ed25519("key")]);
    for (header, expected) in [
        ("Basic YTpi", (Kind::Missing, "authentication is required")),
        ("DPoP a.b.c", (Kind::Missing, "authentication is required")),
        ("Bearer", (Kind::Malformed, MALFORMED)),
        ("Bearer ", (Kind::Malformed, MALFORMED)),
        ("Bearer a b", (Kind::Malformed, MALFORMED)),
        ("Bearer a,b", (Kind::Malformed, MALFORMED)),
        ("Bearer \"a\"", (Kind::Malformed, MALFORMED)),
        ("Bearer =", (Kind::Malformed, MALFORMED)),
        ("Bearer grüße", (Kind::Malformed, MALFORMED)),
    ] {
        let error = authenticate(&jwt, header).await.unwrap_err();
        assert_eq!((error.kind(), error.message()), expected, "{header}");
    }
    let error = with_headers(&jwt, &[]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Missing);
}

/// Refused tokens, each with the message for the client and the detail for the log.
fn refused(signer: &Signer, rsa: &Signer) -> Vec<(&'static str, String, &'static str, Option<String>)> {
    let valid = signer.token(&claims(json!({})));
    let with = |changes: Value| signer.token(&claims(changes));
    let with_header = |header: Value| signer.token_with(header, &claims(json!({})));
    let (head, rest) = valid.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let unsigned = encode(json!({"alg": "none", "kid": "key"}).to_string().as_bytes());
    let rsa_secret = rsa.jwk()["n"].as_str().unwrap().to_owned();
    let duplicates = claims(json!({})).to_string().replacen('{', r#"{"sub": "eve", "#, 1);
    let other = Signer::ed25519("key");
    let expected_aud = format!("`aud` is `https://other.example`, expected `{RESOURCE}`");
    let not_jwt = "the token is not a signed JWT";
    let algorithm = "the algorithm of the token is not accepted";
    let signature_error = "the signature of the token is invalid";
    let not_access = "the token is not an access token";
    let time = "the token has an invalid time";
    let audience = "the token was not issued for this server";
    let issuer = "the token is of another issuer";
    let expected_time =
        |claim: &str, value: &str| Some(format!("`{claim}` is `{value}`, expected seconds since the Unix epoch"));
    vec![
        ("not a JWT", "abc".to_owned(), not_jwt, None),
        ("two parts", format!("{head}.{payload}"), not_jwt, None),
        ("four parts", format!("{valid}.{signature}"), not_jwt, None),
        ("encrypted", format!("{valid}.{signature}.{signature}"), not_jwt, None),
        ("padded", format!("{head}.{payload}.{signature}="), not_jwt, None),
        ("not JSON", format!("{}.{payload}.{signature}", encode(b"alg")), not_jwt, None),
        ("unsigned", format!("{unsigned}.{payload}."), algorithm, None),
        ("unsigned with a signature", format!("{unsigned}.{payload}.{signature}"), algorithm, None),
        ("no signature", format!("{head}.{payload}."), signature_error, None),
        ("HMAC with the public key", hmac_token(rsa_secret.as_bytes(), "rsa", &claims(json!({}))), algorithm, None),
        ("no algorithm", with_header(json!({"alg": null})), algorithm, None),
        ("several algorithms", with_header(json!({"alg": ["EdDSA"]})), algorithm, None),
        ("unsupported algorithm", with_header(json!({"alg": "ES512"})), algorithm, None),
        (
            "algorithm of another type of key",
            with_header(json!({"alg": "RS256"})),
            "the key of the token does not accept its algorithm",
            None,
        ),
        ("key with a path", with_header(json!({"kid": "../../etc/passwd"})), "the key of the token is unknown", None),
        (
            "key with a URL",
            with_header(json!({"kid": "https://evil.example/key"})),
            "the key of the token is unknown",
            None,
        ),
        ("key with SQL", with_header(json!({"kid": "' or 1=1 --"})), "the key of the token is unknown", None),
        ("key of another type", with_header(json!({"kid": 1})), not_jwt, None),
        ("embedded key", other.token_with(json!({"jwk": other.jwk()}), &claims(json!({}))), signature_error, None),
        (
            "address of a key",
            other.token_with(json!({"jku": "https://evil.example"}), &claims(json!({}))),
            signature_error,
            None,
        ),
        (
            "critical extension",
            with_header(json!({"crit": ["exp"]})),
            "the token requires an extension that is not supported",
            None,
        ),
        ("another key", other.token(&claims(json!({}))), signature_error, None),
        (
            "changed claims",
            format!("{head}.{}.{signature}", encode(claims(json!({"sub": "eve"})).to_string().as_bytes())),
            signature_error,
            None,
        ),
        ("logout token", with_header(json!({"typ": "logout+jwt"})), not_access, None),
        ("type of another type", with_header(json!({"typ": 1})), not_access, None),
        ("ID token", with(json!({"token_use": "id"})), not_access, None),
        ("use of another type", with(json!({"token_use": 1})), not_access, None),
        ("long", with(json!({"x": "x".repeat(1024 * 1024)})), "the token is longer than 16 KiB", None),
        (
            "duplicate claims",
            signer.sign_text(json!({}), &duplicates),
            "the claims of the token are not a JSON object with unique names",
            None,
        ),
        (
            "claims of another type",
            signer.sign_text(json!({}), "[]"),
            "the claims of the token are not a JSON object with unique names",
            None,
        ),
        (
            "another issuer",
            with(json!({"iss": "https://evil.example"})),
            issuer,
            Some(format!("`iss` is `https://evil.example`, expected `{ISSUER}`")),
        ),
        (
            "issuer with a slash",
            with(json!({"iss": "https://id.example.com/"})),
            issuer,
            Some(format!("`iss` is `https://id.example.com/`, expected `{ISSUER}`")),
        ),
        ("no issuer", with(json!({"iss": null})), issuer, Some(format!("`iss` is absent, expected `{ISSUER}`"))),
        (
            "several issuers",
            with(json!({"iss": [ISSUER]})),
            issuer,
            Some(format!("`iss` is `[\\\"{ISSUER}\\\"]`, expected `{ISSUER}`")),
        ),
        (
            "issuer that would forge a line of the log",
            with(json!({"iss": "a\nWARN forged"})),
            issuer,
            Some(format!("`iss` is `a\\nWARN forged`, expected `{ISSUER}`")),
        ),
        (
            "a long issuer",
            with(json!({"iss": "x".repeat(101)})),
            issuer,
            Some(format!("`iss` is `{}…`, expected `{ISSUER}`", "x".repeat(100))),
        ),
        ("another audience", with(json!({"aud": "https://other.example"})), audience, Some(expected_aud)),
        ("no audience", with(json!({"aud": null})), audience, Some(format!("`aud` is absent, expected `{RESOURCE}`"))),
        ("expired", with(json!({"exp": now() - 90})), "the token has expired", None),
        ("no expiry", with(json!({"exp": null})), "the token does not expire", None),
        ("expiry as a string", with(json!({"exp": "9999999999"})), time, expected_time("exp", "9999999999")),
        ("expiry out of range", with(json!({"exp": 1e300})), time, expected_time("exp", "1e+300")),
        ("negative expiry", with(json!({"exp": -1})), time, expected_time("exp", "-1")),
        ("not valid yet", with(json!({"nbf": now() + 90})), "the token is not valid yet", None),
        (
            "start as null",
            signer.sign_text(json!({}), &claims(json!({})).to_string().replacen('{', r#"{"nbf": null, "#, 1)),
            time,
            expected_time("nbf", "null"),
        ),
        ("no subject", with(json!({"sub": null})), "the token has no subject", None),
        ("empty subject", with(json!({"sub": ""})), "the token has no subject", None),
        (
            "bound to a key",
            with(json!({"cnf": {"jkt": "abc"}})),
            "the token is bound to a key in a way that this server cannot verify",
            None,
        ),
    ]
}

#[tokio::test]
async fn each_refusal_says_why() {
    let (signer, rsa) = (Signer::ed25519("key"), Signer::rsa("rsa"));
    let jwt = jwt(&[&signer, &rsa]);
    for (name, token, message, detail) in refused(&signer, &rsa) {
        // A refusal is not cached as an acceptance.
        for _ in 0..2 {
            let error = bearer(&jwt, &token).await.expect_err(name);
            assert_eq!((error.kind(), error.message()), (Kind::Invalid, message), "{name}");
            // The details of times contain seconds that pass.
            let detail = detail.as_deref().or(error.detail().filter(|detail| detail.contains(" seconds")));
            assert_eq!(error.detail(), detail, "{name}");
        }
    }
    let error = bearer(&jwt, &signer.token(&claims(json!({"exp": now() - 90})))).await.unwrap_err();
    let detail = error.detail().unwrap();
    assert!(detail.starts_with("it expired 9") && detail.ends_with(" seconds ago, and the leeway is 60"), "{detail}");
}

#[tokio::test]
async fn a_key_restricts_its_algorithms() {
    let signer = Signer::rsa("key");
    let mut key = signer.jwk();
    key["alg"] = json!("PS256");
    let jwt = Jwt::keys(ISSUER, json!({"keys": [key]}).to_string().parse().unwrap()).resource(RESOURCE);
    bearer(&jwt, &signer.token_with(json!({"alg": "PS256"}), &claims(json!({})))).await.unwrap();
    let error = bearer(&jwt, &signer.token(&claims(json!({})))).await.unwrap_err();
    assert_eq!(error.message(), "the key of the token does not accept its algorithm");
}

#[tokio::test]
async fn options_change_what_is_accepted() {
    let signer = Signer::ed25519("key");
    let token = |header: Value, changes: Value| signer.token_with(header, &claims(changes));
    let strict = jwt(&[&signer]).require_at_jwt().leeway(Duration::ZERO);
    bearer(&strict, &token(json!({}), json!({}))).await.unwrap();
    for (header, changes, message) in [
        (json!({"typ": "JWT"}), json!({}), "the token is not an access token"),
        (json!({"typ": null}), json!({}), "the token is not an access token"),
        (json!({}), json!({"exp": now() - 1}), "the token has expired"),
        (json!({}), json!({"nbf": now() + 5}), "the token is not valid yet"),
    ] {
        assert_eq!(bearer(&strict, &token(header, changes)).await.unwrap_err().message(), message);
    }
    let lenient =
        jwt(&[&signer]).leeway(Duration::from_secs(u64::MAX)).with_audience("api://notes").scope_claim("permissions");
    let changes = json!({"exp": now() - 290, "aud": "api://notes", "permissions": ["notes:admin"]});
    let identity = bearer(&lenient, &token(json!({}), changes)).await.unwrap();
    assert_eq!(identity.scopes().collect::<Vec<_>>(), ["notes:admin"]);
    let error = bearer(&lenient, &token(json!({}), json!({"exp": now() - 310}))).await.unwrap_err();
    assert_eq!(error.message(), "the token has expired", "the leeway is at most 5 minutes");
}

#[tokio::test]
async fn a_cached_token_ends_with_its_expiry() {
    let signer = Signer::ed25519("key");
    for cached in [0, 10] {
        let clock = Clock::default();
        let keys = Keys::Fixed(key_set(&[&signer]));
        let jwt = Jwt::unbound(ISSUER.to_owned(), keys, clock.clone()).resource(RESOURCE).cache(cached);
        let token = signer.token(&claims(json!({"exp": now() + 100})));
        for _ in 0..3 {
            bearer(&jwt, &token).await.unwrap();
        }
        clock.advance(Duration::from_secs(155));
        bearer(&jwt, &token).await.expect("within the leeway");
        clock.advance(Duration::from_secs(10));
        let error = bearer(&jwt, &token).await.unwrap_err();
        assert_eq!(error.message(), "the token has expired", "{cached}");
    }
}

#[tokio::test]
async fn a_token_with_another_signature_is_not_taken_for_a_cached_one() {
    let (signer, other) = (Signer::ed25519("key"), Signer::ed25519("key"));
    let jwt = jwt(&[&signer]);
    let claims = claims(json!({}));
    bearer(&jwt, &signer.token(&claims)).await.unwrap();
    assert_eq!(
        bearer(&jwt, &other.token(&claims)).await.unwrap_err().message(),
        "the signature of the token is invalid"
    );
}

/// Keys of other types do not count.
#[tokio::test]
async fn a_token_that_names_no_key_is_verified_with_the_first_keys_of_its_type() {
    let own: Vec<_> = (0..5).map(|_| Signer::ed25519("").without_id()).collect();
    let others: Vec<_> = (0..4).map(|_| Signer::p256("").without_id()).collect();
    let jwt = jwt(&others.iter().chain(&own).collect::<Vec<_>>());
    for (index, signer) in own.iter().enumerate() {
        let result = bearer(&jwt, &signer.token(&claims(json!({})))).await.map_err(|error| error.message().to_owned());
        let expected = (index >= 4).then_some("the signature of the token is invalid");
        assert_eq!(result.err().as_deref(), expected, "{index}");
    }
}

#[tokio::test]
async fn keys_are_accepted_as_issuers_write_them() {
    let signer = Signer::rsa("key");
    let modulus = signer.jwk()["n"].as_str().unwrap().to_owned();
    let modulus = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, modulus).unwrap();
    for changes in [
        json!({"use": "sig"}),
        json!({"key_ops": ["verify"]}),
        json!({"key_ops": ["sign", "verify"]}),
        // A number with a leading zero, which is not its shortest form.
        json!({"n": encode(&[&[0], &*modulus].concat())}),
    ] {
        let mut key = signer.jwk();
        key.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let jwt = Jwt::keys(ISSUER, json!({"keys": [key]}).to_string().parse().unwrap()).resource(RESOURCE);
        let result = bearer(&jwt, &signer.token(&claims(json!({})))).await;
        assert!(result.is_ok(), "{changes} {result:?}");
    }
}

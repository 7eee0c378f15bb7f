//! Prints the CPU time that `mcp_auth::Jwt` takes to authenticate a request, as rows of a table.

use std::{
    error::Error,
    hint::black_box,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{Request, request::Parts};
use mcp_auth::Jwt;
use mcp_runtime::auth::Authenticator;
use nix::time::{ClockId, clock_gettime};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const ISSUER: &str = "https://id.example.com";
const RESOURCE: &str = "https://mcp.example.com/mcp";

/// The number of calls of a round, and of rounds, of which the median counts.
const CALLS: u32 = 2_000;
const ROUNDS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().build()?;
    println!("| authenticating a request | CPU time | target | met |\n| --- | ---: | --- | --- |");
    for (algorithm, key, token) in [es256()?, eddsa()?] {
        let keys = || json!({"keys": [key]}).to_string().parse();
        let request = Request::post("/mcp").header("authorization", format!("Bearer {token}")).body(())?.into_parts().0;
        let verifying = Jwt::keys(ISSUER, keys()?).resource(RESOURCE).cache(0);
        row(&format!("{algorithm}, without a cache"), measure(&runtime, &verifying, &request)?, 60.0);
        let caching = Jwt::keys(ISSUER, keys()?).resource(RESOURCE);
        row(&format!("{algorithm}, cached"), measure(&runtime, &caching, &request)?, 2.0);
    }
    Ok(())
}

fn row(name: &str, micros: f64, target: f64) {
    let met = if micros <= target { "yes" } else { "no" };
    println!("| {name} | {micros:.2} µs | ≤ {target} µs | {met} |");
}

/// Returns the CPU time of a call in microseconds.
fn measure(runtime: &Runtime, authenticator: &Jwt, request: &Parts) -> Result<f64, Box<dyn Error>> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = cpu_time()?;
        for _ in 0..CALLS {
            let _ = black_box(runtime.block_on(authenticator.authenticate(black_box(request)))?);
        }
        rounds.push((cpu_time()? - start).as_secs_f64() * 1e6 / f64::from(CALLS));
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 2])
}

fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

fn es256() -> Result<(&'static str, Value, String), Box<dyn Error>> {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)?;
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let jwk = json!({"kty": "EC", "crv": "P-256", "kid": "key", "x": encode(x), "y": encode(y)});
    let signed = signed_part("ES256")?;
    let signature = key.sign(&random, signed.as_bytes())?;
    Ok(("ES256", jwk, format!("{signed}.{}", encode(signature.as_ref()))))
}

fn eddsa() -> Result<(&'static str, Value, String), Box<dyn Error>> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())?;
    let key = Ed25519KeyPair::from_pkcs8(document.as_ref())?;
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "key", "x": encode(key.public_key().as_ref())});
    let signed = signed_part("EdDSA")?;
    let signature = key.sign(signed.as_bytes());
    Ok(("EdDSA", jwk, format!("{signed}.{}", encode(signature.as_ref()))))
}

/// Returns the header and the claims of a usual access token.
fn signed_part(algorithm: &str) -> Result<String, Box<dyn Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let header = json!({"alg": algorithm, "typ": "at+jwt", "kid": "key"});
    let claims = json!({
        "iss": ISSUER, "aud": RESOURCE, "sub": "248289761001", "client_id": "https://client.example.com/metadata.json",
        "iat": now, "nbf": now, "exp": now + 3600, "jti": "2b0b2f2e-8f53-4d3b-a8a1-0e8a3f8a3b8a",
        "scope": "notes:read notes:write",
    });
    Ok(format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes())))
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

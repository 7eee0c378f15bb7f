//! Keys that sign tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
        KeyPair as _, RsaKeyPair,
    },
};
use serde_json::{Value, json};

/// A key with its name.
pub(super) struct Signer {
    id: Option<String>,
    key: Key,
}

enum Key {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    pub(super) fn p256(id: &str) -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &SystemRandom::new());
        Self { id: Some(id.to_owned()), key: Key::P256(key.unwrap()) }
    }

    pub(super) fn p384(id: &str) -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, document.as_ref(), &SystemRandom::new());
        Self { id: Some(id.to_owned()), key: Key::P384(key.unwrap()) }
    }

    pub(super) fn ed25519(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id: Some(id.to_owned()), key: Key::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()) }
    }

    /// A fixed key, since `ring` does not generate RSA keys.
    pub(super) fn rsa(id: &str) -> Self {
        let key = RsaKeyPair::from_pkcs8(include_bytes!("rsa.pk8")).unwrap();
        Self { id: Some(id.to_owned()), key: Key::Rsa(key) }
    }

    pub(super) fn without_id(mut self) -> Self {
        self.id = None;
        self
    }

    /// Returns the public key as a JWK.
    pub(super) fn jwk(&self) -> Value {
        let mut jwk = match &self.key {
            Key::P256(key) => point("P-256", key.public_key().as_ref()),
            Key::P384(key) => point("P-384", key.public_key().as_ref()),
            Key::Ed25519(key) => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref())}),
            Key::Rsa(key) => {
                let key = signature::RsaPublicKeyComponents::<Vec<u8>>::from(key.public_key());
                json!({"kty": "RSA", "n": encode(&key.n), "e": encode(&key.e)})
            }
        };
        if let Some(id) = &self.id {
            jwk["kid"] = json!(id);
        }
        jwk
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self.key {
            Key::P256(_) => "ES256",
            Key::P384(_) => "ES384",
            Key::Ed25519(_) => "EdDSA",
            Key::Rsa(_) => "RS256",
        }
    }

    /// Signs claims.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.token_with(json!({}), claims)
    }

    /// Signs claims with additional members of the header. `null` removes one.
    pub(super) fn token_with(&self, header: Value, claims: &Value) -> String {
        self.sign_text(header, &claims.to_string())
    }

    /// Signs any text as claims.
    pub(super) fn sign_text(&self, changes: Value, claims: &str) -> String {
        let mut header = json!({"alg": self.algorithm(), "typ": "at+jwt"});
        if let Some(id) = &self.id {
            header["kid"] = json!(id);
        }
        for (name, value) in changes.as_object().unwrap() {
            header[name] = value.clone();
        }
        header.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let signed = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.as_bytes()));
        let signature = self.sign(header["alg"].as_str().unwrap_or_default(), signed.as_bytes());
        format!("{signed}.{}", encode(&signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            Key::P256(key) | Key::P384(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Key::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Key::Rsa(key) => {
                let padding: &dyn signature::RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }
}

/// Returns valid claims with changes. `null` removes a claim.
pub(super) fn claims(changes: Value) -> Value {
    let now = now();
    let mut claims = json!({
        "iss": "https://id.example.com", "aud": super::RESOURCE, "sub": "ada", "iat": now, "exp": now + 300,
        "scope": "notes:read notes:write",
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

/// Returns the time in seconds since the Unix epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Signs with HMAC and a secret.
pub(super) fn hmac_token(secret: &[u8], id: &str, claims: &Value) -> String {
    let header = json!({"alg": "HS256", "typ": "at+jwt", "kid": id}).to_string();
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.to_string().as_bytes()));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", encode(signature.as_ref()))
}

pub(super) fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn point(curve: &str, point: &[u8]) -> Value {
    let (x, y) = point[1..].split_at(point.len() / 2);
    json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
}

use std::str::FromStr;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    digest,
    signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm},
};
use serde_json::{Map, Value};

use super::{Algorithm, Jws};
use crate::{Error, json::parse_object};

/// The maximum number of keys in a set. Further keys are ignored.
const MAX_KEYS: usize = 100;

/// The number of keys that are tried if a token does not name its key.
const MAX_ATTEMPTS: usize = 4;

/// The minimum size of an RSA modulus in bytes.
const MIN_MODULUS: usize = 256;

/// A set of public keys that verify tokens.
///
/// Keys for encryption and keys of unknown types are ignored, as the
/// [standard](https://www.rfc-editor.org/rfc/rfc7517#section-5) requires. Symmetric keys are ignored, too,
/// because every verifier could sign with them. At most 100 keys are read.
///
/// Supported are RSA keys of 2,048 to 8,192 bits (RS256, RS384, RS512, PS256, PS384, PS512), P-256 (ES256), P-384
/// (ES384) and Ed25519 (EdDSA). The type of the key decides which algorithms it accepts, and its `alg` may restrict
/// them. The token never decides.
///
/// ```
/// let keys: mcp_auth::JwkSet = r#"{"keys": [{
///     "kty": "OKP", "crv": "Ed25519", "kid": "2026", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
/// }]}"#.parse()?;
/// # Ok::<(), mcp_auth::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwkSet(Vec<Jwk>);

/// # Errors
///
/// Returns an error if the text is not a JWK set, or if none of its keys can verify a token.
impl FromStr for JwkSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text.as_bytes()).map_err(|reason| Error::keys("the key set", reason))
    }
}

impl JwkSet {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let set = parse_object(text)?;
        let Some(Value::Array(keys)) = set.get("keys") else {
            return Err("expected a JSON object with an array `keys`".to_owned());
        };
        let mut usable = Vec::new();
        for key in keys.iter().take(MAX_KEYS) {
            let parsed = key.as_object().ok_or("not an object").and_then(Jwk::parse);
            match parsed {
                Ok(key) => usable.push(key),
                Err(reason) => tracing::debug!(kid = key["kid"].as_str(), reason, "ignoring a key"),
            }
        }
        if usable.is_empty() {
            return Err(format!("none of {} keys can verify a token", keys.len()));
        }
        Ok(Self(usable))
    }

    /// Verifies the signature of a token with the key that it names. Returns `None` if there is no such key.
    pub(crate) fn verify(&self, token: &Jws<'_>) -> Option<Result<(), &'static str>> {
        let named = |key: &&Jwk| token.key_id().is_none_or(|id| key.id.as_deref() == Some(id));
        let mut keys = self.0.iter().filter(named).peekable();
        keys.peek()?;
        let mut keys = keys.filter(|key| key.accepts(token.algorithm())).take(MAX_ATTEMPTS).peekable();
        if keys.peek().is_none() {
            return Some(Err("the key of the token does not accept its algorithm"));
        }
        let valid = keys.any(|key| key.verify(token).is_ok());
        Some(if valid { Ok(()) } else { Err("the signature of the token is invalid") })
    }
}

/// A public key that verifies signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Jwk {
    id: Option<String>,
    /// The only algorithm, if the key restricts it.
    algorithm: Option<Algorithm>,
    material: Material,
}

/// The key by its type, which decides the algorithms. Points are uncompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Jwk {
    /// # Errors
    ///
    /// Returns why the key cannot verify signatures.
    pub(crate) fn parse(key: &Map<String, Value>) -> Result<Self, &'static str> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        if !Self::is_public(key) {
            return Err("the key is not public");
        }
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return Err("the key is not meant for signatures");
        }
        let operations = key.get("key_ops").and_then(Value::as_array);
        if operations.is_some_and(|operations| !operations.iter().any(|operation| operation == "verify")) {
            return Err("the key is not meant to verify");
        }
        let material = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => rsa(key)?,
            (Some("EC"), Some("P-256")) => Material::P256(point(key, 32)?),
            (Some("EC"), Some("P-384")) => Material::P384(point(key, 48)?),
            (Some("OKP"), Some("Ed25519")) => Material::Ed25519(bytes(key, "x", Some(32))?),
            _ => return Err("the type of the key is not supported"),
        };
        let mut parsed = Self { id: text("kid").map(str::to_owned), algorithm: None, material };
        if let Some(name) = text("alg") {
            let algorithm = Algorithm::from_name(name).filter(|&algorithm| parsed.accepts(algorithm));
            parsed.algorithm = Some(algorithm.ok_or("the algorithm does not fit the type of the key")?);
        }
        Ok(parsed)
    }

    /// Returns whether a key contains neither a private nor a symmetric key.
    pub(crate) fn is_public(key: &Map<String, Value>) -> bool {
        !key.contains_key("d") && !key.contains_key("k")
    }

    /// Returns whether the key verifies signatures of this algorithm.
    fn accepts(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && self.verification(algorithm).is_some()
    }

    /// # Errors
    ///
    /// Returns an error if the signature is invalid, or its algorithm does not fit the key.
    pub(crate) fn verify(&self, token: &Jws<'_>) -> Result<(), &'static str> {
        let algorithm = Some(token.algorithm()).filter(|&algorithm| self.accepts(algorithm));
        let verification = algorithm.and_then(|algorithm| self.verification(algorithm));
        let (message, signature) = (token.signed(), token.signature());
        let result = match (verification.ok_or("the algorithm does not fit the key")?, &self.material) {
            (Verification::Rsa(parameters), Material::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Verification::Point(algorithm), Material::P256(key) | Material::P384(key) | Material::Ed25519(key)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err("the algorithm does not fit the key"),
        };
        result.map_err(|_| "the signature is invalid")
    }

    fn verification(&self, algorithm: Algorithm) -> Option<Verification> {
        Some(match (&self.material, algorithm) {
            (Material::Rsa { .. }, Algorithm::Rs256) => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            (Material::Rsa { .. }, Algorithm::Rs384) => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            (Material::Rsa { .. }, Algorithm::Rs512) => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            (Material::Rsa { .. }, Algorithm::Ps256) => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            (Material::Rsa { .. }, Algorithm::Ps384) => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            (Material::Rsa { .. }, Algorithm::Ps512) => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            (Material::P256(_), Algorithm::Es256) => Verification::Point(&signature::ECDSA_P256_SHA256_FIXED),
            (Material::P384(_), Algorithm::Es384) => Verification::Point(&signature::ECDSA_P384_SHA384_FIXED),
            (Material::Ed25519(_), Algorithm::EdDsa) => Verification::Point(&signature::ED25519),
            _ => return None,
        })
    }

    /// Returns the thumbprint of [RFC 7638](https://www.rfc-editor.org/rfc/rfc7638), with SHA-256.
    pub(crate) fn thumbprint(&self) -> String {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let point = |curve: &str, point: &[u8]| {
            let (x, y) = point[1..].split_at(point.len() / 2);
            format!(r#"{{"crv":"{curve}","kty":"EC","x":"{}","y":"{}"}}"#, encode(x), encode(y))
        };
        let canonical = match &self.material {
            Material::Rsa { n, e } => format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, encode(e), encode(n)),
            Material::P256(key) => point("P-256", key),
            Material::P384(key) => point("P-384", key),
            Material::Ed25519(key) => format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, encode(key)),
        };
        encode(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref())
    }
}

/// How `ring` verifies a signature.
enum Verification {
    Rsa(&'static RsaParameters),
    Point(&'static dyn VerificationAlgorithm),
}

fn rsa(key: &Map<String, Value>) -> Result<Material, &'static str> {
    let (n, e) = (number(key, "n")?, number(key, "e")?);
    if n.len() < MIN_MODULUS {
        return Err("the key has fewer than 2,048 bits");
    }
    Ok(Material::Rsa { n, e })
}

/// Decodes a number without leading zeros.
fn number(key: &Map<String, Value>, name: &str) -> Result<Vec<u8>, &'static str> {
    let bytes = bytes(key, name, None)?;
    let start = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
    Ok(bytes[start..].to_vec())
}

/// Decodes the coordinates of a point in the uncompressed form.
fn point(key: &Map<String, Value>, length: usize) -> Result<Vec<u8>, &'static str> {
    let mut point = vec![4];
    point.extend(bytes(key, "x", Some(length))?);
    point.extend(bytes(key, "y", Some(length))?);
    Ok(point)
}

fn bytes(key: &Map<String, Value>, name: &str, length: Option<usize>) -> Result<Vec<u8>, &'static str> {
    let text = key.get(name).and_then(Value::as_str).ok_or("a member of the key is missing")?;
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| "a member of the key is not base64url")?;
    match length {
        Some(length) if bytes.len() != length => Err("a member of the key has the wrong length"),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Jwk, JwkSet};

    #[test]
    fn thumbprints_match_the_examples_of_the_standards() {
        let rsa = json!({
            "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
            "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCi\
                  FV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb\
                  9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls\
                  1jF44-csFCur-kEgU8awapJzKnqDKgw",
        });
        let ed25519 = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        let p256 = json!({
            "kty": "EC", "crv": "P-256",
            "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs", "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
        });
        // No standard has an example of this curve.
        let p384 = json!({
            "kty": "EC", "crv": "P-384",
            "x": "tbxFSLqo12ROehUy41awcOvGPvrjAK48zMDvPW6tp9pzlU61Oc0TMNPtsXz0j-AN",
            "y": "s0D4X5Hi0ComXOJX0Pl1jle3uTkeE_k62BO1eCNnBl8_u1koF1W66hSpPUvb5D1Z",
        });
        for (key, expected) in [
            (p384, "Vm7frClTpNjkcm4fMbcSQrw1L8TIkH12teRMg-pJXU4"),
            (rsa, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"),
            (ed25519, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"),
            (p256, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"),
        ] {
            let key = Jwk::parse(key.as_object().unwrap()).unwrap();
            assert_eq!(key.thumbprint(), expected);
        }
    }

    #[test]
    fn unusable_keys_are_ignored_and_a_set_without_usable_keys_is_an_error() {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        for (key, expected) in [
            (json!({"kty": "oct", "k": "c2VjcmV0"}), "the key is not public"),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": x, "d": x}), "the key is not public"),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": x, "use": "enc"}), "the key is not meant for signatures"),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": x, "key_ops": ["sign"]}), "the key is not meant to verify"),
            (json!({"kty": "OKP", "crv": "X25519", "x": x}), "the type of the key is not supported"),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": "AA"}), "a member of the key has the wrong length"),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": "a+b="}), "a member of the key is not base64url"),
            (json!({"kty": "OKP", "crv": "Ed25519"}), "a member of the key is missing"),
            (
                json!({"kty": "OKP", "crv": "Ed25519", "x": x, "alg": "HS256"}),
                "the algorithm does not fit the type of the key",
            ),
            (
                json!({"kty": "OKP", "crv": "Ed25519", "x": x, "alg": "ES256"}),
                "the algorithm does not fit the type of the key",
            ),
            (json!({"kty": "RSA", "n": "AAAA", "e": "AQAB"}), "the key has fewer than 2,048 bits"),
        ] {
            assert_eq!(Jwk::parse(key.as_object().unwrap()), Err(expected), "{key}");
            let set = JwkSet::parse(json!({"keys": [key]}).to_string().as_bytes());
            assert_eq!(set.unwrap_err(), "none of 1 keys can verify a token");
        }
        for (text, expected) in [
            ("[]", "invalid type: sequence, expected a map at line 1 column 0"),
            (r#"{"keys": {}}"#, "expected a JSON object with an array `keys`"),
            (r#"{"keys": []}"#, "none of 0 keys can verify a token"),
        ] {
            assert_eq!(JwkSet::parse(text.as_bytes()).unwrap_err(), expected);
        }
    }
}

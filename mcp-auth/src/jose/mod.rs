//! Signed tokens and keys: RFC 7515 (JWS), RFC 7517 (JWK) and RFC 7518 (JWA).
//!
//! The signatures are verified by `ring`. The crate `jsonwebtoken` is not used: its cryptography is chosen once for the
//! whole process, by cargo features of all dependencies or by whoever is first, and two features make it panic.

mod algorithm;
mod jwk;
mod jws;

pub(crate) use self::{algorithm::Algorithm, jwk::Jwk, jws::Jws};
pub use jwk::JwkSet;

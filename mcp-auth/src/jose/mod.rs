//! Signed tokens and keys: RFC 7515 (JWS), RFC 7517 (JWK) and RFC 7518 (JWA).
//!
//! The signatures are verified by `ring`. The crate `jsonwebtoken` is not used: the whole process shares one cryptography
//! provider, and it panics if the features of the dependencies select two.

mod algorithm;
mod jwk;
mod jws;

pub(crate) use self::{algorithm::Algorithm, jwk::Jwk, jws::Jws};
pub use jwk::JwkSet;

#![doc = include_str!("../docs/guide.md")]
#![warn(clippy::missing_errors_doc)]

mod any_of;
mod api_keys;
mod audience;
mod claims;
mod clock;
mod credentials;
mod discovery;
mod dpop;
mod error;
mod fetch;
mod introspection;
mod issuer_keys;
mod jose;
mod json;
mod jwt;
mod resolver;
#[cfg(feature = "server")]
mod server;
mod shares;
#[cfg(test)]
mod tests;
mod token_cache;
mod unbound;
mod url;

pub use any_of::AnyOf;
pub use api_keys::{ApiKeys, NewApiKey};
pub use dpop::Dpop;
pub use error::Error;
pub use introspection::{ClientCredentials, Introspection};
pub use jose::JwkSet;
pub use jwt::Jwt;
#[cfg(feature = "server")]
pub use server::{
    AuthorizationServer, AuthorizationServerBuilder, ConfiguredClient, ConsentPage, Endpoint, Upstream,
    UpstreamTokenError, UpstreamTokens, html_escape,
};
pub use unbound::Unbound;

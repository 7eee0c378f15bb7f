//! An authorization server that delegates the login of users to another provider.

mod account;
mod approvals;
mod audit;
mod authentication;
mod authorize;
mod builder;
mod callback;
mod client;
mod clients;
mod codes;
mod cookies;
mod documents;
mod ended;
mod grants;
mod identity_assertions;
mod inner;
mod introspection;
mod keys;
mod login;
mod logout;
mod metadata;
mod oauth_error;
mod options;
mod page;
mod parameters;
mod proofs;
mod pushed;
mod random;
mod redirect_uri;
mod registration;
mod reply;
mod revocation;
mod routes;
mod seal;
mod store;
mod token;
mod upstream;
mod upstream_tokens;
mod users;

pub use self::{
    builder::{AuthorizationServer, AuthorizationServerBuilder},
    client::ConfiguredClient,
    login::UpstreamTokenError,
    options::Endpoint,
    page::{ConsentPage, html_escape},
    upstream::Upstream,
    upstream_tokens::UpstreamTokens,
};

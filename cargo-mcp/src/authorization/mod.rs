//! Authorization of the HTTP client: logging in, keeping tokens, and asking for more scopes.
//!
//! The flow itself (discovery, registration, PKCE, resource indicators, refreshing) is rmcp's. This module adds what a
//! command-line program needs: a browser, a place for tokens, and a second round when a call needs more scopes.

mod browser;
pub(crate) mod challenge;
mod client;
mod http;
mod login;
mod store;

pub(crate) use browser::open;
pub(crate) use client::{access_token, authorized_client};
pub(crate) use http::is_local;
pub(crate) use login::{Login, login};
pub(crate) use store::TokenStore;

use serde::{Deserialize, Serialize};

use super::redirect_uri;

/// A client that the server knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    /// The name as the client states it, which proves nothing.
    pub(super) name: Option<String>,
    pub(super) redirect_uris: Vec<String>,
    /// The SHA-256 hash of the secret of a confidential client.
    pub(super) secret_hash: Option<String>,
    pub(super) wants_refresh_tokens: bool,
    /// The scopes of a machine, which obtains tokens without a user.
    pub(super) machine_scopes: Option<Vec<String>>,
    pub(super) source: ClientSource,
    #[serde(default)]
    pub(super) approvers: Approvers,
}

/// The users who have approved a registered client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Approvers {
    #[default]
    None,
    /// The hash of the subject of the only one.
    One(String),
    Several,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClientSource {
    Configured,
    Registered,
    Document,
}

impl Client {
    /// Returns whether the client has registered a redirect URI.
    pub(super) fn allows_redirect(&self, requested: &str) -> bool {
        self.redirect_uris.iter().any(|registered| redirect_uri::matches(registered, requested))
    }

    /// Returns whether users may be sent to a redirect URI without being asked: the operator knows the client, or the
    /// target is a program on the machine of the user.
    pub(super) fn is_trusted_at(&self, redirect: &str) -> bool {
        self.source == ClientSource::Configured
            || redirect_uri::parse(redirect).is_ok_and(|uri| redirect_uri::is_loopback(&uri))
    }

    /// Returns whether an approval may be remembered: not if the target is on the machine of the user, where every
    /// program can listen that knows the id of the client.
    ///
    /// See [RFC 8252, 8.6](https://www.rfc-editor.org/rfc/rfc8252#section-8.6).
    pub(super) fn may_be_remembered(redirect: &str) -> bool {
        !redirect_uri::parse(redirect).is_ok_and(|uri| redirect_uri::is_loopback(&uri))
    }
}

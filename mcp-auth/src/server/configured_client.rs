use super::{
    client::{Approvers, Client, ClientSource},
    random, redirect_uri,
};
use crate::Error;

/// A client that an [`AuthorizationServer`](crate::AuthorizationServer) knows in advance.
///
/// ```
/// use mcp_auth::ConfiguredClient;
///
/// let app = ConfiguredClient::public("app", "The app", ["https://app.example/callback"])?;
/// let robot = ConfiguredClient::machine("robot", "a long random secret", ["notes:read"]);
/// # Ok::<(), mcp_auth::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ConfiguredClient(pub(super) Client);

impl ConfiguredClient {
    /// A client that acts for users and cannot keep a secret, such as an application on the user's machine.
    ///
    /// # Errors
    ///
    /// Returns an error if a redirect URI is neither `https` nor on the loopback interface.
    pub fn public(
        id: impl Into<String>,
        name: impl Into<String>,
        redirect_uris: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, Error> {
        let redirect_uris: Vec<String> = redirect_uris.into_iter().map(Into::into).collect();
        for uri in &redirect_uris {
            redirect_uri::parse(uri).map_err(|problem| Error::url(uri, problem))?;
        }
        Ok(Self(Client {
            id: id.into(),
            name: Some(name.into()),
            redirect_uris,
            secret_hash: None,
            wants_refresh_tokens: true,
            machine_scopes: None,
            source: ClientSource::Configured,
            approvers: Approvers::None,
        }))
    }

    /// A client that acts for users and authenticates with a secret.
    ///
    /// # Errors
    ///
    /// Returns an error if a redirect URI is neither `https` nor on the loopback interface.
    pub fn confidential(
        id: impl Into<String>,
        secret: &str,
        name: impl Into<String>,
        redirect_uris: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, Error> {
        let mut client = Self::public(id, name, redirect_uris)?;
        client.0.secret_hash = Some(random::hash(secret));
        Ok(client)
    }

    /// A program that acts in its own name, with these scopes and without a user. Its principal has the subject
    /// `client:ID`.
    ///
    /// The secret should have 32 random bytes: it is compared by its hash.
    pub fn machine(id: impl Into<String>, secret: &str, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(Client {
            id: id.into(),
            name: None,
            redirect_uris: Vec::new(),
            secret_hash: Some(random::hash(secret)),
            wants_refresh_tokens: false,
            machine_scopes: Some(scopes.into_iter().map(Into::into).collect()),
            source: ClientSource::Configured,
            approvers: Approvers::None,
        })
    }
}

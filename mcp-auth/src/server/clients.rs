//! Clients: configured by the operator, registered, or described by a metadata document.

use std::{net::IpAddr, time::Duration};

use mcp_runtime::backend::RecordCondition;

use super::{
    client::{Approvers, Authentication, Client},
    documents::Documents,
    oauth_error::OAuthError,
    random,
    store::Store,
};
use crate::{clock::Clock, shares::Peer};

/// The time after which a registration expires that no user has approved.
const UNUSED_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The maximum length of the identifier of a client in bytes.
const MAX_ID: usize = 512;

/// Finds clients.
pub(super) struct Clients {
    pub(super) configured: Vec<Client>,
    pub(super) documents: Documents,
    pub(super) store: Store,
    pub(super) clock: Clock,
    /// The issuer of the server, for which clients sign assertions.
    pub(super) issuer: String,
    /// Whether the server has an `https` URL, and so a proxy in front of it.
    pub(super) is_https: bool,
}

impl Clients {
    /// # Errors
    ///
    /// Returns an error if the client is unknown, or if its metadata document is not available.
    pub(super) async fn find(&self, id: &str, peer: Peer) -> Result<Client, OAuthError> {
        let unknown = || OAuthError::invalid_client("the client is unknown, or its registration has expired");
        if id.len() > MAX_ID {
            return Err(unknown());
        }
        if let Some(client) = self.configured.iter().find(|client| client.id == id) {
            return Ok(client.clone());
        }
        if id.contains("://") {
            return self.documents.client(id, peer).await;
        }
        // Whatever else an identifier is, it must not reach the keys of the store.
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(unknown());
        }
        let found = self.store.get::<Client>("client", id).await?;
        found.map(|(client, _)| client).ok_or_else(unknown)
    }

    /// Returns the account by which the requests of a sender are counted. A sender that can only be the proxy of the server
    /// has none.
    pub(super) fn account_of(&self, peer: Peer) -> String {
        match peer.network().filter(|network| !(self.is_https && is_internal(*network))) {
            None if self.is_https => String::new(),
            sender => random::hash(&sender.map_or_else(String::new, |network| network.to_string())),
        }
    }

    /// Stores a new registration.
    pub(super) async fn register(&self, client: &Client) -> Result<(), OAuthError> {
        self.store.set("client", &client.id, RecordCondition::Absent, client, UNUSED_LIFETIME).await?;
        Ok(())
    }

    /// Prolongs the registration of a registered client that a user has approved.
    pub(super) async fn prolong(
        &self,
        mut client: Client,
        subject: &str,
        lifetime: Duration,
    ) -> Result<(), OAuthError> {
        let user = random::hash(subject);
        client.approvers = match client.approvers {
            Approvers::None => Approvers::One(user),
            Approvers::One(other) if other == user => Approvers::One(other),
            _ => Approvers::Several,
        };
        self.store.set("client", &client.id, RecordCondition::Always, &client, lifetime).await?;
        Ok(())
    }

    /// Lets a registration expire soon, unless another user has approved the client, too.
    pub(super) async fn shorten(&self, id: &str, subject: &str) -> Result<(), OAuthError> {
        if let Some((client, version)) = self.store.get::<Client>("client", id).await?
            && matches!(&client.approvers, Approvers::One(user) if *user == random::hash(subject))
        {
            self.store.set("client", id, RecordCondition::Version(version), &client, UNUSED_LIFETIME).await?;
        }
        Ok(())
    }

    /// Returns whether there may be clients that authenticate with assertions.
    pub(super) fn accepts_assertions(&self) -> bool {
        let has_keys = |client: &Client| matches!(client.authentication, Authentication::Keys { .. });
        self.documents.is_enabled() || self.configured.iter().any(has_keys)
    }
}

/// Returns whether an address is of this machine or of a private network.
fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    }
}

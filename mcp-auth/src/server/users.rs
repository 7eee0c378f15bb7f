//! Limits per user, so that one user cannot use up the store.

use std::time::Duration;

use mcp_runtime::backend::BackendError;
use serde::{Deserialize, Serialize};

use super::{grants, inner::Inner, random};

/// The maximum number of logins of a user in this time.
const MAX_LOGINS: usize = 60;
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// The maximum number of grants of a user. The oldest one ends first.
const MAX_GRANTS: usize = 50;

/// The maximum number of browsers whose approvals are remembered for a user. Those of the browser that was used first are
/// forgotten first.
const MAX_BROWSERS: usize = 10;

/// The maximum number of clients whose registrations live on because a user has approved them.
const MAX_CLIENTS: usize = 50;

#[derive(Default, Serialize, Deserialize)]
struct User {
    /// The times of logins, in seconds since the Unix epoch.
    logins: Vec<f64>,
    /// The identifiers of grants, the oldest one first.
    grants: Vec<String>,
    /// The hashes of the cookies of browsers, the oldest one first.
    browsers: Vec<String>,
    /// The identifiers of registered clients, and the times at which their registrations expire.
    clients: Vec<(String, f64)>,
}

/// Counts a login. Returns `false` if the user has logged in too often.
pub(super) async fn admit_login(server: &Inner, subject: &str) -> Result<bool, BackendError> {
    let now = server.clock.unix();
    let mut is_admitted = false;
    update(server, subject, |user| {
        user.logins.retain(|at| now - at < WINDOW.as_secs_f64());
        is_admitted = user.logins.len() < MAX_LOGINS;
        if is_admitted {
            user.logins.push(now);
        }
    })
    .await?;
    Ok(is_admitted)
}

/// Adds a grant, and ends the oldest one if the user has too many.
pub(super) async fn add_grant(server: &Inner, subject: &str, grant: &str) -> Result<(), BackendError> {
    let mut excess = None;
    update(server, subject, |user| {
        excess = (user.grants.len() >= MAX_GRANTS).then(|| user.grants.remove(0));
        user.grants.push(grant.to_owned());
    })
    .await?;
    match excess {
        Some(oldest) => grants::end(server, &oldest).await,
        None => Ok(()),
    }
}

/// Adds a browser. Returns the one that the user has used first if there are too many, whose approvals are to be forgotten.
pub(super) async fn add_browser(server: &Inner, subject: &str, browser: &str) -> Result<Option<String>, BackendError> {
    let mut excess = None;
    update(server, subject, |user| {
        user.browsers.retain(|other| other != browser);
        excess = (user.browsers.len() >= MAX_BROWSERS).then(|| user.browsers.remove(0));
        user.browsers.push(browser.to_owned());
    })
    .await?;
    Ok(excess)
}

/// Adds a registered client that the user has approved. Returns the one that was approved first if there are too many.
pub(super) async fn add_client(
    server: &Inner,
    subject: &str,
    client: &str,
    lifetime: Duration,
) -> Result<Option<String>, BackendError> {
    let now = server.clock.unix();
    let mut excess = None;
    update(server, subject, |user| {
        user.clients.retain(|(other, expires)| other != client && now < *expires);
        excess = (user.clients.len() >= MAX_CLIENTS).then(|| user.clients.remove(0).0);
        user.clients.push((client.to_owned(), now + lifetime.as_secs_f64()));
    })
    .await?;
    Ok(excess)
}

async fn update(server: &Inner, subject: &str, change: impl FnMut(&mut User)) -> Result<(), BackendError> {
    server.store.update("user", &random::hash(subject), server.options.registration_lifetime(), change).await
}

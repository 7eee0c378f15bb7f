//! Limits per user, so that one user cannot use up the store.

use std::time::Duration;

use mcp_runtime::backend::BackendError;
use serde::{Deserialize, Serialize};

use super::{
    audit::Event,
    grants::{self, Grant},
    inner::Inner,
    login::session_of,
    oauth_error::OAuthError,
    random,
};
use crate::shares::Peer;

/// The maximum number of logins of a user in this time.
const MAX_LOGINS: usize = 60;
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// The maximum number of grants of a user. The oldest one ends first.
const MAX_GRANTS: usize = 50;

/// The maximum number of browsers whose approvals are remembered for a user. Those of the browser that was used first are
/// forgotten first.
const MAX_BROWSERS: usize = 10;

/// The maximum number of sessions at the provider by which a user is found. The oldest is forgotten first.
const MAX_SESSIONS: usize = 50;

/// The maximum number of clients whose registrations live on because a user has approved them.
const MAX_CLIENTS: usize = 50;

/// The tolerated clock difference between processes that share a store, in seconds. They follow the clock of the store, but
/// not to the millisecond.
pub(super) const SKEW: f64 = 1.0;

/// The time after which the record of a user is prolonged for whom clients present identity assertions.
const PROLONGATION: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// The time at which all grants were ended: codes that are older create no grants.
    ended: f64,
    /// The identifier of what was issued for identity assertions, which ends together.
    #[serde(default)]
    assertions: Option<String>,
    /// The time at which an assertion has prolonged the record, in seconds since the Unix epoch.
    #[serde(default)]
    prolonged: f64,
    /// The hashes of sessions at the provider, the oldest one first.
    #[serde(default)]
    sessions: Vec<String>,
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

/// Adds a grant for a code that was issued at this time, and ends the oldest one if the user has too many. Returns `false`
/// if all grants of the user were ended since.
pub(super) async fn add_grant(server: &Inner, subject: &str, grant: &str, issued: f64) -> Result<bool, BackendError> {
    let (mut excess, mut is_valid) = (None, false);
    update(server, subject, |user| {
        is_valid = user.ended <= issued;
        if !is_valid {
            return;
        }
        excess = (user.grants.len() >= MAX_GRANTS).then(|| user.grants.remove(0));
        user.grants.push(grant.to_owned());
    })
    .await?;
    if let Some(oldest) = excess {
        grants::end(server, &oldest, Peer::default(), "the user has too many grants").await?;
    }
    Ok(is_valid)
}

/// Returns the grants of a user, the oldest one first.
pub(super) async fn grants(server: &Inner, subject: &str) -> Result<Vec<(String, Grant)>, BackendError> {
    let Some((user, _)) = server.store.get::<User>("user", &random::hash(subject)).await? else {
        return Ok(Vec::new());
    };
    let (now, mut found) = (server.clock.unix(), Vec::new());
    for id in user.grants {
        if let Some((grant, _)) = grants::get(server, &id).await?
            && !grant.has_expired(server, now)
        {
            found.push((id, grant));
        }
    }
    Ok(found)
}

/// Ends all grants of a user, and forgets all approvals and sessions. Returns the number of grants.
pub(super) async fn revoke_grants(
    server: &Inner,
    subject: &str,
    peer: Peer,
    reason: &str,
) -> Result<usize, BackendError> {
    let now = server.clock.unix();
    let (mut ids, mut browsers, mut sessions, mut assertions) = (Vec::new(), Vec::new(), Vec::new(), None);
    update(server, subject, |user| {
        (ids, browsers) = (user.grants.clone(), user.browsers.clone());
        (sessions, assertions) = (user.sessions.clone(), user.assertions.clone());
        user.ended = user.ended.max(now + SKEW);
    })
    .await?;
    end_assertions(server, subject, assertions, peer, reason).await?;
    for browser in browsers {
        forget_browser(server, &browser).await?;
    }
    for session in sessions {
        server.store.delete("session", &session).await?;
    }
    let mut count = 0;
    for id in ids {
        if grants::get(server, &id).await?.is_some() {
            grants::end(server, &id, peer, reason).await?;
            count += 1;
        }
    }
    Ok(count)
}

/// Returns the identifier of what is issued to a user for identity assertions. Returns `None` for an assertion that was
/// issued, in seconds since the Unix epoch, before everything that the user had allowed was ended.
pub(super) async fn assertions(server: &Inner, subject: &str, issued: f64) -> Result<Option<String>, OAuthError> {
    let now = server.clock.unix();
    if let Some((user, _)) = server.store.get::<User>("user", &random::hash(subject)).await?
        && now < user.prolonged + PROLONGATION.as_secs_f64()
        && let Some(id) = user.assertions
    {
        return Ok((user.ended <= issued).then_some(id));
    }
    let (new, mut found) = (random::token()?, None);
    update(server, subject, |user| {
        found = None;
        if user.ended <= issued {
            user.prolonged = now;
            found = Some(user.assertions.get_or_insert_with(|| new.clone()).clone());
        }
    })
    .await?;
    Ok(found)
}

/// Returns whether clients have got access to a user for identity assertions.
pub(super) async fn has_assertions(server: &Inner, subject: &str) -> Result<bool, BackendError> {
    let found = server.store.get::<User>("user", &random::hash(subject)).await?;
    Ok(found.is_some_and(|(user, _)| user.assertions.is_some()))
}

/// Ends what was issued to a user for identity assertions.
async fn end_assertions(
    server: &Inner,
    subject: &str,
    assertions: Option<String>,
    peer: Peer,
    reason: &str,
) -> Result<(), BackendError> {
    let Some(id) = assertions else { return Ok(()) };
    server.ended.add(&id, subject).await?;
    Event::new("revocation", peer).principal(&server.options.issuer, subject).reason(reason).record();
    update(server, subject, |user| user.assertions = user.assertions.take().filter(|current| *current != id)).await
}

/// Ends the grants of a user that were created until a time, in seconds since the Unix epoch: those of one session at the
/// provider, or all, and then codes that were issued until then create no grants.
pub(super) async fn end_until(
    server: &Inner,
    subject: &str,
    session: Option<&str>,
    until: f64,
    peer: Peer,
    reason: &str,
) -> Result<(), BackendError> {
    if session.is_none() && server.store.get::<User>("user", &random::hash(subject)).await?.is_some() {
        let mut assertions = None;
        update(server, subject, |user| {
            assertions = user.assertions.clone();
            user.ended = user.ended.max(until);
        })
        .await?;
        end_assertions(server, subject, assertions, peer, reason).await?;
    }
    let is_meant = |grant: &Grant| session.is_none() || session_of(&grant.claims) == session;
    // Read after the time was written: no older code creates a grant anymore.
    let found = grants(server, subject).await?;
    for (id, _) in found.into_iter().filter(|(_, grant)| grant.created <= until && is_meant(grant)) {
        grants::end(server, &id, peer, reason).await?;
    }
    Ok(())
}

/// Returns the hashes of the cookies of the browsers in which approvals of a user may be remembered.
pub(super) async fn browsers(server: &Inner, subject: &str) -> Result<Vec<String>, BackendError> {
    let found = server.store.get::<User>("user", &random::hash(subject)).await?;
    Ok(found.map(|(user, _)| user.browsers).unwrap_or_default())
}

/// Adds a browser, and forgets what was approved in the one that the user has used first if there are too many.
pub(super) async fn add_browser(server: &Inner, subject: &str, browser: &str) -> Result<(), BackendError> {
    let mut excess = None;
    update(server, subject, |user| {
        user.browsers.retain(|other| other != browser);
        excess = (user.browsers.len() >= MAX_BROWSERS).then(|| user.browsers.remove(0));
        user.browsers.push(browser.to_owned());
    })
    .await?;
    match excess {
        Some(oldest) => forget_browser(server, &oldest).await,
        None => Ok(()),
    }
}

/// Adds a session at the provider. Returns the oldest one if there are too many.
pub(super) async fn add_session(server: &Inner, subject: &str, session: &str) -> Result<Option<String>, BackendError> {
    let mut excess = None;
    update(server, subject, |user| {
        user.sessions.retain(|other| other != session);
        excess = (user.sessions.len() >= MAX_SESSIONS).then(|| user.sessions.remove(0));
        user.sessions.push(session.to_owned());
    })
    .await?;
    Ok(excess)
}

/// Forgets what was approved in a browser.
pub(super) async fn forget_browser(server: &Inner, browser: &str) -> Result<(), BackendError> {
    server.store.delete("browser", browser).await.map(|_| ())
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

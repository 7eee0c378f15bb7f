//! The approvals of users, by browser.

use std::time::Duration;

use mcp_runtime::backend::{BackendError, RecordCondition};
use serde::{Deserialize, Serialize};

use super::{codes::AuthorizationRequest, inner::Inner, users};

/// The time for which an approval is remembered.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The maximum number of approvals of a browser. The oldest is forgotten first.
const MAX_APPROVALS: usize = 20;

/// The maximum number of logins of a browser without a question in this time. Any website can start one; afterwards, the
/// user is asked.
const MAX_SILENT: usize = 20;
const WINDOW: f64 = 60.0 * 60.0;

/// The approvals of the user of a browser.
#[derive(Default, Serialize, Deserialize)]
struct Approvals {
    subject: String,
    clients: Vec<Approval>,
    /// The times of logins without a question, in seconds since the Unix epoch.
    silent: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct Approval {
    client: String,
    redirect_uri: String,
    scopes: Vec<String>,
    /// The scopes at the provider that were shown with them, which a new configuration may extend.
    #[serde(default)]
    upstream_scopes: Vec<String>,
    /// Seconds since the Unix epoch.
    until: f64,
}

impl Approvals {
    /// Returns whether the user need not be asked about a request.
    fn cover(&self, request: &AuthorizationRequest, upstream_scopes: &[String], now: f64) -> bool {
        let recent = self.silent.iter().filter(|at| now - **at < WINDOW).count();
        let covers = |approval: &Approval| approval.covers(request, upstream_scopes, now);
        recent < MAX_SILENT && self.clients.iter().any(covers)
    }
}

impl Approval {
    fn covers(&self, request: &AuthorizationRequest, upstream_scopes: &[String], now: f64) -> bool {
        self.client == request.client
            && self.redirect_uri == request.redirect_uri
            && request.scopes.iter().all(|scope| self.scopes.contains(scope))
            && upstream_scopes.iter().all(|scope| self.upstream_scopes.contains(scope))
            && now < self.until
    }
}

/// Returns whether the last user of a browser has approved a request.
pub(super) async fn are_remembered(
    server: &Inner,
    browser: &str,
    request: &AuthorizationRequest,
) -> Result<bool, BackendError> {
    let found = server.store.get::<Approvals>("browser", browser).await?;
    let upstream_scopes = server.upstream.requested_scopes(&request.scopes);
    Ok(found.is_some_and(|(approvals, _)| approvals.cover(request, &upstream_scopes, server.clock.unix())))
}

/// Returns the browsers in which approvals of a user are remembered, and the approvals.
async fn of_user(server: &Inner, subject: &str) -> Result<Vec<(String, Approvals)>, BackendError> {
    let mut found = Vec::new();
    for browser in users::browsers(server, subject).await? {
        if let Some((approvals, _)) = server.store.get::<Approvals>("browser", &browser).await?
            && approvals.subject == subject
        {
            found.push((browser, approvals));
        }
    }
    Ok(found)
}

/// Returns whether a user need not be asked about some client, in any browser.
pub(super) async fn exist(server: &Inner, subject: &str) -> Result<bool, BackendError> {
    let now = server.clock.unix();
    let browsers = of_user(server, subject).await?;
    Ok(browsers.iter().flat_map(|(_, approvals)| &approvals.clients).any(|approval| now < approval.until))
}

/// Forgets that a user has approved a client, in all browsers.
pub(super) async fn forget(server: &Inner, subject: &str, client: &str) -> Result<(), BackendError> {
    for (browser, _) in of_user(server, subject).await? {
        let change = |approvals: &mut Approvals| {
            if approvals.subject == subject {
                approvals.clients.retain(|approval| approval.client != client);
            }
        };
        server.store.update("browser", &browser, LIFETIME, change).await?;
    }
    Ok(())
}

/// Counts a login without a question. Returns whether the user who has logged in is the one who has approved the request in
/// this browser.
pub(super) async fn use_silently(
    server: &Inner,
    browser: &str,
    subject: &str,
    request: &AuthorizationRequest,
    upstream_scopes: &[String],
) -> Result<bool, BackendError> {
    let (now, mut is_approved) = (server.clock.unix(), false);
    let change = |approvals: &mut Approvals| {
        is_approved = approvals.subject == subject && approvals.cover(request, upstream_scopes, now);
        approvals.silent.retain(|at| now - at < WINDOW);
        approvals.silent.push(now);
    };
    server.store.update("browser", browser, LIFETIME, change).await?;
    Ok(is_approved)
}

/// Remembers that a user has approved a request. Approvals of another user of the same browser are forgotten.
pub(super) async fn remember(
    server: &Inner,
    browser: &str,
    subject: &str,
    request: &AuthorizationRequest,
    upstream_scopes: &[String],
) -> Result<(), BackendError> {
    let found = server.store.get::<Approvals>("browser", browser).await?;
    let (mut approvals, condition) = match found {
        Some((approvals, version)) => (approvals, RecordCondition::Version(version)),
        None => (Approvals::default(), RecordCondition::Absent),
    };
    if approvals.subject != subject {
        approvals = Approvals { subject: subject.to_owned(), ..Approvals::default() };
    }
    let is_same =
        |approval: &Approval| approval.client == request.client && approval.redirect_uri == request.redirect_uri;
    approvals.silent.clear();
    approvals.clients.retain(|approval| !is_same(approval));
    if approvals.clients.len() >= MAX_APPROVALS {
        approvals.clients.remove(0);
    }
    approvals.clients.push(Approval {
        client: request.client.clone(),
        redirect_uri: request.redirect_uri.clone(),
        scopes: request.scopes.clone(),
        upstream_scopes: upstream_scopes.to_vec(),
        until: server.clock.unix() + LIFETIME.as_secs_f64(),
    });
    users::add_browser(server, subject, browser).await?;
    // If another tab has written meanwhile, the user is asked once more.
    server.store.set("browser", browser, condition, &approvals, LIFETIME).await.map(|_| ())
}

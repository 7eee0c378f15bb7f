//! The page on which users see which clients they have allowed to act for them, and end their access.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::{
    approvals,
    audit::Event,
    authorize::{self, BROWSER, BROWSER_LIFETIME, MAX_DURATION},
    grants::{self, Grant},
    inner::Inner,
    login::Login,
    oauth_error::OAuthError,
    page::{self, AccountEntry, FormPage},
    parameters::Sender,
    random, reply,
    seal::Purpose,
    users,
};
use crate::claims::system_time;

/// Why a grant ends that the user has ended.
const REASON: &str = "the user has ended it";

/// The user of a page, in its forms. No cookie contains it: on the loopback interface without TLS, browsers send cookies to
/// every port.
#[derive(Serialize, Deserialize)]
struct Account {
    subject: String,
    /// The hash of the cookie of the browser, without which no form is accepted.
    browser: String,
    /// Seconds since the Unix epoch.
    expires: f64,
}

/// Lets a user log in, who then sees the page.
pub(super) fn start(server: &Inner, sender: Sender<'_>) -> Response<Bytes> {
    if is_automatic(sender.headers) {
        return page::enter(&server.options.service_name, &server.options.endpoints.account);
    }
    log_in(server, sender).unwrap_or_else(|error| fail(&error, sender))
}

/// Returns whether another website has opened the page without a click of the user. Each login counts, so that website could
/// use up the logins of the user.
///
/// See [Fetch Metadata](https://www.w3.org/TR/fetch-metadata/#sec-fetch-user-header).
fn is_automatic(headers: &HeaderMap) -> bool {
    let is_foreign = |site: &HeaderValue| site == "cross-site" || site == "same-site";
    headers.get("sec-fetch-site").is_some_and(is_foreign) && !headers.contains_key("sec-fetch-user")
}

fn log_in(server: &Inner, sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let known = server.cookies.get(sender.headers, BROWSER).map(str::to_owned);
    let browser = known.map_or_else(random::token, Ok)?;
    let mut response = authorize::log_in(server, None, random::hash(&browser), false, sender)?;
    server.cookies.set(&mut response, BROWSER, &browser, BROWSER_LIFETIME);
    Ok(response)
}

/// Returns the page of a user who has returned from the provider. `browser` is the hash of the cookie of the browser.
pub(super) async fn show(
    server: &Inner,
    login: Result<Login, OAuthError>,
    browser: &str,
    sender: Sender<'_>,
) -> Response<Bytes> {
    let shown = async {
        let login = login?;
        Event::new("login", sender.peer).principal(&server.options.issuer, &login.subject).record();
        if !users::admit_login(server, &login.subject).await? {
            return Err(OAuthError::new("temporarily_unavailable", "You have logged in too often within an hour."));
        }
        let expires = server.clock.unix() + MAX_DURATION as f64;
        render(server, &Account { subject: login.subject, browser: browser.to_owned(), expires }, sender).await
    };
    shown.await.unwrap_or_else(|error| fail(&error, sender))
}

/// Ends the access of one client or of all, and returns the page again.
pub(super) async fn change(server: &Inner, body: &[u8], sender: Sender<'_>) -> Response<Bytes> {
    let form = match authorize::form(server, body, sender) {
        Ok(form) => form,
        Err(response) => return *response,
    };
    let refuse = |why| authorize::refuse(sender.peer, None, StatusCode::BAD_REQUEST, why);
    let account = form.get("account").and_then(|sealed| server.sealer.open_text(Purpose::Account, sealed));
    let Some(account): Option<Account> = account else { return refuse("The answer is malformed.") };
    if let Err(why) = authorize::check_page(server, &account.browser, account.expires, sender) {
        return refuse(why);
    }
    let changed = async {
        match form.get("end") {
            Some("all") => {
                users::revoke_grants(server, &account.subject, sender.peer, REASON).await?;
            }
            Some(id) => {
                let found = grants::get(server, id).await?.map(|(grant, _)| grant);
                if let Some(grant) = found.filter(|grant: &Grant| grant.subject == account.subject) {
                    // Otherwise, the client would get access again without a question.
                    approvals::forget(server, &account.subject, grant.client.as_str()).await?;
                    grants::end(server, id, sender.peer, REASON).await?;
                }
            }
            None => {}
        }
        render(server, &account, sender).await
    };
    changed.await.unwrap_or_else(|error| fail(&error, sender))
}

async fn render(server: &Inner, account: &Account, sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let mut entries = Vec::new();
    for (id, grant) in users::grants(server, &account.subject).await? {
        let client = server.clients.find(&grant.client, sender.peer).await.ok();
        let day = |time| humantime::format_rfc3339_seconds(system_time(time)).to_string()[..10].to_owned();
        entries.push(AccountEntry {
            name: page::display_name(client.and_then(|client| client.name).as_deref()),
            client: grant.client,
            scopes: server.options.describe_scopes(&grant.scopes),
            created: day(grant.created),
            used: day(grant.used),
            id,
        });
    }
    let sealed = server.sealer.seal_text(Purpose::Account, account)?;
    let (options, nonce) = (&server.options, page::nonce()?);
    let page = FormPage {
        service: &options.service_name,
        action: &options.endpoints.account,
        style: options.style.as_deref(),
        sealed: &sealed,
        nonce: &nonce,
    };
    let has_assertions = users::has_assertions(server, &account.subject).await?;
    let html = page::account(&page, &entries, has_assertions, approvals::exist(server, &account.subject).await?);
    Ok(reply::html(StatusCode::OK, &nonce, html))
}

fn fail(error: &OAuthError, sender: Sender<'_>) -> Response<Bytes> {
    error.record(sender.peer);
    page::error(error.status, &error.description)
}

//! The authorization of a server: its challenge, its metadata, and the tokens that it accepts.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization).

mod access_tokens;
mod metadata;
mod probe;

use std::time::Duration;

use reqwest::{Response, StatusCode, header::WWW_AUTHENTICATE};
use url::Url;

use super::codes::{self, Findings, Subject};
use crate::{
    authorization::challenge,
    failure::Failure,
    target::{Target, bearer},
};
use probe::Prober;

/// Tokens for the check.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// Also send a token that was issued for another server, which must be refused; `@FILE` reads it from a file
    #[arg(long, value_name = "TOKEN", value_parser = bearer, help_heading = "Authorization")]
    foreign_token: Option<String>,
    /// Also send your token in the query of the URL, where it must be refused. Logs of the server may record it
    #[arg(long, help_heading = "Authorization")]
    token_in_query: bool,
}

/// The authorization that a server announces.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    /// The URL of its metadata.
    pub(crate) metadata: Option<String>,
    /// Its identifier, for which tokens are issued.
    pub(crate) resource: Option<String>,
    pub(crate) authorization_servers: Vec<String>,
}

/// Checks the authorization of a server. Returns `None` if it has none.
///
/// # Errors
///
/// Fails if tokens are given for a server that has no use for them.
pub(crate) async fn check(
    findings: &mut Findings,
    target: &Target,
    tokens: &TokenArgs,
    timeout: Duration,
) -> Result<Option<Protection>, Failure> {
    let protection = if let Target::Url { url, headers } = target
        && let Ok(url) = Url::parse(url)
    {
        check_url(findings, &url, headers, tokens, timeout).await?
    } else {
        None
    };
    if protection.is_none() && (tokens.foreign_token.is_some() || tokens.token_in_query) {
        return Err(Failure::usage(format_args!("{target} does not ask for authorization"))
            .help("omit `--foreign-token` and `--token-in-query`"));
    }
    Ok(protection)
}

async fn check_url(
    findings: &mut Findings,
    url: &Url,
    headers: &[(String, String)],
    tokens: &TokenArgs,
    timeout: Duration,
) -> Result<Option<Protection>, Failure> {
    let prober = Prober::new(url, headers, timeout)?;
    let own = own_token(headers);
    // The handshake reports a server that cannot be reached.
    let Ok(response) = prober.post(None).await else { return Ok(None) };
    let link = match response.status() {
        StatusCode::UNAUTHORIZED => check_challenge(findings, &response),
        // Not the responses to an invalid request, which a server without authorization may send.
        StatusCode::FORBIDDEN | StatusCode::FOUND | StatusCode::SEE_OTHER if own.is_some() => {
            wrong_status(findings, "a request without a token", response.status());
            None
        }
        _ => return Ok(None),
    };
    metadata::insecure(findings, &Subject::server(), "the server", url);
    let protection = metadata::check(findings, &prober, url, link.as_deref()).await;
    access_tokens::check(findings, &prober, url, &protection, tokens, own).await?;
    Ok(Some(protection))
}

/// Checks the challenge of a response. Returns the URL of the metadata.
fn check_challenge(findings: &mut Findings, response: &Response) -> Option<String> {
    let mut challenges = Vec::new();
    for header in response.headers().get_all(WWW_AUTHENTICATE) {
        let Some(parsed) = header.to_str().ok().and_then(challenge::parse) else {
            let message = format!("the header `WWW-Authenticate` is malformed: {header:?}");
            findings.add_to_server(codes::NO_CHALLENGE, message);
            return None;
        };
        challenges.extend(parsed);
    }
    if challenges.is_empty() {
        findings.add_to_server(codes::NO_CHALLENGE, "the response has the status 401 and no header `WWW-Authenticate`");
        return None;
    }
    let Some(challenge) = challenges.iter().find(|challenge| challenge.accepts_tokens()) else {
        let schemes: Vec<&str> = challenges.iter().map(|challenge| &*challenge.scheme).collect();
        let message = format!("the challenge has the scheme `{}`, expected `Bearer`", schemes.join("`, `"));
        findings.add_to_server(codes::NO_CHALLENGE, message);
        return None;
    };
    challenge.parameter("resource_metadata").map(str::to_owned)
}

fn wrong_status(findings: &mut Findings, what: &str, status: StatusCode) {
    let message = format!("the response to {what} has the status {}, expected 401", status.as_u16());
    findings.add_to_server(codes::NO_CHALLENGE, message);
}

/// Returns the token in the headers of the user.
fn own_token(headers: &[(String, String)]) -> Option<&str> {
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
    let (_, token) = value.split_once(' ')?;
    Some(token.trim())
}

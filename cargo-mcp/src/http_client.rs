//! The HTTP client for messages to servers.

use reqwest::{
    Client, Response, StatusCode,
    header::{HeaderName, HeaderValue},
    redirect::Policy,
};

use crate::failure::Failure;

/// The maximum number of redirects of one message.
const MAX_REDIRECTS: usize = 10;

/// Creates a client that follows a redirect only within the origin of the server, and only if the message stays a POST
/// with its body: headers such as `X-Api-Key` and arguments are meant for this server only.
///
/// # Errors
///
/// Fails if TLS cannot be set up.
pub(crate) fn http_client() -> reqwest::Result<Client> {
    // The only provider that is compiled in. Installing it again fails, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let policy = Policy::custom(|redirect| {
        let keeps_message =
            matches!(redirect.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let origin = redirect.previous().first().map(reqwest::Url::origin);
        if keeps_message && origin == Some(redirect.url().origin()) && redirect.previous().len() <= MAX_REDIRECTS {
            redirect.follow()
        } else {
            redirect.stop()
        }
    });
    Client::builder().redirect(policy).build()
}

/// Reads the body of a response. Returns `None` if it is larger than `limit`, in bytes.
///
/// # Errors
///
/// Fails if the connection does.
pub(crate) async fn read_body(mut response: Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > limit {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

/// Parses the headers of the user.
///
/// # Errors
///
/// Fails if a name or a value is invalid.
pub(crate) fn parse_headers(headers: &[(String, String)]) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let parse = |(name, value): &(String, String)| {
        let invalid = |error: &dyn std::fmt::Display| Failure::usage(format_args!("invalid header `{name}`: {error}"));
        Ok((name.parse().map_err(|error| invalid(&error))?, value.parse().map_err(|error| invalid(&error))?))
    };
    headers.iter().map(parse).collect()
}

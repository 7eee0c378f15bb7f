//! Client metadata, from a registration or a metadata document.

use serde_json::{Map, Value};

use super::{oauth_error::OAuthError, redirect_uri};

/// The maximum number of redirect URIs of a client.
const MAX_REDIRECT_URIS: usize = 10;

/// The maximum length of the name of a client in characters. Longer ones are cut.
pub(super) const MAX_NAME: usize = 100;

/// Returns the redirect URIs of the metadata of a client.
pub(super) fn redirect_uris(metadata: &Map<String, Value>) -> Result<Vec<String>, OAuthError> {
    let invalid = |description: String| OAuthError::new("invalid_redirect_uri", description);
    let uris = list(metadata, "redirect_uris").filter(|uris| (1..=MAX_REDIRECT_URIS).contains(&uris.len()));
    let uris = uris.ok_or_else(|| invalid(format!("`redirect_uris` must have 1 to {MAX_REDIRECT_URIS} URIs")))?;
    for uri in &uris {
        redirect_uri::parse(uri).map_err(|problem| invalid(format!("a redirect URI {problem}")))?;
    }
    Ok(uris.into_iter().map(str::to_owned).collect())
}

pub(super) fn wants_refresh_tokens(metadata: &Map<String, Value>) -> bool {
    list(metadata, "grant_types").is_some_and(|types| types.contains(&"refresh_token"))
}

/// Returns an array of strings. Anything else is an empty list.
pub(super) fn list<'a>(metadata: &'a Map<String, Value>, name: &str) -> Option<Vec<&'a str>> {
    let strings = metadata.get(name)?.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
    Some(strings.unwrap_or_default())
}

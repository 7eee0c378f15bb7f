use http::{header::AUTHORIZATION, request::Parts};

use super::error::AuthenticationError;

/// Returns the credentials of a request for an authentication scheme: what follows `Bearer` in its `Authorization`
/// header. The name of the scheme is not case-sensitive.
///
/// ```
/// use mcp_runtime::credentials;
///
/// let request = http::Request::builder().header("authorization", "bearer mF_9.B5f-4.1JqM").body(()).unwrap();
/// let (head, ()) = request.into_parts();
/// assert_eq!(credentials(&head, "Bearer").unwrap(), "mF_9.B5f-4.1JqM");
/// assert!(credentials(&head, "DPoP").is_err());
/// ```
///
/// # Errors
///
/// Returns [`AuthenticationError::missing`] if the header is missing or has another scheme, and
/// [`AuthenticationError::malformed`] if the credentials are not a single token of
/// [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-11.2).
pub fn credentials<'a>(request: &'a Parts, scheme: &str) -> Result<&'a str, AuthenticationError> {
    let Some(value) = request.headers.get(AUTHORIZATION) else { return Err(AuthenticationError::missing()) };
    let malformed = || AuthenticationError::malformed("the credentials of the `Authorization` header are malformed");
    let value = value.to_str().map_err(|_| malformed())?.trim_matches(' ');
    let (given, credentials) = value.split_once(' ').unwrap_or((value, ""));
    if !given.eq_ignore_ascii_case(scheme) {
        return Err(AuthenticationError::missing());
    }
    let credentials = credentials.trim_start_matches(' ');
    if is_token68(credentials) { Ok(credentials) } else { Err(malformed()) }
}

/// Returns whether a text is a single token of [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-11.2).
pub(super) fn is_token68(text: &str) -> bool {
    let without_padding = text.trim_end_matches('=');
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !without_padding.is_empty() && without_padding.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;
    use crate::auth::AuthenticationErrorKind::{Malformed, Missing};

    #[test]
    fn credentials_are_a_scheme_and_a_token() {
        for (value, expected) in [
            (None, Err(Missing)),
            (Some("Bearer abc"), Ok("abc")),
            (Some("bEARER abc"), Ok("abc")),
            (Some("  Bearer   a-b._~+/c==  "), Ok("a-b._~+/c==")),
            (Some(""), Err(Missing)),
            (Some("Basic YTpi"), Err(Missing)),
            (Some("Bearerabc"), Err(Missing)),
            (Some("Bearer"), Err(Malformed)),
            (Some("Bearer "), Err(Malformed)),
            (Some("Bearer ="), Err(Malformed)),
            (Some("Bearer a b"), Err(Malformed)),
            (Some("Bearer a,b"), Err(Malformed)),
            (Some("Bearer a=b"), Err(Malformed)),
            (Some("Bearer \"abc\""), Err(Malformed)),
            (Some("Bearer gr\u{fc}n"), Err(Malformed)),
        ] {
            let (mut head, ()) = Request::new(()).into_parts();
            if let Some(value) = value {
                head.headers.insert(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            let found = credentials(&head, "Bearer");
            assert_eq!(
                found.as_deref().map_err(AuthenticationError::kind),
                expected.as_deref().map_err(|k| *k),
                "{value:?}"
            );
        }
    }
}

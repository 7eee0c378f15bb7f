use std::{borrow::Cow, fmt};

use http::HeaderValue;

/// A challenge of a `WWW-Authenticate` header: an authentication scheme with parameters.
///
/// ```
/// use mcp_runtime::auth::Challenge;
///
/// let challenge = Challenge::new("DPoP").with_parameter("algs", "ES256 EdDSA");
/// assert_eq!(challenge.to_string(), r#"DPoP algs="ES256 EdDSA""#);
/// ```
///
/// See [RFC 9110, 11.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1).
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Challenge {
    scheme: Cow<'static, str>,
    parameters: Vec<(Cow<'static, str>, String)>,
}

impl Challenge {
    /// Creates a challenge without parameters.
    ///
    /// # Panics
    ///
    /// Panics if the scheme is not a token of HTTP, which consists of letters, digits and ``!#$%&'*+-.^_`|~``.
    #[track_caller]
    pub fn new(scheme: impl Into<Cow<'static, str>>) -> Self {
        let scheme = scheme.into();
        assert!(is_token(&scheme), "`{scheme}` is not an authentication scheme");
        Self { scheme, parameters: Vec::new() }
    }

    /// Sets a parameter. Replaces an earlier value.
    ///
    /// Many clients do not read escaped characters, and [RFC 6750](https://www.rfc-editor.org/rfc/rfc6750#section-3)
    /// forbids them. Quotation marks and backslashes of the value are therefore replaced with `'`, and everything else
    /// outside of visible ASCII and space with `?`. Values have at most 8,192 bytes; the rest is cut off.
    ///
    /// # Panics
    ///
    /// Panics if the name is not a token of HTTP.
    #[track_caller]
    pub fn with_parameter(mut self, name: impl Into<Cow<'static, str>>, value: &str) -> Self {
        let name = name.into();
        assert!(is_token(&name), "`{name}` is not the name of a parameter");
        let value = value.chars().take(MAX_VALUE).map(replace_unquotable).collect();
        match self.parameters.iter_mut().find(|(existing, _)| existing.eq_ignore_ascii_case(&name)) {
            Some((_, existing)) => *existing = value,
            None => self.parameters.push((name, value)),
        }
        self
    }

    /// Returns the authentication scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the parameters, in the order in which they were set.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (&**name, value.as_str()))
    }
}

/// The maximum size of the value of a parameter in bytes.
const MAX_VALUE: usize = 8 << 10;

fn replace_unquotable(character: char) -> char {
    match character {
        '"' | '\\' => '\'',
        ' '..='~' => character,
        _ => '?',
    }
}

fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

impl From<&Challenge> for HeaderValue {
    fn from(challenge: &Challenge) -> Self {
        Self::try_from(challenge.to_string()).expect("a challenge consists of visible ASCII characters and spaces")
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            write!(f, "{separator}{name}=\"{value}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_quotes() {
        let long = "x".repeat(MAX_VALUE + 1);
        for (value, expected) in [
            ("notes:read notes:write", "notes:read notes:write"),
            (r#"a", error="x"#, "a', error='x"),
            (r"ends with \", "ends with '"),
            ("a\r\nset-cookie: x=1", "a??set-cookie: x=1"),
            ("grüße\u{7f}\0", "gr??e??"),
            ("", ""),
            (&long, &long[..MAX_VALUE]),
        ] {
            let challenge = Challenge::new("Bearer").with_parameter("error_description", value);
            let header = HeaderValue::from(&challenge);
            assert_eq!(header.to_str().unwrap(), format!("Bearer error_description=\"{expected}\""), "{value}");
        }
    }

    #[test]
    fn the_last_value_of_a_parameter_counts() {
        let challenge = Challenge::new("Bearer").with_parameter("scope", "a").with_parameter("error", "b");
        assert_eq!(challenge.with_parameter("Scope", "c").to_string(), r#"Bearer scope="c", error="b""#);
    }
}

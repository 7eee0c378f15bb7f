use std::fmt;

/// The name of an authenticated sender of requests.
///
/// A principal is part of an [`Identity`](crate::Identity). A middleware that authenticates, but knows neither scopes
/// nor claims, can also insert only a principal into the extensions of each HTTP request.
///
/// Functions read it with [`Context::principal`](crate::Context::principal), and layers and
/// [`Server::visible_to`](crate::Server::visible_to) with [`Caller::principal`](crate::Caller::principal).
///
/// Anything that outlives a request belongs to the principal of the request that created it. Principals are equal if
/// their names are equal, byte for byte. All callers without a principal count as one principal. For other principals,
/// the following do not exist, even if they know the ids:
///
/// - A session with its streams, its calls, its subscriptions and the server's requests to the client. A request that
///   names it receives the status 404, as for an unknown id, and has no effect: it does not cancel a call, answer for
///   the client, resume a stream, end the session or keep it from expiring. A middleware must therefore insert the same
///   principal into every request of a session: if it adds or omits the principal later, the session is not found. The
///   same holds for the sessions of `HttpOptions::legacy_sse`.
/// - A task. Without a principal, it belongs to its session or, in a stateless revision, to any sender that
///   knows its id.
/// - The state of a call that asks its client in stateless revisions: no other principal can continue the call with it.
///
/// [Rate limits](crate::layers) per caller and [cached results](crate::layers) are also kept apart by principal.
///
/// ```
/// use mcp_runtime::Principal;
///
/// let ada = Principal::new("ada@example.com");
/// assert_eq!(ada.as_str(), "ada@example.com");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal(String);

impl Principal {
    /// Creates a principal with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Creates the principal of a subject that an issuer has authenticated, such as the `iss` and `sub` of a token.
    ///
    /// A subject is unique only for its issuer, so the name contains both: `issuer#subject`. The characters `#` and `%`
    /// of the issuer are percent-encoded, so different pairs have different names.
    ///
    /// ```
    /// use mcp_runtime::Principal;
    ///
    /// let ada = Principal::of_subject("https://id.example.com", "248289761001");
    /// assert_eq!(ada.as_str(), "https://id.example.com#248289761001");
    /// ```
    pub fn of_subject(issuer: &str, subject: &str) -> Self {
        let mut name = String::with_capacity(issuer.len() + 1 + subject.len());
        for character in issuer.chars() {
            match character {
                '%' => name.push_str("%25"),
                '#' => name.push_str("%23"),
                character => name.push(character),
            }
        }
        name.push('#');
        name.push_str(subject);
        Self(name)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Principal {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<&str> for Principal {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_subjects_have_different_names() {
        let pairs = [
            ("https://id.example", "ada"),
            ("https://id.example#ada", ""),
            ("https://id.example", "#ada"),
            ("https://id.example#", "ada"),
            ("https://id.example%23", "ada"),
            ("https://id.example%2523", "ada"),
            ("", "https://id.example#ada"),
        ];
        for (index, (issuer, subject)) in pairs.into_iter().enumerate() {
            for (other_issuer, other_subject) in &pairs[index + 1..] {
                let principal = Principal::of_subject(issuer, subject);
                assert_ne!(principal, Principal::of_subject(other_issuer, other_subject));
            }
        }
    }
}

//! The description of a protected resource for clients, and its challenges.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use http::HeaderValue;
use serde_json::{Value, json};

use super::OFFLINE_ACCESS;
use crate::{stdx::setters, trace_context::is_token};

/// Metadata about a server that requires authorization: its identifier, and the issuers of its tokens.
///
/// The runtime serves it as the metadata of the protected resource at the well-known URIs, and refers to it in every
/// challenge.
///
/// ```
/// use mcp_runtime::auth::ProtectedResource;
///
/// let resource = ProtectedResource::new()
///     .resource("https://mcp.example.com/mcp")
///     .with_authorization_server("https://id.example.com")
///     .documentation("https://example.com/docs/api");
/// assert_eq!(resource.identifier(), Some("https://mcp.example.com/mcp"));
/// ```
///
/// See [Authorization server location](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location)
/// and [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728#section-2).
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct ProtectedResource {
    resource: Option<String>,
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
    challenges: Vec<Challenge>,
    /// The other members of the metadata.
    members: BTreeMap<String, Value>,
}

impl ProtectedResource {
    /// Creates an empty description.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the identifier of the resource: the URL of the MCP endpoint as clients know it, such as
        /// `https://mcp.example.com/mcp`.
        ///
        /// It is never taken from the `Host` of a request, which the sender chooses, except on loopback addresses:
        /// without an identifier, clients on the same machine are told the URL that they use, and all other clients
        /// receive no metadata. Without an [authorization server](Self::with_authorization_server), there is no
        /// metadata.
        pub fn resource(self, url: impl Into<String>) { self.resource = Some(url.into()) }

        /// Adds an authorization server that issues tokens for the resource, by its issuer identifier.
        pub fn with_authorization_server(self, issuer: impl Into<String>) {
            let issuer = issuer.into();
            if !self.authorization_servers.contains(&issuer) {
                self.authorization_servers.push(issuer);
            }
        }

        /// Sets the scopes that clients request if a challenge names none: the scopes for basic use. Default: every
        /// scope that the functions of the server require. `offline_access` is omitted, since it concerns the
        /// authorization server.
        ///
        /// ```
        /// use mcp_runtime::auth::ProtectedResource;
        ///
        /// let resource = ProtectedResource::new().scopes_supported(["notes:read"]);
        /// ```
        ///
        /// See [Scope minimization](https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices#scope-minimization).
        pub fn scopes_supported(self, scopes: impl IntoIterator<Item = impl Into<String>>) {
            self.scopes_supported = Some(scopes.into_iter().map(Into::into).collect())
        }

        /// Sets the ways in which bearer tokens can be sent. Default: `header`, the only way that the runtime accepts.
        /// Without any, bearer tokens are not accepted.
        pub fn bearer_methods(self, methods: impl IntoIterator<Item = impl Into<String>>) {
            let methods: Vec<String> = methods.into_iter().map(Into::into).collect();
            self.set_member("bearer_methods_supported", methods)
        }

        /// Adds a challenge, which names an authentication scheme that the server accepts. Default: `Bearer`. Every 401
        /// and 403 response contains all of them.
        ///
        /// ```
        /// use mcp_runtime::auth::{Challenge, ProtectedResource};
        ///
        /// // Only tokens that are bound to a key are accepted.
        /// let resource = ProtectedResource::new()
        ///     .with_challenge(Challenge::new("DPoP").with_parameter("algs", "ES256 EdDSA"))
        ///     .bearer_methods([""; 0])
        ///     .dpop_signing_algorithms(["ES256", "EdDSA"])
        ///     .dpop_required(true);
        /// ```
        pub fn with_challenge(self, challenge: Challenge) { self.challenges.push(challenge) }

        /// Sets the name of the resource for users. Default: the title or the name of the server.
        pub fn name(self, name: impl Into<String>) { self.set_member("resource_name", name.into()) }

        /// Sets the URL of a page for developers.
        pub fn documentation(self, url: impl Into<String>) { self.set_member("resource_documentation", url.into()) }

        /// Sets the URL of a page about how clients may use the data of the resource.
        pub fn policy(self, url: impl Into<String>) { self.set_member("resource_policy_uri", url.into()) }

        /// Sets the URL of the terms of service.
        pub fn terms_of_service(self, url: impl Into<String>) { self.set_member("resource_tos_uri", url.into()) }

        /// Sets the algorithms with which proofs of possession may be signed.
        ///
        /// See [RFC 9449](https://www.rfc-editor.org/rfc/rfc9449).
        pub fn dpop_signing_algorithms(self, algorithms: impl IntoIterator<Item = impl Into<String>>) {
            let algorithms: Vec<String> = algorithms.into_iter().map(Into::into).collect();
            self.set_member("dpop_signing_alg_values_supported", algorithms)
        }

        /// Sets whether every token must be bound to a key of the client with a proof of possession.
        pub fn dpop_required(self, required: bool) { self.set_member("dpop_bound_access_tokens_required", required) }

        /// Sets another member of the metadata. Replaces an earlier value.
        ///
        /// The members `resource`, `authorization_servers` and `scopes_supported` have their own methods and cannot be
        /// set here.
        pub fn with_member(self, name: impl Into<String>, value: impl Into<Value>) { self.set_member(name, value) }
    }

    fn set_member(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.members.insert(name.into(), value.into());
    }

    /// Returns the identifier of the resource.
    pub fn identifier(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Returns the issuer identifiers of the authorization servers.
    pub fn authorization_servers(&self) -> &[String] {
        &self.authorization_servers
    }

    /// Returns the scopes that clients request by default, if they are set.
    pub(crate) fn supported_scopes(&self) -> Option<&[String]> {
        self.scopes_supported.as_deref()
    }

    /// Returns the challenges that were added.
    pub(crate) fn challenges(&self) -> &[Challenge] {
        &self.challenges
    }

    /// Returns the other members of the metadata.
    pub(crate) fn members(&self) -> &BTreeMap<String, Value> {
        &self.members
    }

    /// Combines the descriptions of several authenticators for the same resource: their authorization servers and
    /// challenges are joined, and a restriction on tokens remains only if both descriptions state it. For everything else,
    /// the settings of this description have precedence.
    ///
    /// ```
    /// use mcp_runtime::auth::ProtectedResource;
    ///
    /// let tokens = ProtectedResource::new().resource("https://mcp.example.com").with_authorization_server("https://a.example");
    /// let other = ProtectedResource::new().with_authorization_server("https://b.example");
    /// assert_eq!(tokens.or(other).authorization_servers().len(), 2);
    /// ```
    pub fn or(mut self, mut other: Self) -> Self {
        // A description without challenges stands for `Bearer`.
        let implies_bearer = self.challenges.is_empty() != other.challenges.is_empty();
        for (name, value) in
            [("bearer_methods_supported", json!([])), ("dpop_bound_access_tokens_required", json!(true))]
        {
            let restricts = |it: &Self| it.members.get(name) == Some(&value);
            if restricts(&self) != restricts(&other) {
                for members in [&mut self.members, &mut other.members] {
                    members.retain(|member, stated| member != name || *stated != value);
                }
            }
        }
        self.resource = self.resource.or(other.resource);
        self = other.authorization_servers.into_iter().fold(self, Self::with_authorization_server);
        self.scopes_supported = self.scopes_supported.or(other.scopes_supported);
        for challenge in other.challenges {
            if !self.challenges.contains(&challenge) {
                self.challenges.push(challenge);
            }
        }
        if implies_bearer && !self.challenges.iter().any(|it| it.scheme().eq_ignore_ascii_case("Bearer")) {
            self.challenges.push(Challenge::new("Bearer"));
        }
        for (name, value) in other.members {
            self.members.entry(name).or_insert(value);
        }
        self
    }
}

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
    /// outside of visible ASCII and space with `?`. Values have at most 8,192 bytes; the rest is cut off. The scope
    /// `offline_access` is removed from `scope`, since it concerns the authorization server; a parameter without other scopes
    /// is not set.
    ///
    /// # Panics
    ///
    /// Panics if the name is not a token of HTTP.
    #[track_caller]
    pub fn with_parameter(mut self, name: impl Into<Cow<'static, str>>, value: &str) -> Self {
        let name = name.into();
        assert!(is_token(&name), "`{name}` is not the name of a parameter");
        let mut value: String = value.chars().take(MAX_VALUE).map(replace_unquotable).collect();
        if name.eq_ignore_ascii_case("scope") {
            value = value.split(' ').filter(|scope| *scope != OFFLINE_ACCESS).collect::<Vec<_>>().join(" ");
            if value.is_empty() {
                return self;
            }
        }
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
    fn either_description_may_name_the_resource() {
        let (none, a, b) = (ProtectedResource::new, "https://a.example", "https://b.example");
        for (first, second, expected) in [
            (none(), none().resource(b), b),
            (none().resource(a), none(), a),
            (none().resource(a), none().resource(b), a),
        ] {
            assert_eq!(first.or(second).identifier(), Some(expected));
        }
    }

    #[test]
    fn the_settings_of_the_first_description_have_precedence() {
        let described = |by: &str| ProtectedResource::new().scopes_supported([by]).name(by).dpop_required(true);
        for (first, second, expected) in [
            (described("a"), described("b"), "a"),
            (described("a"), ProtectedResource::new().dpop_required(true), "a"),
            (ProtectedResource::new().dpop_required(true), described("b"), "b"),
        ] {
            let both = first.or(second);
            assert_eq!(both.supported_scopes().unwrap(), [expected]);
            assert_eq!(both.members()["resource_name"], expected);
        }
    }

    /// A description without challenges stands for `Bearer`.
    #[test]
    fn each_scheme_is_challenged_once() {
        let none = ProtectedResource::new;
        for (schemes, expected) in [
            (&[][..], &[][..]),
            (&["Bearer"], &["Bearer"]),
            (&["DPoP"], &["DPoP", "Bearer"]),
            (&["bearer"], &["bearer"]),
            (&["Bearer", "DPoP"], &["Bearer", "DPoP"]),
        ] {
            let other = || schemes.iter().fold(none(), |other, scheme| other.with_challenge(Challenge::new(*scheme)));
            for both in [none().or(other()), other().or(none())] {
                assert_eq!(both.challenges.iter().map(Challenge::scheme).collect::<Vec<_>>(), expected);
            }
            let same = other().or(other());
            assert_eq!(same.challenges.iter().map(Challenge::scheme).collect::<Vec<_>>(), schemes);
        }
    }

    /// A restriction that only one description states is dropped, and nothing else.
    #[test]
    fn the_statements_of_both_descriptions_are_kept() {
        let unrestricted = ProtectedResource::new().bearer_methods(["header"]).with_member("resource_x", true);
        let restricted = ProtectedResource::new().bearer_methods(Vec::<String>::new()).dpop_required(true);
        let expected = BTreeMap::from([
            ("bearer_methods_supported".to_owned(), json!(["header"])),
            ("resource_x".to_owned(), json!(true)),
        ]);
        for both in [unrestricted.clone().or(restricted.clone()), restricted.or(unrestricted)] {
            assert_eq!(*both.members(), expected);
        }
    }

    /// Several authenticators may accept tokens of the same issuer.
    #[test]
    fn an_authorization_server_is_listed_once() {
        let (a, b) = ("https://a.example", "https://b.example");
        let with = |issuers: &[&str]| {
            let none = ProtectedResource::new();
            issuers.iter().fold(none, |resource, issuer| resource.with_authorization_server(*issuer))
        };
        for (first, second) in [(&[a, b][..], &[b][..]), (&[a], &[b, a]), (&[a, a, b], &[])] {
            assert_eq!(with(first).or(with(second)).authorization_servers(), [a, b], "{first:?} {second:?}");
        }
    }

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

    /// The value of a header is one challenge.
    #[test]
    fn schemes_and_names_contain_no_other_parameters() {
        for name in ["", "a b", "a=b", "a,b", "a\"", "a\r\nb", "ä"] {
            let scheme = std::panic::catch_unwind(|| Challenge::new(name));
            let parameter = std::panic::catch_unwind(|| Challenge::new("Bearer").with_parameter(name, "x"));
            assert!(scheme.is_err() && parameter.is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_last_value_of_a_parameter_counts() {
        let challenge = Challenge::new("Bearer").with_parameter("scope", "a").with_parameter("error", "b");
        assert_eq!(challenge.with_parameter("Scope", "c").to_string(), r#"Bearer scope="c", error="b""#);
    }

    #[test]
    fn challenges_do_not_name_offline_access() {
        for (scope, expected) in [
            ("a offline_access b", r#"Bearer scope="a b""#),
            ("offline_access", "Bearer"),
            ("offline_access_x", r#"Bearer scope="offline_access_x""#),
        ] {
            assert_eq!(Challenge::new("Bearer").with_parameter("scope", scope).to_string(), expected);
        }
    }
}

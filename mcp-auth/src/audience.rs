//! The audience of a token: the server for which it was issued.

use mcp_runtime::auth::AuthenticationError;
use serde_json::Value;

use crate::{json::excerpt, url::SecureUrl};

/// The audiences that are accepted.
#[derive(Debug, Clone)]
pub(crate) struct Audience {
    resource: String,
    others: Vec<String>,
}

impl Audience {
    pub(crate) fn new(resource: String) -> Self {
        Self { resource, others: Vec::new() }
    }

    pub(crate) fn resource(&self) -> &str {
        &self.resource
    }

    pub(crate) fn add(&mut self, audience: String) {
        self.others.push(audience);
    }

    /// Checks an `aud` claim, which is a string or an array of strings.
    ///
    /// # Errors
    ///
    /// Returns an error if it contains none of the accepted audiences.
    pub(crate) fn check(&self, claim: Option<&Value>) -> Result<(), AuthenticationError> {
        let accepted = match claim {
            Some(Value::String(audience)) => self.accepts(audience),
            Some(Value::Array(audiences)) => audiences.iter().filter_map(Value::as_str).any(|one| self.accepts(one)),
            _ => false,
        };
        if accepted {
            return Ok(());
        }
        let audience = claim.map_or_else(|| "absent".to_owned(), |claim| format!("`{}`", excerpt(claim)));
        Err(AuthenticationError::invalid("the token was not issued for this server")
            .with_detail(format!("`aud` is {audience}, expected `{}`", self.resource)))
    }

    fn accepts(&self, audience: &str) -> bool {
        same_resource(&self.resource, audience) || self.others.iter().any(|other| other == audience)
    }
}

/// Compares URLs after normalizing what does not distinguish resources: the case of scheme and host, the default port, and
/// the path `/` of an URL without one, as many clients write them. Other texts are compared exactly.
fn same_resource(resource: &str, audience: &str) -> bool {
    let is_same = |(left, right): (SecureUrl, SecureUrl)| {
        let (uri, other) = (left.uri(), right.uri());
        left.identifies_same(&right) && uri.path() == other.path() && uri.query() == other.query()
    };
    resource == audience || SecureUrl::parse(resource).ok().zip(SecureUrl::parse(audience).ok()).is_some_and(is_same)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Audience;

    #[test]
    fn the_audience_contains_the_resource() {
        let mut with_path = Audience::new("https://mcp.example.com/mcp".to_owned());
        with_path.add("api://notes".to_owned());
        let origin = Audience::new("https://mcp.example.com".to_owned());
        for (audience, claim, accepted) in [
            (&with_path, json!("https://mcp.example.com/mcp"), true),
            (&with_path, json!(["https://other.example", "https://mcp.example.com/mcp"]), true),
            (&with_path, json!("api://notes"), true),
            (&with_path, json!("https://mcp.example.com/mcp/"), false),
            (&with_path, json!("https://mcp.example.com/MCP"), false),
            (&with_path, json!("https://mcp.example.com/%6dcp"), false),
            (&with_path, json!("https://mcp.example.com/a/../mcp"), false),
            (&with_path, json!("https://mcp.example.com"), false),
            (&with_path, json!("https://mcp.example.com/mcp?a"), false),
            (&with_path, json!([]), false),
            (&with_path, json!([["https://mcp.example.com/mcp"]]), false),
            (&with_path, json!({"https://mcp.example.com/mcp": true}), false),
            (&with_path, Value::Null, false),
            (&with_path, json!("HTTPS://MCP.example.com:443/mcp"), true),
            (&with_path, json!("https://mcp.example.com:444/mcp"), false),
            (&with_path, json!("http://mcp.example.com/mcp"), false),
            (&with_path, json!("API://notes"), false),
            (&origin, json!("https://mcp.example.com"), true),
            (&origin, json!("https://mcp.example.com/"), true),
            (&origin, json!("https://mcp.example.com//"), false),
            (&origin, json!("https://mcp.example.com.evil.example"), false),
            (&origin, json!("https://mcp.example.com/mcp"), false),
        ] {
            assert_eq!(audience.check(Some(&claim)).is_ok(), accepted, "{claim}");
        }
        let error = origin.check(None).unwrap_err();
        assert_eq!(error.message(), "the token was not issued for this server");
        assert_eq!(error.detail(), Some("`aud` is absent, expected `https://mcp.example.com`"));
    }
}

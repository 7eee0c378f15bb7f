//! The metadata of an issuer.
//!
//! See [RFC 8414](https://www.rfc-editor.org/rfc/rfc8414#section-3) and
//! [OpenID Connect Discovery](https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderConfig).

use serde_json::{Map, Value};

use crate::{Error, fetch::Fetcher, json::parse_object, url::SecureUrl};

/// Metadata that states the expected issuer.
pub(crate) struct Metadata(Map<String, Value>);

impl Metadata {
    /// Fetches the metadata of an issuer from the first address that has it.
    ///
    /// # Errors
    ///
    /// Returns what was wrong with each address.
    pub(crate) async fn fetch(fetcher: &Fetcher, issuer: &SecureUrl) -> Result<Self, Error> {
        if issuer.uri().query().is_some() {
            return Err(Error::url(issuer.as_str(), "has a query"));
        }
        let mut attempts = Vec::new();
        for address in addresses(issuer) {
            match Self::fetch_from(fetcher, issuer, &address).await {
                Ok(metadata) => return Ok(metadata),
                Err(reason) => attempts.push((address, reason)),
            }
        }
        Err(Error::Discovery { issuer: issuer.to_string(), attempts })
    }

    async fn fetch_from(fetcher: &Fetcher, issuer: &SecureUrl, address: &str) -> Result<Self, String> {
        let address = SecureUrl::parse(address).map_err(|error| error.to_string())?;
        let metadata = parse_object(&fetcher.get(&address).await?.body)?;
        match metadata.get("issuer").and_then(Value::as_str) {
            Some(stated) if stated == issuer.as_str() => Ok(Self(metadata)),
            Some(stated) => Err(format!(
                "the metadata is of the issuer `{}`\nhelp: issuers are compared exactly, including a final `/`",
                stated.chars().take(200).collect::<String>().escape_debug(),
            )),
            None => Err("the metadata has no `issuer`".to_owned()),
        }
    }

    /// Returns whether a member is `true`.
    #[cfg(feature = "server")]
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// Returns the URL of an endpoint, which may be at another origin.
    ///
    /// # Errors
    ///
    /// Returns an error if it is absent or not secure.
    pub(crate) fn endpoint(&self, name: &'static str) -> Result<SecureUrl, Error> {
        let url = self.0.get(name).and_then(Value::as_str);
        SecureUrl::parse(url.ok_or_else(|| Error::keys("the metadata of the issuer", format!("no `{name}`")))?)
    }
}

/// Returns the addresses of the metadata, in the order of preference. The path of an issuer follows the well-known part,
/// or precedes it in addresses of OpenID Connect.
fn addresses(issuer: &SecureUrl) -> Vec<String> {
    let (origin, path) = (issuer.origin(), issuer.uri().path().trim_end_matches('/'));
    let mut addresses = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        addresses.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::{SecureUrl, addresses};

    #[test]
    fn metadata_is_at_the_addresses_of_the_standards() {
        for (issuer, expected) in [
            (
                "https://id.example.com",
                &[
                    "https://id.example.com/.well-known/oauth-authorization-server",
                    "https://id.example.com/.well-known/openid-configuration",
                ] as &[&str],
            ),
            (
                "https://id.example.com/",
                &[
                    "https://id.example.com/.well-known/oauth-authorization-server",
                    "https://id.example.com/.well-known/openid-configuration",
                ],
            ),
            (
                "https://id.example.com:8443/realms/a/",
                &[
                    "https://id.example.com:8443/.well-known/oauth-authorization-server/realms/a",
                    "https://id.example.com:8443/.well-known/openid-configuration/realms/a",
                    "https://id.example.com:8443/realms/a/.well-known/openid-configuration",
                ],
            ),
        ] {
            assert_eq!(addresses(&SecureUrl::parse(issuer).unwrap()), expected, "{issuer}");
        }
    }
}

//! The metadata of the server and of its authorization servers.

use serde_json::Value;
use url::Url;

use super::{
    Protection,
    probe::{Prober, is_insecure},
};
use crate::commands::check::codes::{self, Code, Findings, Subject};

/// The maximum number of authorization servers whose metadata is checked.
const MAX_AUTHORIZATION_SERVERS: usize = 8;

/// The well-known path of protected-resource metadata.
const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";

/// Checks the metadata of a server. `link` is the URL in its challenge.
///
/// See [RFC 9728, section 3](https://www.rfc-editor.org/rfc/rfc9728#section-3).
pub(super) async fn check(findings: &mut Findings, prober: &Prober<'_>, url: &Url, link: Option<&str>) -> Protection {
    let mut protection = Protection::default();
    let Some((location, document)) = resource_metadata(findings, prober, url, link).await else { return protection };
    protection.metadata = Some(location.to_string());
    match document["resource"].as_str() {
        None => findings.add_to_server(codes::BAD_RESOURCE_METADATA, format!("`{location}` has no string `resource`")),
        Some(resource) => {
            if let Some((code, why)) = compare(url, resource) {
                findings.add_to_server(code, why);
            }
            protection.resource = Some(resource.to_owned());
        }
    }
    if let Some(methods) = document["bearer_methods_supported"].as_array() {
        if !methods.iter().any(|method| method == "header") {
            let message = format!("`bearer_methods_supported` of `{location}` does not contain `header`");
            findings.add_to_server(codes::BAD_RESOURCE_METADATA, message);
        }
        if methods.iter().any(|method| method == "query") {
            let message = format!("`bearer_methods_supported` of `{location}` contains `query`");
            findings.add_to_server(codes::TOKEN_IN_QUERY, message);
        }
    }
    let issuers = document["authorization_servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if issuers.is_empty() || !issuers.iter().all(Value::is_string) {
        let message = format!("`{location}` has no `authorization_servers`, which is a list of at least one URL");
        findings.add_to_server(codes::BAD_RESOURCE_METADATA, message);
    }
    for issuer in issuers.iter().filter_map(Value::as_str).take(MAX_AUTHORIZATION_SERVERS) {
        check_issuer(findings, prober, issuer).await;
        protection.authorization_servers.push(issuer.to_owned());
    }
    protection
}

/// Returns the metadata of a server and its URL.
async fn resource_metadata(
    findings: &mut Findings,
    prober: &Prober<'_>,
    url: &Url,
    link: Option<&str>,
) -> Option<(Url, Value)> {
    let locations = match link {
        None => {
            let path = url.path().trim_end_matches('/');
            let paths = [&format!("{RESOURCE_METADATA}{path}"), RESOURCE_METADATA];
            let mut locations = paths.map(|path| with_path(url, path)).to_vec();
            locations.dedup();
            locations
        }
        Some(link) => match Url::parse(link) {
            Ok(location) if location.has_host() => vec![location],
            _ => {
                let message = format!("`resource_metadata` of the challenge is not an absolute URL: `{link}`");
                findings.add_to_server(codes::NO_CHALLENGE, message);
                return None;
            }
        },
    };
    if let Some(location) = locations.iter().find(|location| location.origin() != url.origin())
        && insecure(findings, &Subject::server(), "the metadata of the server", location)
    {
        return None;
    }
    let found = first_document(prober, locations).await;
    match (&found, link) {
        (Ok(_), Some(_)) => {}
        (Ok(_), None) => {
            findings.add_to_server(codes::NO_METADATA_LINK, "the challenge has no parameter `resource_metadata`");
        }
        (Err(why), None) => findings.add_to_server(codes::NO_METADATA, why),
        (Err(why), Some(_)) => findings.add_to_server(codes::BAD_RESOURCE_METADATA, why),
    }
    found.ok()
}

/// Compares the identifier in the metadata with the URL of the server.
fn compare(url: &Url, resource: &str) -> Option<(&'static Code, String)> {
    let differs = || (codes::WRONG_RESOURCE, format!("the metadata describes `{resource}`, expected `{url}`"));
    let Ok(resource_url) = Url::parse(resource) else { return Some(differs()) };
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    let (wide, narrow) = (path(&resource_url), path(url));
    if resource_url.origin() != url.origin() || resource_url.fragment().is_some() {
        return Some(differs());
    }
    if wide == narrow && resource_url.query() == url.query() {
        return None;
    }
    let is_prefix = narrow.strip_prefix(&wide).is_some_and(|rest| rest.starts_with('/'));
    if !is_prefix || resource_url.query().is_some() {
        return Some(differs());
    }
    Some((codes::BROAD_RESOURCE, format!("the metadata describes `{resource}`, which is more than `{url}`")))
}

/// Returns whether an identifier names the server, or what contains it.
pub(super) fn contains(resource: &str, url: &Url) -> bool {
    compare(url, resource).is_none_or(|(code, _)| code.name == codes::BROAD_RESOURCE.name)
}

/// Checks the metadata of an authorization server.
///
/// See [RFC 8414](https://www.rfc-editor.org/rfc/rfc8414).
async fn check_issuer(findings: &mut Findings, prober: &Prober<'_>, issuer: &str) {
    let subject = Subject { kind: "authorization server", name: issuer.to_owned() };
    let url = match Url::parse(issuer) {
        Ok(url) if url.has_host() && url.query().is_none() && url.fragment().is_none() => url,
        _ => {
            let message = "the issuer is not an absolute URL without query and fragment";
            findings.add(codes::BAD_ISSUER_METADATA, &subject, message);
            return;
        }
    };
    if insecure(findings, &subject, "the issuer", &url) {
        return;
    }
    let (location, document) = match first_document(prober, issuer_locations(&url)).await {
        Ok(found) => found,
        Err(why) => return findings.add(codes::BAD_ISSUER_METADATA, &subject, why),
    };
    let named = document["issuer"].as_str().unwrap_or_default();
    if named != issuer {
        let message = format!("`{location}` is the metadata of `{named}`");
        findings.add(codes::BAD_ISSUER_METADATA, &subject, message);
    }
    for (member, is_required) in [
        ("authorization_endpoint", true),
        ("token_endpoint", true),
        ("registration_endpoint", false),
        ("revocation_endpoint", false),
        ("introspection_endpoint", false),
        ("jwks_uri", false),
    ] {
        match document[member].as_str().map(Url::parse) {
            Some(Ok(endpoint)) => {
                insecure(findings, &subject, &format!("`{member}`"), &endpoint);
            }
            Some(Err(_)) => {
                findings.add(codes::BAD_ISSUER_METADATA, &subject, format!("`{member}` of `{location}` is not a URL"));
            }
            None if is_required => {
                findings.add(codes::BAD_ISSUER_METADATA, &subject, format!("`{location}` has no `{member}`"));
            }
            None => {}
        }
    }
    let methods = document["code_challenge_methods_supported"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        let message = format!("`code_challenge_methods_supported` of `{location}` does not contain `S256`");
        findings.add(codes::NO_PKCE, &subject, message);
    }
}

/// Returns where the metadata of an issuer may be, in the order in which clients try.
fn issuer_locations(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut locations = vec![
        with_path(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        with_path(issuer, &format!("/.well-known/openid-configuration{path}")),
        with_path(issuer, &format!("{path}/.well-known/openid-configuration")),
    ];
    locations.dedup();
    locations
}

/// Returns the first document that can be read.
///
/// # Errors
///
/// Returns the reasons why there is none.
async fn first_document(prober: &Prober<'_>, locations: Vec<Url>) -> Result<(Url, Value), String> {
    let mut reasons = Vec::new();
    for location in locations {
        match prober.document(&location).await {
            Ok(document) => return Ok((location, document)),
            Err(why) => reasons.push(format!("cannot read `{location}`: {why}")),
        }
    }
    Err(reasons.join("; "))
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Returns whether a URL is not protected by TLS, and reports it.
pub(super) fn insecure(findings: &mut Findings, subject: &Subject, what: &str, url: &Url) -> bool {
    let is_insecure = is_insecure(url);
    if is_insecure {
        findings.add(codes::INSECURE_URL, subject, format!("{what} has the URL `{url}`, expected `https`"));
    }
    is_insecure
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use url::Url;

    use super::{Findings, Prober};

    /// The other scheme may be all that differs between the link and the server.
    #[tokio::test]
    async fn a_link_from_https_to_http_is_not_followed() {
        let url = Url::parse("https://mcp.invalid/mcp").unwrap();
        let prober = Prober::new(&url, &[], Duration::from_secs(1)).unwrap();
        let mut findings = Findings::default();
        super::check(&mut findings, &prober, &url, Some("http://mcp.invalid/metadata")).await;
        let found: Vec<&str> = findings.0.iter().map(|finding| finding.code.name).collect();
        assert_eq!(found, ["insecure-url"]);
    }

    #[test]
    fn resources_are_compared_with_urls() {
        for (url, resource, expected) in [
            ("https://a.example/mcp", "https://a.example/mcp", None),
            ("https://a.example/mcp", "https://A.example:443/mcp/", None),
            ("https://a.example/", "https://a.example", None),
            ("https://a.example/mcp?tenant=1", "https://a.example/mcp?tenant=1", None),
            ("https://a.example/mcp", "https://a.example", Some("broad-resource")),
            ("https://a.example/a/mcp", "https://a.example/a", Some("broad-resource")),
            ("https://a.example/mcp?tenant=1", "https://a.example/mcp?tenant=2", Some("wrong-resource")),
            ("https://a.example/mcp2", "https://a.example/mcp", Some("wrong-resource")),
            ("https://a.example/mcp", "https://a.example/mcp#a", Some("wrong-resource")),
            ("https://a.example/mcp", "http://a.example/mcp", Some("wrong-resource")),
            ("https://a.example/mcp", "https://b.example/mcp", Some("wrong-resource")),
            ("https://a.example/mcp", "notes", Some("wrong-resource")),
        ] {
            let found = super::compare(&Url::parse(url).unwrap(), resource).map(|(code, _)| code.name);
            assert_eq!(found, expected, "{url} {resource}");
        }
    }

    #[test]
    fn the_metadata_of_issuers_is_searched_in_order() {
        for (issuer, expected) in [
            (
                "https://a.example",
                &["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"][..],
            ),
            (
                "https://a.example/b",
                &[
                    "/.well-known/oauth-authorization-server/b",
                    "/.well-known/openid-configuration/b",
                    "/b/.well-known/openid-configuration",
                ],
            ),
        ] {
            let locations = super::issuer_locations(&Url::parse(issuer).unwrap());
            assert_eq!(locations.iter().map(Url::path).collect::<Vec<_>>(), expected, "{issuer}");
        }
    }
}

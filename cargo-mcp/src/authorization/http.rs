use std::sync::Arc;

use http::Response;
use reqwest::Client;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use url::{Host, Url};

use super::store::TokenStore;
use crate::http_client::{http_client, read_body};

/// The maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 256 << 10;

/// Sends the requests of a login, whose addresses the server chooses, only where they cannot be read in transit.
/// Redirects are followed only within an origin.
struct OAuthClient {
    client: Client,
    /// Whether the server is on this machine. The addresses of the login may be on this machine only if the server is.
    is_local: bool,
}

/// Returns rmcp's flow for a server.
pub(super) async fn manager(url: &str, store: TokenStore) -> Result<AuthorizationManager, AuthError> {
    let client = OAuthClient { client: http_client()?, is_local: Url::parse(url).is_ok_and(|url| is_local(&url)) };
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url, Arc::new(client)).await?;
    manager.set_credential_store(store);
    Ok(manager)
}

impl OAuthClient {
    /// Returns whether a request may be sent to a URL.
    fn permits(&self, url: &Url) -> bool {
        url.scheme() == "https" || (self.is_local && is_secure(url))
    }
}

impl OAuthHttpClient for OAuthClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut sent = reqwest::Request::try_from(request.request)?;
            let url = sent.url();
            if !self.permits(url) {
                return Err(format!("the URL is `{url}`, expected an `https` URL").into());
            }
            *sent.timeout_mut() = request.timeout;
            let received = self.client.execute(sent).await?;
            let mut response = Response::builder().status(received.status());
            for (name, value) in received.headers() {
                response = response.header(name, value);
            }
            let body = read_body(received, MAX_RESPONSE_BYTES).await?;
            let body = body.ok_or_else(|| format!("the response exceeds {MAX_RESPONSE_BYTES} bytes"))?;
            response.body(body).map_err(OAuthHttpClientError::from)
        })
    }
}

/// Returns whether a URL uses `https`, or `http` on this machine.
pub(super) fn is_secure(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_local(url))
}

/// Returns whether a URL is on this machine.
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{OAuthClient, http_client, is_local, is_secure};

    #[test]
    fn only_this_machine_needs_no_encryption() {
        for (url, expected) in [
            ("http://localhost:8080/mcp", true),
            ("http://LOCALHOST/mcp", true),
            ("http://127.8.9.1/mcp", true),
            ("http://[::1]/mcp", true),
            ("http://evillocalhost/mcp", false),
            ("http://localhost.example.com/mcp", false),
            ("http://127.0.0.1.example.com/mcp", false),
            ("http://192.168.0.1/mcp", false),
            ("http://[::2]/mcp", false),
            ("file:///etc/passwd", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!((is_local(&url), is_secure(&url)), (expected, expected), "{url}");
        }
        assert!(is_secure(&Url::parse("https://example.com/mcp").unwrap()));
        assert!(!is_secure(&Url::parse("ftp://localhost/mcp").unwrap()));
    }

    /// A server could otherwise reach what only this machine can reach.
    #[test]
    fn a_remote_server_cannot_name_addresses_on_this_machine() {
        for (is_local, url, expected) in [
            (true, "http://127.0.0.1:1/token", true),
            (true, "http://id.example.com/token", false),
            (true, "https://id.example.com/token", true),
            (false, "http://127.0.0.1:1/token", false),
            (false, "http://localhost:1/token", false),
            (false, "https://id.example.com/token", true),
        ] {
            let client = OAuthClient { client: http_client().unwrap(), is_local };
            assert_eq!(client.permits(&Url::parse(url).unwrap()), expected, "{is_local} {url}");
        }
    }
}

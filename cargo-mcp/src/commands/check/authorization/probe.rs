//! The requests of the authorization check.

use std::time::Duration;

use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
    redirect::Policy,
};
use serde_json::{Value, json};
use url::Url;

use crate::{
    authorization::is_local, client::identity, failure::Failure, http_client::read_body, raw_connection::root_cause,
};

/// The maximum size of a metadata document in bytes.
const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// A client that does not follow redirects.
pub(super) struct Prober<'a> {
    client: reqwest::Client,
    /// The URL of the server.
    url: &'a Url,
    /// The headers of the user, except for `Authorization`.
    headers: Vec<&'a (String, String)>,
}

impl<'a> Prober<'a> {
    /// Creates a client whose requests take at most `timeout`.
    ///
    /// # Errors
    ///
    /// Fails if the client cannot be created.
    pub(super) fn new(url: &'a Url, headers: &'a [(String, String)], timeout: Duration) -> Result<Self, Failure> {
        // The only provider that is compiled in. Installing it again fails, which is harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(timeout).build();
        let client =
            client.map_err(|error| Failure::connection(format_args!("cannot create an HTTP client: {error}")))?;
        let headers = headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("authorization")).collect();
        Ok(Self { client, url, headers })
    }

    /// Sends an `initialize` request with or without a token.
    pub(super) async fn post(&self, token: Option<&str>) -> Result<Response, String> {
        self.initialize(self.url.clone(), token).await
    }

    /// Sends an `initialize` request with a token in the query.
    pub(super) async fn post_with_query(&self, token: &str) -> Result<Response, String> {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("access_token", token);
        self.initialize(url, None).await
    }

    async fn initialize(&self, url: Url, token: Option<&str>) -> Result<Response, String> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": identity(),
        }});
        let mut request = self.client.post(url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.to_string());
        request.send().await.map_err(|error| root_cause(&error))
    }

    /// Fetches a JSON object.
    ///
    /// # Errors
    ///
    /// Returns the reason why there is none.
    pub(super) async fn document(&self, url: &Url) -> Result<Value, String> {
        let request = self.client.get(url.clone()).header(ACCEPT, "application/json");
        let response = request.send().await.map_err(|error| root_cause(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("HTTP {}", response.status()));
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("none");
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/json") {
            return Err(format!("the content type is `{media_type}`, expected `application/json`"));
        }
        let text = read_body(response, MAX_DOCUMENT_BYTES).await.map_err(|error| root_cause(&error))?;
        let text = text.ok_or_else(|| format!("the document exceeds {MAX_DOCUMENT_BYTES} bytes"))?;
        match serde_json::from_slice::<Value>(&text) {
            Ok(document) if document.is_object() => Ok(document),
            Ok(_) => Err("the document is not an object".to_owned()),
            Err(error) => Err(format!("the document is not JSON: {error}")),
        }
    }
}

/// Returns whether an attacker on the network can read and change what is sent to a URL.
pub(super) fn is_insecure(url: &Url) -> bool {
    let is_loopback = is_local(url) || url.domain().is_some_and(|name| name.ends_with(".localhost"));
    url.scheme() != "https" && !is_loopback
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::is_insecure;

    #[test]
    fn only_this_machine_needs_no_encryption() {
        for (url, expected) in [
            ("https://example.com/mcp", false),
            ("http://localhost/mcp", false),
            ("http://notes.localhost/mcp", false),
            ("http://[::1]/mcp", false),
            ("http://evillocalhost/mcp", true),
            ("http://localhost.example.com/mcp", true),
            ("http://192.168.0.1/mcp", true),
        ] {
            assert_eq!(is_insecure(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}

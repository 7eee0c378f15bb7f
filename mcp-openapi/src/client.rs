//! Requests to the service, bounded in size, and their responses as results.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use mcp_runtime::{Content, Context, Image, Resource, ToolResult, model::Audio};
use rustls::{ClientConfig, crypto::ring::default_provider};
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde_json::{Map, Value};

use crate::{
    Authenticate, RESPONSE_LIMIT, Shape,
    operation::Operation,
    page::next_page,
    request::{Secret, build},
};

/// The maximum time until a TCP connection is established. The time-out of the call limits the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of unused connections to a host.
const MAX_IDLE: usize = 8;
/// The time for which an unused connection is kept. Node.js, uvicorn and Apache close theirs after 5 s, and a call that is
/// sent at that moment fails.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;
/// The maximum number of characters of the body of an error, or of a header, and of bytes of the arguments for the next page, in a result.
const MAX_ERROR: usize = 4096;

/// The maximum length of a media type. A longer one counts as unknown.
const MAX_MEDIA: usize = 255;

/// A service, and how it is called.
pub struct Client {
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub(crate) headers: HeaderMap,
    pub(crate) authenticate: Option<Authenticate>,
    pub(crate) shape: Option<Shape>,
    pub(crate) response_limit: usize,
}

impl Client {
    /// # Errors
    ///
    /// Returns why TLS is not available.
    pub(crate) fn new() -> Result<Self, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_platform_verifier()?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let tls = builder.with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        let mut builder = HttpClient::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(MAX_IDLE).pool_idle_timeout(IDLE_TIMEOUT);
        let http = builder.build(connector);
        Ok(Self { http, headers: HeaderMap::new(), authenticate: None, shape: None, response_limit: 0 })
    }

    /// Creates a client that sends these headers with each request.
    ///
    /// # Errors
    ///
    /// Returns why TLS is not available.
    pub fn with_headers(headers: HeaderMap) -> Result<Self, rustls::Error> {
        Ok(Self { headers, response_limit: RESPONSE_LIMIT, ..Self::new()? })
    }

    /// Calls an operation. Every failure is an error that the model reads.
    pub async fn call(
        &self,
        operation: &Operation,
        base: &str,
        arguments: &Map<String, Value>,
        ctx: &Context,
    ) -> ToolResult {
        match self.try_call(operation, base, arguments, ctx).await {
            Ok(result) => result,
            Err(error) => ToolResult::error(error),
        }
    }

    async fn try_call(
        &self,
        operation: &Operation,
        base: &str,
        arguments: &Map<String, Value>,
        ctx: &Context,
    ) -> Result<ToolResult, String> {
        let secrets = self.secrets(operation, ctx).await?;
        let mut request = build(&operation.0, base, &self.headers, secrets, arguments)?;
        let trace = ctx.trace_context();
        for name in ["traceparent", "tracestate"] {
            if let Some(value) = trace.get(name).and_then(|value| value.parse().ok()) {
                request.headers_mut().insert(name, value);
            }
        }
        for _ in 0..=MAX_REDIRECTS {
            let next = (request.method().clone(), request.uri().clone(), request.headers().clone());
            let response = self.http.request(request).await;
            let response = response.map_err(|error| format!("the service cannot be reached: {}", causes(&error)))?;
            let (method, from, headers) = next;
            let location =
                response.status().is_redirection().then(|| response.headers().get(header::LOCATION)).flatten();
            let Some(location) = location else { return self.result(operation, response).await };
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            let is_safe = method == Method::GET || method == Method::HEAD;
            let Some(uri) = same_origin(&from, &location).filter(|_| is_safe) else {
                // Without the query and the fragment, which may contain a credential.
                let target = beginning(location.split(['?', '#']).next().unwrap_or_default());
                return Err(format!("{}: redirects to {target}, which is not followed", response.status()));
            };
            request = Request::new(Full::default());
            *request.method_mut() = method;
            *request.uri_mut() = uri;
            *request.headers_mut() = headers;
        }
        Err(format!("more than {MAX_REDIRECTS} redirects"))
    }

    /// Returns the credentials of the first alternative for which there are all.
    async fn secrets<'a>(&self, operation: &'a Operation, ctx: &Context) -> Result<Vec<Secret<'a>>, String> {
        let Some(authenticate) = &self.authenticate else { return Ok(Vec::new()) };
        let mut missing = None;
        'alternatives: for alternative in &operation.0.security {
            let mut secrets = Vec::new();
            for credential in alternative {
                let Some(secret) = authenticate(&credential.scheme, ctx.clone()).await else {
                    missing.get_or_insert(&credential.scheme);
                    continue 'alternatives;
                };
                let secret = if credential.prefix == "Basic " { BASE64_STANDARD.encode(secret) } else { secret };
                let value = format!("{}{secret}", credential.prefix);
                secrets.push(Secret { place: credential.place, name: &credential.name, value });
            }
            return Ok(secrets);
        }
        match missing {
            Some(scheme) => Err(format!("there are no credentials for `{scheme}`")),
            None => Ok(Vec::new()),
        }
    }

    async fn result<B>(&self, operation: &Operation, response: Response<B>) -> Result<ToolResult, String>
    where
        B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, self.response_limit).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => format!("{}: the response is larger than {} bytes", head.status, self.response_limit),
            None => format!("the response is incomplete: {}", causes(&*error)),
        });
        if !head.status.is_success() {
            return Err(error(head.status, &head.headers, &body.unwrap_or_default().to_bytes()));
        }
        let body = body?.to_bytes();
        let media = head.headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let media = if media.len() > MAX_MEDIA { String::new() } else { media };
        let is_json = media == "application/json" || media.ends_with("+json");
        // Some services do not declare their JSON.
        let value =
            (is_json || operation.0.output.is_some()).then(|| serde_json::from_slice::<Value>(&body).ok()).flatten();
        let next = next_page(&operation.0, &head.headers, value.as_ref());
        let mut result = match value {
            Some(value) => {
                let value = match &self.shape {
                    Some(shape) => shape(operation, value),
                    None if operation.0.output.is_some() => without_null(value),
                    None => value,
                };
                ToolResult::new([value.to_string()]).with_structured(value)
            }
            None if body.is_empty() => ToolResult::new([head.status.to_string()]),
            None => ToolResult::new([content(&media, &operation.0.name, body)]),
        };
        // A tool with a schema for its results must have one.
        if operation.0.output.is_some() && !result.structured.as_ref().is_some_and(Value::is_object) {
            result = result.with_structured(Map::new());
        }
        if !next.is_empty() {
            let next = Value::Object(next).to_string();
            // A part of a cursor is of no use.
            result.content.extend(
                (next.len() <= MAX_ERROR).then(|| Content::text(format!("The next page has the arguments {next}"))),
            );
        }
        Ok(result)
    }
}

/// Returns a body that is not JSON.
fn content(media: &str, tool: &str, body: Bytes) -> Content {
    match std::str::from_utf8(&body) {
        Ok(text)
            if media.is_empty() || media.starts_with("text/") || media.ends_with("json") || media.ends_with("xml") =>
        {
            Content::text(text)
        }
        _ if media.starts_with("image/") => Image::new(body, media.to_owned()).into(),
        _ if media.starts_with("audio/") => Audio::new(body, media.to_owned()).into(),
        _ => {
            let media = if media.is_empty() { "application/octet-stream" } else { media };
            // The URL of the service may be internal.
            Resource::blob(format!("tool:{tool}"), body).with_mime_type(media.to_owned()).into()
        }
    }
}

fn host(uri: &Uri) -> &str {
    uri.authority().map(|authority| authority.as_str()).unwrap_or_default()
}

fn error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let body = beginning(body.trim());
    let mut text = status.to_string();
    if let Some(after) = headers.get(header::RETRY_AFTER).and_then(|after| after.to_str().ok()) {
        text.push_str(&format!(", retry after {}", beginning(after)));
    }
    if !body.is_empty() {
        text.push_str(": ");
    }
    text + &body
}

/// Returns the beginning of a text of the service.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the target of a redirect, if it has the same scheme, host and port.
fn same_origin(from: &Uri, location: &str) -> Option<Uri> {
    let origin = format!("{}://{}", from.scheme_str()?, host(from));
    let path = location.strip_prefix(&origin).unwrap_or(location);
    if !path.starts_with('/') || path.starts_with("//") {
        return None;
    }
    let path = path.split('#').next()?;
    format!("{origin}{path}").parse().ok()
}

/// Removes members that are `null`, since services send it for members that are only optional in their description.
fn without_null(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_null(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_null).collect(),
        other => other,
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn connections_that_the_service_may_close_at_any_moment_are_not_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, address) = (Client::new().unwrap(), listener.local_addr().unwrap());
        let url: Uri = format!("http://{address}/").parse().unwrap();
        let serve = async {
            let mut streams = Vec::new();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                streams.push(stream);
            }
            std::future::pending().await
        };
        let call = async {
            client.http.get(url.clone()).await.unwrap();
            // The connection returns to the pool after the response.
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(5)).await;
            tokio::time::resume();
            let second = tokio::time::timeout(Duration::from_secs(10), client.http.get(url)).await;
            second.expect("a new connection").unwrap();
        };
        tokio::select! {
            () = call => {}
            () = serve => {}
        }
    }

    #[test]
    fn redirects_stay_at_their_origin() {
        let from: Uri = "http://a.test:81/b?c=d".parse().unwrap();
        for (location, expected) in [
            ("/x?y=1#z", Some("http://a.test:81/x?y=1")),
            ("http://a.test:81/x", Some("http://a.test:81/x")),
            ("https://a.test:81/x", None),
            ("http://a.test/x", None),
            ("http://a.test:81@evil.test/", None),
            ("http://a.test:810/", None),
            ("http://a.test:81.evil.test/", None),
            ("//evil.test/", None),
            ("/\\evil.test/", Some("http://a.test:81/\\evil.test/")),
            ("http://a.test:81//evil.test/", None),
            ("/x?to=http://b.test/", Some("http://a.test:81/x?to=http://b.test/")),
            ("x", None),
            ("", None),
        ] {
            let found = same_origin(&from, location).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected, "{location}");
        }
    }

    #[test]
    fn the_media_type_of_a_body_decides_what_it_is() {
        for (media, body, expected) in [
            ("", &b"a"[..], "text"),
            ("", b"\xff", "application/octet-stream"),
            ("text/css", b"a", "text"),
            ("text/css", b"\xff", "text/css"),
            ("application/xml", b"a", "text"),
            ("application/xml", b"\xff", "application/xml"),
            ("image/svg", b"a", "image image/svg"),
            ("audio/wav", b"a", "audio audio/wav"),
            ("x-text/a", b"a", "x-text/a"),
            ("x-image/a", b"a", "x-image/a"),
            ("x-audio/a", b"a", "x-audio/a"),
        ] {
            let found = match content(media, "tool", Bytes::from_static(body)) {
                Content::Text(_) => "text".to_owned(),
                Content::Image(image) => format!("image {}", image.mime_type),
                Content::Audio(audio) => format!("audio {}", audio.mime_type),
                Content::Resource(resource) => resource.mime_type.unwrap_or_default().into_owned(),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{media} {body:?}");
        }
    }
}

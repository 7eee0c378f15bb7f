//! HTTP requests from clients.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts},
    response::IntoResponse,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

use super::{
    super::{
        message::{Generation, Message, MessageKind, RequestId, batch_elements},
        session::LISTEN,
    },
    HttpProxy, SharedSession, get_stream,
    listen::listen,
    lock,
    relay::{NewSession, ResponseFilter, relay},
    respond::{SESSION_ID, fail_requests, header_value, reject, session_rejected},
    session::{JoinError, join},
};

/// The maximum size of a request body in bytes.
const MAX_BODY_BYTES: usize = 64 << 20;
/// The time that a server has to accept a message that needs no response.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The response to a request; an error if the proxy itself has responded.
type Reply = Result<Response<Body>, Response<Body>>;

/// Handles a request.
pub(super) async fn handle(State(proxy): State<Arc<HttpProxy>>, request: Request) -> Reply {
    let (mut parts, body) = request.into_parts();
    prepare_headers(&mut parts).map_err(|why| reject(StatusCode::BAD_REQUEST, why))?;
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let incomplete = |_| reject(StatusCode::PAYLOAD_TOO_LARGE, "the request body is too large or incomplete");
    let body = body.map_err(incomplete)?.to_bytes();
    let session = parts.headers.get(&SESSION_ID).and_then(|id| proxy.session(id.to_str().ok()?));
    match (&parts.method, session) {
        (&Method::POST, Some(session)) => post_in_session(&proxy, &session, &parts, &body).await,
        (&Method::POST, None) => post(&proxy, &parts, body).await,
        (&Method::GET, Some(session)) => Ok(get_stream::open(&proxy, &session, parts).await),
        (&Method::DELETE, Some(session)) => Ok(delete(&proxy, &session, &parts).await),
        _ => forward(&proxy, &parts, body).await,
    }
}

/// Forwards a body without a session.
async fn post(proxy: &Arc<HttpProxy>, parts: &Parts, body: Bytes) -> Reply {
    let text = String::from_utf8_lossy(&body).into_owned();
    let message = Message::parse(&text);
    let method = message.as_ref().and_then(|message| message.method.clone()).unwrap_or_default();
    if let Some((message, id)) = message.as_ref().and_then(|message| Some((message, message.id?)))
        && method == LISTEN
    {
        return Ok(listen(proxy, parts, body.clone(), id.get(), message).await);
    }
    let ids = request_ids(&text);
    let fail = |why: String| fail_requests(&ids, &text, &why);
    let mut request = proxy.backends.begin().await.map_err(fail)?;
    let response = request.send(parts, body.clone()).await.map_err(fail)?;
    let mut filter = ResponseFilter::new(Arc::clone(proxy), request.backend.generation, None, ids);
    filter.has_capabilities = matches!(&*method, "initialize" | "server/discover");
    if method == "initialize" {
        let id = response.headers().get(&SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        filter.new_session = id.map(|id| NewSession { id, parts: parts.clone(), body });
    }
    Ok(relay(response, filter, request).await)
}

/// Forwards a body of a session to the server that expects it.
async fn post_in_session(proxy: &Arc<HttpProxy>, session: &Arc<SharedSession>, parts: &Parts, body: &Bytes) -> Reply {
    let text = String::from_utf8_lossy(body);
    let Some(routed) = lock(&session.state).route(&text) else { return Ok(StatusCode::ACCEPTED.into_response()) };
    if let Some(server) = routed.server.filter(|server| !proxy.backends.is_current(*server)) {
        notify(proxy, server, session, parts, routed.body).await;
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let ids = routed.requests;
    let fail = |why: String| fail_requests(&ids, &text, &why);
    let mut request = proxy.backends.begin().await.map_err(fail)?;
    let id = match join(proxy, session, &request.backend).await {
        Ok(id) => id,
        Err(JoinError::Rejected) => return Err(session_rejected()),
        Err(JoinError::Unavailable) => return Err(fail(request.failure_reason("it did not open the session").await)),
    };
    let server = request.backend.generation;
    lock(&session.state).start_calls(server, &routed.body);
    let mut parts = parts.clone();
    parts.headers.insert(SESSION_ID, header_value(&id));
    let response = request.send(&parts, routed.body.into()).await.map_err(|why| {
        lock(&session.state).take_unanswered(Some(&ids), |_| true);
        fail(why)
    })?;
    if response.status() == StatusCode::NOT_FOUND {
        proxy.remove_session(&session.id);
    }
    let filter = ResponseFilter::new(Arc::clone(proxy), server, Some(Arc::clone(session)), ids);
    Ok(relay(response, filter, request).await)
}

/// Forwards a body without requests to a server that was replaced, if it is still running.
async fn notify(proxy: &HttpProxy, server: Generation, session: &SharedSession, parts: &Parts, body: String) {
    let id = lock(&session.state).server_id(server);
    let Some((backend, id)) = proxy.backends.running(server).zip(id) else { return };
    let mut parts = parts.clone();
    parts.headers.insert(SESSION_ID, header_value(&id));
    let _ = timeout(NOTIFY_TIMEOUT, backend.send(&parts, body.into())).await;
}

/// Ends a session on all servers.
async fn delete(proxy: &HttpProxy, session: &SharedSession, parts: &Parts) -> Response<Body> {
    proxy.remove_session(&session.id);
    let ids = lock(&session.state).server_ids.clone();
    for (server, id) in ids {
        let Some(backend) = proxy.backends.running(server) else { continue };
        let mut parts = parts.clone();
        parts.headers.insert(SESSION_ID, header_value(&id));
        let _ = timeout(NOTIFY_TIMEOUT, backend.send(&parts, Bytes::new())).await;
    }
    StatusCode::NO_CONTENT.into_response()
}

/// Forwards a request unchanged.
async fn forward(proxy: &Arc<HttpProxy>, parts: &Parts, body: Bytes) -> Reply {
    let request = proxy.backends.begin().await;
    let mut request = request.map_err(|error| reject(StatusCode::SERVICE_UNAVAILABLE, &error))?;
    let response = request.send(parts, body).await.map_err(|error| reject(StatusCode::BAD_GATEWAY, &error))?;
    let filter = ResponseFilter::new(Arc::clone(proxy), request.backend.generation, None, Vec::new());
    Ok(relay(response, filter, request).await)
}

/// Makes sure that there is exactly one `Host` header for the server to check, and removes the headers that concern
/// only the connection to the client.
fn prepare_headers(parts: &mut Parts) -> Result<(), &'static str> {
    if let Some(authority) = parts.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| "invalid host in the request URI")?;
        parts.headers.insert(header::HOST, host);
    }
    if parts.headers.get_all(header::HOST).iter().count() != 1 {
        return Err("expected exactly one `Host` header");
    }
    let named: Vec<HeaderName> = parts
        .headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != header::HOST)
        .collect();
    let hop_by_hop = [
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::CONTENT_LENGTH,
        header::EXPECT,
        header::ACCEPT_ENCODING,
        HeaderName::from_static("keep-alive"),
    ];
    for name in named.iter().chain(&hop_by_hop) {
        parts.headers.remove(name);
    }
    Ok(())
}

/// Returns the valid ids of the requests in a body, as JSON.
fn request_ids(text: &str) -> Vec<String> {
    let elements = batch_elements(text).unwrap_or_else(|| vec![text]);
    let id = |text: &&str| match Message::parse(text)?.kind() {
        MessageKind::Request { id, .. } => RequestId::parse(id).map(|_| id.to_owned()),
        _ => None,
    };
    elements.iter().filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_its_host() {
        let missing = Err("expected exactly one `Host` header");
        for (uri, hosts, expected) in [
            ("/mcp", &["localhost:8080"][..], Ok("localhost:8080")),
            ("/mcp", &["evil.example"], Ok("evil.example")),
            ("http://evil.example/mcp", &["localhost:8080"], Ok("evil.example")),
            ("/mcp", &[], missing),
            ("/mcp", &["localhost", "evil.example"], missing),
        ] {
            let mut request =
                Request::builder().uri(uri).header("connection", "x-secret, host").header("x-secret", "1");
            request = request.header("te", "trailers").header("keep-alive", "timeout=5").header("x-key", "1");
            for host in hosts {
                request = request.header("host", *host);
            }
            let (mut parts, ()) = request.body(()).expect("a request").into_parts();
            let prepared = prepare_headers(&mut parts);
            let host = parts.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
            assert_eq!(prepared.map(|()| host), expected, "{uri} {hosts:?}");
            if expected.is_ok() {
                let mut names: Vec<_> = parts.headers.keys().map(HeaderName::as_str).collect();
                names.sort_unstable();
                assert_eq!(names, ["host", "x-key"], "headers of the connection are removed");
            }
        }
    }

    #[test]
    fn only_requests_with_valid_ids_are_answered() {
        for (body, expected) in [
            (r#"{"id":1,"method":"a"}"#, &["1"][..]),
            (r#"[{"id":"a","method":"a"},{"id":{},"method":"b"},{"method":"c"},{"id":2,"result":{}}]"#, &["\"a\""]),
            ("not JSON", &[]),
        ] {
            assert_eq!(request_ids(body), expected, "{body}");
        }
    }
}

mod restarts;

use axum::{
    body::Body,
    extract::State,
    http::{Request, StatusCode, header},
};
use bytes::Bytes;
use http_body_util::BodyExt;

use super::{
    super::message::{INTERNAL_ERROR, error_response},
    backend::{Backend, BackendRequest},
    *,
};

/// Handles a request, in a session that may be given, while server 2 is the current one. The server answers each
/// request with a status, a content type and no content.
async fn handle(
    session: Option<HttpSession>,
    request: Request<Body>,
    (status, content_type): (StatusCode, &'static str),
) -> (StatusCode, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let server = Backend::new(2, listener.local_addr().expect("an address").to_string());
    let app = Router::new().fallback(move || async move { (status, [(header::CONTENT_TYPE, content_type)]) });
    tokio::spawn(async move { axum::serve(listener, app).await });
    let (backends, mut requests) = Backends::new();
    backends.current.send_replace(Some(server.clone()));
    let proxy = HttpProxy { backends, sessions: Mutex::default(), reporter: Reporter { quiet: true } };
    if let Some(session) = session {
        proxy.add_session("one".to_owned(), session);
    }
    // In place of the supervisor.
    tokio::spawn(async move {
        let mut failures = Vec::new();
        while let Some(request) = requests.recv().await {
            if let BackendRequest::Begin { started, failed, .. } = request {
                let _ = started.send(server.clone());
                failures.push(failed);
            }
        }
    });
    let (Ok(response) | Err(response)) = routes::handle(State(Arc::new(proxy)), request).await;
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    (head.status, String::from_utf8(body.to_vec()).expect("text"))
}

/// An error response may contain a challenge, or mean that the session is lost.
#[tokio::test]
async fn only_a_success_without_content_becomes_an_error() {
    let missing = error_response("1", INTERNAL_ERROR, "the server sent an empty response");
    for (status, expected) in [
        (StatusCode::OK, &*missing),
        (StatusCode::UNAUTHORIZED, ""),
        (StatusCode::NOT_FOUND, ""),
        (StatusCode::SERVICE_UNAVAILABLE, ""),
    ] {
        let ping = Body::from(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let request = Request::post("/mcp").header("host", "localhost").body(ping).expect("a request");
        let response = handle(None, request, (status, "application/json")).await;
        assert_eq!(response, (status, expected.to_owned()));
    }
}

#[tokio::test]
async fn requests_of_a_server_that_has_exited_fail_when_their_stream_is_resumed() {
    let why = "the server was rebuilt or exited before it responded";
    let lost = format!("event: message\ndata: {}\n\n", error_response("7", INTERNAL_ERROR, why));
    for (last_event, expected) in [("1-5", &*lost), ("", "")] {
        let (initialize, ()) = Request::new(()).into_parts();
        let result = r#"{"id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
        let mut session = HttpSession::open(&initialize, &Bytes::new(), 1, "one", result).expect("a session");
        session.start_calls(1, r#"{"id":7,"method":"tools/call"}"#);
        session.forget(1);
        session.server_ids.insert(2, "two".to_owned());
        let request = Request::get("/mcp").header("host", "localhost").header("mcp-session-id", "one");
        let request = request.header("last-event-id", last_event).body(Body::empty()).expect("a request");
        let response = handle(Some(session), request, (StatusCode::OK, "text/event-stream")).await;
        assert_eq!(response, (StatusCode::OK, expected.to_owned()), "{last_event}");
    }
}

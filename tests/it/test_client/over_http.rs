//! The same methods against an HTTP service.

use mcp_runtime::{
    HttpOptions,
    auth::{AuthenticateFuture, AuthenticationError, Authenticator, credentials},
    http::{HttpBody, HttpService},
    layers::LogCalls,
};
use tower_service::Service;

use super::*;

/// Accepts tokens that consist of a name and scopes, such as `ada+read+write`.
struct NamedTokens;

impl Authenticator for NamedTokens {
    fn authenticate<'a>(&'a self, request: &'a http::request::Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let mut parts = credentials(request, "Bearer")?.split('+');
            let name = parts.next().ok_or_else(|| AuthenticationError::invalid("the token is empty"))?;
            Ok(Identity::new(Principal::new(name)).with_scopes(parts.map(|scope| format!("notes:{scope}"))))
        })
    }
}

fn service(server: Server) -> HttpService {
    server.layer(LogCalls::new()).build().unwrap().into_http_service(HttpOptions::default()).unwrap()
}

#[tokio::test]
async fn every_method_works() {
    for revision in Revision::ALL {
        let server = server();
        let handle = server.handle();
        let client = TestClient::over_http(service(server), "/mcp", revision);
        let has_tasks = mcp_tests::expected(revision).tasks;
        let mut client = client.answering(|_| json!({"action": "accept", "content": {"name": "Ada"}}));

        assert_eq!(client.tools().await.unwrap().len(), 3, "{revision}");
        assert_eq!(client.read("menu://today").await.unwrap()[0]["text"], "soup");
        let prompt = client.prompt("trip", json!({"country": "Austria", "city": "Graz"})).await.unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], "Graz in Austria");
        assert_eq!(client.complete_prompt("trip", "city", "G", &[]).await.unwrap(), ["Genf"]);
        let (result, updates) = client.call_with_progress("report", json!({"words": ["a", "b"]})).await.unwrap();
        assert_eq!((result.text(), updates.len()), ("2".to_owned(), 2), "{revision}");
        client.log_messages();
        client.set_log_level(Level::Error).await.unwrap();
        client.call("report", json!({"words": ["a"]})).await.unwrap();
        assert_eq!(client.log_messages().len(), 1, "{revision}");
        assert_eq!(client.call("missing", ()).await.unwrap_err().code, -32602);
        if mcp_tests::expected(revision).elicitation {
            assert_eq!(client.call("greet", ()).await.unwrap().text(), "Hello, Ada!", "{revision}");
        }
        client.subscribe("menu://today").await.unwrap();
        handle.resource_updated("menu://today");
        assert_eq!(client.updated_resources(), ["menu://today"], "{revision}");
        if has_tasks {
            let task = client.start_task("greet", ()).await.unwrap();
            assert_eq!(task.result(&mut client).await.unwrap().text(), "Hello, Ada!", "{revision}");
        }
        assert_eq!(client.last_response().unwrap().status(), 200);
    }
}

/// The authenticator of the server sees the requests, unlike that of a client in memory.
#[tokio::test]
async fn refusals_have_a_status_and_a_challenge() {
    let server = Server::empty("notes", "1.0.0").with::<clear>().require_scopes("notes:read").authenticate(NamedTokens);
    let service = service(server);
    for revision in Revision::ALL {
        for (token, status, scope) in [
            (None, 401, Some("notes:read")),
            (Some("ada"), 403, Some("notes:read")),
            (Some("ada+read"), 403, Some("notes:write")),
            (Some("ada+read+write"), 200, None),
        ] {
            let mut client = TestClient::over_http(service.clone(), "/mcp", revision);
            if let Some(token) = token {
                client = client.with_header("authorization", &format!("Bearer {token}"));
            }
            let called = client.call("clear", ()).await;
            assert_eq!(called.is_ok(), scope.is_none(), "{revision} {token:?}: {called:?}");
            let response = client.last_response().unwrap();
            assert_eq!(response.status(), status, "{revision} {token:?}: {called:?}");
            let challenge = response.headers().get("www-authenticate").map_or("", |value| value.to_str().unwrap());
            assert!(challenge.contains(scope.unwrap_or_default()), "{revision} {token:?}: {challenge}");
        }
    }
}

/// Return the region.
#[tool(read_only)]
fn region(#[arg(header = "Region")] region: String) -> String {
    region
}

/// In 2026-07-28, headers repeat a part of each message.
#[tokio::test]
async fn headers_repeat_names_and_arguments() {
    let server = Server::empty("test", "1.0.0").with::<region>().with::<city>();
    let mut client = TestClient::over_http(service(server), "/mcp", Revision::V2026_07_28);
    client.read("city://Austria/K%C3%B6ln").await.unwrap();
    client.tools().await.unwrap();
    for region in ["eu", "Z\u{fc}rich", " ", "=?base64?eHg=?="] {
        assert_eq!(client.call("region", json!({"region": region})).await.unwrap().text(), region);
    }
}

/// A service that reserves what a request needs when it becomes ready, such as a permit.
#[derive(Clone)]
struct Reserving {
    inner: HttpService,
    is_reserved: bool,
}

impl Service<http::Request<HttpBody>> for Reserving {
    type Response = <HttpService as Service<http::Request<HttpBody>>>::Response;
    type Error = <HttpService as Service<http::Request<HttpBody>>>::Error;
    type Future = <HttpService as Service<http::Request<HttpBody>>>::Future;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        self.is_reserved = true;
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<HttpBody>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_reserved), "called before it was ready");
        self.inner.call(request)
    }
}

#[tokio::test]
async fn each_request_waits_until_the_service_is_ready() {
    for revision in Revision::ALL {
        let service = Reserving { inner: service(server()), is_reserved: false };
        let mut client = TestClient::over_http(service, "/mcp", revision);
        assert_eq!(client.tools().await.unwrap().len(), 3, "{revision}");
    }
}

/// The server refuses the request before it reads the message, so that its response names no id.
#[tokio::test]
async fn a_refusal_of_the_request_is_the_error_of_its_message() {
    for revision in Revision::ALL {
        let client = TestClient::over_http(service(server()), "/mcp", revision);
        let mut client = client.with_header("content-type", "text/plain");
        let error = client.tools().await.unwrap_err();
        assert!(error.message.contains("`Content-Type`"), "{error}");
        assert_eq!(client.last_response().unwrap().status(), 415, "{revision}");
        assert_eq!(client.in_flight(), 0);
    }
}

/// Calls in flight continue while load balancers notice that the server shuts down.
#[tokio::test(start_paused = true)]
async fn a_mounted_service_is_drained_before_it_shuts_down() {
    let delay = Duration::from_secs(5);
    let built = server().build().unwrap();
    let service = built.into_http_service(HttpOptions::default()).unwrap();
    let mut client = TestClient::over_http(service.clone(), "/mcp", Revision::V2026_07_28);
    assert!(service.is_ready().await);

    let began = tokio::time::Instant::now();
    let draining = tokio::spawn({
        let service = service.clone();
        async move { service.drain(delay).await }
    });
    tokio::task::yield_now().await;
    assert!(!service.is_ready().await);
    assert_eq!(client.call("report", json!({"words": []})).await.unwrap().text(), "0");
    draining.await.unwrap();
    assert_eq!(began.elapsed(), delay);
    assert_eq!(client.call("report", json!({"words": []})).await.unwrap().text(), "0");

    service.graceful_shutdown(Duration::ZERO).await;
    assert!(!service.is_ready().await);
}

/// The calls have the whole grace period.
#[tokio::test(start_paused = true)]
async fn a_mounted_service_ends_subscriptions_before_calls() {
    let grace = Duration::from_secs(5);
    let server = server();
    let _handle = server.handle();
    let service = service(server);
    let [mut subscribed, mut calling] =
        [(); 2].map(|()| TestClient::over_http(service.clone(), "/mcp", Revision::V2026_07_28));
    let listen = subscribed.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let call = calling.send_request("tools/call", json!({"name": "wait", "arguments": {}}));
    for client in [&mut subscribed, &mut calling] {
        tokio::time::timeout(Duration::from_millis(1), client.next_lines()).await.ok();
    }
    let began = tokio::time::Instant::now();
    let shutdown = tokio::spawn(async move { service.graceful_shutdown(grace).await });
    subscribed.response(listen).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(calling.response(call).await.unwrap_err().message, "the server is shutting down");
    assert!(began.elapsed() >= grace);
    shutdown.await.unwrap();
}

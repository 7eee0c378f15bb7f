//! Change notifications over HTTP: subscription requests, and the streams of sessions.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use mcp_runtime::{
    BuiltServer, Context, Handle, HttpOptions, Server, auth::Principal, http::ListenerOptions, resource, tool,
};
use serde_json::{Value, json};
use tower_service::Service;

use super::{
    client::{Endpoint, Options, Response, Session, until},
    request::{Request, call, stateless},
};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A tool that tests add, remove and hide.
#[tool(tags("admin"))]
fn optional() -> &'static str {
    "optional result"
}

/// Return one of many items.
#[resource("test://item/{id}")]
fn item(id: u32) -> String {
    id.to_string()
}

/// Return the principal of the caller.
#[tool]
fn who(ctx: &Context) -> String {
    format!("{:?}", ctx.principal())
}

fn server() -> Server {
    super::server().1.with::<item>()
}

async fn serve_with(options: impl Into<Options>) -> (Handle, BuiltServer, Endpoint) {
    let built = server().build().unwrap();
    (built.handle(), built.clone(), Endpoint::serve(built, options).await)
}

async fn serve() -> (Handle, BuiltServer, Endpoint) {
    serve_with(HttpOptions::default()).await
}

fn listen(filter: &Value) -> Request {
    stateless("subscriptions/listen", &json!({ "notifications": filter }))
}

fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap_or_default()
}

/// Opens a subscription stream, and reads its acknowledgement.
async fn listening(endpoint: &Endpoint, filter: Value) -> Response {
    let mut response = endpoint.open(&listen(&filter)).await;
    assert_eq!((response.status, response.header("x-accel-buffering")), (200, Some("no")));
    let event = response.event().await.unwrap();
    assert_eq!(event.id, None);
    let acknowledged = event.json();
    assert_eq!(method(&acknowledged), "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"], json!({"_meta": {ID: 1}, "notifications": filter}));
    response
}

#[tokio::test]
async fn a_subscription_stream_receives_changes() {
    let (handle, _, endpoint) = serve().await;
    let mut tools = listening(&endpoint, json!({"toolsListChanged": true})).await;
    let mut items = listening(&endpoint, json!({"resourceSubscriptions": ["test://item/1", "test://item/2"]})).await;
    for round in 0..3 {
        handle.add::<optional>().unwrap();
        handle.resource_updated("test://item/3");
        handle.resource_updated("test://item/2");
        let notification = tools.message().await.unwrap();
        assert_eq!(
            (method(&notification), &notification["params"]),
            ("notifications/tools/list_changed", &json!({"_meta": {ID: 1}}))
        );
        let notification = items.message().await.unwrap();
        assert_eq!(method(&notification), "notifications/resources/updated", "{round}");
        assert_eq!(notification["params"], json!({"_meta": {ID: 1}, "uri": "test://item/2"}));
        handle.remove::<optional>();
        assert_eq!(method(&tools.message().await.unwrap()), "notifications/tools/list_changed");
    }
}

#[tokio::test]
async fn an_idle_stream_is_kept_alive() {
    let (handle, _, endpoint) = serve_with(HttpOptions::default().keep_alive(Duration::from_millis(10))).await;
    let mut response = listening(&endpoint, json!({"toolsListChanged": true})).await;
    for _ in 0..3 {
        assert!(response.event().await.unwrap().is_comment);
    }
    handle.add::<optional>().unwrap();
    assert_eq!(method(&response.message().await.unwrap()), "notifications/tools/list_changed");
}

/// Subscription requests do not use up the limit of calls in flight.
#[tokio::test]
async fn subscription_requests_do_not_count_as_calls() {
    let (_handle, built, endpoint) = serve_with(HttpOptions::default().max_in_flight(1)).await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(listening(&endpoint, json!({"toolsListChanged": true})).await);
    }
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
    assert!(format!("{built:?}").contains("listeners: 10,"), "{built:?}");
    // Disconnected subscribers are removed.
    drop(streams);
    until(|| format!("{built:?}").contains("listeners: 0,")).await;
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let (_handle, _, endpoint) = serve().await;
    for filter in [json!(null), json!([]), json!({"toolsListChanged": 1}), json!({"resourceSubscriptions": [1]})] {
        assert_eq!(endpoint.send(&listen(&filter)).await.outcome(), (200, -32602), "{filter}");
    }
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(endpoint.send(&stateless(method, &json!({}))).await.outcome(), (404, -32601));
    }
    let (_, plain) = super::serve().await;
    assert_eq!(plain.send(&listen(&json!({}))).await.outcome(), (404, -32601));
}

/// At shutdown, pending notifications are sent first, then the response, even while calls are in flight.
#[tokio::test]
async fn a_subscription_ends_with_its_response() {
    let (gate, server) = super::server();
    let handle = server.handle();
    let mut endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let mut response = listening(&endpoint, json!({"toolsListChanged": true})).await;
    let connection = endpoint.connect().await;
    let in_flight = tokio::spawn(async move { connection.send(&call("waits")).await.0 });
    gate.has_begun(1).await;
    handle.add::<optional>().unwrap();
    endpoint.stop();
    let messages = response.messages().await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(method(&messages[0]), "notifications/tools/list_changed");
    assert_eq!((messages[1]["id"].as_u64(), &messages[1]["result"]["resultType"]), (Some(1), &json!("complete")));
    assert_eq!(messages[1]["result"]["_meta"][ID], 1);
    assert_eq!(messages[1]["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "http");
    gate.open();
    assert_eq!(in_flight.await.unwrap().text(), "waited");
    endpoint.stopped().await;
}

/// Closing a mounted service also answers its subscription requests.
#[tokio::test]
async fn closing_a_service_ends_its_subscriptions() {
    let built = server().build().unwrap();
    let _handle = built.handle();
    let mut service = built.into_http_service(HttpOptions::default()).unwrap();
    let request = listen(&json!({"toolsListChanged": true})).into_http(|_| {});
    let mut body = service.call(request).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\""));
    service.close();
    let rest = body.collect().await.unwrap().to_bytes();
    let rest = std::str::from_utf8(&rest).unwrap();
    assert!(rest.starts_with("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":"), "{rest}");
    assert_eq!(rest.matches("data: ").count(), 1, "{rest}");
}

async fn subscribe(session: &Session<'_>, uri: &str) -> (u16, i64) {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}});
    session.endpoint.send(&session.post(&message)).await.outcome()
}

async fn send_initialized(session: &Session<'_>) {
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(session.endpoint.send(&session.post(&initialized)).await.status, 202);
}

/// Changes are coalesced until the client opens a stream.
#[tokio::test]
async fn a_session_is_notified_on_its_general_stream() {
    let (handle, _, endpoint) = serve().await;
    for version in VERSIONS {
        let session = endpoint.session(version).await;
        send_initialized(&session).await;
        assert_eq!(subscribe(&session, "test://item/1").await, (200, 0));
        assert_eq!(subscribe(&session, "test://never").await, (200, -32002));
        for _ in 0..2 {
            handle.resource_updated("test://item/1");
            handle.add::<optional>().unwrap();
            handle.remove::<optional>();
        }
        // The response to another request does not carry them.
        assert_eq!(endpoint.send(&session.call(2, "quick")).await.text(), "quick");
        let mut stream = endpoint.open(&session.get()).await;
        let mut first = stream.event().await.unwrap();
        if version == "2025-11-25" {
            // The client can resume the stream from its start.
            assert_eq!((first.id.as_deref(), &*first.data), (Some("0-0"), ""));
            first = stream.event().await.unwrap();
        }
        assert_eq!(
            first.json(),
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "test://item/1"}})
        );
        let second = stream.event().await.unwrap();
        assert_eq!(second.json(), json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        handle.resource_updated("test://item/1");
        assert_eq!(method(&stream.message().await.unwrap()), "notifications/resources/updated");
        // A resumed stream repeats the events after the given one.
        let mut again = endpoint.open(&session.resume(&first.id.unwrap())).await;
        assert_eq!(method(&again.message().await.unwrap()), "notifications/tools/list_changed");
        assert_eq!(method(&again.message().await.unwrap()), "notifications/resources/updated");
        // A new response replaces it, and continues where it ended.
        let mut fresh = endpoint.open(&session.get()).await;
        handle.add::<optional>().unwrap();
        assert_eq!(method(&fresh.message().await.unwrap()), "notifications/tools/list_changed");
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        for mut stream in [stream, again, fresh] {
            assert_eq!(stream.messages().await, Vec::<Value>::new());
        }
        handle.remove::<optional>();
    }
}

/// A client that disconnects in the middle of a hundred notifications receives the rest when it reconnects.
#[tokio::test]
async fn no_notification_is_lost_between_two_streams() {
    let (handle, _, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    send_initialized(&session).await;
    let uris: Vec<_> = (0..100).map(|id| format!("test://item/{id}")).collect();
    for uri in &uris {
        assert_eq!(subscribe(&session, uri).await, (200, 0));
    }
    uris.iter().for_each(|uri| handle.resource_updated(uri));
    let mut seen = Vec::new();
    let mut stream = endpoint.open(&session.get()).await;
    let mut last = stream.event().await.unwrap().id;
    for _ in 0..10 {
        let event = stream.event().await.unwrap();
        seen.push(event.json()["params"]["uri"].as_str().unwrap().to_owned());
        last = event.id;
    }
    drop(stream);
    let mut stream = endpoint.open(&session.resume(&last.unwrap())).await;
    while seen.len() < 100 {
        seen.push(stream.message().await.unwrap()["params"]["uri"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, uris);
}

/// In the transport of 2024-11-05, one stream carries all messages.
#[tokio::test]
async fn a_legacy_client_is_notified_on_its_stream() {
    let (handle, _, endpoint) = serve_with(ListenerOptions::default().legacy_sse(true)).await;
    let get = Request::new("GET").path("/sse").with("accept", "text/event-stream");
    let mut stream = endpoint.open(&get).await;
    let path = stream.event().await.unwrap().data;
    let send = async |message: Value| assert_eq!(endpoint.send(&Request::post(&message).path(&path)).await.status, 202);
    let params =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
    let opened = stream.message().await.unwrap();
    assert_eq!(opened["result"]["capabilities"]["resources"], json!({"subscribe": true, "listChanged": true}));
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "test://item/1"}})).await;
    assert_eq!(stream.message().await.unwrap()["result"], json!({}));
    handle.resource_updated("test://item/1");
    assert_eq!(method(&stream.message().await.unwrap()), "notifications/resources/updated");
    handle.add::<optional>().unwrap();
    assert_eq!(method(&stream.message().await.unwrap()), "notifications/tools/list_changed");
}

/// `visible_to` can read the headers of the request.
#[tokio::test]
async fn visibility_can_depend_on_headers() {
    let server = server().with::<optional>().visible_to(|caller, entry| {
        let role = caller.headers().and_then(|headers| headers.get("x-role")?.to_str().ok());
        !entry.has_tag("admin") || role == Some("admin")
    });
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    assert_eq!(endpoint.send(&call("optional")).await.outcome(), (200, -32602));
    assert_eq!(endpoint.send(&call("optional").with("x-role", "admin")).await.text(), "optional result");
    let list = stateless("tools/list", &json!({}));
    let count = |response: &Value| response["result"]["tools"].as_array().unwrap().len();
    let (some, all) = (endpoint.send(&list).await.json(), endpoint.send(&list.with("x-role", "admin")).await.json());
    assert_eq!(count(&all), count(&some) + 1);
    assert_eq!((&some["result"]["cacheScope"], &all["result"]["cacheScope"]), (&json!("private"), &json!("private")));
}

/// A middleware inserts the principal into the extensions of the request.
#[tokio::test]
async fn a_middleware_sets_the_principal() {
    let server = Server::empty("http", "1.0.0").with::<who>().with::<optional>();
    let server = server.visible_to(|caller, entry| !entry.has_tag("admin") || caller.principal() == Some("ada"));
    let mut service = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    for (principal, name, expected) in [
        (None, "who", "None"),
        (Some("bob"), "who", r#"Some("bob")"#),
        (Some("ada"), "optional", "optional result"),
        (Some("bob"), "optional", ""),
        (None, "optional", ""),
    ] {
        let request = call(name).into_http(|extensions| {
            if let Some(principal) = principal {
                extensions.insert(Principal::new(principal));
            }
        });
        let body = service.call(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let response: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            response["result"]["content"][0]["text"].as_str().unwrap_or_default(),
            expected,
            "{principal:?} {name}"
        );
    }
}

impl Request {
    /// Converts the request into the form in which a framework passes it to a mounted service.
    pub(super) fn into_http(
        self,
        extend: impl FnOnce(&mut http::Extensions),
    ) -> http::Request<BoxBody<Bytes, Infallible>> {
        let (method, path, headers, body) = self.into_parts();
        let is_sized = headers.iter().all(|(name, _)| name != "transfer-encoding");
        let mut request = http::Request::builder().method(method.as_str()).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = Full::from(body);
        // The frames that a function returns may have any length.
        let body = if is_sized { body.boxed() } else { body.map_frame(|frame| frame).boxed() };
        let mut request = request.body(body).unwrap();
        extend(request.extensions_mut());
        request
    }
}

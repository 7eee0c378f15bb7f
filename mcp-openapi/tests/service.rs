//! Requests and responses, with a real HTTP server.

use std::{sync::Arc, time::Duration};

use mcp_openapi::Api;
use mcp_runtime::{
    Revision, Server,
    testing::{CallResult, TestClient},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

/// A request as it was sent.
#[derive(Debug, Clone, Default)]
struct Sent {
    line: String,
    head: String,
    body: String,
}

impl Sent {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A server whose responses depend on the last segment of the path.
struct Service {
    url: String,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/api/v1/", listener.local_addr().unwrap());
        let sent = Arc::new(Mutex::new(Vec::new()));
        let all = sent.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, all.clone()));
            }
        });
        Self { url, sent }
    }

    async fn last(&self) -> Sent {
        self.sent.lock().await.last().cloned().unwrap_or_default()
    }
}

async fn serve(mut stream: TcpStream, sent: Arc<Mutex<Vec<Sent>>>) {
    let mut buffer = Vec::new();
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut buffer).await.unwrap_or_default() == 0 {
            return;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    let mut request = Sent { line, head, body: String::new() };
    let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    while buffer.len() < head_end + length {
        stream.read_buf(&mut buffer).await.unwrap();
    }
    request.body = String::from_utf8_lossy(&buffer[head_end..]).into_owned();
    let path = request.line.split('?').next().unwrap_or_default();
    let kind = path.rsplit('/').next().unwrap_or_default().to_owned();
    let request_line = request.line.clone();
    sent.lock().await.push(request);
    let json = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let redirect = |to: &str| format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    let typed = |media: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let response = match &*kind {
        "hop-0" => json("200 OK", "0"),
        kind if kind.starts_with("hop-") => {
            let left: u8 = kind["hop-".len()..].parse().unwrap();
            redirect(&format!("/api/v1/respond/hop-{}", left - 1))
        }
        "list" => json("200 OK", "[1, 2]").replacen(
            "\r\n",
            "\r\nlink: <https://x.test/a?page=1>; rel=\"prev\", <https://x.test/a?api_key=k3y&page=3%2C4&per_page=2&more=1>; rel=\"next\"\r\n",
            1,
        ),
        "links" => json("200 OK", "[]").replacen(
            "\r\n",
            "\r\nlink: <https://x.test/a?page=1>; rel=prev\r\nlink: <https://x.test/a?page=3>; rel=next\r\n",
            1,
        ),
        "page" => json("200 OK", &query_value(&request_line, "body")),
        "error" => json("404 Not Found", r#"{"message": "no such pet"}"#),
        "busy" => "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "created" => {
            "HTTP/1.1 201 Created\r\nlocation: /api/v1/respond/list\r\ncontent-length: 0\r\n\r\n".to_owned()
        }
        "long-wait" => format!(
            "HTTP/1.1 503 Service Unavailable\r\nretry-after: {}\r\ncontent-length: 0\r\n\r\n",
            "9".repeat(10_000)
        ),
        "long-error" => json("500 Internal Server Error", &"é".repeat(10_000)),
        "empty" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "large" => json("200 OK", &format!("\"{}\"", "x".repeat(5000))),
        "longest" => typed("text/plain", &"x".repeat(1 << 20)),
        "too-long" => typed("text/plain", &"x".repeat((1 << 20) + 1)),
        "endless" => format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n{}", "x".repeat(50_000)),
        "text" => typed("text/html; charset=utf-8", "<p>ü</p>"),
        "image" => typed("image/png", "PNG"),
        "sound" => typed("audio/wav", "WAV"),
        "file" => typed("application/zip", "PK"),
        "upper-json" => typed("Application/JSON", "[1, 2]"),
        "long-media" => typed(&format!("image/{}", "x".repeat(255)), "PNG"),
        "nulls" => json("200 OK", r#"{"list": [{"a": null, "b": 1}]}"#),
        "vendor-json" => typed("application/vnd.api+json; charset=utf-8", "[1, 2]"),
        "broken-json" => typed("application/json", "{"),
        "undeclared-json" => typed("text/plain", r#"{"name": "Rex"}"#),
        "redirect" => redirect("/api/v1/respond/list"),
        "elsewhere" => redirect("http://127.0.0.1:1/secret?api_key=k3y#k3y"),
        "elsewhere-fragment" => redirect("http://127.0.0.1:1/secret#access_token=k3y"),
        "elsewhere-scheme" => redirect("//evil.test/"),
        "loop" => redirect("/api/v1/respond/loop"),
        "short" => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc".to_owned(),
        "garbage" => "SMTP ready\r\n\r\n".to_owned(),
        "silence" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            return;
        }
        _ => json("200 OK", r#"{"name": "Rex", "parent": null, "more": {"a": null, "b": 1}}"#),
    };
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Returns the decoded value of a parameter in a query.
fn query_value(line: &str, name: &str) -> String {
    let pairs = line.split(['?', '&']).filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(given, _)| *given == name).unwrap().1;
    percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned()
}

fn api() -> Api {
    mcp_openapi::import!("tests/service.yaml").with_header("x-version", "7").authenticate(|scheme, _| {
        let secret = match scheme {
            "key" => Some("k3y"),
            "basic" => Some("user:pass"),
            "query" => Some("a&b"),
            "cookie" => Some("c;d"),
            _ => None,
        };
        async move { secret.map(str::to_owned) }
    })
}

fn client(api: Api) -> TestClient {
    api.add_to(Server::empty("service", "1.0.0")).unwrap().test_client(Revision::V2025_11_25)
}

fn text(result: &CallResult) -> String {
    format!("{}{}", if result.is_error() { "error: " } else { "" }, result.text())
}

#[tokio::test]
async fn arguments_become_requests() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url));
    let cases = [
        // Paths.
        ("path_simple", json!({"id": "a b/ü"}), "GET /api/v1/simple/a%20b%2F%C3%BC", ""),
        ("path_simple", json!({"id": [1, "b,c"]}), "GET /api/v1/simple/1,b%2Cc", ""),
        ("path_simple", json!({"id": {"a": 1, "b": 2}}), "GET /api/v1/simple/a,1,b,2", ""),
        ("path-exploded", json!({"id": {"a": 1, "b": 2}}), "GET /api/v1/exploded/a=1,b=2", ""),
        ("path-exploded", json!({"id": ["a", "b"]}), "GET /api/v1/exploded/a,b", ""),
        ("path-label", json!({"id": "a"}), "GET /api/v1/label/.a", ""),
        ("path-label", json!({"id": ["a", "b"]}), "GET /api/v1/label/.a,b", ""),
        ("path-exploded", json!({"id": {"a/b": 1}}), "GET /api/v1/exploded/a%2Fb=1", ""),
        ("path-label-exploded", json!({"id": ["a", "b"]}), "GET /api/v1/label-exploded/.a.b", ""),
        ("path-json", json!({"id": {"a": 1}}), "GET /api/v1/json/%7B%22a%22%3A1%7D", ""),
        ("path-matrix", json!({"id": "a"}), "GET /api/v1/matrix/;id=a", ""),
        ("path-matrix", json!({"id": ["a", "b"]}), "GET /api/v1/matrix/;id=a;id=b", ""),
        ("path-matrix-joined", json!({"id": ["a", "b"]}), "GET /api/v1/matrix-joined/;id=a,b", ""),
        ("path-parts", json!({"name": "a", "extension": "b"}), "GET /api/v1/files/a.b/raw", ""),
        // Queries.
        ("query", json!({}), "GET /api/v1/query", ""),
        ("query", json!({"form": "a&b=c d"}), "GET /api/v1/query?form=a%26b%3Dc%20d", ""),
        ("query", json!({"form": null}), "GET /api/v1/query", ""),
        ("query", json!({"form": ["a", null, 2]}), "GET /api/v1/query?form=a&form=2", ""),
        ("query", json!({"form": {"a": true}}), "GET /api/v1/query?a=true", ""),
        ("query", json!({"form": {"a&b=c": 1}}), "GET /api/v1/query?a%26b%3Dc=1", ""),
        ("query", json!({"joined": {"a": 1, "b": 2}}), "GET /api/v1/query?joined=a,1,b,2", ""),
        ("query", json!({"joined": ["a", "b"]}), "GET /api/v1/query?joined=a,b", ""),
        ("query", json!({"joined": []}), "GET /api/v1/query", ""),
        ("query", json!({"spaces": ["a", "b"]}), "GET /api/v1/query?spaces=a%20b", ""),
        ("query", json!({"pipes": ["a", "b"]}), "GET /api/v1/query?pipes=a%7Cb", ""),
        ("query", json!({"deep": {"a": {"b": [1]}}}), "GET /api/v1/query?deep%5Ba%5D%5Bb%5D%5B0%5D=1", ""),
        ("query", json!({"deep": {"a&b": 1}}), "GET /api/v1/query?deep%5Ba%26b%5D=1", ""),
        ("query-in-path", json!({"page": 2}), "GET /api/v1/actions?do=list&page=2", ""),
        ("query", json!({"reserved": "a/b?c:d&e=f#g"}), "GET /api/v1/query?reserved=a/b?c:d%26e%3Df%23g", ""),
        // Many services read `+` as a space.
        ("query", json!({"reserved": "a+b;c@d"}), "GET /api/v1/query?reserved=a%2Bb%3Bc@d", ""),
        ("query", json!({"filter_name": "x"}), "GET /api/v1/query?filter%5Bname%5D=x", ""),
        ("query", json!({"json": {"a": 1}}), "GET /api/v1/query?json=%7B%22a%22%3A1%7D", ""),
        // A parameter elsewhere has this name.
        ("query", json!({"form": {"x-key": "v"}}), "GET /api/v1/query?x-key=v", ""),
        // Bodies.
        (
            "clash",
            json!({"id": 1, "id_query": "q", "owner": "o", "id_body": "b", "owner_body": null}),
            "PUT /api/v1/pets/1?id=q&owner=o",
            r#"{"id":"b","owner":null}"#,
        ),
        (
            "create-animal",
            json!({"body": {"kind": "cat", "name": "Tom", "lives": 9}}),
            "POST /api/v1/animals",
            r#"{"kind":"cat","name":"Tom","lives":9}"#,
        ),
        ("create-animal", json!({}), "POST /api/v1/animals", ""),
        (
            "create-tree",
            json!({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}),
            "POST /api/v1/trees",
            r#"{"name":"a","children":[{"name":"b","children":[{"name":"c"}]}]}"#,
        ),
        (
            "form",
            json!({"text": "a&b", "list": ["x", "y"], "nested": {"a": {"b": 1}}}),
            "POST /api/v1/form",
            "text=a%26b&list=x&list=y&nested%5Ba%5D%5Bb%5D=1",
        ),
        ("form", json!({"text": null, "list": ["x"]}), "POST /api/v1/form", "list=x"),
        ("free-form", json!({"body": {"a": "b&c", "list": [1, 2]}}), "PUT /api/v1/free-form", "a=b%26c&list=1&list=2"),
        ("free-form", json!({}), "PUT /api/v1/free-form", ""),
        ("note", json!({}), "PUT /api/v1/notes", ""),
        ("note", json!({"text": "a"}), "PUT /api/v1/notes", r#"{"text":"a"}"#),
        ("new-note", json!({}), "POST /api/v1/notes", "{}"),
        ("nullable", json!({"body": null}), "PUT /api/v1/nullable", "null"),
        ("optional", json!({"body": null}), "PATCH /api/v1/nullable", ""),
        ("optional", json!({"body": "a"}), "PATCH /api/v1/nullable", r#""a""#),
        ("blob", json!({"body": "AAFi"}), "PUT /api/v1/blob", "\0\u{1}b"),
        ("text", json!({"body": "a\nb"}), "POST /api/v1/text", "a\nb"),
    ];
    for (tool, arguments, line, body) in cases {
        let result = client.call(tool, &arguments).await.unwrap();
        assert!(!result.is_error(), "{tool} {arguments}: {}", result.text());
        let sent = service.last().await;
        assert_eq!((&*sent.line, &*sent.body), (line, body), "{tool} {arguments}");
        assert_eq!(sent.header("x-key"), Some("k3y"), "{tool}");
    }
}

#[tokio::test]
async fn bodies_have_the_media_type_of_the_document() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url));
    for (tool, arguments, media) in [
        ("create-tree", json!({"name": "a"}), Some("application/json")),
        ("form", json!({"text": "a"}), Some("application/x-www-form-urlencoded")),
        ("text", json!({"body": "a"}), Some("text/plain")),
        ("blob", json!({"body": "AAFi"}), Some("application/octet-stream")),
        ("optional", json!({"body": null}), None),
        ("note", json!({}), None),
    ] {
        client.call(tool, &arguments).await.unwrap();
        let sent = service.last().await;
        assert_eq!(sent.header("content-type"), media, "{tool} {arguments}");
        let length = sent.body.len().to_string();
        assert_eq!(sent.header("content-length"), Some(&*length), "{tool} {arguments}");
    }
}

/// Baggage may say what is not for the service.
#[tokio::test]
async fn requests_carry_the_trace() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url));
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let meta = json!({"traceparent": trace, "tracestate": "a=1", "baggage": "user=ada"});
    client.request("tools/call", json!({"name": "open", "arguments": {}, "_meta": meta})).await.unwrap();
    let sent = service.last().await;
    let found = ["traceparent", "tracestate", "baggage"].map(|name| sent.header(name));
    assert_eq!(found, [Some(trace), Some("a=1"), None]);
}

#[tokio::test]
async fn headers_and_credentials_are_sent_where_they_belong() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url));
    let arguments = json!({"X-List": ["a", "b"], "X-Object": {"a": 1}, "session": "s;t=1", "X-Key": "chosen"});
    client.call("headers", arguments).await.unwrap();
    let sent = service.last().await;
    for (name, value) in [
        ("x-list", Some("a,b")),
        ("x-object", Some("a=1")),
        ("cookie", Some("session=s%3Bt%3D1")),
        ("x-version", Some("7")),
        ("x-key", Some("k3y")),
        ("authorization", None),
        ("accept", Some("*/*")),
        ("user-agent", Some(concat!("mcp-openapi/", env!("CARGO_PKG_VERSION")))),
    ] {
        assert_eq!(sent.header(name), value, "{name}");
    }
    for (tool, line, name, value) in [
        ("open", "GET /api/v1/open", "x-key", None),
        ("basic", "GET /api/v1/basic", "authorization", Some("Basic dXNlcjpwYXNz")),
        ("basic", "GET /api/v1/basic", "x-key", None),
        ("either", "GET /api/v1/either?api_key=a%26b", "cookie", Some("login=c%3Bd")),
    ] {
        client.call(tool, ()).await.unwrap();
        let sent = service.last().await;
        assert_eq!((&*sent.line, sent.header(name)), (line, value), "{tool}");
    }
    client.call("either", json!({"settings": {"a": 1}})).await.unwrap();
    assert_eq!(service.last().await.header("cookie"), Some("a=1; login=c%3Bd"));
    let result = client.call("unknown", ()).await.unwrap();
    assert_eq!(text(&result), "error: there are no credentials for `missing`");
    // A header of the program replaces the one that the document implies.
    let mut client = self::client(api().base_url(&*service.url).with_header("accept", "text/csv"));
    client.call("open", ()).await.unwrap();
    assert_eq!(service.last().await.header("accept"), Some("text/csv"));
}

#[tokio::test]
async fn files_are_parts() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url));
    let arguments = json!({"file": "AGI=", "files": ["UE5H"], "note": "a\r\n--b", "meta": {"a": 1}, "scan": "AGI=", "comment": null});
    assert_eq!(
        text(&client.call("upload", arguments).await.unwrap()),
        json!({"name": "Rex", "parent": null, "more": {"a": null, "b": 1}}).to_string()
    );
    let sent = service.last().await;
    let boundary = sent.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    let parts = [
        "\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\ncontent-type: application/octet-stream\r\n\r\n\0b\r\n",
        "\r\ncontent-disposition: form-data; name=\"files\"; filename=\"files\"\r\ncontent-type: image/png\r\n\r\nPNG\r\n",
        "\r\ncontent-disposition: form-data; name=\"note\"\r\n\r\na\r\n--b\r\n",
        "\r\ncontent-disposition: form-data; name=\"meta\"\r\ncontent-type: application/json\r\n\r\n{\"a\":1}\r\n",
        // A list of media types is none.
        "\r\ncontent-disposition: form-data; name=\"scan\"; filename=\"scan\"\r\ncontent-type: application/octet-stream\r\n\r\n\0b\r\n",
        "--\r\n",
    ];
    assert_eq!(sent.body.split(&format!("--{boundary}")).skip(1).collect::<Vec<_>>(), parts);
}

#[tokio::test]
async fn arguments_cannot_change_what_is_called() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url));
    let path = "error: `id` must not lead to another path";
    let empty = "error: `id` must not be empty, since it is a part of the path";
    let cases = [
        ("path_simple", json!({"id": ".."}), path),
        ("path_simple", json!({"id": "."}), path),
        ("path_simple", json!({"id": [".."]}), path),
        ("path-label", json!({"id": "."}), path),
        ("path_simple", json!({"id": "a/../b"}), path),
        ("path_simple", json!({"id": "..\\a"}), path),
        ("path_simple", json!({"id": "..;a=b"}), path),
        ("path_simple", json!({"id": "a/.;/b"}), path),
        ("path_simple", json!({"id": "%2e%2e"}), path),
        ("path_simple", json!({"id": "..%2f"}), path),
        ("path_simple", json!({"id": "%252e%252e%252fx"}), path),
        ("path_simple", json!({"id": ""}), empty),
        ("path_simple", json!({"id": []}), empty),
        ("path_simple", json!({"id": null}), empty),
        (
            "headers",
            json!({"X-List": ["a\r\nHost: evil"]}),
            "error: `X-List` contains characters that cannot be sent in a header",
        ),
        ("headers", json!({"X-Version": "8"}), "error: "),
        ("query", json!({"deep": {"x".repeat(100_000): vec![0; 20]}}), "error: `deep` is too large"),
        ("headers", json!({"Authorization": "x"}), "error: "),
        ("query", json!({"api_key": "x"}), "error: "),
        (
            "query",
            json!({"form": {"a": 1, "joined": "x"}}),
            "error: `form` must not have the member `joined`, which is another parameter",
        ),
        ("query", json!({"form": {"JSON[]": "x"}}), "error: `form` must not have the member `JSON[]`"),
        ("query", json!({"form": {"filter[name]": "x"}}), "error: `form` must not have the member `filter[name]`"),
        ("either", json!({"filter": {"api_key": "x"}}), "error: `filter` must not have the member `api_key`"),
        ("either", json!({"filter": {" api.key": "x"}}), "error: `filter` must not have the member ` api.key`"),
        ("either", json!({"filter": {"api key[0]": "x"}}), "error: `filter` must not have the member `api key[0]`"),
        ("either", json!({"filter": {"api_key\0x": "x"}}), "error: `filter` must not have the member"),
        ("either", json!({"filter": {"api[key": "x"}}), "error: `filter` must not have the member `api[key`"),
        ("either", json!({"settings": {"login": "x"}}), "error: `settings` must not have the member `login`"),
        ("clash", json!({"id": 1, "id_body": "b", "created": "x"}), "error: "),
        ("clash", json!({"id": "../1", "id_body": "b"}), "error: "),
        ("create-animal", json!({"body": {"kind": "cow", "name": "x"}}), "error: "),
        ("create-animal", json!({"body": {"kind": "cat", "name": "x", "lives": 0}}), "error: "),
        ("create-animal", json!({"body": {"kind": "cat"}}), "error: "),
        ("create-tree", json!({"name": "a", "children": ["b"]}), "error: "),
        ("upload", json!({"file": "no base64"}), "error: `file` is not base64: "),
        ("blob", json!({"body": "?"}), "error: `body` is not base64: "),
    ];
    for (tool, arguments, expected) in cases {
        let result = client.call(tool, &arguments).await.unwrap();
        let text = text(&result);
        assert!(text.starts_with(expected), "{tool} {arguments}: {text}");
        assert_eq!(service.last().await.line, "", "{tool} {arguments}");
    }
    for id in ["?x=1", "#x", "a/b\\c", "\0", ";a=b"] {
        client.call("path_simple", json!({"id": id})).await.unwrap();
        let line = service.last().await.line;
        let rest = line.strip_prefix("GET /api/v1/simple/").unwrap();
        assert!(
            !rest.contains(['/', '?', '#', '\\']) && rest != ".." && !rest.to_lowercase().contains("%2e"),
            "{id}: {rest}"
        );
    }
}

#[tokio::test]
async fn responses_become_results() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url).response_limit(4000));
    let cases = [
        ("list", "[1,2]\nThe next page has the arguments {\"page\":\"3,4\",\"per_page\":2}"),
        ("error", "error: 404 Not Found: {\"message\": \"no such pet\"}"),
        ("busy", "error: 429 Too Many Requests, retry after 7"),
        ("empty", "204 No Content"),
        // Only a redirect leads to its location.
        ("created", "201 Created"),
        ("large", "error: 200 OK: the response is larger than 4000 bytes"),
        ("endless", "error: 200 OK: the response is larger than 4000 bytes"),
        ("text", "<p>ü</p>"),
        ("links", "[]\nThe next page has the arguments {\"page\":\"3\"}"),
        ("upper-json", "[1,2]"),
        ("long-media", "PNG"),
        ("vendor-json", "[1,2]"),
        ("broken-json", "{"),
        ("undeclared-json", r#"{"name": "Rex"}"#),
        ("redirect", "[1,2]\nThe next page has the arguments {\"page\":\"3,4\",\"per_page\":2}"),
        ("elsewhere", "error: 302 Found: redirects to http://127.0.0.1:1/secret, which is not followed"),
        ("elsewhere-fragment", "error: 302 Found: redirects to http://127.0.0.1:1/secret, which is not followed"),
        ("elsewhere-scheme", "error: 302 Found: redirects to //evil.test/, which is not followed"),
        ("hop-5", "0"),
        ("hop-6", "error: more than 5 redirects"),
        ("loop", "error: more than 5 redirects"),
        ("short", "error: the response is incomplete: "),
        ("garbage", "error: the service cannot be reached: "),
    ];
    for (kind, expected) in cases {
        let result = client.call("respond", json!({"kind": kind})).await.unwrap();
        let text = text(&result);
        assert!(text == expected || (expected.ends_with(": ") && text.starts_with(expected)), "{kind}: {text}");
    }
    let long = client.call("respond", json!({"kind": "long-error"})).await.unwrap();
    assert_eq!(text(&long), "error: 500 Internal Server Error");
    let mut patient = self::client(api().base_url(&*service.url));
    let long = patient.call("respond", json!({"kind": "long-error"})).await.unwrap();
    assert_eq!(text(&long), format!("error: 500 Internal Server Error: {}…", "é".repeat(4096)));
    let long = patient.call("respond", json!({"kind": "long-wait"})).await.unwrap();
    assert_eq!(text(&long), format!("error: 503 Service Unavailable, retry after {}…", "9".repeat(4096)));
    let longest = patient.call("respond", json!({"kind": "longest"})).await.unwrap();
    assert_eq!(text(&longest).len(), 1 << 20);
    let long = patient.call("respond", json!({"kind": "too-long"})).await.unwrap();
    assert_eq!(text(&long), "error: 200 OK: the response is larger than 1048576 bytes");
    for (kind, expected) in [
        ("image", json!({"type": "image", "mimeType": "image/png", "data": "UE5H"})),
        ("sound", json!({"type": "audio", "mimeType": "audio/wav", "data": "V0FW"})),
    ] {
        let result = client.call("respond", json!({ "kind": kind })).await.unwrap();
        assert_eq!(result["content"][0], expected);
    }
    let file = client.call("respond", json!({"kind": "file"})).await.unwrap();
    let expected = json!({"uri": "tool:respond", "mimeType": "application/zip", "blob": "UEs="});
    assert_eq!(file["content"][0]["resource"], expected);
    // A redirect keeps the method and the headers.
    for (tool, method) in [("respond", "GET"), ("head_respond_kind", "HEAD")] {
        client.call(tool, json!({"kind": "redirect"})).await.unwrap();
        let sent = service.last().await;
        let expected = (format!("{method} /api/v1/respond/list"), Some("7"));
        assert_eq!((sent.line.clone(), sent.header("x-version")), expected);
    }
    // Only safe methods are repeated elsewhere.
    let posted = client.call("post_respond_kind", json!({"kind": "redirect"})).await.unwrap();
    assert!(text(&posted).starts_with("error: 302 Found: redirects to /api/v1/respond/list"), "{}", text(&posted));
}

#[tokio::test]
async fn the_next_page_is_named() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url).with_parameter("fixed", "f"));
    let longest = "x".repeat(4096 - r#"{"cursor":""}"#.len());
    for (body, expected) in [
        // Slack, Box, Google, Asana, Kubernetes, Stripe, OpenAI, Twilio, DigitalOcean, JSON:API.
        (json!({"response_metadata": {"next_cursor": "a="}}), json!({"cursor": "a="})),
        (json!({"next_marker": "m"}), json!({"marker": "m"})),
        (json!({"nextPageToken": "p"}), json!({"page_token": "p"})),
        (json!({"next_page": {"offset": "o", "path": "/x?offset=o", "uri": "/x"}}), json!({"offset": "o"})),
        (json!({"metadata": {"continue": "c"}}), json!({"continue": "c"})),
        (json!({"has_more": true, "data": [{"id": "a"}, {"id": "b"}]}), json!({"starting_after": "b"})),
        (json!({"has_more": true, "last_id": "z", "data": []}), json!({"after": "z"})),
        (json!({"next_page_uri": "/x.json?Page=1&cursor=a%3D&page=2"}), json!({"cursor": "a=", "page": 2})),
        (json!({"links": {"pages": {"next": "https://x.test/?page=2&x=1"}}}), json!({"page": 2})),
        (json!({"_links": {"next": {"href": "?filter%5Bafter%5D=q"}}}), json!({"filter": {"after": "q"}})),
        (json!({"next": "?fixed=g&api_key=k&page=2"}), json!({"page": 2})),
        (json!({"next": "?flag=true&page=2"}), json!({"flag": true, "page": 2})),
        (json!({"next_marker": "/x?page=2"}), json!({"page": 2})),
        (json!({"next": "?page=2#x=1"}), json!({"page": 2})),
        (json!({"next_page": 2}), json!({"page": 2})),
        (json!({"next_from": 1.5}), json!({"from": 1.5})),
        // The first source counts.
        (json!({"next_cursor": "a", "next_page": {"offset": "o"}}), json!({"cursor": "a"})),
        (json!({"next": {"offset": "o", "href": "?page=2"}}), json!({"offset": "o"})),
        (json!({"next_cursor": 5}), json!({"cursor": "5"})),
        (json!({"next_untyped": "u"}), json!({"untyped": "u"})),
        (json!({"next_position": "p"}), json!({"position": "p"})),
        (json!({"next_cursor": &longest}), json!({"cursor": &longest})),
        // There is no next page, or no argument for it.
        (json!({"response_metadata": {"next_cursor": ""}}), Value::Null),
        (json!({"next_marker": null, "next_page": null}), Value::Null),
        (json!({"has_more": false, "last_id": "z", "data": [{"id": "b"}]}), Value::Null),
        (json!({"has_more": true, "data": [1]}), Value::Null),
        (json!({"next_invoice": "i", "nextfixed": "f", "next": "?x=1"}), Value::Null),
        (json!({"next": "?plain%5Bafter%5D=q"}), Value::Null),
        (json!({"cursor": "own", "data": [{"next_cursor": "c"}]}), Value::Null),
        (json!({"a": {"b": {"c": {"next_cursor": "c"}}}}), Value::Null),
        (json!({"next_page": "two"}), Value::Null),
        (json!({"next_page": 1.5}), Value::Null),
        (json!({"next": "?page=1.5"}), Value::Null),
        (json!({"next_cursor": "x".repeat(5000)}), Value::Null),
    ] {
        let result = client.call("pages", json!({"body": body.to_string()})).await.unwrap();
        let text = text(&result);
        let found = text.split_once("\nThe next page has the arguments ");
        let found = found.map_or(Value::Null, |(_, arguments)| serde_json::from_str(arguments).unwrap());
        assert_eq!(found, expected, "{body}: {text}");
        if let Some(arguments) = found.as_object() {
            let mut arguments = arguments.clone();
            arguments.insert("body".to_owned(), "{}".into());
            assert!(!client.call("pages", arguments).await.unwrap().is_error(), "{body}");
        }
    }
    // It comes from the response of the service, before it is shaped.
    let mut shaped = self::client(api().base_url(&*service.url).shape(|_, _| json!({})));
    let result = shaped.call("pages", json!({"body": r#"{"next_cursor": "a"}"#})).await.unwrap();
    assert_eq!(text(&result), "{}\nThe next page has the arguments {\"cursor\":\"a\"}");
}

#[tokio::test]
async fn a_service_that_does_not_respond_fails_the_call() {
    let service = Service::start().await;
    let api = api().base_url(&*service.url).configure(|tool, _| Some(tool.timeout(Duration::from_millis(200))));
    let result = client(api).call("respond", json!({"kind": "silence"})).await.unwrap();
    assert!(result.is_error(), "{}", result.text());
    let mut client = client(self::api().base_url("http://127.0.0.1:1"));
    let result = client.call("respond", json!({"kind": "list"})).await.unwrap();
    assert!(text(&result).starts_with("error: the service cannot be reached: "), "{}", result.text());
}

#[tokio::test]
async fn tools_are_described() {
    let mut client = client(api().base_url("http://127.0.0.1:1"));
    let tools = client.tools().await.unwrap();
    let tool = |name: &str| &tools.iter().find(|tool| tool.name() == name).unwrap().0;
    assert_eq!(tools.len(), 33, "{:?}", tools.iter().map(|tool| tool.name()).collect::<Vec<_>>());
    assert_eq!(tool("respond")["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(tool("head_respond_kind")["annotations"], json!({"readOnlyHint": true}));
    // The second operation with this id.
    assert_eq!(tool("delete_respond_kind")["annotations"], json!({"destructiveHint": true, "idempotentHint": true}));
    assert_eq!(tool("clash")["annotations"], json!({"idempotentHint": true}));
    assert_eq!(tool("create-animal")["annotations"], Value::Null, "a client must not repeat it");
    assert_eq!(tool("clash")["description"], "PUT /pets/{id}\n\nDeprecated.");
    assert_eq!(tool("create-animal")["title"], "Create an animal.");
    let animal = &tool("create-animal")["inputSchema"]["properties"]["body"]["anyOf"];
    assert_eq!(animal[0]["properties"]["kind"], json!({"type": "string", "enum": ["cat"], "description": "The kind"}));
    assert_eq!(animal[0]["required"], json!(["name", "kind"]));
    assert_eq!(animal[0]["properties"]["lives"]["minimum"], 1);
    assert_eq!(animal[1]["properties"]["kind"]["enum"], json!(["Dog"]));
    assert_eq!(animal[1]["properties"]["tag"]["pattern"], Value::Null);
    let tree = &tool("create-tree")["inputSchema"];
    assert_eq!(tree["required"], json!(["name"]));
    assert!(tree.to_string().find("$ref").is_none(), "{tree}");
    let output = &tool("create-animal")["outputSchema"]["properties"];
    assert_eq!((&output["name"], &output["secret"]), (&json!({"type": "string"}), &Value::Null));
    for tool in &tools {
        assert!(tool["inputSchema"]["properties"].is_object(), "{}", tool.0);
    }
}

#[tokio::test]
async fn results_can_be_shaped_and_tools_configured() {
    let service = Service::start().await;
    let mut shaped = client(
        api()
            .base_url(&*service.url)
            .shape(|operation, value| json!({"operation": operation.id(), "name": value["name"]}))
            .configure(|tool, operation| (operation.method() == "POST").then(|| tool.tags(["write"]))),
    );
    let result = shaped.call("create-animal", ()).await.unwrap();
    assert_eq!(result.structured(), Some(&json!({"operation": "create-animal", "name": "Rex"})));
    assert!(shaped.tools().await.unwrap().iter().all(|tool| tool["outputSchema"].is_null()));
    assert_eq!(shaped.tools().await.unwrap().len(), 7);
    // `null` counts as absent where the document describes the result.
    let mut plain = client(api().base_url(&*service.url));
    let result = plain.call("create-animal", ()).await.unwrap();
    assert_eq!(result.structured(), Some(&json!({"name": "Rex", "more": {"b": 1}})));
}

/// A tool that describes its results as objects returns one for every response.
#[tokio::test]
async fn other_responses_become_empty_objects() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url));
    for (kind, expected, structured) in [
        ("object", r#"{"name":"Rex","more":{"b":1}}"#, json!({"name": "Rex", "more": {"b": 1}})),
        ("nulls", r#"{"list":[{"b":1}]}"#, json!({"list": [{"b": 1}]})),
        ("vendor-json", "[1,2]", json!({})),
        ("empty", "204 No Content", json!({})),
        ("text", "<p>ü</p>", json!({})),
        ("undeclared-json", r#"{"name":"Rex"}"#, json!({"name": "Rex"})),
    ] {
        let result = client.call("described", json!({ "kind": kind })).await.unwrap();
        assert_eq!((&*text(&result), result.structured()), (expected, Some(&structured)), "{kind}");
    }
}

#[tokio::test]
async fn parameters_can_be_fixed() {
    let service = Service::start().await;
    let mut client = client(api().base_url(&*service.url).with_parameter("id", 7));
    client.call("path_simple", ()).await.unwrap();
    assert_eq!(service.last().await.line, "GET /api/v1/simple/7");
    client.call("clash", json!({"id_body": "b"})).await.unwrap();
    assert_eq!(service.last().await.line, "PUT /api/v1/pets/7?id=7");
    assert!(client.call("path_simple", json!({"id": "8"})).await.unwrap().is_error());
    // A link to the next page does not show them.
    let mut client = self::client(api().base_url(&*service.url).with_parameter("per_page", 2));
    let result = client.call("respond", json!({"kind": "list"})).await.unwrap();
    assert_eq!(text(&result), "[1,2]\nThe next page has the arguments {\"page\":\"3,4\"}");
}

#[test]
fn mistakes_are_errors() {
    let url = "http://127.0.0.1:1";
    for (api, expected) in [
        (api(), "the URL of the service, `/api/v1`, must begin with http:// or https:// and have no user and no query"),
        (api().base_url("http://ada@x"), "must begin with http:// or https:// and have no user and no query"),
        (api().base_url("http://x?a=b"), "must begin with http:// or https:// and have no user and no query"),
        (api().base_url(""), "the URL `` of the service is invalid: empty string"),
        (api().base_url(url).with_parameter("other", 7), "no operation has a parameter `other`"),
        (
            api().base_url(url).with_header("x-token", "a\n").with_header("x\n", ""),
            "the header `x-token` cannot be sent",
        ),
    ] {
        let error = api.add_to(Server::empty("service", "1.0.0")).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

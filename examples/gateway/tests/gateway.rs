//! The gateway in front of its sources, as its callers see it.

use std::{
    env, fs,
    path::Path,
    process::{Child, Command},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    routing::{delete, get},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD};
use http::{HeaderMap, Request, StatusCode, Uri, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use mcp_auth::{ApiKeys, NewApiKey};
use mcp_runtime::{Context, HttpOptions, Server, auth::Identity, http as mcp_http, tool};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, time::sleep};

/// Search the notes.
#[tool(read_only)]
fn search(ctx: &Context, text: String) -> Option<String> {
    Some(format!("{} searches {text}", ctx.principal()?))
}

/// Serves notes to the gateway, which has a token of its own. Returns the URL.
async fn notes() -> String {
    let gateway = Identity::new("the gateway");
    let keys = ApiKeys::new([("token-of-the-gateway-for-notes".to_owned(), gateway)]).unwrap();
    let server = Server::empty("notes", "1.0.0").with::<search>().authenticate(keys).build().unwrap();
    let listener = mcp_http::Listener::bind(([127, 0, 0, 1], 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.address().unwrap());
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    tokio::spawn(mcp_http::serve(listener, service).into_future());
    url
}

/// Serves the API of `orders.yaml`, and a status page. Returns the URL.
async fn orders() -> String {
    let list = async |headers: HeaderMap, uri: Uri| {
        let is_gateway = headers.get("x-api-key").is_some_and(|key| key == "key-of-the-gateway-for-orders");
        let is_valid = is_gateway && uri.query() == Some("customer=eve&status=open");
        let orders = json!({"orders": [{"id": 7, "status": "open"}]}).to_string();
        if is_valid { Ok(([(CONTENT_TYPE, "application/json")], orders)) } else { Err(StatusCode::UNAUTHORIZED) }
    };
    let app = Router::new()
        .route("/orders", get(list))
        .route("/orders/{id}", delete(async || StatusCode::NO_CONTENT))
        .route("/status", get(async || "everything is fine"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

/// The program, which ends with the test.
struct Gateway {
    process: Child,
    url: String,
    folder: TempDir,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Gateway {
    /// Starts the program for callers with keys.
    async fn start(keys: &[NewApiKey]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        let entries: Vec<_> = keys.iter().map(NewApiKey::entry).collect();
        fs::write(&file, format!(r#"{{"keys": [{}]}}"#, entries.join(","))).unwrap();
        Self::start_with(&["--keys", file.to_str().unwrap()]).await
    }

    /// Starts the program in front of a copy of itself, of notes, of orders, and of a definition.
    async fn start_with(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let orders = orders().await;
        let definition = format!(
            "[service]\nurl = {orders:?}\n[tools.status]\ndescription = \"Return the status.\"\n\
             scopes = [\"host\"]\nhttp = {{ method = \"GET\", path = \"/status\" }}\n"
        );
        fs::create_dir(path("definitions")).unwrap();
        fs::write(path("definitions/status.toml"), definition).unwrap();
        let program = env!("CARGO_BIN_EXE_gateway");
        let process = Command::new(program)
            .args(["--http", "127.0.0.1:0", "--log-format", "json", "--git", program])
            .args(["--notes", &notes().await, "--orders", &orders])
            .args(options)
            .arg("--definitions")
            .arg(path("definitions"))
            .env("NOTES_TOKEN", "token-of-the-gateway-for-notes")
            .env("ORDERS_KEY", "key-of-the-gateway-for-orders")
            .env("RUST_LOG", "warn,mcp_runtime::layers=info,mcp_runtime::audit=info")
            .env("MCP_ADDRESS_FILE", path("address"))
            .stderr(fs::File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        let mut gateway = Self { process, url: String::new(), folder };
        for _ in 0..600 {
            gateway.url = fs::read_to_string(gateway.folder.path().join("address")).unwrap_or_default();
            if gateway.url.starts_with("http") {
                return gateway;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("the gateway does not start: {}", gateway.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Sends a request as a client of 2026-07-28. Returns the status, the challenge and the body.
    async fn request(&self, key: &str, method: &str, params: Value) -> (u16, String, String) {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = Request::post(self.url.trim())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {key}"))
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        let request = match params["name"].as_str() {
            Some(name) => request.header("mcp-name", name),
            None => request,
        };
        let client = Client::builder(TokioExecutor::new()).build_http::<String>();
        let response = client.request(request.body(message.to_string()).unwrap()).await.unwrap();
        let challenge =
            response.headers().get("www-authenticate").map_or("", |value| value.to_str().unwrap()).to_owned();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, challenge, String::from_utf8(body.into()).unwrap())
    }

    async fn call(&self, key: &str, tool: &str, arguments: Value) -> (u16, String, String) {
        self.request(key, "tools/call", json!({"name": tool, "arguments": arguments})).await
    }
}

/// An authorization server: its URL, and a function that issues a token to a user for an audience, with scopes.
async fn issuer() -> (String, impl Fn(&str, &str, &str) -> String) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let keys =
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "x": encode(x), "y": encode(y)}]});
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let metadata = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
    let served = |value: Value| get(async move || ([(CONTENT_TYPE, "application/json")], value.to_string()));
    let app =
        Router::new().route("/.well-known/oauth-authorization-server", served(metadata)).route("/keys", served(keys));
    tokio::spawn(axum::serve(listener, app).into_future());
    let issuer = url.clone();
    let issue = move |user: &str, audience: &str, scope: &str| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({"iss": issuer, "sub": user, "aud": audience, "scope": scope, "iat": now, "exp": now + 600});
        let header = json!({"alg": "ES256", "kid": "k", "typ": "at+jwt"});
        let signed = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encode(signature.as_ref()))
    };
    (url, issue)
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_with_tokens_have_the_scopes_of_their_tokens() {
    const RESOURCE: &str = "https://gateway.example.com/mcp";
    let (url, issue) = issuer().await;
    let gateway = Gateway::start_with(&["--issuer", &url, "--resource", RESOURCE]).await;
    let ada = issue("ada", RESOURCE, "git orders:write");
    let bob = issue("bob", RESOURCE, "orders:read");
    let elsewhere = issue("ada", "https://other.example.com/mcp", "git orders:write");
    for (token, tool, arguments, status, expected) in [
        (&ada, "whoami", json!({}), 200, "#ada, with the scopes git orders:write"),
        (&ada, "git_on_call", json!({"week": 3}), 200, "Ada"),
        (&ada, "cancel_order", json!({"id": 7}), 200, "204"),
        (&ada, "status", json!({}), 403, "scope=\"host\""),
        (&bob, "list_orders", json!({"customer": "eve", "status": "open"}), 200, r#""id":7"#),
        (&bob, "git_on_call", json!({"week": 3}), 403, "scope=\"git\""),
        (&bob, "cancel_order", json!({"id": 7}), 403, "scope=\"orders:write\""),
        (&elsewhere, "whoami", json!({}), 401, "invalid_token"),
        (
            &"none".to_owned(),
            "whoami",
            json!({}),
            401,
            "https://gateway.example.com/.well-known/oauth-protected-resource/mcp",
        ),
    ] {
        let (found, challenge, body) = gateway.call(token, tool, arguments).await;
        let text = format!("{challenge}{body}");
        assert!(found == status && text.contains(expected), "{tool}: {found} {text}\n{}", gateway.log());
    }
    let log = gateway.log();
    assert!(log.contains(&format!("{url}#bob")) && !log.contains(&ada), "{log}");
}

fn key(name: &str, scopes: &[&str]) -> NewApiKey {
    NewApiKey::generate(name).unwrap().with_scopes(scopes.iter().copied())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_has_the_tools_of_all_sources_within_the_scopes_of_its_callers() {
    let everything = ["git", "notes", "orders:write", "host"];
    let keys = [key("ada", &everything), key("bob", &["orders:read"])];
    let gateway = Gateway::start(&keys).await;
    let [ada, bob] = keys.each_ref().map(NewApiKey::secret);

    let own = "on_call whoami";
    let rest = "git_on_call git_whoami notes_search cancel_order status";
    for (key, visible, hidden) in
        [(ada, format!("{own} list_orders {rest}"), "create_invoice"), (bob, format!("{own} list_orders"), rest)]
    {
        let (status, _, body) = gateway.request(key, "tools/list", json!({})).await;
        let is_listed = |tool: &str| body.contains(&format!("\"name\":{tool:?}"));
        for tool in visible.split(' ') {
            assert!(is_listed(tool), "{tool}: {status} {body}\n{}", gateway.log());
        }
        for tool in hidden.split(' ') {
            assert!(!is_listed(tool), "{tool}: {status} {body}");
        }
    }

    let mut calls = Vec::new();
    for (caller, tool, arguments, expected) in [
        ("ada", "whoami", json!({}), "ada, with the scopes git notes orders:write host"),
        ("ada", "git_on_call", json!({"week": 3}), "Ada"),
        ("ada", "notes_search", json!({"text": "milk"}), "the gateway searches milk"),
        ("ada", "list_orders", json!({"customer": "eve", "status": "open"}), r#""status":"open""#),
        ("ada", "cancel_order", json!({"id": 7}), "204"),
        ("ada", "status", json!({}), "everything is fine"),
        ("bob", "list_orders", json!({"customer": "eve", "status": "open"}), r#""id":7"#),
        ("bob", "list_orders", json!({"customer": "eve", "status": "lost"}), "`status`"),
        ("bob", "git_on_call", json!({"week": 3}), "scope=\"git\""),
        ("bob", "notes_search", json!({"text": "milk"}), "scope=\"notes\""),
        ("bob", "cancel_order", json!({"id": 7}), "scope=\"orders:write\""),
        ("bob", "status", json!({}), "scope=\"host\""),
    ] {
        let (status, challenge, body) = gateway.call(if caller == "ada" { ada } else { bob }, tool, arguments).await;
        let is_refused = expected.starts_with("scope=");
        assert_eq!(status, if is_refused { 403 } else { 200 }, "{caller} {tool}: {body}");
        assert!(format!("{challenge}{body}").contains(expected), "{caller} {tool}: {challenge} {body}");
        calls.push((caller, if is_refused { "refused" } else { tool }));
    }
    assert_eq!(gateway.call("unknown", "whoami", json!({})).await.0, 401);

    // The log is written in the background.
    let is_complete = |log: &str| log.matches("\"principal\"").count() >= calls.len();
    let complete = async {
        while !is_complete(&gateway.log()) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(30), complete).await;
    let log = gateway.log();
    let logged: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let logged = logged.iter().map(|event| &event["fields"]).filter(|fields| fields["principal"].is_string());
    let found: Vec<_> = logged
        .map(|fields| (fields["principal"].as_str().unwrap(), fields["name"].as_str().unwrap_or("refused")))
        .collect();
    assert_eq!(found, calls, "{log}");
    for secret in [ada, bob, "token-of-the-gateway", "key-of-the-gateway"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_too_many_calls_affects_no_other() {
    let keys = [key("ada", &[]), key("bob", &[])];
    let gateway = Gateway::start(&keys).await;
    let mut rejected = String::new();
    for _ in 0..100 {
        let (_, _, body) = gateway.call(keys[0].secret(), "whoami", json!({})).await;
        if !body.contains("ada, with the scopes") {
            rejected = body;
            break;
        }
    }
    assert!(rejected.contains("rate limit"), "{rejected}");
    let (_, _, body) = gateway.call(keys[1].secret(), "whoami", json!({})).await;
    assert!(body.contains("bob, with the scopes"), "{body}");
    assert!(gateway.log().contains(r#""outcome":"tool_error""#), "{}", gateway.log());
}

#[test]
fn the_definitions_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("definitions");
    assert_eq!(mcp_config::read(folder).unwrap().len(), 1);
}

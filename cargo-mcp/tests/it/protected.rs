//! A protected server and its authorization server, which share an origin and run in this process.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
};

use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::Request,
    http::{HeaderMap, Method, StatusCode},
    response::{AppendHeaders, IntoResponse as _, Response},
};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

/// The behaviour of the servers. `{origin}` in any text is replaced by their origin.
#[derive(Clone)]
pub(crate) struct Behaviour {
    /// The status and the challenge of responses to requests without a valid token. Each line is a header of its own.
    pub(crate) refusal: (u16, Option<&'static str>),
    /// The status of responses to requests with an invalid token, if it is another.
    pub(crate) refusal_of_tokens: Option<u16>,
    /// The protected-resource metadata with its content type.
    pub(crate) resource: (&'static str, Value),
    /// The metadata of the authorization server.
    pub(crate) issuer: Value,
    /// The methods that require the scope `notes:write`, as the tool `write` does.
    pub(crate) restricted: &'static [&'static str],
    /// The status and the challenge of responses to requests without that scope.
    pub(crate) restriction: (u16, Option<&'static str>),
    /// Whether a token that was not issued is valid.
    pub(crate) accepts: fn(&str) -> bool,
    pub(crate) accepts_query: bool,
    /// The error that the redirect carries, if any.
    pub(crate) denial: Option<&'static str>,
    /// The `iss` of redirects, if any.
    pub(crate) response_issuer: Option<&'static str>,
    /// The type and the scopes of tokens, if not those that were requested.
    pub(crate) token_type: &'static str,
    pub(crate) granted: Option<&'static str>,
    /// The lifetime of tokens in seconds.
    pub(crate) lifetime: u64,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            refusal: (401, Some(CHALLENGE)),
            refusal_of_tokens: None,
            resource: (
                "application/json",
                json!({"resource": "{origin}/mcp", "authorization_servers": ["{origin}"], "bearer_methods_supported": ["header"]}),
            ),
            issuer: json!({
                "issuer": "{origin}",
                "authorization_endpoint": "{origin}/authorize",
                "token_endpoint": "{origin}/token",
                "registration_endpoint": "{origin}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }),
            restricted: &[],
            restriction: (403, Some(MISSING_SCOPE)),
            accepts: |token| token == "valid",
            accepts_query: false,
            denial: None,
            response_issuer: None,
            token_type: "Bearer",
            granted: None,
            lifetime: 3600,
        }
    }
}

/// The challenge of the server.
pub(crate) const CHALLENGE: &str =
    "Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\", scope=\"notes:read\"";

/// The challenge of the server to requests whose token lacks a scope.
const MISSING_SCOPE: &str = "Bearer error=\"insufficient_scope\", scope=\"notes:write\", \
     resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"";

/// The events so far.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) behaviour: Behaviour,
    /// The scopes of each authorization request.
    pub(crate) requested: Vec<String>,
    /// The number of clients that were registered.
    pub(crate) registered: usize,
    /// The number of tokens that were refreshed.
    pub(crate) refreshed: usize,
    /// The scopes of valid access tokens, of refresh tokens and of authorization codes.
    granted: BTreeMap<String, String>,
}

impl State {
    /// Issues a code or a token.
    fn issue(&mut self, kind: &str, scopes: &str) -> String {
        let text = format!("{kind}-{}", self.granted.len());
        self.granted.insert(text.clone(), scopes.to_owned());
        text
    }
}

/// The servers. They run until the process ends.
pub(crate) struct ProtectedServer {
    pub(crate) origin: String,
    state: Arc<Mutex<State>>,
}

impl ProtectedServer {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let state = Arc::new(Mutex::new(State { behaviour, ..State::default() }));
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let origin = format!("http://{}", listener.local_addr().expect("an address"));
                sender.send(origin.clone()).expect("the test waits");
                let app = Router::new()
                    .fallback(move |request: Request| respond(Arc::clone(&shared), origin.clone(), request));
                axum::serve(listener, app).await.expect("the server runs");
            });
        });
        Self { origin: receiver.recv().expect("the server starts"), state }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn respond(state: Arc<Mutex<State>>, origin: String, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let query = parts.uri.query().unwrap_or_default();
    let documents = "/.well-known/oauth-";
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, path) if path.starts_with(documents) => {
            let (content_type, document) = match &path[documents.len()..] {
                "protected-resource/mcp" => state.behaviour.resource.clone(),
                "authorization-server" => ("application/json", state.behaviour.issuer.clone()),
                _ => return StatusCode::NOT_FOUND.into_response(),
            };
            ([("content-type", content_type)], document.to_string().replace("{origin}", &origin)).into_response()
        }
        (&Method::POST, "/register") => {
            let mut client: Value = serde_json::from_slice(&body).expect("client metadata");
            let grants = client["grant_types"].as_array().expect("a list");
            assert!(grants.contains(&"refresh_token".into()), "{grants:?}");
            client["client_id"] = "a client".into();
            state.registered += 1;
            (StatusCode::CREATED, [("content-type", "application/json")], client.to_string()).into_response()
        }
        (&Method::GET, "/authorize") => authorize(&mut state, &origin, &fields(query.as_bytes())),
        (&Method::POST, "/token") => token(&mut state, &origin, &fields(&body)),
        (&Method::POST, "/mcp") => mcp(&state, &origin, &parts.headers, &fields(query.as_bytes()), &body),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn fields(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

/// Redirects a user, who consents to everything unless the behaviour denies it.
fn authorize(state: &mut State, origin: &str, request: &BTreeMap<String, String>) -> Response {
    assert_eq!(request["code_challenge_method"], "S256");
    assert_eq!(request["resource"], format!("{origin}/mcp"));
    let scopes = request.get("scope").cloned().unwrap_or_default();
    state.requested.push(scopes.clone());
    let mut redirection = Url::parse(&request["redirect_uri"]).expect("a URL");
    redirection.query_pairs_mut().append_pair("state", &request["state"]);
    if let Some(issuer) = state.behaviour.response_issuer {
        redirection.query_pairs_mut().append_pair("iss", &issuer.replace("{origin}", origin));
    }
    match state.behaviour.denial {
        Some(error) => {
            redirection.query_pairs_mut().append_pair("error", error).append_pair("error_description", "not today");
        }
        None => {
            let code = state.issue("code", &scopes);
            redirection.query_pairs_mut().append_pair("code", &code);
        }
    }
    (StatusCode::FOUND, [("location", redirection.as_str())]).into_response()
}

/// Exchanges a code or a refresh token, each of which is valid once.
fn token(state: &mut State, origin: &str, request: &BTreeMap<String, String>) -> Response {
    assert_eq!(request["resource"], format!("{origin}/mcp"));
    let is_refresh = request["grant_type"] == "refresh_token";
    let given = &request[if is_refresh { "refresh_token" } else { "code" }];
    let (status, body) = match state.granted.remove(given) {
        Some(scopes) => {
            state.refreshed += usize::from(is_refresh);
            state.granted.retain(|token, _| !token.starts_with("access"));
            // The removal must not make a name available again.
            state.granted.insert(format!("used-{given}"), String::new());
            let tokens = json!({
                "access_token": state.issue("access", &scopes),
                "refresh_token": state.issue("refresh", &scopes),
                "token_type": state.behaviour.token_type,
                "expires_in": state.behaviour.lifetime,
                "scope": state.behaviour.granted.unwrap_or(&scopes),
            });
            (StatusCode::OK, tokens)
        }
        None => (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"})),
    };
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

/// Responds as a server of 2025-11-25 with the tools `read` and `write`, a prompt and a resource.
fn mcp(state: &State, origin: &str, headers: &HeaderMap, query: &BTreeMap<String, String>, body: &Bytes) -> Response {
    let accepted = headers["accept"].to_str().expect("text");
    assert!(accepted.contains("application/json") && accepted.contains("text/event-stream"), "{accepted}");
    let header = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let in_query = query.get("access_token").filter(|_| state.behaviour.accepts_query);
    let scopes = header.or(in_query.map(|token| &**token)).and_then(|token| match state.granted.get(token) {
        Some(scopes) => Some(&**scopes),
        None => (state.behaviour.accepts)(token).then_some("notes:read"),
    });
    let refuse = |status, challenge: Option<&str>| {
        let status = StatusCode::from_u16(status).expect("a status");
        let challenge = challenge.unwrap_or_default().replace("{origin}", origin);
        let headers = challenge.lines().map(|line| ("www-authenticate", line.to_owned()));
        (status, AppendHeaders(headers.collect::<Vec<_>>())).into_response()
    };
    let Some(scopes) = scopes else {
        let (status, challenge) = state.behaviour.refusal;
        return refuse(state.behaviour.refusal_of_tokens.filter(|_| header.is_some()).unwrap_or(status), challenge);
    };
    let json = |status: u16, message: Value| {
        let status = StatusCode::from_u16(status).expect("a status");
        (status, [("content-type", "application/json")], message.to_string()).into_response()
    };
    let error = |code: i64, id: &Value| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}});
    let Ok(message) = serde_json::from_slice::<Value>(body) else { return json(400, error(-32700, &Value::Null)) };
    let tool = |name: &str| {
        json!({
            "name": name,
            "description": format!("Use all notes of the user to {name} one of them."),
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": name == "read", "destructiveHint": false},
        })
    };
    let method = message["method"].as_str().unwrap_or_default();
    let is_restricted = state.behaviour.restricted.contains(&method)
        || (method == "tools/call" && message["params"]["name"] == "write");
    if is_restricted && !scopes.contains("notes:write") {
        let (status, challenge) = state.behaviour.restriction;
        return refuse(status, challenge);
    }
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "protected", "version": "1.0.0"},
        }),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [tool("read"), tool("write")]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
        "prompts/list" => json!({"prompts": [{
            "name": "greet",
            "description": "Greet a person.",
            "arguments": [{"name": "whom", "description": "The name of the person."}],
        }]}),
        "resources/list" => json!({"resources": []}),
        "resources/templates/list" => json!({"resourceTemplates": []}),
        _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => return json(200, error(-32601, &message["id"])),
    };
    json(200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

/// Opens a page as a browser does. Returns the URL to which it redirects.
pub(crate) fn browse(url: &str) -> Option<String> {
    let url = Url::parse(url).expect("a URL");
    let address = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let target = url.as_str().strip_prefix(&url.origin().ascii_serialization()).expect("the origin comes first");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", url.authority())
        .expect("a request");
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).find_map(|line| {
        Some(line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("location"))?.1.to_owned())
    })
}

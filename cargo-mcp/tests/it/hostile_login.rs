//! Servers that try to misuse the authorization of their clients.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::common::{CommandOutput, cargo_mcp};

const MESSAGE: &str = "POST /mcp";
const RESOURCE: &str = "GET /.well-known/oauth-protected-resource/mcp";
const METADATA: &str = "GET /.well-known/oauth-authorization-server";

/// A server that responds with what a function returns for the method and the path, and records the requests.
struct Server {
    origin: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server. The function receives the origin of the server, and the method and the path of the request.
    fn start(respond: impl Fn(&str, &str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (own, recorded) = (origin.clone(), Arc::clone(&requests));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = read(&stream) else { continue };
                let target = request.split(" HTTP/").next().unwrap_or_default();
                let accepts = |kind: &str| {
                    request.lines().any(|line| line.to_ascii_lowercase().starts_with("accept:") && line.contains(kind))
                };
                let is_complete = accepts("application/json") && accepts("text/event-stream");
                assert!(target != MESSAGE || is_complete, "{request}");
                let response = respond(&own, target);
                recorded.lock().unwrap().push(request);
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Self { origin, requests }
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads a request with its body.
fn read(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let (mut request, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        request.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.push_str(&String::from_utf8(body).ok()?);
    Some(request)
}

fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
}

fn found(body: &Value) -> String {
    response("200 OK", "content-type: application/json\r\n", &body.to_string())
}

fn not_found() -> String {
    response("404 Not Found", "", "")
}

/// Returns the metadata of a server that is its own authorization server.
fn resource(origin: &str) -> Value {
    json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]})
}

/// Returns the metadata of an authorization server, with some members replaced.
fn metadata(origin: &str, changes: &Value) -> Value {
    let mut metadata = json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        metadata[name] = value.clone();
    }
    metadata
}

/// A user, whose browser writes down what it opens.
struct User(tempfile::TempDir);

impl User {
    fn new() -> Self {
        let user = Self(tempfile::tempdir().expect("a directory"));
        let browser = user.0.path().join("browser");
        fs::write(&browser, "#!/bin/sh\necho \"$1\" >> \"$(dirname \"$0\")/opened\"\n").expect("a script");
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).expect("a program");
        user
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = cargo_mcp(args);
        let home = self.0.path();
        command.env("HOME", home).env("XDG_CONFIG_HOME", home.join(".config")).env("BROWSER", home.join("browser"));
        command
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.command(args).output().expect("cargo-mcp starts").into()
    }

    /// Stores a token for a server.
    fn log_in(&self, server: &Server) {
        self.store(server, 3600);
    }

    /// Stores a token for a server that expires after this many seconds.
    fn store(&self, server: &Server, expires_in: u64) {
        self.store_of(&server.origin, server, expires_in);
    }

    fn token_file(&self) -> PathBuf {
        self.0.path().join(".config/cargo-mcp/tokens.json")
    }

    /// Stores a token of an authorization server for a server.
    fn store_of(&self, issuer: &str, server: &Server, expires_in: u64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
        let credentials = json!({
            "client_id": "client",
            "token_response": {"access_token": "access", "token_type": "bearer", "expires_in": expires_in, "refresh_token": "refresh"},
            "token_received_at": now,
            "issuer": issuer,
        });
        let file = self.token_file();
        fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        fs::write(file, json!({(server.url()): credentials}).to_string()).expect("a file");
    }
}

/// Metadata may name URLs that are no websites.
#[test]
fn only_websites_are_opened_and_receive_codes() {
    let cases = [
        ("authorization", "file:///usr/share/applications/calculator.desktop"),
        ("authorization", "javascript:alert(1)"),
        ("authorization", "vscode://publisher.extension/run"),
        ("authorization", "http://id.example.com/authorize"),
        ("authorization", "http://127.0.0.1.example.com/authorize"),
        ("token", "http://id.example.com/token"),
    ];
    for (endpoint, url) in cases {
        let changes = json!({(format!("{endpoint}_endpoint")): url});
        let server = Server::start(move |origin, target| match target {
            RESOURCE => found(&resource(origin)),
            METADATA => found(&metadata(origin, &changes)),
            MESSAGE => response("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
            _ => not_found(),
        });
        let user = User::new();
        let output = user.run(&["login", &server.url(), "--client-id", "client", "--timeout", "2"]);
        let error = output.expect_failure(3);
        let expected =
            format!("the {endpoint} endpoint of the authorization server is `{url}`, expected an `https` URL");
        assert!(error.contains(&expected), "{error}");
        assert!(!user.0.path().join("opened").exists(), "{url}");
    }
}

/// Codes could be stolen from a client that an authorization server does not identify by PKCE.
#[test]
fn an_authorization_server_without_pkce_is_refused() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let server = Server::start(move |origin, target| match target {
            RESOURCE => found(&resource(origin)),
            METADATA => found(&metadata(origin, &json!({"code_challenge_methods_supported": methods}))),
            MESSAGE => response("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
            _ => not_found(),
        });
        let user = User::new();
        let error = user.run(&["login", &server.url(), "--client-id", "client", "--timeout", "2"]).expect_failure(3);
        assert!(error.contains("PKCE"), "{error}");
        assert!(!user.0.path().join("opened").exists());
    }
}

/// An attacker in transit could name another authorization server.
#[test]
fn metadata_are_not_read_without_encryption() {
    let id = "http://id.example.com";
    for (issuer, challenge) in [(id, ""), ("", "http://id.example.com/resource")] {
        let server = Server::start(move |origin, target| match target {
            RESOURCE if !issuer.is_empty() => {
                found(&json!({"resource": format!("{origin}/mcp"), "authorization_servers": [issuer]}))
            }
            RESOURCE => not_found(),
            MESSAGE => {
                let link =
                    if challenge.is_empty() { String::new() } else { format!(" resource_metadata=\"{challenge}\"") };
                response("401 Unauthorized", &format!("www-authenticate: Bearer{link}\r\n"), "")
            }
            _ => not_found(),
        });
        let user = User::new();
        let error = user.run(&["login", &server.url(), "--client-id", "client", "--timeout", "2"]).expect_failure(3);
        assert!(error.contains(id) && error.contains("expected an `https` URL"), "{error}");
        assert!(!user.0.path().join("opened").exists());
    }
}

#[test]
fn a_registration_does_not_follow_a_redirect_to_another_origin() {
    for status in ["307 Temporary Redirect", "308 Permanent Redirect", "302 Found"] {
        let other = Server::start(|_, _| not_found());
        let location = format!("location: {}/register\r\n", other.origin);
        let server = Server::start(move |origin, target| match target {
            RESOURCE => found(&resource(origin)),
            METADATA => found(&metadata(origin, &json!({"registration_endpoint": format!("{origin}/register")}))),
            MESSAGE => response("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
            "POST /register" => response(status, &location, ""),
            _ => not_found(),
        });
        let error = User::new().run(&["login", &server.url(), "--timeout", "2"]).expect_failure(3);
        assert!(error.contains("cannot log in"), "{error}");
        assert_eq!(other.requests(), [""; 0], "{status}");
    }
}

#[test]
fn the_size_of_a_response_is_limited() {
    let server = Server::start(|origin, target| match target {
        RESOURCE => found(&resource(origin)),
        METADATA => found(&metadata(origin, &json!({"registration_endpoint": format!("{origin}/register")}))),
        MESSAGE => response("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
        "POST /register" => found(&json!({"client_id": "client", "client_name": "x".repeat(256 << 10)})),
        _ => not_found(),
    });
    let user = User::new();
    let error = user.run(&["login", &server.url(), "--timeout", "2"]).expect_failure(3);
    assert!(error.contains("the response exceeds 262144 bytes"), "{error}");
    assert!(!user.0.path().join("opened").exists(), "{error}");
}

/// Metadata may change after the login.
#[test]
fn a_refresh_token_is_not_sent_without_encryption() {
    let server = Server::start(|origin, target| match target {
        RESOURCE => found(&resource(origin)),
        METADATA => found(&metadata(origin, &json!({"token_endpoint": "http://id.example.com/token"}))),
        _ => not_found(),
    });
    let user = User::new();
    user.store(&server, 0);
    for command in ["list", "check"] {
        let error = user.run(&[command, &server.url()]).expect_failure(3);
        assert!(
            error.contains("the token endpoint of the authorization server is `http://id.example.com/token`"),
            "{error}"
        );
    }
}

/// A server that was taken over could name itself as the authorization server, or let clients assume that it is.
#[test]
fn a_refresh_token_is_sent_only_to_the_issuer_of_the_login() {
    for has_metadata in [false, true] {
        let server = Server::start(move |origin, target| match target {
            RESOURCE if has_metadata => found(&resource(origin)),
            METADATA if has_metadata => found(&metadata(origin, &json!({}))),
            _ => not_found(),
        });
        let user = User::new();
        user.store_of("https://id.example.com", &server, 0);
        let tokens = fs::read_to_string(user.token_file()).expect("a file");
        for command in ["list", "check"] {
            let error = user.run(&[command, &server.url()]).expect_failure(3);
            assert!(error.contains("issuer mismatch") && error.contains("log in again"), "{error}");
        }
        let sent = server.requests();
        assert!(!sent.iter().any(|request| request.contains("refresh_token")), "{sent:?}");
        assert_eq!(fs::read_to_string(user.token_file()).expect("a file"), tokens, "the login is kept");
    }
}

/// Another authorization server could use the code of a client that it has not registered.
#[test]
fn scopes_are_asked_for_only_where_the_user_has_logged_in() {
    let other = Server::start(|origin, target| match target {
        METADATA => found(&metadata(origin, &json!({}))),
        _ => not_found(),
    });
    let issuer = other.origin.clone();
    let server = Server::start(move |origin, target| match target {
        RESOURCE => found(&resource(origin)),
        METADATA => found(&metadata(origin, &json!({}))),
        "GET /other" => found(&json!({"resource": format!("{origin}/mcp"), "authorization_servers": [issuer]})),
        MESSAGE => {
            let challenge = format!(
                "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"write\", resource_metadata=\"{origin}/other\"\r\n"
            );
            response("403 Forbidden", &challenge, "")
        }
        _ => not_found(),
    });
    let user = User::new();
    user.log_in(&server);
    let error = user.run(&["list", &server.url()]).expect_failure(3);
    assert!(error.contains("issuer mismatch"), "{error}");
    assert!(!user.0.path().join("opened").exists(), "{error}");
}

#[test]
fn tokens_are_not_sent_without_encryption() {
    let error = User::new().run(&["login", "http://mcp.example.com/mcp"]).expect_failure(2);
    assert!(error.contains("anybody on the way could read the tokens for `http://mcp.example.com/mcp`"), "{error}");
}

/// A redirect that changes the message to a GET without a body is not followed either.
#[test]
fn redirects_within_the_origin_keep_the_message() {
    for (status, expected) in
        [("307 Temporary Redirect", 1), ("308 Permanent Redirect", 1), ("302 Found", 0), ("303 See Other", 0)]
    {
        let server = Server::start(move |origin, target| match target {
            MESSAGE => response(status, &format!("location: {origin}/moved\r\n"), ""),
            _ => not_found(),
        });
        User::new().run(&["check", &server.url(), "--revision", "2025-11-25"]).expect_failure(3);
        let requests = server.requests();
        let moved: Vec<_> = requests.iter().filter(|request| request.contains("/moved")).collect();
        assert_eq!(moved.len(), expected, "{status}: {moved:?}");
        assert!(moved.iter().all(|it| it.starts_with("POST /moved") && it.contains("\"initialize\"")), "{moved:?}");
    }
    let server =
        Server::start(|origin, _| response("307 Temporary Redirect", &format!("location: {origin}/mcp\r\n"), ""));
    User::new().run(&["check", &server.url(), "--revision", "2025-11-25", "--connect-timeout", "5"]).expect_failure(3);
    assert!(server.requests().len() < 20, "{}", server.requests().len());
}

/// Messages and headers are for the server that the user names.
#[test]
fn redirects_to_another_origin_are_not_followed() {
    for is_logged_in in [false, true] {
        for status in ["307 Temporary Redirect", "308 Permanent Redirect", "302 Found"] {
            let other = Server::start(|_, _| not_found());
            let location = format!("location: {}/stolen\r\n", other.origin);
            let server = Server::start(move |origin, target| match target {
                RESOURCE => found(&resource(origin)),
                METADATA => found(&metadata(origin, &json!({}))),
                MESSAGE => response(status, &location, ""),
                _ => not_found(),
            });
            let user = User::new();
            if is_logged_in {
                user.log_in(&server);
            }
            for command in ["list", "check"] {
                let output = user.run(&[command, &server.url(), "--header", "x-api-key: secret"]);
                assert_ne!(output.code, Some(0), "{}\n{}", output.stdout, output.stderr);
                let sent = server.requests();
                let messages: Vec<_> = sent.iter().filter(|request| request.starts_with(MESSAGE)).collect();
                let all = messages.iter().all(|message| message.contains("x-api-key: secret"));
                assert!(all && !messages.is_empty(), "{command}: {sent:?}");
                assert_eq!(other.requests(), [""; 0], "{command}, {status}, logged in: {is_logged_in}");
            }
            let has_token = |request: &String| request.to_lowercase().contains("authorization: bearer access");
            assert_eq!(server.requests().iter().any(has_token), is_logged_in);
        }
    }
}

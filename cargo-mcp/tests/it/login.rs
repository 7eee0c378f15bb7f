//! `cargo mcp login`, calls that use, refresh and extend the stored tokens, and `cargo mcp logout`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Stdio,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    common::{CommandOutput, cargo_mcp},
    protected::{Behaviour, ProtectedServer, browse},
};

/// A user with an empty configuration directory.
struct User {
    home: tempfile::TempDir,
}

impl User {
    /// Runs a command. Opens the pages that it shows, and consents to everything.
    fn run(&self, args: &[&str]) -> CommandOutput {
        let mut command = cargo_mcp(args);
        command.env("HOME", self.home.path()).env("XDG_CONFIG_HOME", self.home.path()).env("BROWSER", "true");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = String::new();
        for line in BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok) {
            if let Some(page) = line.trim().strip_prefix("http") {
                let redirected = browse(&format!("http{page}")).expect("a redirection");
                assert_eq!(browse(&redirected), None);
            }
            stderr += &format!("{line}\n");
        }
        let mut stdout = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("text");
        CommandOutput { code: child.wait().expect("it ends").code(), stdout, stderr }
    }

    fn token_file(&self) -> PathBuf {
        self.home.path().join("cargo-mcp/tokens.json")
    }

    /// Returns the stored access token for a server.
    fn access_token(&self, url: &str) -> Option<String> {
        let stored: Value = serde_json::from_slice(&fs::read(self.token_file()).expect("a file")).expect("JSON");
        stored[url]["token_response"]["access_token"].as_str().map(str::to_owned)
    }
}

#[test]
fn tokens_are_stored_refreshed_extended_and_removed() {
    let server = ProtectedServer::start(Behaviour { lifetime: 1, ..Behaviour::default() });
    let (user, url) = (User { home: tempfile::tempdir().expect("a directory") }, server.url());
    let call = |tool: &str| user.run(&["call", &url, tool, "--revision", "2025-11-25"]);

    let refused = call("read").expect_failure(3);
    assert!(refused.contains("log in with `cargo mcp login"), "{refused}");

    let done = user.run(&["login", &url]);
    assert!(done.stderr.ends_with(&format!("logged in to {url} with the scopes notes:read\n")), "{done:?}");
    assert_eq!(server.state().requested, ["notes:read"]);
    assert_eq!(fs::metadata(user.token_file()).expect("a file").permissions().mode() & 0o777, 0o600);
    let first = user.access_token(&url).expect("a token");

    // The token has expired, and its successor has not.
    thread::sleep(Duration::from_millis(1100));
    server.state().behaviour.lifetime = 3600;
    for _ in 0..2 {
        assert_eq!(call("read").expect_success(), "done\n");
        assert_eq!(server.state().refreshed, 1);
    }
    assert_ne!(user.access_token(&url).expect("a token"), first);
    assert_eq!(fs::metadata(user.token_file()).expect("a file").permissions().mode() & 0o777, 0o600);

    for _ in 0..2 {
        let done = call("write");
        assert_eq!((done.code, &*done.stdout), (Some(0), "done\n"), "{done:?}");
        let requested = server.state().requested.clone();
        assert_eq!(requested.len(), 2, "{requested:?}");
        assert!(requested[1].contains("notes:read") && requested[1].contains("notes:write"), "{requested:?}");
    }

    user.run(&["logout", &url]).expect_success();
    assert_eq!(user.access_token(&url), None);
    call("read").expect_failure(3);
    let error = user.run(&["logout", &url]).expect_failure(2);
    assert!(error.contains("there are no tokens for"), "{error}");
}

#[test]
fn a_login_requests_the_given_scopes() {
    let server = ProtectedServer::start(Behaviour::default());
    let user = User { home: tempfile::tempdir().expect("a directory") };
    let done = user.run(&["login", &server.url(), "--scope", "notes:write"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(server.state().requested, ["notes:write"]);
}

/// An authorization server may know a registered client by its port.
#[test]
fn a_login_listens_on_the_given_port() {
    let server = ProtectedServer::start(Behaviour::default());
    let user = User { home: tempfile::tempdir().expect("a directory") };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let error = user.run(&["login", &server.url(), "--port", &port]).expect_failure(2);
    assert!(error.starts_with(&format!("error: cannot listen on port {port}: ")), "{error}");
    assert!(error.ends_with("help: `--port` chooses another\n"), "{error}");
}

#[test]
fn the_reason_of_a_denial_is_reported() {
    let server = ProtectedServer::start(Behaviour { denial: Some("access_denied"), ..Behaviour::default() });
    let user = User { home: tempfile::tempdir().expect("a directory") };
    let error = user.run(&["login", &server.url()]).expect_failure(3);
    assert!(error.contains("access_denied (not today)"), "{error}");
    assert!(!user.token_file().exists());
}

/// An attacker could redirect the browser to make a client report the error of another authorization server.
#[test]
fn responses_of_another_issuer_are_not_shown() {
    for (is_advertised, issuer, is_accepted) in [
        (true, Some("{origin}"), true),
        (true, Some("{origin}/"), false),
        (true, Some("https://id.example.com"), false),
        (true, None, false),
        (false, Some("{origin}"), true),
        (false, Some("https://id.example.com"), false),
        (false, None, true),
    ] {
        for denial in [Some("access_denied"), None] {
            let mut behaviour = Behaviour { denial, response_issuer: issuer, ..Behaviour::default() };
            behaviour.issuer["authorization_response_iss_parameter_supported"] = is_advertised.into();
            let server = ProtectedServer::start(behaviour);
            let user = User { home: tempfile::tempdir().expect("a directory") };
            let CommandOutput { code, stderr, .. } = user.run(&["login", &server.url()]);
            let is_denied = stderr.contains("access_denied (not today)");
            assert_eq!(code == Some(0), is_accepted && denial.is_none(), "{is_advertised} {issuer:?}: {stderr}");
            assert_eq!(is_denied, is_accepted && denial.is_some(), "{is_advertised} {issuer:?}: {stderr}");
            assert_eq!(stderr.contains("issuer mismatch"), !is_accepted, "{is_advertised} {issuer:?}: {stderr}");
            assert_eq!(user.token_file().exists(), code == Some(0), "{is_advertised} {issuer:?}");
        }
    }
}

/// Proxies add challenges of other schemes.
#[test]
fn the_challenge_for_tokens_is_found_among_others() {
    for challenge in [
        "Bearer scope=\"notes:read\"\nBasic realm=\"notes\"",
        "Basic realm=\"notes\"\nBearer scope=\"notes:read\"",
        "Basic realm=\"notes\nNegotiate, Bearer scope=\"notes:read\"",
        // No header is valid, so the first one counts.
        "Bearer scope=\"notes:read\" x=y\nBasic realm=\"",
    ] {
        let server = ProtectedServer::start(Behaviour { refusal: (401, Some(challenge)), ..Behaviour::default() });
        let user = User { home: tempfile::tempdir().expect("a directory") };
        let done = user.run(&["login", &server.url()]);
        assert_eq!(done.code, Some(0), "{challenge}: {done:?}");
        assert_eq!(server.state().requested, ["notes:read"], "{challenge}");
    }
}

#[test]
fn a_known_client_is_not_registered() {
    for has_registration in [false, true] {
        let mut behaviour = Behaviour::default();
        if !has_registration {
            behaviour.issuer["registration_endpoint"] = Value::Null;
        }
        behaviour.issuer["client_id_metadata_document_supported"] = true.into();
        let server = ProtectedServer::start(behaviour);
        let url = server.url();
        let login = |options: &[&str]| {
            let user = User { home: tempfile::tempdir().expect("a directory") };
            user.run(&[&["login", &url], options].concat())
        };
        login(&["--client-id", "client"]).expect_success();
        login(&["--client-metadata", "https://client.example/metadata.json"]).expect_success();
        assert_eq!(server.state().registered, 0);
        assert_eq!(login(&[]).code, Some(if has_registration { 0 } else { 3 }));
        assert_eq!(server.state().registered, usize::from(has_registration));
    }
}

#[test]
fn a_server_without_authorization_needs_no_login() {
    let server = ProtectedServer::start(Behaviour { refusal: (404, None), ..Behaviour::default() });
    let user = User { home: tempfile::tempdir().expect("a directory") };
    let error = user.run(&["login", &server.url()]).expect_failure(2);
    let expected = format!("error: `{}` does not ask for authorization: it responded with HTTP 404\n", server.url());
    assert!(error.starts_with(&expected), "{error}");
}

/// A token of the command line is sent instead of that of the login.
#[test]
fn a_given_token_has_precedence() {
    let server = ProtectedServer::start(Behaviour::default());
    let (user, url) = (User { home: tempfile::tempdir().expect("a directory") }, server.url());
    user.run(&["login", &url]).expect_success();
    for args in [&["call", &url, "read"][..], &["check", &url]] {
        let args = [args, &["--revision", "2025-11-25"]].concat();
        user.run(&args).expect_success();
        user.run(&[&args[..], &["--bearer", "other"]].concat()).expect_failure(3);
    }
}

/// A server that is never satisfied must not ask the user forever.
#[test]
fn the_number_of_questions_for_scopes_is_bounded() {
    let restriction = "Bearer error=\"insufficient_scope\", scope=\"notes:other\", \
         resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"";
    let server = ProtectedServer::start(Behaviour { restriction: (403, Some(restriction)), ..Behaviour::default() });
    let (user, url) = (User { home: tempfile::tempdir().expect("a directory") }, server.url());
    user.run(&["login", &url]).expect_success();
    let done = user.run(&["call", &url, "write", "--revision", "2025-11-25"]);
    assert_ne!(done.code, Some(0), "{done:?}");
    assert_eq!(server.state().requested.len(), 1 + 3, "{:?}", server.state().requested);
}

#[test]
fn a_refusal_without_a_scope_asks_for_none() {
    let restriction = (403, Some("Bearer error=\"insufficient_scope\""));
    let server = ProtectedServer::start(Behaviour { restriction, ..Behaviour::default() });
    let (user, url) = (User { home: tempfile::tempdir().expect("a directory") }, server.url());
    user.run(&["login", &url]).expect_success();
    user.run(&["call", &url, "write", "--revision", "2025-11-25"]).expect_failure(1);
    assert_eq!(server.state().requested, ["notes:read"]);
}

/// A token that is bound to a key must not be used without it.
#[test]
fn only_bearer_tokens_are_used() {
    for token_type in ["DPoP", "mac", "N_A"] {
        let server = ProtectedServer::start(Behaviour { token_type, ..Behaviour::default() });
        let user = User { home: tempfile::tempdir().expect("a directory") };
        let error = user.run(&["login", &server.url()]).expect_failure(3).to_lowercase();
        let expected = format!("invalid token type: `{}`, expected `bearer`", token_type.to_lowercase());
        assert!(error.contains(&expected), "{error}");
        assert!(!user.token_file().exists(), "{token_type}");
    }
}

/// Lines of this program begin with words that a server could send.
#[test]
fn text_of_a_server_begins_no_line() {
    let forged = "\nerror: forged\nhelp: forged";
    let server = ProtectedServer::start(Behaviour { granted: Some("a\nerror: forged"), ..Behaviour::default() });
    let user = User { home: tempfile::tempdir().expect("a directory") };
    let mut outputs = vec![user.run(&["login", &server.url()]).stderr];
    for member in ["issuer", "authorization_endpoint", "token_endpoint"] {
        let mut behaviour = Behaviour::default();
        behaviour.issuer[member] = format!("http://id.example.com/{forged}").into();
        let server = ProtectedServer::start(behaviour);
        outputs.push(user.run(&["login", &server.url()]).expect_failure(3).to_owned());
    }
    let server = ProtectedServer::start(Behaviour { token_type: "x\nerror: forged", ..Behaviour::default() });
    outputs.push(user.run(&["login", &server.url()]).expect_failure(3).to_owned());
    for output in outputs {
        let is_forged = |line: &str| line.starts_with("error: forged") || line.starts_with("help: forged");
        assert!(output.contains("forged") && !output.lines().any(is_forged), "{output}");
    }
}

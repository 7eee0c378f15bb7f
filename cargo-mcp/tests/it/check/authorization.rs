//! Each problem of authorization, with a server that has exactly this problem.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;
use crate::protected::{Behaviour, CHALLENGE, ProtectedServer};

/// Changes a server without problems.
type Change = fn(&mut Behaviour);

/// Options of a command with a valid token.
const TOKEN: &[&str] = &["--bearer", "valid"];

/// A JSON Web Token with the claims `{"aud":"https://other.example"}`.
const FOREIGN: &str = "e30.eyJhdWQiOiJodHRwczovL290aGVyLmV4YW1wbGUifQ.c2lnbmF0dXJl";

/// Codes, servers, options and the expected finding.
const FINDINGS: &[(&str, Change, &[&str], &str)] = &[
    (
        "no-challenge",
        |it| it.refusal = (401, None),
        &[],
        "server: the response has the status 401 and no header `WWW-Authenticate`",
    ),
    (
        "no-challenge",
        |it| it.refusal = (401, Some("Bearer scope=\"notes:read")),
        &[],
        "server: the header `WWW-Authenticate` is malformed: \"Bearer scope=\\\"notes:read\"",
    ),
    (
        "no-challenge",
        |it| it.refusal = (401, Some("Basic realm=\"notes\", Digest realm=\"notes\"")),
        &[],
        "server: the challenge has the scheme `Basic`, `Digest`, expected `Bearer`",
    ),
    (
        "no-challenge",
        |it| it.refusal = (401, Some("Bearer resource_metadata=\"/.well-known\"")),
        &[],
        "server: `resource_metadata` of the challenge is not an absolute URL: `/.well-known`",
    ),
    (
        "no-challenge",
        |it| it.refusal = (403, Some(CHALLENGE)),
        TOKEN,
        "server: the response to a request without a token has the status 403, expected 401",
    ),
    (
        "no-challenge",
        |it| it.refusal = (303, None),
        TOKEN,
        "server: the response to a request with a token that no authorization server has issued has the status 303, expected 401",
    ),
    (
        "no-challenge",
        |it| it.refusal_of_tokens = Some(403),
        TOKEN,
        "server: the response to a request with a token that no authorization server has issued has the status 403, expected 401",
    ),
    (
        "no-metadata",
        |it| (it.refusal, it.resource.0) = ((401, Some("Bearer scope=\"notes:read\"")), "text/html"),
        &[],
        "server: cannot read `{metadata}`: the content type is `text/html`, expected `application/json`; \
         cannot read `{origin}/.well-known/oauth-protected-resource`: HTTP 404 Not Found",
    ),
    (
        "no-metadata-link",
        |it| it.refusal = (401, Some("Bearer scope=\"notes:read\"")),
        &[],
        "server: the challenge has no parameter `resource_metadata`",
    ),
    (
        "bad-resource-metadata",
        |it| it.refusal = (401, Some("Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource\"")),
        &[],
        "server: cannot read `{origin}/.well-known/oauth-protected-resource`: HTTP 404 Not Found",
    ),
    (
        "bad-resource-metadata",
        |it| it.resource.0 = "text/html",
        &[],
        "server: cannot read `{metadata}`: the content type is `text/html`, expected `application/json`",
    ),
    (
        "bad-resource-metadata",
        |it| it.resource.1 = json!([]),
        &[],
        "server: cannot read `{metadata}`: the document is not an object",
    ),
    (
        "bad-resource-metadata",
        |it| it.resource.1["padding"] = "x".repeat(300_000).into(),
        &[],
        "server: cannot read `{metadata}`: the document exceeds 262144 bytes",
    ),
    (
        "bad-resource-metadata",
        |it| it.resource.1["resource"] = Value::Null,
        &[],
        "server: `{metadata}` has no string `resource`",
    ),
    (
        "bad-resource-metadata",
        |it| it.resource.1["authorization_servers"] = json!([]),
        &[],
        "server: `{metadata}` has no `authorization_servers`, which is a list of at least one URL",
    ),
    (
        "bad-resource-metadata",
        |it| it.resource.1["authorization_servers"] = json!(["{origin}", 1]),
        &[],
        "server: `{metadata}` has no `authorization_servers`, which is a list of at least one URL",
    ),
    (
        "bad-resource-metadata",
        |it| it.resource.1["bearer_methods_supported"] = json!(["body"]),
        &[],
        "server: `bearer_methods_supported` of `{metadata}` does not contain `header`",
    ),
    (
        "wrong-resource",
        |it| it.resource.1["resource"] = "https://other.example/mcp".into(),
        &[],
        "server: the metadata describes `https://other.example/mcp`, expected `{origin}/mcp`",
    ),
    (
        "broad-resource",
        |it| it.resource.1["resource"] = "{origin}".into(),
        &[],
        "server: the metadata describes `{origin}`, which is more than `{origin}/mcp`",
    ),
    (
        "bad-issuer-metadata",
        |it| it.resource.1["authorization_servers"] = json!(["notes"]),
        &[],
        "authorization server `notes`: the issuer is not an absolute URL without query and fragment",
    ),
    (
        "bad-issuer-metadata",
        |it| it.resource.1["authorization_servers"] = json!(["notes", "http://127.0.0.1:9/?tenant=1"]),
        &[],
        "authorization server `http://127.0.0.1:9/?tenant=1`: the issuer is not an absolute URL without query and fragment",
    ),
    (
        "bad-issuer-metadata",
        |it| it.resource.1["authorization_servers"] = json!(["{origin}/tenant"]),
        &[],
        "authorization server `{origin}/tenant`: cannot read `{origin}/.well-known/oauth-authorization-server/tenant`: HTTP 404 Not Found; \
         cannot read `{origin}/.well-known/openid-configuration/tenant`: HTTP 405 Method Not Allowed; \
         cannot read `{origin}/tenant/.well-known/openid-configuration`: HTTP 405 Method Not Allowed",
    ),
    (
        "bad-issuer-metadata",
        |it| it.resource.1["authorization_servers"] = json!(["http://127.0.0.1:9/#tenant"]),
        &[],
        "authorization server `http://127.0.0.1:9/#tenant`: the issuer is not an absolute URL without query and fragment",
    ),
    (
        "bad-issuer-metadata",
        |it| it.issuer["issuer"] = "{origin}/".into(),
        &[],
        "authorization server `{origin}`: `{issuer}` is the metadata of `{origin}/`",
    ),
    (
        "bad-issuer-metadata",
        |it| it.issuer["issuer"] = "https://other.example".into(),
        &[],
        "authorization server `{origin}`: `{issuer}` is the metadata of `https://other.example`",
    ),
    (
        "bad-issuer-metadata",
        |it| it.issuer["token_endpoint"] = Value::Null,
        &[],
        "authorization server `{origin}`: `{issuer}` has no `token_endpoint`",
    ),
    (
        "bad-issuer-metadata",
        |it| it.issuer["jwks_uri"] = "keys".into(),
        &[],
        "authorization server `{origin}`: `jwks_uri` of `{issuer}` is not a URL",
    ),
    (
        "no-pkce",
        |it| it.issuer["code_challenge_methods_supported"] = json!(["plain"]),
        &[],
        "authorization server `{origin}`: `code_challenge_methods_supported` of `{issuer}` does not contain `S256`",
    ),
    (
        "insecure-url",
        |it| it.resource.1["authorization_servers"] = json!(["http://id.invalid"]),
        &[],
        "authorization server `http://id.invalid`: the issuer has the URL `http://id.invalid/`, expected `https`",
    ),
    (
        "insecure-url",
        |it| it.issuer["authorization_endpoint"] = "http://id.invalid/authorize".into(),
        &[],
        "authorization server `{origin}`: `authorization_endpoint` has the URL `http://id.invalid/authorize`, expected `https`",
    ),
    (
        "insecure-url",
        |it| it.issuer["revocation_endpoint"] = "http://id.invalid/revoke".into(),
        &[],
        "authorization server `{origin}`: `revocation_endpoint` has the URL `http://id.invalid/revoke`, expected `https`",
    ),
    (
        "insecure-url",
        |it| it.refusal = (401, Some("Bearer resource_metadata=\"http://mcp.invalid/metadata\"")),
        &[],
        "server: the metadata of the server has the URL `http://mcp.invalid/metadata`, expected `https`",
    ),
    (
        "unverified-token",
        |it| it.accepts = |_| true,
        &[],
        "server: the server accepts a token that no authorization server has issued",
    ),
    (
        "unverified-token",
        |it| it.accepts = |token| token.ends_with('.') && algorithm(token) == "none" && has_valid_claims(token),
        &[],
        "server: the server accepts a token without a signature",
    ),
    (
        "unverified-token",
        |it| it.accepts = |token| algorithm(token) == "ES256" && has_valid_claims(token),
        &[],
        "server: the server accepts a token with a forged signature",
    ),
    (
        "unchecked-audience",
        |it| it.accepts = |token| token == "valid" || token == "foreign",
        &["--foreign-token", "foreign"],
        "server: the server accepts the token for another server",
    ),
    (
        "other-audience",
        |it| it.accepts = |token| token == FOREIGN,
        &["--bearer", FOREIGN],
        "server: the server accepts your token, whose audience is \"https://other.example\", expected `{origin}/mcp`",
    ),
    (
        "token-in-query",
        |it| it.resource.1["bearer_methods_supported"] = json!(["header", "query"]),
        &[],
        "server: `bearer_methods_supported` of `{metadata}` contains `query`",
    ),
    (
        "token-in-query",
        |it| it.accepts_query = true,
        &["--bearer", "valid", "--token-in-query"],
        "server: the server accepts your token in the query",
    ),
];

/// Returns the header or the claims of a JSON Web Token.
fn part(token: &str, index: usize) -> Value {
    let text = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(index).unwrap_or_default()).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Returns the algorithm in the header of a JSON Web Token.
fn algorithm(token: &str) -> String {
    part(token, 0)["alg"].as_str().unwrap_or_default().to_owned()
}

/// Returns whether a JSON Web Token has not expired and has the issuer and the audience of a [`ProtectedServer`].
fn has_valid_claims(token: &str) -> bool {
    let claims = part(token, 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
    let issuer = claims["iss"].as_str().unwrap_or_default();
    claims["exp"].as_u64() > Some(now) && !issuer.is_empty() && claims["aud"] == format!("{issuer}/mcp")
}

/// Returns the codes with a test.
pub(super) fn codes() -> impl Iterator<Item = &'static str> {
    FINDINGS.iter().map(|(code, ..)| *code)
}

/// Checks a server in an empty configuration directory.
fn check(server: &ProtectedServer, options: &[&str]) -> CommandOutput {
    let home = tempfile::tempdir().expect("a directory");
    let url = server.url();
    let args = [&["check", &url, "--revision", "2025-11-25"][..], options].concat();
    cargo_mcp(&args).env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path()).output().expect("it starts").into()
}

#[test]
fn problems_are_reported() {
    for (code, change, options, expected) in FINDINGS {
        let mut behaviour = Behaviour::default();
        change(&mut behaviour);
        let server = ProtectedServer::start(behaviour);
        let done = check(&server, &[&["--format", "json"][..], options].concat());
        let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{expected}: {done:?}"));
        let expected = expected
            .replace("{metadata}", "{origin}/.well-known/oauth-protected-resource/mcp")
            .replace("{issuer}", "{origin}/.well-known/oauth-authorization-server")
            .replace("{origin}", &server.origin);
        let findings = report["findings"].as_array().expect("findings");
        let lines: Vec<String> = findings.iter().filter(|found| found["code"] == *code).map(line).collect();
        assert!(lines.contains(&expected), "{expected}\n{report:#}");
        // Without a token, the server is unavailable for the other checks.
        let failed = findings.iter().any(|found| found["level"] == "error");
        let rest = if report["handshakes"] == json!([]) { 3 } else { 0 };
        assert_eq!(done.code, Some(if failed { 1 } else { rest }), "{expected}");
    }
}

#[test]
fn a_correct_server_has_no_findings() {
    let server = ProtectedServer::start(Behaviour::default());
    let options = ["--bearer", "valid", "--foreign-token", "foreign", "--token-in-query", "--deny", "notes"];
    let output = check(&server, &options).expect_success();
    let origin = &server.origin;
    let expected = format!(
        "authorization\n\
        \x20 metadata              {origin}/.well-known/oauth-protected-resource/mcp\n\
        \x20 resource              {origin}/mcp\n\
        \x20 authorization server  {origin}\n\
        \n\
        handshakes\n\
        \x20 2025-11-25  ok: 2 tools, 1 prompt, ping\n\
        \n\
        tokens"
    );
    assert!(output.starts_with(&expected), "{output}");

    let report = check(&server, &["--bearer", "valid", "--format", "json"]).expect_success();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let expected = json!({
        "metadata": format!("{origin}/.well-known/oauth-protected-resource/mcp"),
        "resource": format!("{origin}/mcp"),
        "authorizationServers": [origin],
    });
    assert_eq!(report["authorization"], expected);

    // The names of headers have no case, and the token is not part of the requests that have none.
    let lower_case = check(&server, &["--header", "authorization: Bearer valid", "--format", "json"]).expect_success();
    let lower_case: Value = serde_json::from_str(&lower_case).expect("JSON");
    assert_eq!(lower_case["authorization"], report["authorization"]);
    check(&server, &["--header", "authorization: Bearer valid", "--token-in-query"]).expect_success();

    let server = ProtectedServer::start(Behaviour::default());
    server.state().behaviour.resource.0 = "application/json; charset=utf-8";
    check(&server, &["--bearer", "valid", "--deny", "notes"]).expect_success();

    // It may limit the rate of invalid tokens.
    let server = ProtectedServer::start(Behaviour { refusal_of_tokens: Some(429), ..Behaviour::default() });
    check(&server, &["--bearer", "valid", "--deny", "notes"]).expect_success();
}

#[test]
fn one_of_several_challenges_must_accept_tokens() {
    for challenge in [
        "Basic realm=\"notes\"\nBearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"",
        "Basic realm=\"notes\", Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"",
        "DPoP resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"",
    ] {
        let server = ProtectedServer::start(Behaviour { refusal: (401, Some(challenge)), ..Behaviour::default() });
        check(&server, &["--bearer", "valid", "--deny", "notes"]).expect_success();
    }
}

/// See RFC 9728, section 3.1. The query of the server is part of its identifier, but not of the location of its metadata.
#[test]
fn the_location_of_metadata_has_no_query() {
    let refusal = (401, Some("Bearer scope=\"notes:read\""));
    let server = ProtectedServer::start(Behaviour { refusal, ..Behaviour::default() });
    let url = format!("{}?tenant=1", server.url());
    let done = run(&["check", &url, "--revision", "2025-11-25", "--bearer", "valid", "--format", "json"]);
    let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let expected = format!("{}/.well-known/oauth-protected-resource/mcp", server.origin);
    assert_eq!(report["authorization"]["metadata"], expected);
}

/// A server chooses the number of its authorization servers.
#[test]
fn the_number_of_authorization_servers_to_check_is_bounded() {
    let server = ProtectedServer::start(Behaviour::default());
    let issuers: Vec<String> = (0..9).map(|number| format!("issuer-{number}")).collect();
    server.state().behaviour.resource.1["authorization_servers"] = json!(issuers);
    let report: Value = serde_json::from_str(&check(&server, &["--format", "json"]).stdout).expect("JSON");
    assert_eq!(report["authorization"]["authorizationServers"], json!(issuers[..8]));
}

#[test]
fn without_a_token_only_the_authorization_is_checked() {
    let server = ProtectedServer::start(Behaviour::default());
    let done = check(&server, &[]);
    assert!(done.stdout.starts_with("authorization\n") && !done.stdout.contains("handshakes"), "{done:?}");
    let error = done.expect_failure(3);
    assert!(error.contains("HTTP 401") && error.contains("log in with `cargo mcp login URL`"), "{error}");

    let server = ProtectedServer::start(Behaviour { refusal: (401, None), ..Behaviour::default() });
    let error = check(&server, &[]).expect_failure(1);
    assert!(error.ends_with("help: everything but the authorization remains to be checked, which requires a token\n"));
}

#[test]
fn tokens_need_a_server_that_asks_for_them() {
    let open = ProtectedServer::start(Behaviour { refusal: (404, None), ..Behaviour::default() });
    let error = check(&open, &["--foreign-token", "foreign"]).expect_failure(2);
    assert!(error.contains("does not ask for authorization"), "{error}");
    let server = ProtectedServer::start(Behaviour::default());
    let error = check(&server, &["--token-in-query"]).expect_failure(2);
    assert!(error.contains("`--token-in-query` requires a token"), "{error}");

    // The status 403 may mean that the request is invalid.
    let server = ProtectedServer::start(Behaviour { refusal: (403, None), ..Behaviour::default() });
    let error = check(&server, &["--foreign-token", "foreign"]).expect_failure(2);
    assert!(error.contains("does not ask for authorization"), "{error}");
}

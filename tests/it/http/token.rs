//! `--token-file`: every request must carry the token in a file.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
};

use super::{
    client::{Connection, FullResponse},
    process::{fixture_at, listening},
    request::{Request, call},
};

/// A server with a token file, killed on drop.
struct Server {
    child: std::process::Child,
    address: std::net::SocketAddr,
    stderr: std::io::BufReader<std::process::ChildStderr>,
}

impl Server {
    fn start(token: &Path) -> Self {
        let mut command = fixture_at("127.0.0.1:0", "off");
        let (child, url, stderr) = listening(command.arg("--legacy-sse").arg("--token-file").arg(token));
        let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp")).unwrap().parse().unwrap();
        Self { child, address, stderr }
    }

    async fn send(&self, request: &Request, token: Option<&str>) -> FullResponse {
        let request = request.clone().without("authorization");
        let request = token.map_or(request.clone(), |token| request.with("authorization", token));
        Connection::to(self.address).await.send(&request).await.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn every_request_needs_the_token_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "").unwrap();
    let mut generated = String::new();
    for _ in 0..2 {
        let mut server = Server::start(&path);
        let token = fs::read_to_string(&path).unwrap().trim().to_owned();
        assert!(token.len() == 43 && (generated.is_empty() || generated == token), "{token}");
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        generated.clone_from(&token);
        let (right, wrong) = (format!("Bearer {token}"), format!("Bearer {}", "a".repeat(43)));
        let stream = Request::new("GET").path("/sse");
        for request in [call("slow"), Request::new("GET"), stream, Request::new("POST").path("/message")] {
            for (token, challenge) in [
                (None, "Bearer"),
                (Some("Basic abc"), "Bearer"),
                (Some(&*wrong), "Bearer error=\"invalid_token\""),
                (Some(&*token), "Bearer"),
            ] {
                let response = server.send(&request, token).await;
                let found = response.header("www-authenticate").unwrap_or_default();
                assert!(response.status == 401 && found.starts_with(challenge), "{request:?} {token:?}: {response:?}");
            }
        }
        assert_eq!(server.send(&call("add"), Some(&right)).await.status, 200);
        // Orchestrators and browsers send no token.
        assert_eq!(server.send(&Request::new("GET").path("/healthz"), None).await.status, 200);
        let preflight = Request::new("OPTIONS").with("origin", "http://localhost:3000");
        let preflight = preflight.with("access-control-request-method", "POST");
        assert_eq!(server.send(&preflight, None).await.status, 200);
        // How to use the token is printed, but the token is not.
        let mut line = String::new();
        std::io::BufRead::read_line(&mut server.stderr, &mut line).unwrap();
        assert!(line.contains(&format!("Bearer $(cat '{}')", path.display())) && !line.contains(&token), "{line}");
    }
}

#[test]
fn a_file_without_a_token_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "two words\n").unwrap();
    let output = fixture_at("127.0.0.1:0", "off").arg("--token-file").arg(&path).output().unwrap();
    let expected = format!("mcp-tests: token file `{}`: expected one token", path.display());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && stderr.contains(&expected), "{stderr}");
}

/// A token file that its group or other users may read is used, with a warning.
#[test]
fn a_token_file_with_open_permissions_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "a-token").unwrap();
    for (mode, is_reported) in [(0o600, false), (0o640, true), (0o604, true)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = fixture_at("127.0.0.1:0", "warn");
        let mut child =
            command.arg("--token-file").arg(&path).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut before = String::new();
        while !before.contains("listens on http") {
            assert_ne!(stderr.read_line(&mut before).unwrap(), 0, "{mode:o}: the server has not started: {before}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(before.contains("chmod 600"), is_reported, "{mode:o}: {before}");
    }
}

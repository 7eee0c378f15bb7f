//! Connections: credentials, programs, and upstreams that end.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_proxy::Upstream;
use mcp_runtime::{Revision, Server, auth::Identity};
use serde_json::json;

use crate::{
    eventually,
    fake::{self, Reply, lists, tool},
    gateway, url,
};

fn respond(method: &str) -> Reply {
    match method {
        "tools/call" => Reply::Result(json!({"content": [{"type": "text", "text": "done"}]})),
        _ => lists(method, json!([tool("a")])),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_configured_credentials_reach_the_upstream() {
    let fake = fake::start(|method, _| respond(method)).await;
    let asked = Arc::<Mutex<Vec<Option<String>>>>::default();
    let log = Arc::clone(&asked);
    let upstream = Upstream::http(url(&fake.address)).header("x-key", "configured").headers_for(
        move |identity: Option<Identity>| {
            let name = identity.map(|identity| identity.principal().to_owned());
            log.lock().unwrap().push(name.clone());
            async move {
                let token = format!("Bearer for-{}", name.as_deref().unwrap_or("anonymous"));
                let header = (HeaderName::from_static("authorization"), HeaderValue::from_str(&token)?);
                Ok::<_, http::header::InvalidHeaderValue>(HeaderMap::from_iter([header]))
            }
        },
    );
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    for (principal, calls) in [("ada", 3), ("bob", 2)] {
        for _ in 0..calls {
            let mut client = server
                .test_client(Revision::V2026_07_28)
                .with_extension(Identity::new(principal))
                .with_header("authorization", "Bearer callers-own-token")
                .with_header("x-key", "callers-own-key")
                .with_header("cookie", "callers-own-cookie");
            assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done");
        }
    }
    assert_eq!(*asked.lock().unwrap(), [None, Some("ada".to_owned()), Some("bob".to_owned())], "one connection each");
    let heads = fake.heads.lock().unwrap();
    assert!(heads.iter().all(|head| !head.contains("callers-own") && head.contains("x-key: configured")), "{heads:#?}");
    assert!(heads.iter().any(|head| head.contains("bearer for-ada")));
}

/// The shell writes its id and its environment, and becomes the program.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_started_without_secrets_and_restarted_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("cd {}; env > env; echo $$ > id; exec {} ", folder.path().display(), env!("CARGO_BIN_EXE_fixture"));
    let upstream = Upstream::command("sh", ["-c", &script]).env("GIVEN", "1");
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    let tools = client.tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name() == "up_prints"), "{tools:?}");
    assert_eq!(client.call("up_prints", ()).await.unwrap().text(), "printed");
    let environment = std::fs::read_to_string(folder.path().join("env")).unwrap();
    assert!(environment.contains("GIVEN=1") && environment.contains("PATH="), "{environment}");
    assert!(!environment.contains("CARGO"), "cargo sets variables of this process: {environment}");
    let id = std::fs::read_to_string(folder.path().join("id")).unwrap();
    std::process::Command::new("kill").args(["-9", id.trim()]).status().unwrap();
    eventually!(client.call("up_prints", ()).await.unwrap().text() == "printed");
    assert_ne!(std::fs::read_to_string(folder.path().join("id")).unwrap(), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_may_start_late() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut client = gateway(&free).await.test_client(Revision::V2026_07_28);
    assert!(client.tools().await.is_err(), "a server without entries has no lists");
    let listener = tokio::net::TcpListener::bind(&free).await.unwrap();
    let _fake = fake::start_on(listener, |method, _| respond(method));
    eventually!(client.tools().await.is_ok_and(|tools| tools.len() == 1));
    assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_dead_upstream_stay_and_say_so() {
    let is_dead = Arc::new(Mutex::new(false));
    let dead = Arc::clone(&is_dead);
    let fake = fake::start(move |method, _| {
        if *dead.lock().unwrap() { Reply::Head("503 Service Unavailable\r\n".to_owned()) } else { respond(method) }
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    *is_dead.lock().unwrap() = true;
    let error = client.call("up_a", ()).await.unwrap();
    assert!(error.is_error() && error.text().starts_with("up: the upstream is unavailable: "), "{}", error.text());
    assert_eq!(client.tools().await.unwrap().len(), 1);
    *is_dead.lock().unwrap() = false;
    tokio::time::sleep(Duration::from_millis(500)).await;
    eventually!(client.call("up_a", ()).await.unwrap().text() == "done");
}

/// The failure of a request over HTTP, and of a list, affects nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn failures_of_one_request_remain_alone() {
    let failing = Arc::new(Mutex::new(""));
    let failure = Arc::clone(&failing);
    let fake = fake::start(move |method, params| {
        if *failure.lock().unwrap() == method || params["name"] == "b" {
            return Reply::Head("500 Internal Server Error\r\n".to_owned());
        }
        if method == "tools/call" { respond(method) } else { lists(method, json!([tool("a"), tool("b")])) }
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    for _ in 0..3 {
        assert!(client.call("up_b", ()).await.unwrap().is_error());
        assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done", "no pause for other calls");
    }
    let connections = fake.heads.lock().unwrap().iter().filter(|head| head.contains("mcp-method: initialize")).count();
    assert!(connections <= 1, "{connections}");
}

/// Upstreams with equal prefixes keep their own entries, and a list that fails keeps its entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_concerns_the_own_entries() {
    let is_failing = Arc::new(Mutex::new(false));
    let failing = Arc::clone(&is_failing);
    let first = fake::start(move |method, _| match method {
        "tools/list" if *failing.lock().unwrap() => Reply::Error(json!({"code": -32000, "message": "too many"})),
        "tools/call" => Reply::Head("401 Unauthorized\r\nwww-authenticate: Bearer\r\n".to_owned()),
        _ => lists(method, json!([tool("a")])),
    })
    .await;
    let is_changed = Arc::new(Mutex::new(false));
    let changed = Arc::clone(&is_changed);
    let second = fake::start(move |method, _| match method {
        "tools/call" => Reply::Head("401 Unauthorized\r\nwww-authenticate: Bearer\r\n".to_owned()),
        _ => lists(method, json!([tool(if *changed.lock().unwrap() { "c" } else { "b" })])),
    })
    .await;
    let server = Upstream::http(url(&second.address)).add_to(gateway(&first.address).await, "up").await.unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    assert_eq!(client.tools().await.unwrap().len(), 2);
    (*is_failing.lock().unwrap(), *is_changed.lock().unwrap()) = (true, true);
    // Rejected credentials end the connection, and the lists are read again.
    for tool in ["up_a", "up_b"] {
        assert!(client.call(tool, ()).await.unwrap().is_error());
    }
    eventually!(client.tools().await.unwrap().iter().any(|tool| tool.name() == "up_c"));
    tokio::time::sleep(Duration::from_millis(700)).await;
    let tools = client.tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(names, ["up_a", "up_c"]);
}

/// A launcher such as `npx` starts the server as its own child.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_ends_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {}; sleep 600 < /dev/null > /dev/null & echo $! > id; {}; exit",
        folder.path().display(),
        env!("CARGO_BIN_EXE_fixture")
    );
    let server =
        Upstream::command("sh", ["-c", &script]).add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let id = std::fs::read_to_string(folder.path().join("id")).unwrap();
    let is_running = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    if !cfg!(target_os = "linux") {
        return;
    }
    assert!(is_running());
    drop(server);
    eventually!(!is_running());
}

#[tokio::test]
async fn mistakes_are_reported() {
    let cases = [
        (Upstream::http("ftp://x"), "up", "the URL is invalid"),
        (Upstream::http("http:///x"), "up", "the URL is invalid"),
        (Upstream::http("http://x").header("a b", "c"), "up", "the header \"a b\" is invalid"),
        (Upstream::http("http://x").header("a", "b\nc"), "up", "the header \"a\" is invalid"),
        (Upstream::http("http://x").env("A", "b"), "up", "only commands"),
        (Upstream::command("x", ["y"]).header("a", "b"), "up", "only upstreams over HTTP"),
        (Upstream::command("x", ["y"]), "Up", "the prefix \"Up\" is invalid"),
        (Upstream::command("x", ["y"]), "a_b", "the prefix \"a_b\" is invalid"),
    ];
    for (upstream, prefix, expected) in cases {
        let error = upstream.add_to(Server::empty("gateway", "1.0.0"), prefix).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

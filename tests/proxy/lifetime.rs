//! Upstreams that start late, fail and end.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::HeaderMap;
use mcp_proxy::Upstream;
use mcp_runtime::{Revision, Server, auth::Identity};
use serde_json::json;
use tokio::{net::TcpSocket, sync::Semaphore};

use crate::{
    connections::respond,
    eventually,
    fake::{self, Reply, lists, tool},
    gateway, restarting, url,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_may_start_late() {
    // A socket that does not listen refuses connections, and keeps its port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let mut client = gateway(&socket.local_addr().unwrap().to_string()).await.test_client(Revision::V2026_07_28);
    assert!(client.tools().await.is_err(), "a server without entries has no lists");
    let _fake = fake::start_on(socket.listen(64).unwrap(), |method, _| respond(method));
    eventually!(client.tools().await.is_ok_and(|tools| tools.len() == 1));
    assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done");
}

/// The shell writes its id and its environment, and becomes the program.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_started_without_secrets_and_restarted_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("cd {}; env > env; echo $$ > id; exec {} ", folder.path().display(), env!("CARGO_BIN_EXE_fixture"));
    let path = format!("{}:/given", std::env::var("PATH").unwrap());
    let upstream = Upstream::command("sh", ["-c", &script]).env("GIVEN", "1").env("PATH", &path);
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    let tools = client.tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name() == "up_prints"), "{tools:?}");
    assert_eq!(client.call("up_prints", ()).await.unwrap().text(), "printed");
    let environment = std::fs::read_to_string(folder.path().join("env")).unwrap();
    for expected in ["GIVEN=1", &format!("PATH={path}")] {
        assert!(environment.lines().any(|line| line == expected), "{expected}: {environment}");
    }
    assert!(environment.contains("HOME=") || std::env::var_os("HOME").is_none(), "{environment}");
    assert!(!environment.contains("CARGO"), "cargo sets variables of this process: {environment}");
    let id = std::fs::read_to_string(folder.path().join("id")).unwrap();
    std::process::Command::new("kill").args(["-9", id.trim()]).status().unwrap();
    eventually!(client.call("up_prints", ()).await.unwrap().text() == "printed");
    assert_ne!(std::fs::read_to_string(folder.path().join("id")).unwrap(), id);
}

/// A program that ends at once is not started by each call.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_is_not_started_all_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let (path, fixture) = (folder.path(), env!("CARGO_BIN_EXE_fixture"));
    let script = format!("cd {}; echo $$ >> ids; [ $(wc -l < ids) = 1 ] && exec {fixture}", path.display());
    let upstream = Upstream::command("sh", ["-c", &script]);
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    let ids = || std::fs::read_to_string(path.join("ids")).unwrap();
    assert!(std::process::Command::new("kill").args(["-9", ids().trim()]).status().unwrap().success());
    eventually!(client.call("up_prints", ()).await.unwrap().is_error());
    for _ in 0..50 {
        assert!(client.call("up_prints", ()).await.unwrap().is_error());
    }
    assert!(ids().lines().count() < 20, "{}", ids());
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

/// The connection, its subscription and the reading of lists end with the server, also while it has none of the entries.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_left_alone_after_its_server() {
    let invalid = json!({"name": "a", "inputSchema": {"type": "object", "$ref": "#/none"}});
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let cases =
        [(false, json!([tool("a")])), (false, json!([])), (false, json!([invalid])), (true, json!([tool("a")]))];
    for (fakes, (is_stateless, tools)) in cases.into_iter().enumerate() {
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        let listed = tools.clone();
        let fake = fake::start(move |method, _| match method {
            "server/discover" if is_stateless => fake::discovered(json!({"tools": {}})),
            "subscriptions/listen" => Reply::Subscribed,
            _ if is_stateless => {
                Reply::Result(json!({"resultType": "complete", "tools": listed, "ttlMs": 0, "cacheScope": "private"}))
            }
            _ => lists(method, listed.clone()),
        })
        .await;
        let upstream = Upstream::http(url(&fake.address)).headers_for(move |_: Option<Identity>| {
            let _held = &holds;
            async { Ok::<_, io::Error>(HeaderMap::new()) }
        });
        let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
        let built = server.build().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(Arc::strong_count(&held), 2, "{tools}");
        drop(built);
        eventually!(Arc::strong_count(&held) == 1);
        // Each fake accepts connections until the end.
        eventually!(tasks() <= before + fakes + 1);
    }
}

/// A program may remove the entries of an upstream, which then has no purpose, even while its lists are read again.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_left_alone_after_its_entries_are_removed() {
    for is_reading in [false, true] {
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        let listings = AtomicUsize::new(0);
        let released = Arc::new(Semaphore::new(0));
        let release = Arc::clone(&released);
        let fake = fake::start(move |method, _| {
            let listed = |name: &str| {
                json!({"resultType": "complete", "tools": [tool(name)], "ttlMs": 0, "cacheScope": "private"})
            };
            match method {
                "server/discover" => fake::discovered(json!({"tools": {}})),
                "subscriptions/listen" => Reply::Subscribed,
                _ => match listings.fetch_add(1, Ordering::Relaxed) {
                    0 => Reply::Result(listed("a")),
                    1 => Reply::Result(listed("b")),
                    _ if is_reading => Reply::Late(Arc::clone(&release), listed("c")),
                    _ => Reply::Result(listed("c")),
                },
            }
        })
        .await;
        let (current, servers) = tokio::sync::watch::channel(fake.address.clone());
        let upstream = Upstream::http(url(&restarting(servers).await)).headers_for(move |_: Option<Identity>| {
            let _held = &holds;
            async { Ok::<_, io::Error>(HeaderMap::new()) }
        });
        let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
        let tools = async || server.test_client(Revision::V2026_07_28).tools().await.unwrap();
        // With the subscription, the lists are read again.
        eventually!(tools().await[0]["name"] == "up_b");
        tokio::time::sleep(Duration::from_millis(50)).await;
        // The subscription ends, and with another one, the lists are read again.
        let reconnect = || current.send(fake.address.clone()).unwrap();
        if is_reading {
            reconnect();
            eventually!(fake.count("tools/list") == 3);
        }
        let removed: [mcp_runtime::function::Entry; 0] = [];
        server.handle().replace_entries(|entry| entry.has_tag("upstream:up"), removed).unwrap();
        if is_reading {
            released.add_permits(1);
        } else {
            reconnect();
        }
        eventually!(Arc::strong_count(&held) == 1);
        assert!(tools().await.is_empty(), "reading: {is_reading}");
    }
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

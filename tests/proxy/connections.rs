//! Connections: callers, credentials, and what upstreams send on them.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use mcp_proxy::Upstream;
use mcp_runtime::{Context, Level, Revision, Server, auth::Identity, function::ToolEntry};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Semaphore,
};

use crate::{
    eventually,
    fake::{self, Fake, Reply, lists, tool},
    gateway, serve, url,
};

pub(crate) fn respond(method: &str) -> Reply {
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
    let upstream = Upstream::http(url(&fake.address))
        .header("x-key", "configured")
        .header("x-key", "twice")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .headers_for(move |identity: Option<Identity>| {
            let name = identity.map(|identity| identity.principal().to_owned());
            log.lock().unwrap().push(name.clone());
            async move {
                let token = format!("Bearer for-{}", name.as_deref().unwrap_or("anonymous"));
                let header = (HeaderName::from_static("authorization"), HeaderValue::from_str(&token)?);
                Ok::<_, http::header::InvalidHeaderValue>(HeaderMap::from_iter([header]))
            }
        });
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
    let mut keys = heads.iter().map(|head| head.lines().filter_map(|line| line.strip_prefix("x-key: ")));
    assert!(keys.all(|keys| keys.eq(["configured, twice"])), "{heads:#?}");
    assert!(heads.iter().all(|head| head.contains("cookie: a=1; b=2") && !head.contains("callers-own")), "{heads:#?}");
    assert!(heads.iter().any(|head| head.contains("bearer for-ada")));
    let accepts = |head: &str, kind| head.lines().any(|line| line.starts_with("accept: ") && line.contains(kind));
    let mut posts = heads.iter().filter(|head| head.starts_with("post "));
    let accept_both = posts.all(|head| accepts(head, "application/json") && accepts(head, "text/event-stream"));
    assert!(accept_both, "{heads:#?}");
}

/// They could take credentials to another host.
#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed() {
    let other = fake::start(|method, _| respond(method)).await;
    let redirect = format!("307 Temporary Redirect\r\nlocation: {}\r\n", url(&other.address));
    let fake = fake::start(move |method, _| match method {
        "tools/call" => Reply::Head(redirect.clone()),
        _ => respond(method),
    })
    .await;
    let upstream = Upstream::http(url(&fake.address)).header("x-key", "configured");
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let result = server.test_client(Revision::V2025_11_25).call("up_a", ()).await.unwrap();
    assert!(result.is_error(), "{}", result.text());
    assert_eq!(*other.heads.lock().unwrap(), [""; 0]);
}

/// The upstream rejects calls without the header. Each connection knows the headers of the lists that it has read.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_sent_as_headers_on_every_connection() {
    let routed = |header: &str| {
        let schema = json!({"type": "object", "properties": {"place": {"type": "string", "x-mcp-header": header}}});
        ToolEntry::new("routed", schema, |arguments: Map<String, Value>, _: Context| async move {
            Value::from(arguments)["place"].to_string()
        })
    };
    for is_per_caller in [false, true] {
        let server = Server::empty("upstream", "1.0.0").with_entry(routed("Region")).build().unwrap();
        let upstream = Upstream::http(url(&serve(&server).await));
        let upstream = if is_per_caller { upstream.per_caller() } else { upstream };
        let gateway = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
        let mut client = gateway.test_client(Revision::V2026_07_28).with_extension(Identity::new("ada"));
        for place in ["here", "dört", "=?base64?x?="] {
            let result = client.call("up_routed", json!({ "place": place })).await.unwrap();
            assert_eq!(result.text(), format!("{place:?}"), "{is_per_caller}");
        }
        assert_eq!(client.call("up_routed", json!({})).await.unwrap().text(), "null", "{is_per_caller}");
        server.handle().replace_entries(|_| true, [routed("Zone")]).unwrap();
        let result = client.call("up_routed", json!({"place": "there"})).await.unwrap();
        assert_eq!(result.text(), "\"there\"", "{is_per_caller}: the tool has changed");
        eventually!(client.tools().await.unwrap()[0]["inputSchema"]["properties"]["place"]["x-mcp-header"] == "Zone");
    }
}

/// The connection that was unused for the longest time is closed for a new one.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_callers_are_limited() {
    let credentials =
        |upstream: Upstream| upstream.headers_for(|_: Option<Identity>| async { Ok::<_, io::Error>(HeaderMap::new()) });
    for (own_connections, has_credentials) in [(credentials as fn(_) -> _, true), (Upstream::per_caller, false)] {
        let fake = fake::start(|method, _| respond(method)).await;
        let upstream = own_connections(Upstream::http(url(&fake.address)));
        let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
        let (first, others) =
            ("caller 0".to_owned(), (1..64).map(|number| format!("caller {number}")).collect::<Vec<_>>());
        let mut opened = 1;
        let callers = std::iter::once(first.clone()).chain(others.clone()).map(|caller| (caller, true));
        let further = [(first.clone(), false), ("new".to_owned(), true), (first, false), (others[0].clone(), true)];
        for (caller, is_new) in callers.chain(further) {
            let identity = Identity::new(caller.clone());
            let mut client = server.test_client(Revision::V2026_07_28).with_extension(identity);
            assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done");
            opened += usize::from(is_new);
            assert_eq!(fake.count("initialize"), opened, "{caller}");
        }
        // Only credentials depend on more than the principal.
        let identity = || Identity::new(others[0].clone());
        let now = std::time::SystemTime::now();
        let expiry = |hours: u64| now + Duration::from_secs(hours * 3600);
        for (case, identity) in [
            ("scopes", identity().with_scopes(["read"])),
            ("claims", identity().with_claims(json!({"tenant": "a"}))),
            ("other claims", identity().with_claims(json!({"tenant": "b"}))),
            ("expiry", identity().with_expiry(expiry(1))),
            ("other expiry", identity().with_expiry(expiry(2))),
        ] {
            let mut client = server.test_client(Revision::V2026_07_28).with_extension(identity);
            client.call("up_a", ()).await.unwrap();
            opened += usize::from(has_credentials);
            assert_eq!(fake.count("initialize"), opened, "{case}");
        }
        // They take the place of the same caller's connection.
        let mut client = server.test_client(Revision::V2026_07_28).with_extension(Identity::new(others[3].clone()));
        client.call("up_a", ()).await.unwrap();
        assert_eq!(fake.count("initialize"), opened, "another caller");
    }
}

/// Callers without credentials have no connection.
#[tokio::test(flavor = "multi_thread")]
async fn callers_without_a_connection_make_room() {
    let fake = fake::start(|method, _| respond(method)).await;
    let upstream = Upstream::http(url(&fake.address)).headers_for(|identity: Option<Identity>| async move {
        let is_known = identity.is_none_or(|identity| identity.principal() == "known");
        is_known.then(HeaderMap::new).ok_or("unknown")
    });
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    let unknown = "up: the upstream is unavailable: there are no credentials for this caller";
    let callers = (0..64).map(|number| (format!("unknown {number}"), unknown));
    for (caller, expected) in callers.chain([("known".to_owned(), "done")]) {
        let mut client = server.test_client(Revision::V2026_07_28).with_extension(Identity::new(caller.clone()));
        assert_eq!(client.call("up_a", ()).await.unwrap().text(), expected, "{caller}");
    }
}

/// Starts a server with the tools `a`, and `late`, whose calls wait for a permit.
async fn late_tool() -> (Fake, Arc<Semaphore>) {
    let signal = Arc::new(Semaphore::new(0));
    let late = Arc::clone(&signal);
    let respond = move |method: &str, params: &Value| match (method, params["name"].as_str()) {
        ("tools/call", Some("late")) => Reply::Late(Arc::clone(&late), json!({"content": []})),
        ("tools/call", _) => respond(method),
        _ => lists(method, json!([tool("a"), tool("late")])),
    };
    (fake::start(respond).await, signal)
}

/// A connection that a call uses is not closed for another caller.
#[tokio::test(flavor = "multi_thread")]
async fn connections_in_use_remain() {
    let (fake, signal) = late_tool().await;
    let upstream = Upstream::http(url(&fake.address)).per_caller();
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    let client = |name: &str| server.test_client(Revision::V2025_11_25).with_extension(Identity::new(name));
    let mut busy: Vec<_> = (0..64).map(|number| client(&format!("caller {number}"))).collect();
    let calls: Vec<_> = busy.iter_mut().map(|it| it.send_request("tools/call", json!({"name": "up_late"}))).collect();
    eventually!(fake.count("tools/call") == 64);
    let refused = client("new").call("up_a", ()).await.unwrap().text();
    assert!(refused.contains("too many callers use it"), "{refused}");
    signal.add_permits(64);
    for (client, call) in busy.iter_mut().zip(calls) {
        client.response(call).await.unwrap();
    }
    eventually!(client("new").call("up_a", ()).await.unwrap().text() == "done");
}

/// An attempt ends the program, so that each must last longer than the one before.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_take_longer_to_start_than_an_attempt() {
    let script = format!("sleep 1; exec {}", env!("CARGO_BIN_EXE_fixture"));
    let upstream = Upstream::command("sh", ["-c", &script]).timeout(Duration::from_millis(400));
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    let mut client = server.test_client(Revision::V2026_07_28);
    eventually!(client.call("up_add", json!({"a": 1, "b": 2})).await.is_ok_and(|sum| sum.text() == "3"));
}

/// Some servers ask questions only in sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_opened_if_it_is_demanded() {
    let fake = fake::start(|method, _| respond(method)).await;
    let upstream = Upstream::http(url(&fake.address)).with_sessions().timeout(Duration::MAX);
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    assert_eq!(server.test_client(Revision::V2026_07_28).call("up_a", ()).await.unwrap().text(), "done");
    assert_eq!((fake.count("server/discover"), fake.count("initialize")), (0, 1));
}

/// A principal with new credentials has a new connection.
#[tokio::test(flavor = "multi_thread")]
async fn the_connections_of_a_principal_leave_room_for_others() {
    let (fake, signal) = late_tool().await;
    let upstream = Upstream::http(url(&fake.address)).headers_for(async |_| Ok::<_, &str>(HeaderMap::new()));
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    let client = |name: &str, token: usize| {
        let identity = Identity::new(name).with_scopes([format!("token-{token}")]);
        server.test_client(Revision::V2025_11_25).with_extension(identity)
    };
    let mut busy: Vec<_> = (0..8).map(|token| client("bob", token)).collect();
    let calls: Vec<_> = busy.iter_mut().map(|it| it.send_request("tools/call", json!({"name": "up_late"}))).collect();
    eventually!(fake.count("tools/call") == 8);
    let refused = client("bob", 8).call("up_a", ()).await.unwrap().text();
    assert!(refused.contains("this caller uses too many credentials"), "{refused}");
    assert_eq!(client("ada", 8).call("up_a", ()).await.unwrap().text(), "done");
    signal.add_permits(8);
    for (client, call) in busy.iter_mut().zip(calls) {
        client.response(call).await.unwrap();
    }
    eventually!(client("bob", 8).call("up_a", ()).await.unwrap().text() == "done");
}

/// A program for each principal, and one that has been started for the lists.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn each_caller_may_have_a_program_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo $$ >> {}/ids; exec {}", folder.path().display(), env!("CARGO_BIN_EXE_fixture"));
    let upstream = Upstream::command("sh", ["-c", &script]).per_caller();
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    let ids = || std::fs::read_to_string(folder.path().join("ids")).unwrap();
    for (caller, programs) in [(None, 1), (Some("ada"), 2), (Some("bob"), 3), (Some("ada"), 3), (None, 3)] {
        let mut client = server.test_client(Revision::V2025_11_25);
        if let Some(name) = caller {
            client = client.with_extension(Identity::new(name));
        }
        assert_eq!(client.call("up_echo", json!({"text": "a"})).await.unwrap().text(), "a");
        assert_eq!(ids().lines().count(), programs, "{caller:?}");
    }
    drop(server);
    let is_running = |id: &str| std::path::Path::new("/proc").join(id).join("exe").exists();
    eventually!(!ids().lines().any(is_running));
}

#[derive(Clone, Copy, Debug)]
enum By {
    Stdio,
    Anonymous,
    Name(&'static str),
}

/// Callers of a program in turn, and whether each one receives the log message of its call, which does not name its call.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn log_messages_reach_the_only_caller_of_a_connection() {
    use By::{Anonymous, Name, Stdio};
    let cases: [(bool, &[(By, bool)]); 5] = [
        (false, &[(Stdio, true), (Stdio, true)]),
        (false, &[(Name("ada"), false), (Stdio, false)]),
        (false, &[(Stdio, true), (Anonymous, false), (Stdio, false)]),
        (true, &[(Name("ada"), true), (Name("bob"), true), (Name("ada"), true), (Stdio, true)]),
        (true, &[(Anonymous, false), (Name("ada"), true), (Stdio, false)]),
    ];
    for (is_per_caller, callers) in cases {
        let upstream = Upstream::command(env!("CARGO_BIN_EXE_fixture"), ["--forward-log"]).env("RUST_LOG", "info");
        let upstream = if is_per_caller { upstream.per_caller() } else { upstream };
        let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
        for (number, (caller, receives)) in callers.iter().enumerate() {
            let client = server.test_client(Revision::V2025_11_25);
            let mut client = match caller {
                Stdio => client,
                Anonymous => client.with_header("x-a", "b"),
                Name(name) => client.with_extension(Identity::new(*name)),
            };
            client.set_log_level(Level::Debug).await.unwrap();
            client.call("up_logs_async", ()).await.unwrap();
            let received = !client.log_messages().is_empty();
            assert_eq!(received, *receives, "{is_per_caller}, {callers:?}, {number}");
        }
    }
}

/// A server that has only the transport of 2024-11-05 is no upstream, and the author learns why.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_with_only_http_and_sse_is_a_mistake() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let length = client.read(&mut head).await.unwrap();
                let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /message?id=1\n\n";
                let is_stream = head[..length].starts_with(b"GET");
                let refused = "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                client.write_all(if is_stream { stream } else { refused }.as_bytes()).await.unwrap();
                if is_stream {
                    std::future::pending().await
                }
            });
        }
    });
    let upstream = Upstream::http(format!("http://{address}/sse"));
    let error = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap_err().to_string();
    assert!(error.starts_with("up: the upstream is unavailable: it speaks HTTP+SSE"), "{error}");
}

/// A line that is too long ends the connection, and the next call opens another one.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn long_lines_of_a_program_fail_their_call() {
    let upstream = Upstream::command(env!("CARGO_BIN_EXE_fixture"), [] as [&str; 0]).max_message_bytes(256 * 1024);
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let mut client = server.timeout(Duration::from_secs(20)).test_client(Revision::V2025_11_25);
    for (length, is_too_long) in [(200 * 1024, false), (300 * 1024, true)] {
        let text = client.call("up_echo", json!({"text": "x".repeat(length)})).await.unwrap().text();
        assert_eq!(text.len() < length, is_too_long, "{}", &text[..text.len().min(200)]);
        assert_eq!(text.contains("up: the upstream is unavailable: the connection was lost"), is_too_long);
    }
    eventually!(client.call("up_echo", json!({"text": "a"})).await.unwrap().text() == "a");
}

/// The failure of a request over HTTP does not affect calls that run at the same time, nor the connection.
#[tokio::test(flavor = "multi_thread")]
async fn failures_of_one_request_remain_alone() {
    let signal = Arc::new(Semaphore::new(0));
    let late = Arc::clone(&signal);
    let fake = fake::start(move |method, params| match (method, params["name"].as_str()) {
        ("tools/call", Some("fails")) => Reply::Head("500 Internal Server Error\r\n".to_owned()),
        ("tools/call", Some("late")) => {
            Reply::Late(Arc::clone(&late), json!({"content": [{"type": "text", "text": "late"}]}))
        }
        ("tools/call", _) => respond(method),
        _ => lists(method, json!([tool("a"), tool("fails"), tool("late")])),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    let running = client.send_request("tools/call", json!({"name": "up_late"}));
    eventually!(fake.count("tools/call") == 1);
    for _ in 0..3 {
        assert!(client.call("up_fails", ()).await.unwrap().is_error());
        assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done", "no pause for other calls");
    }
    signal.add_permits(1);
    let result = client.response(running).await.unwrap();
    assert_eq!(result["content"][0]["text"], "late", "{result}");
    assert_eq!((fake.count("initialize"), fake.count("tools/call")), (1, 7), "one connection, and no repetition");
}

/// Credentials that the upstream rejects, since they have expired, are requested again, once for each call.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_credentials_are_replaced() {
    let valid = Arc::new(AtomicBool::new(true));
    let is_valid = Arc::clone(&valid);
    let fake = fake::start(move |method, _| match method {
        "tools/call" if !is_valid.load(Ordering::Relaxed) => {
            Reply::Head("401 Unauthorized\r\nwww-authenticate: Bearer\r\n".to_owned())
        }
        _ => respond(method),
    })
    .await;
    let (issued, renews) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (issuer, renewal) = (Arc::clone(&issued), (Arc::clone(&renews), Arc::clone(&valid)));
    let upstream = Upstream::http(url(&fake.address)).headers_for(move |identity: Option<Identity>| {
        let number = issuer.fetch_add(usize::from(identity.is_some()), Ordering::Relaxed) + 1;
        renewal.1.fetch_or(identity.is_some() && renewal.0.load(Ordering::Relaxed), Ordering::Relaxed);
        let header = HeaderValue::from_str(&format!("Bearer {number}")).unwrap();
        async move { Ok::<_, io::Error>(HeaderMap::from_iter([(AUTHORIZATION, header)])) }
    });
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let mut client = server.test_client(Revision::V2026_07_28).with_extension(Identity::new("ada"));
    // The pause between two attempts to connect, in milliseconds, has passed when credentials expire.
    for (expires, is_renewed, result, tokens) in [
        (None, true, "done", 1),
        (None, true, "done", 1),
        (Some(600), true, "done", 2),
        (Some(1100), false, "up: the upstream is unavailable: it rejects the credentials of this server", 3),
    ] {
        tokio::time::sleep(Duration::from_millis(expires.unwrap_or_default())).await;
        valid.fetch_and(expires.is_none(), Ordering::Relaxed);
        renews.store(is_renewed, Ordering::Relaxed);
        assert_eq!(client.call("up_a", ()).await.unwrap().text(), result);
        assert_eq!(issued.load(Ordering::Relaxed), tokens);
    }
    assert!(fake.heads.lock().unwrap().iter().any(|head| head.contains("bearer 2")));
}

/// The same credentials would be rejected again.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_rejected_credentials_of_the_server_is_not_repeated() {
    let fake = fake::start(|method, _| match method {
        "tools/call" => Reply::Head("401 Unauthorized\r\nwww-authenticate: Bearer\r\n".to_owned()),
        _ => respond(method),
    })
    .await;
    let upstream = Upstream::http(url(&fake.address)).header("authorization", "Bearer a");
    let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let result = server.test_client(Revision::V2026_07_28).call("up_a", ()).await.unwrap();
    assert_eq!(result.text(), "up: the upstream is unavailable: it rejects the credentials of this server");
    assert_eq!(fake.count("tools/call"), 1);
}

/// The upstream has not processed a call in a session that it no longer knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_an_expired_session_is_repeated() {
    let is_expired = AtomicBool::new(true);
    let fake = fake::start(move |method, _| match method {
        // Only sessions have such a stream.
        "GET" => Reply::Stream(Arc::new(Semaphore::new(0))),
        "tools/call" if is_expired.swap(false, Ordering::Relaxed) => Reply::Head("404 Not Found\r\n".to_owned()),
        _ => respond(method),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    // The pause between two attempts to connect.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done");
    assert_eq!((fake.count("initialize"), fake.count("tools/call")), (2, 2));
}

/// The first revision has no capability for completions. Other errors are passed on.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_of_the_first_revision_may_have_no_completions() {
    let fake = fake::start(|method, params| match method {
        "initialize" => Reply::Result(json!({
            "protocolVersion": "2024-11-05", "capabilities": {"prompts": {}}, "serverInfo": {"name": "fake", "version": "1"},
        })),
        "prompts/list" => Reply::Result(json!({"prompts": [{"name": "greet", "arguments": [{"name": "style"}]}]})),
        "completion/complete" if params["argument"]["value"] == "bad" => {
            Reply::Error(json!({"code": -32602, "message": "Bad value"}))
        }
        "completion/complete" => Reply::Error(json!({"code": -32601, "message": "Method not found"})),
        _ => respond(method),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    let reference = json!({"type": "ref/prompt", "name": "up_greet"});
    let params = |value: &str| json!({"ref": reference, "argument": {"name": "style", "value": value}});
    let result = client.request("completion/complete", params("")).await.unwrap();
    assert_eq!((&result["completion"]["values"], fake.count("completion/complete")), (&json!([]), 1), "{result}");
    let error = client.request("completion/complete", params("bad")).await.unwrap_err();
    assert_eq!((error.code, &*error.message), (-32602, "Bad value"));
}

/// Entries that the server leaves out may become valid later. A list that an upstream does not have is not read again.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_entries_do_not_end_the_reading_of_lists() {
    let without_templates = fake::start(|method, _| match method {
        "resources/templates/list" => Reply::Error(json!({"code": -32601, "message": "Method not found"})),
        _ => respond(method),
    })
    .await;
    let _server = gateway(&without_templates.address).await.build().unwrap();
    // Before and after the list that the upstream does not have.
    for failing in ["tools/list", "prompts/list"] {
        let is_valid = Arc::new(AtomicBool::new(false));
        let valid = Arc::clone(&is_valid);
        let fake = fake::start(move |method, _| {
            let is_valid = valid.load(Ordering::Relaxed);
            let invalid = json!({"name": "a", "inputSchema": {"type": "object", "$ref": "#/none"}});
            match method {
                "resources/templates/list" => Reply::Error(json!({"code": -32601, "message": "Method not found"})),
                _ if method == failing && !is_valid => Reply::Error(json!({"code": -32000, "message": "later"})),
                _ => lists(method, json!([if is_valid { tool("a") } else { invalid }])),
            }
        })
        .await;
        let mut client = gateway(&fake.address).await.test_client(Revision::V2026_07_28);
        tokio::time::sleep(Duration::from_millis(100)).await;
        is_valid.store(true, Ordering::Relaxed);
        // An incomplete list is read again.
        eventually!(client.tools().await.is_ok_and(|tools| tools.len() == 1));
    }
    assert_eq!((without_templates.count("resources/templates/list"), without_templates.count("tools/list")), (1, 1));
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

#[tokio::test]
async fn mistakes_are_reported() {
    let cases = [
        (Upstream::http("ftp://x"), "up", "the URL is invalid"),
        (Upstream::http("http:///x"), "up", "the URL is invalid"),
        (Upstream::http("http://x").header("a b", "c"), "up", "the header \"a b\" is invalid"),
        (Upstream::http("http://x").header("a", "b\nc"), "up", "the header \"a\" is invalid"),
        (Upstream::http("http://x").env("A", "b"), "up", "only commands"),
        (Upstream::command("x", ["y"]).header("a", "b"), "up", "only upstreams over HTTP"),
        (
            Upstream::command("x", ["y"]).headers_for(|_| async { Ok::<_, io::Error>(HeaderMap::new()) }),
            "up",
            "only upstreams over HTTP",
        ),
        (Upstream::command("x", ["y"]), "Up", "the prefix \"Up\" is invalid"),
        (Upstream::command("x", ["y"]), "a_b", "the prefix \"a_b\" is invalid"),
        (Upstream::command("x", ["y"]), "7up", "the prefix \"7up\" is invalid"),
        (Upstream::command("x", ["y"]), &"a".repeat(33), "the prefix \"aaa"),
    ];
    for (upstream, prefix, expected) in cases {
        let error = upstream.add_to(Server::empty("gateway", "1.0.0"), prefix).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

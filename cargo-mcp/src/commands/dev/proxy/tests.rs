//! Scripts for the state machine: events are marked with `>`, and followed by the effects that they cause.

use std::time::Duration;

use super::{
    event::{Effect, Event, ProxyConfig, Severity, Timer},
    handle,
    state::Proxy,
};

/// Parses an event.
fn parse(text: &str) -> Event {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let numbered = || {
        let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        (number.parse().expect("a number"), rest.to_owned())
    };
    match name {
        "client" => Event::ClientLine(rest.to_owned()),
        "server" => Event::ServerLine(numbered().0, numbered().1),
        "exited" => Event::ServerExited(numbered().0, numbered().1),
        "built" => Event::BuildSucceeded(numbered().0),
        "failed" => Event::BuildFailed(rest.to_owned()),
        "start-timeout" => Event::TimerExpired(Timer::StartTimeout(numbered().0)),
        "grace-period" => Event::TimerExpired(Timer::GracePeriod(numbered().0)),
        "restart" => Event::TimerExpired(Timer::Restart),
        "shutdown-timeout" => Event::TimerExpired(Timer::Shutdown),
        "closed" => Event::ClientClosed,
        "signal" => Event::ShutdownRequested,
        _ => panic!("unknown event: {text}"),
    }
}

/// Formats an effect, or returns `None` for those that follow every start.
fn format(effect: Effect) -> Option<String> {
    Some(match effect {
        Effect::SendToClient(line) => format!("client {line}"),
        Effect::SendToServer(server, line) => format!("server {server} {line}"),
        Effect::StartServer(server, build) => format!("start {server} of build {build}"),
        Effect::CloseInput(server) => format!("close {server}"),
        Effect::StopServer(server) => format!("stop {server}"),
        Effect::StartTimer(delay, Timer::Restart) => format!("restart in {delay:?}"),
        Effect::StartTimer(..) | Effect::Activated(..) => return None,
        Effect::Report(Severity::Info, text) => format!("info {text}"),
        Effect::Report(Severity::Warning, text) => format!("warn {text}"),
        Effect::Exit => "exit".to_owned(),
    })
}

#[track_caller]
fn check(can_list: bool, name: &str, script: &str) {
    let mut proxy = Proxy::new(ProxyConfig {
        id_prefix: "own".to_owned(),
        can_list,
        grace: Duration::from_secs(5),
        start_timeout: Duration::from_secs(30),
    });
    let mut expected = Vec::new();
    let mut actual = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        expected.push(line.to_owned());
        if let Some(event) = line.strip_prefix("> ") {
            actual.push(line.to_owned());
            actual.extend(handle(&mut proxy, parse(event)).into_iter().filter_map(format));
        }
    }
    let (expected, actual) = (expected.join("\n"), actual.join("\n"));
    assert!(expected == actual, "{name}\n{}", similar::TextDiff::from_lines(&expected, &actual).unified_diff());
}

/// A client opens a session with build 1.
const SESSION: &str = r#"
    > built 1
    start 1 of build 1
    info serving
    > client {"id":1,"method":"initialize","params":{"x": 1.0}}
    server 1 {"id":1,"method":"initialize","params":{"x": 1.0}}
    > server 1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{}}}}
    client {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{"listChanged":true}}}}
    > client {"method":"notifications/initialized"}
    server 1 {"method":"notifications/initialized"}
"#;

/// A second build takes over that session.
const TAKE_OVER: &str = r#"
    > built 2
    start 2 of build 2
    server 2 {"id":"own-1","method":"initialize","params":{"x": 1.0}}
    > server 2 {"id":"own-1","result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{}}}}
    server 2 {"jsonrpc":"2.0","method":"notifications/initialized"}
    info reloaded
    client {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
"#;

#[test]
fn without_a_server() {
    for (name, script) in [
        (
            "requests are queued and pings are answered",
            r#"
            > client {"id":1,"method":"initialize"}
            > client {"id":2,"method":"ping"}
            client {"jsonrpc":"2.0","id":2,"result":{}}
            > failed E
            warn build failed; clients wait until a build succeeds
            > client {"id":3,"method":"tools/list"}
            > client {"method":"notifications/cancelled","params":{"requestId":3}}
            > built 1
            start 1 of build 1
            server 1 {"id":1,"method":"initialize"}
            info serving
            > server 1 {"id":1,"error":{"code":1,"message":"no"}}
            client {"id":1,"error":{"code":1,"message":"no"}}
            "#,
        ),
        (
            "an `initialize` request survives three crashes",
            r#"
            > client {"id":1,"method":"initialize"}
            > built 1
            start 1 of build 1
            server 1 {"id":1,"method":"initialize"}
            info serving
            > exited 1 exit 1
            warn the server exited (exit 1); the next request or change restarts it
            start 2 of build 1
            server 2 {"id":1,"method":"initialize"}
            info restarted
            > exited 2 exit 1
            warn the server exited (exit 1); the next request or change restarts it
            restart in 500ms
            > restart
            start 3 of build 1
            server 3 {"id":1,"method":"initialize"}
            info restarted
            > exited 3 exit 1
            warn the server exited (exit 1); the next request or change restarts it
            restart in 1s
            > restart
            start 4 of build 1
            server 4 {"id":1,"method":"initialize"}
            info restarted
            > exited 4 exit 1
            warn the server exited (exit 1); the next request or change restarts it
            client {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server exited while processing this request (exit 1)"}}
            "#,
        ),
        (
            "invalid messages are rejected and queued requests are answered at the end",
            r#"
            > client nonsense
            client {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a JSON-RPC message"}}
            > client {"id":"a","method":"tools/list"}
            > client [{"id":2,"method":"x"},{"method":"n"},{"id":3,"method":"y"}]
            > closed
            client {"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"stdin of `cargo mcp dev` was closed before the server started"}}
            client [{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"stdin of `cargo mcp dev` was closed before the server started"}},{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"stdin of `cargo mcp dev` was closed before the server started"}}]
            exit
            > client {"id":9,"method":"tools/list"}
            "#,
        ),
    ] {
        check(false, name, script);
    }
}

#[test]
fn after_a_new_build() {
    for (name, script) in [
        ("an idle server is stopped at once", format!("{SESSION}{TAKE_OVER}\nstop 1")),
        (
            "calls finish on the server where they started, and late responses are dropped",
            format!(
                r#"{SESSION}
                > client {{"id":5,"method":"tools/call"}}
                server 1 {{"id":5,"method":"tools/call"}}
                > client {{"id":6,"method":"tools/call"}}
                server 1 {{"id":6,"method":"tools/call"}}
                > client {{"id":7,"method":"tools/call"}}
                server 1 {{"id":7,"method":"tools/call"}}
                {TAKE_OVER}
                > client {{"id":8,"method":"tools/call"}}
                server 2 {{"id":8,"method":"tools/call"}}
                > client {{"id":5,"method":"tools/call"}}
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32600,"message":"a request with id 5 is still in flight"}}}}
                > server 1 {{"method":"notifications/progress","params":{{}}}}
                client {{"method":"notifications/progress","params":{{}}}}
                > server 2 {{"id":5,"result":{{}}}}
                > server 1 {{"id":5,"result":{{}}}}
                client {{"id":5,"result":{{}}}}
                > client {{"method":"notifications/cancelled","params":{{"requestId":6}}}}
                server 1 {{"method":"notifications/cancelled","params":{{"requestId":6}}}}
                > grace-period 1
                client {{"jsonrpc":"2.0","id":7,"error":{{"code":-32603,"message":"the server was rebuilt and the request did not finish within the grace period; send it again"}}}}
                stop 1
                > server 1 {{"id":7,"result":{{}}}}
                > exited 1 exit 0
                > server 2 {{"id":8,"result":{{}}}}
                client {{"id":8,"result":{{}}}}
                "#
            ),
        ),
        (
            "the last response stops the previous server",
            format!(
                r#"{SESSION}
                > client [{{"id":5,"method":"a"}},{{"id":6,"method":"b"}}]
                server 1 [{{"id":5,"method":"a"}},{{"id":6,"method":"b"}}]
                {TAKE_OVER}
                > server 1 [{{"id":6,"result":{{}}}},{{"id":5,"result":{{}}}}]
                client [{{"id":6,"result":{{}}}},{{"id":5,"result":{{}}}}]
                stop 1
                "#
            ),
        ),
        (
            "ids of server requests are unique, and late responses are dropped",
            format!(
                r#"{SESSION}
                > client {{"id":5,"method":"a"}}
                server 1 {{"id":5,"method":"a"}}
                > server 1 {{"id":0,"method":"elicitation/create"}}
                client {{"id":0,"method":"elicitation/create"}}
                {TAKE_OVER}
                > server 2 {{"id":0,"method":"roots/list"}}
                client {{"id":"cargo-mcp-2-1","method":"roots/list"}}
                > client {{"id":"cargo-mcp-2-1","result":{{}}}}
                server 2 {{"id":0,"result":{{}}}}
                > grace-period 1
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"the server was rebuilt and the request did not finish within the grace period; send it again"}}}}
                client {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":0,"reason":"the server was rebuilt or exited"}}}}
                stop 1
                > server 2 {{"id":0,"method":"roots/list"}}
                client {{"id":"cargo-mcp-2-2","method":"roots/list"}}
                > client {{"id":0,"result":{{}}}}
                "#
            ),
        ),
        (
            "the log level and subscriptions are replayed",
            format!(
                r#"{SESSION}
                > client {{"id":5,"method":"logging/setLevel","params":{{"level":"alert"}}}}
                server 1 {{"id":5,"method":"logging/setLevel","params":{{"level":"alert"}}}}
                > server 1 {{"id":5,"result":{{}}}}
                client {{"id":5,"result":{{}}}}
                > client {{"id":6,"method":"resources/subscribe","params":{{"uri":"a://b"}}}}
                server 1 {{"id":6,"method":"resources/subscribe","params":{{"uri":"a://b"}}}}
                > server 1 {{"id":6,"result":{{}}}}
                client {{"id":6,"result":{{}}}}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2025-06-18","capabilities":{{"logging":{{}},"tools":{{}}}}}}}}
                server 2 {{"jsonrpc":"2.0","method":"notifications/initialized"}}
                server 2 {{"id":"own-2","method":"logging/setLevel","params":{{"level":"alert"}}}}
                server 2 {{"id":"own-3","method":"resources/subscribe","params":{{"uri":"a://b"}}}}
                info reloaded
                client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}
                client {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"a://b"}}}}
                stop 1
                > server 2 {{"id":"own-2","result":{{}}}}
                > server 2 {{"id":"own-3","error":{{"code":1,"message":"not found"}}}}
                warn the new server rejected `resources/subscribe`, which the previous one accepted: not found
                > failed E
                warn build failed; still serving the last successful build
                "#
            ),
        ),
        (
            "a client with logging receives the compiler error",
            format!(
                r#"{SESSION}
                > failed src/main.rs:1: no
                warn build failed; still serving the last successful build
                client {{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","logger":"cargo mcp dev","data":"build failed: src/main.rs:1: no"}}}}
                "#
            ),
        ),
        (
            "a server that rejects the session does not become active",
            format!(
                r#"{SESSION}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2024-11-05","capabilities":{{}}}}}}
                stop 2
                warn the new server failed to start (it offers revision 2024-11-05, but the client uses 2025-06-18); still serving the previous one
                > client {{"id":5,"method":"a"}}
                server 1 {{"id":5,"method":"a"}}
                > built 3
                start 3 of build 3
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                > start-timeout 3
                stop 3
                warn the new server failed to start (no response within 30 s); still serving the previous one
                "#
            ),
        ),
        (
            "changed capabilities are reported",
            format!(
                r#"{SESSION}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2025-06-18","capabilities":{{"prompts":{{}}}}}}}}
                warn the server's capabilities changed from logging, tools to prompts; reconnect the client to use them
                server 2 {{"jsonrpc":"2.0","method":"notifications/initialized"}}
                info reloaded
                client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}
                stop 1
                "#
            ),
        ),
        (
            "a build replaces a candidate of an older one",
            format!(
                r#"{SESSION}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > built 3
                stop 2
                start 3 of build 3
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                > server 2 {{"id":"own-1","result":{{}}}}
                > exited 2 exit 0
                > exited 3 exit 1
                warn the new server failed to start (exit 1); still serving the previous one
                "#
            ),
        ),
        (
            "an unanswered `initialize` request moves to the new server",
            r#"
            > built 1
            start 1 of build 1
            info serving
            > client {"id":1,"method":"initialize"}
            server 1 {"id":1,"method":"initialize"}
            > built 2
            start 2 of build 2
            server 2 {"id":1,"method":"initialize"}
            info reloaded
            stop 1
            > server 1 {"id":1,"result":{}}
            > server 2 {"id":1,"error":{}}
            client {"id":1,"error":{}}
            "#
            .to_owned(),
        ),
    ] {
        check(false, name, &script);
    }
}

#[test]
fn after_a_crash() {
    let restart = r#"
        start 2 of build 1
        server 2 {"id":"own-1","method":"initialize","params":{"x": 1.0}}
    "#;
    for (name, script) in [
        (
            "calls are answered and the next one restarts the server",
            format!(
                r#"{SESSION}
                > client {{"id":5,"method":"a"}}
                server 1 {{"id":5,"method":"a"}}
                > client {{"id":6,"method":"b"}}
                server 1 {{"id":6,"method":"b"}}
                > client {{"method":"notifications/cancelled","params":{{"requestId":6}}}}
                server 1 {{"method":"notifications/cancelled","params":{{"requestId":6}}}}
                > exited 1 signal: 6
                warn the server exited (signal: 6); the next request or change restarts it
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"the server exited while processing this request (signal: 6)"}}}}
                > client {{"id":7,"method":"ping"}}
                client {{"jsonrpc":"2.0","id":7,"result":{{}}}}
                > client {{"method":"notifications/roots/list_changed"}}
                > client {{"id":8,"method":"c"}}
                {restart}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2025-06-18","capabilities":{{"logging":{{}},"tools":{{}}}}}}}}
                server 2 {{"jsonrpc":"2.0","method":"notifications/initialized"}}
                server 2 {{"id":8,"method":"c"}}
                info restarted
                client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}
                "#
            ),
        ),
        (
            "queued calls fail if the server does not restart",
            format!(
                r#"{SESSION}
                > exited 1 exit 1
                warn the server exited (exit 1); the next request or change restarts it
                > client {{"id":8,"method":"c"}}
                {restart}
                > exited 2 exit 1
                warn the server failed to start (exit 1); the next request starts it again
                client {{"jsonrpc":"2.0","id":8,"error":{{"code":-32603,"message":"the server failed to start (exit 1)"}}}}
                > client {{"id":9,"method":"d"}}
                restart in 500ms
                > client {{"id":10,"method":"e"}}
                > restart
                start 3 of build 1
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                > server 3 {{"id":"own-2","error":{{"code":1,"message":"not now"}}}}
                stop 3
                warn the server failed to start (it rejected the client's `initialize` request: not now); the next request starts it again
                client {{"jsonrpc":"2.0","id":10,"error":{{"code":-32603,"message":"the server failed to start (it rejected the client's `initialize` request: not now)"}}}}
                client {{"jsonrpc":"2.0","id":9,"error":{{"code":-32603,"message":"the server failed to start (it rejected the client's `initialize` request: not now)"}}}}
                "#
            ),
        ),
        (
            "the last successful build replaces one that does not start",
            format!(
                r#"{SESSION}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > exited 1 exit 1
                warn the server exited (exit 1); the next request or change restarts it
                > client {{"id":8,"method":"c"}}
                > exited 2 exit 2
                warn the new server failed to start (exit 2); restarting the last successful build
                start 3 of build 1
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                "#
            ),
        ),
        (
            "output that is not JSON-RPC is shown",
            format!(
                "{SESSION}\n> server 1 hello\nwarn the server printed a line to stdout that is not JSON-RPC: hello"
            ),
        ),
    ] {
        check(false, name, &script);
    }
}

#[test]
fn at_shutdown() {
    let call = r#"
        > client {"id":5,"method":"a"}
        server 1 {"id":5,"method":"a"}
    "#;
    for (name, script) in [
        ("without calls it exits at once", format!("{SESSION}\n> closed\nclose 1\nexit")),
        (
            "calls finish first",
            format!(
                "{SESSION}{call}\n> closed\nclose 1\n> server 1 {{\"id\":5,\"result\":1}}\nclient {{\"id\":5,\"result\":1}}\nexit"
            ),
        ),
        (
            "a server that exits without answering does not block it",
            format!(
                r#"{SESSION}{call}
                > closed
                close 1
                > exited 1 exit 0
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"the server exited while processing this request (exit 0)"}}}}
                exit
                "#
            ),
        ),
        (
            "the shutdown timer ends it",
            format!(
                r#"{SESSION}{call}
                > closed
                close 1
                > shutdown-timeout
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"stdin of `cargo mcp dev` was closed"}}}}
                exit
                "#
            ),
        ),
        (
            "a signal ends it",
            format!(
                r#"{SESSION}{call}
                > signal
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"`cargo mcp dev` was stopped"}}}}
                exit
                > server 1 {{"id":5,"result":1}}
                "#
            ),
        ),
    ] {
        check(false, name, &script);
    }
}

#[test]
fn subscriptions_survive_new_builds() {
    let tag = |id: &str| format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
    let (l, m) = (tag("\"l\""), tag("9"));
    let script = format!(
        r#"
        > built 1
        start 1 of build 1
        info serving
        > client {{"id":"l","method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true,"resourceSubscriptions":["a://b"]}}}}}}
        server 1 {{"id":"l","method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true,"resourceSubscriptions":["a://b"]}}}}}}
        > server 1 {{"method":"notifications/subscriptions/acknowledged","params":{{{l},"notifications":{{"resourceSubscriptions":["a://b"]}}}}}}
        client {{"method":"notifications/subscriptions/acknowledged","params":{{{l},"notifications":{{"resourceSubscriptions":["a://b"],"toolsListChanged":true}}}}}}
        > client {{"id":9,"method":"subscriptions/listen","params":{{"notifications":{{"promptsListChanged":true}}}}}}
        server 1 {{"id":9,"method":"subscriptions/listen","params":{{"notifications":{{"promptsListChanged":true}}}}}}
        > server 1 {{"id":9,"error":{{"code":-32601,"message":"method not found"}}}}
        client {{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{{m},"notifications":{{"promptsListChanged":true}}}}}}
        > built 2
        start 2 of build 2
        server 2 {{"id":"l","method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true,"resourceSubscriptions":["a://b"]}}}}}}
        server 2 {{"id":9,"method":"subscriptions/listen","params":{{"notifications":{{"promptsListChanged":true}}}}}}
        info reloaded
        client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{l}}}}}
        client {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{{l},"uri":"a://b"}}}}
        client {{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{{{m}}}}}
        stop 1
        > server 1 {{"id":"l","result":{{}}}}
        > server 2 {{"method":"notifications/subscriptions/acknowledged","params":{{{l},"notifications":{{}}}}}}
        > server 2 {{"id":9,"error":{{"code":-32601,"message":"method not found"}}}}
        > client {{"method":"notifications/cancelled","params":{{"requestId":9}}}}
        > exited 2 exit 1
        warn the server exited (exit 1); the next request or change restarts it
        > signal
        client {{"jsonrpc":"2.0","id":"l","result":{{"resultType":"complete",{l}}}}}
        exit
        "#
    );
    check(false, "subscriptions", &script);
}

#[test]
fn changed_lists_are_reported() {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"cargo-mcp","version":"{}"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#,
        env!("CARGO_PKG_VERSION")
    );
    let list_requests = |server: u64, first: u64| {
        let methods = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
        let line = |(at, method): (u64, &str)| {
            format!(
                r#"server {server} {{"jsonrpc":"2.0","id":"own-{}","method":"{method}","params":{{{meta}}}}}"#,
                first + at
            )
        };
        (0..).zip(methods).map(line).collect::<Vec<_>>().join("\n")
    };
    let not_found = |server: u64, id: u64| {
        format!(r#"> server {server} {{"id":"own-{id}","error":{{"code":-32601,"message":"no"}}}}"#)
    };
    let script = [
        "> built 1".to_owned(),
        "start 1 of build 1".to_owned(),
        list_requests(1, 1),
        r#"> client {"id":1,"method":"tools/list"}"#.to_owned(),
        r#"> server 1 {"id":"own-1","result":{"tools":[{"name":"a"}],"nextCursor":"c"}}"#.to_owned(),
        format!(
            r#"server 1 {{"jsonrpc":"2.0","id":"own-5","method":"tools/list","params":{{{meta},"cursor":"c"}}}}"#
        ),
        not_found(1, 2),
        not_found(1, 3),
        not_found(1, 4),
        r#"> server 1 {"id":"own-5","result":{"tools":[{"name":"b"}]}}"#.to_owned(),
        r#"server 1 {"id":1,"method":"tools/list"}"#.to_owned(),
        "info serving: 2 tools".to_owned(),
        "> exited 1 exit 1".to_owned(),
        "warn the server exited (exit 1); the next request or change restarts it".to_owned(),
        r#"client {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server exited while processing this request (exit 1)"}}"#.to_owned(),
        "> built 2".to_owned(),
        "start 2 of build 2".to_owned(),
        list_requests(2, 6),
        r#"> server 2 {"id":"own-6","result":{"tools":[{"name":"b","inputSchema":{}}]}}"#.to_owned(),
        not_found(2, 7),
        not_found(2, 8),
        not_found(2, 9),
        "info reloaded: - tool a, ~ tool b (input schema)".to_owned(),
    ];
    check(true, "lists", &script.join("\n"));
}

//! Conversations with the machine: what happens is marked with `>`, and below it stands what is to be done then.

use std::time::Duration;

use super::{Effect, Event, Front, Settings, Timer, Tone};

/// Reads what happens.
fn event(text: &str) -> Event {
    let (what, rest) = text.split_once(' ').unwrap_or((text, ""));
    let numbered = || {
        let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        (number.parse().expect("a number"), rest.to_owned())
    };
    match what {
        "client" => Event::Client(rest.to_owned()),
        "server" => Event::Server(numbered().0, numbered().1),
        "gone" => Event::Gone(numbered().0, numbered().1),
        "built" => Event::Built(numbered().0),
        "failed" => Event::BuildFailed(rest.to_owned()),
        "ready" => Event::Timer(Timer::Ready(numbered().0)),
        "grace" => Event::Timer(Timer::Grace(numbered().0)),
        "retry" => Event::Timer(Timer::Retry),
        "late" => Event::Timer(Timer::End),
        "eof" => Event::ClientGone,
        "interrupt" => Event::Interrupted,
        _ => panic!("{text}"),
    }
}

/// Writes what is to be done; none for what every start and take-over has.
fn effect(effect: Effect) -> Option<String> {
    Some(match effect {
        Effect::ToClient(line) => format!("client {line}"),
        Effect::ToServer(server, line) => format!("server {server} {line}"),
        Effect::Start(server, build) => format!("start {server} of build {build}"),
        Effect::CloseInput(server) => format!("close {server}"),
        Effect::Stop(server) => format!("stop {server}"),
        Effect::Timer(delay, Timer::Retry) => format!("retry in {delay:?}"),
        Effect::Timer(..) | Effect::TookOver(..) => return None,
        Effect::Say(Tone::Info, text) => format!("say {text}"),
        Effect::Say(Tone::Warning, text) => format!("warn {text}"),
        Effect::End => "end".to_owned(),
    })
}

#[track_caller]
fn check(probes: bool, name: &str, script: &str) {
    let prefix = "own".to_owned();
    let mut front =
        Front::new(Settings { prefix, probes, grace: Duration::from_secs(5), start: Duration::from_secs(30) });
    let mut expected = Vec::new();
    let mut done = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("> ") {
            Some(text) => {
                expected.push(line.to_owned());
                done.push(line.to_owned());
                done.extend(front.handle(event(text)).into_iter().filter_map(effect));
            }
            None => expected.push(line.to_owned()),
        }
    }
    let (expected, done) = (expected.join("\n"), done.join("\n"));
    assert!(expected == done, "{name}\n{}", similar::TextDiff::from_lines(&expected, &done).unified_diff());
}

/// A client in a session of build 1.
const SESSION: &str = r#"
    > built 1
    start 1 of build 1
    say serving
    > client {"id":1,"method":"initialize","params":{"x": 1.0}}
    server 1 {"id":1,"method":"initialize","params":{"x": 1.0}}
    > server 1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{}}}}
    client {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{"listChanged":true}}}}
    > client {"method":"notifications/initialized"}
    server 1 {"method":"notifications/initialized"}
"#;

/// A second build takes that session over.
const TAKE_OVER: &str = r#"
    > built 2
    start 2 of build 2
    server 2 {"id":"own-1","method":"initialize","params":{"x": 1.0}}
    > server 2 {"id":"own-1","result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{}}}}
    server 2 {"jsonrpc":"2.0","method":"notifications/initialized"}
    say restarted
    client {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
"#;

#[test]
fn before_there_is_a_server() {
    for (name, script) in [
        (
            "what comes first waits, and pings are answered",
            r#"
            > client {"id":1,"method":"initialize"}
            > client {"id":2,"method":"ping"}
            client {"jsonrpc":"2.0","id":2,"result":{}}
            > failed E
            warn the build failed; clients wait until it is mended
            > client {"id":3,"method":"tools/list"}
            > client {"method":"notifications/cancelled","params":{"requestId":3}}
            > built 1
            start 1 of build 1
            server 1 {"id":1,"method":"initialize"}
            say serving
            > server 1 {"id":1,"error":{"code":1,"message":"no"}}
            client {"id":1,"error":{"code":1,"message":"no"}}
            "#,
        ),
        (
            "a handshake outlives a server that ends, for some time",
            r#"
            > client {"id":1,"method":"initialize"}
            > built 1
            start 1 of build 1
            server 1 {"id":1,"method":"initialize"}
            say serving
            > gone 1 exit 1
            warn the server ended: exit 1; it is started again with the next request or change
            start 2 of build 1
            server 2 {"id":1,"method":"initialize"}
            say started again
            > gone 2 exit 1
            warn the server ended: exit 1; it is started again with the next request or change
            retry in 500ms
            > retry
            start 3 of build 1
            server 3 {"id":1,"method":"initialize"}
            say started again
            > gone 3 exit 1
            warn the server ended: exit 1; it is started again with the next request or change
            retry in 1s
            > retry
            start 4 of build 1
            server 4 {"id":1,"method":"initialize"}
            say started again
            > gone 4 exit 1
            warn the server ended: exit 1; it is started again with the next request or change
            client {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server ended while it worked on this request: exit 1"}}
            "#,
        ),
        (
            "what cannot be read is refused, and what never gets a server is answered at the end",
            r#"
            > client nonsense
            client {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"this is no message of JSON-RPC"}}
            > client {"id":"a","method":"tools/list"}
            > client [{"id":2,"method":"x"},{"method":"n"},{"id":3,"method":"y"}]
            > eof
            client {"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"the input of `cargo mcp dev` ended before there was a server"}}
            client [{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"the input of `cargo mcp dev` ended before there was a server"}},{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"the input of `cargo mcp dev` ended before there was a server"}}]
            end
            > client {"id":9,"method":"tools/list"}
            "#,
        ),
    ] {
        check(false, name, script);
    }
}

#[test]
fn over_a_new_build() {
    for (name, script) in [
        ("an idle server goes at once", format!("{SESSION}{TAKE_OVER}\nstop 1")),
        (
            "calls end where they began, and their late answers nowhere",
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
                > grace 1
                client {{"jsonrpc":"2.0","id":7,"error":{{"code":-32603,"message":"the server was rebuilt, and this request took longer than the old one had left; send it again"}}}}
                stop 1
                > server 1 {{"id":7,"result":{{}}}}
                > gone 1 exit 0
                > server 2 {{"id":8,"result":{{}}}}
                client {{"id":8,"result":{{}}}}
                "#
            ),
        ),
        (
            "the last answer lets the old server go",
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
            "what servers ask has one id each, and late answers are nobody's",
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
                > grace 1
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"the server was rebuilt, and this request took longer than the old one had left; send it again"}}}}
                client {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"the server was rebuilt or ended","requestId":0}}}}
                stop 1
                > server 2 {{"id":0,"method":"roots/list"}}
                client {{"id":"cargo-mcp-2-2","method":"roots/list"}}
                > client {{"id":0,"result":{{}}}}
                "#
            ),
        ),
        (
            "levels and subscriptions are brought along",
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
                say restarted
                client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}
                client {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"a://b"}}}}
                stop 1
                > server 2 {{"id":"own-2","result":{{}}}}
                > server 2 {{"id":"own-3","error":{{"code":1,"message":"not found"}}}}
                warn the new server refuses `resources/subscribe`, which the old one took: not found
                > failed E
                warn the build failed; the last good one goes on serving
                "#
            ),
        ),
        (
            "a client with logging hears of what does not compile",
            format!(
                r#"{SESSION}
                > failed src/main.rs:1: no
                warn the build failed; the last good one goes on serving
                client {{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"the build failed: src/main.rs:1: no","level":"error","logger":"cargo mcp dev"}}}}
                "#
            ),
        ),
        (
            "a server that refuses the session does not get it",
            format!(
                r#"{SESSION}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2024-11-05","capabilities":{{}}}}}}
                stop 2
                warn the new server does not begin: it offers revision 2024-11-05, the client speaks 2025-06-18; the old one goes on serving
                > client {{"id":5,"method":"a"}}
                server 1 {{"id":5,"method":"a"}}
                > built 3
                start 3 of build 3
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                > ready 3
                stop 3
                warn the new server does not begin: it does not answer within 30 s; the old one goes on serving
                "#
            ),
        ),
        (
            "other capabilities are told of",
            format!(
                r#"{SESSION}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2025-06-18","capabilities":{{"prompts":{{}}}}}}}}
                warn the client was told of logging, tools, and now there is prompts: connect it anew
                server 2 {{"jsonrpc":"2.0","method":"notifications/initialized"}}
                say restarted
                client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}
                stop 1
                "#
            ),
        ),
        (
            "a build that comes while another begins takes its place",
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
                > gone 2 exit 0
                > gone 3 exit 1
                warn the new server does not begin: exit 1; the old one goes on serving
                "#
            ),
        ),
        (
            "a handshake that the old server has not answered is the new one's",
            r#"
            > built 1
            start 1 of build 1
            say serving
            > client {"id":1,"method":"initialize"}
            server 1 {"id":1,"method":"initialize"}
            > built 2
            start 2 of build 2
            server 2 {"id":1,"method":"initialize"}
            say restarted
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
fn when_a_server_ends() {
    let again = r#"
        start 2 of build 1
        server 2 {"id":"own-1","method":"initialize","params":{"x": 1.0}}
    "#;
    for (name, script) in [
        (
            "its calls are answered, and the next one starts it again",
            format!(
                r#"{SESSION}
                > client {{"id":5,"method":"a"}}
                server 1 {{"id":5,"method":"a"}}
                > client {{"id":6,"method":"b"}}
                server 1 {{"id":6,"method":"b"}}
                > client {{"method":"notifications/cancelled","params":{{"requestId":6}}}}
                server 1 {{"method":"notifications/cancelled","params":{{"requestId":6}}}}
                > gone 1 signal: 6
                warn the server ended: signal: 6; it is started again with the next request or change
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"the server ended while it worked on this request: signal: 6"}}}}
                > client {{"id":7,"method":"ping"}}
                client {{"jsonrpc":"2.0","id":7,"result":{{}}}}
                > client {{"method":"notifications/roots/list_changed"}}
                > client {{"id":8,"method":"c"}}
                {again}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2025-06-18","capabilities":{{"logging":{{}},"tools":{{}}}}}}}}
                server 2 {{"jsonrpc":"2.0","method":"notifications/initialized"}}
                server 2 {{"id":8,"method":"c"}}
                say started again
                client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}
                "#
            ),
        ),
        (
            "a server that does not begin again is no reason to wait",
            format!(
                r#"{SESSION}
                > gone 1 exit 1
                warn the server ended: exit 1; it is started again with the next request or change
                > client {{"id":8,"method":"c"}}
                {again}
                > gone 2 exit 1
                warn the server does not begin: exit 1; it is tried again with the next request
                client {{"jsonrpc":"2.0","id":8,"error":{{"code":-32603,"message":"the server does not begin: exit 1"}}}}
                > client {{"id":9,"method":"d"}}
                retry in 500ms
                > client {{"id":10,"method":"e"}}
                > retry
                start 3 of build 1
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                > server 3 {{"id":"own-2","error":{{"code":1,"message":"not now"}}}}
                stop 3
                warn the server does not begin: it refuses the client's handshake (not now); it is tried again with the next request
                client {{"jsonrpc":"2.0","id":10,"error":{{"code":-32603,"message":"the server does not begin: it refuses the client's handshake (not now)"}}}}
                client {{"jsonrpc":"2.0","id":9,"error":{{"code":-32603,"message":"the server does not begin: it refuses the client's handshake (not now)"}}}}
                "#
            ),
        ),
        (
            "a new build that does not begin gives way to the last good one",
            format!(
                r#"{SESSION}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > gone 1 exit 1
                warn the server ended: exit 1; it is started again with the next request or change
                > client {{"id":8,"method":"c"}}
                > gone 2 exit 2
                warn the new server does not begin: exit 2; the last good one is started again
                start 3 of build 1
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                "#
            ),
        ),
        (
            "what it printed beside messages is shown",
            format!("{SESSION}\n> server 1 hello\nwarn the server printed to stdout what is no message: hello"),
        ),
    ] {
        check(false, name, &script);
    }
}

#[test]
fn at_the_end() {
    let call = r#"
        > client {"id":5,"method":"a"}
        server 1 {"id":5,"method":"a"}
    "#;
    for (name, script) in [
        ("without calls it ends at once", format!("{SESSION}\n> eof\nclose 1\nend")),
        (
            "calls may end first",
            format!(
                "{SESSION}{call}\n> eof\nclose 1\n> server 1 {{\"id\":5,\"result\":1}}\nclient {{\"id\":5,\"result\":1}}\nend"
            ),
        ),
        (
            "a server that leaves calls open does not keep it",
            format!(
                r#"{SESSION}{call}
                > eof
                close 1
                > gone 1 exit 0
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"the server ended while it worked on this request: exit 0"}}}}
                end
                "#
            ),
        ),
        (
            "time ends it",
            format!(
                r#"{SESSION}{call}
                > eof
                close 1
                > late
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"the input of `cargo mcp dev` ended"}}}}
                end
                "#
            ),
        ),
        (
            "a signal ends it",
            format!(
                r#"{SESSION}{call}
                > interrupt
                client {{"jsonrpc":"2.0","id":5,"error":{{"code":-32603,"message":"`cargo mcp dev` was stopped"}}}}
                end
                > server 1 {{"id":5,"result":1}}
                "#
            ),
        ),
    ] {
        check(false, name, &script);
    }
}

#[test]
fn listens_go_on() {
    let tag = |id: &str| format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
    let (l, m) = (tag("\"l\""), tag("9"));
    let script = format!(
        r#"
        > built 1
        start 1 of build 1
        say serving
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
        say restarted
        client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{l}}}}}
        client {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{{l},"uri":"a://b"}}}}
        client {{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{{{m}}}}}
        stop 1
        > server 1 {{"id":"l","result":{{}}}}
        > server 2 {{"method":"notifications/subscriptions/acknowledged","params":{{{l},"notifications":{{}}}}}}
        > server 2 {{"id":9,"error":{{"code":-32601,"message":"method not found"}}}}
        > client {{"method":"notifications/cancelled","params":{{"requestId":9}}}}
        > gone 2 exit 1
        warn the server ended: exit 1; it is started again with the next request or change
        > interrupt
        client {{"id":"l","jsonrpc":"2.0","result":{{{l},"resultType":"complete"}}}}
        end
        "#
    );
    check(false, "listens", &script);
}

#[test]
fn servers_tell_their_lists() {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"cargo-mcp","version":"{}"}},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
        env!("CARGO_PKG_VERSION")
    );
    let asked = |server: u64, first: u64| {
        let methods = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
        let line = |(at, method): (u64, &str)| {
            format!(
                r#"server {server} {{"jsonrpc":"2.0","id":"own-{}","method":"{method}","params":{{{meta}}}}}"#,
                first + at
            )
        };
        (0..).zip(methods).map(line).collect::<Vec<_>>().join("\n")
    };
    let none = |server: u64, id: u64| {
        format!(r#"> server {server} {{"id":"own-{id}","error":{{"code":-32601,"message":"no"}}}}"#)
    };
    let script = [
        "> built 1".to_owned(),
        "start 1 of build 1".to_owned(),
        asked(1, 1),
        r#"> client {"id":1,"method":"tools/list"}"#.to_owned(),
        r#"> server 1 {"id":"own-1","result":{"tools":[{"name":"a"}],"nextCursor":"c"}}"#.to_owned(),
        format!(
            r#"server 1 {{"jsonrpc":"2.0","id":"own-5","method":"tools/list","params":{{{meta},"cursor":"c"}}}}"#
        ),
        none(1, 2),
        none(1, 3),
        none(1, 4),
        r#"> server 1 {"id":"own-5","result":{"tools":[{"name":"b"}]}}"#.to_owned(),
        r#"server 1 {"id":1,"method":"tools/list"}"#.to_owned(),
        "say serving: 2 tools".to_owned(),
        "> gone 1 exit 1".to_owned(),
        "warn the server ended: exit 1; it is started again with the next request or change".to_owned(),
        r#"client {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server ended while it worked on this request: exit 1"}}"#.to_owned(),
        "> built 2".to_owned(),
        "start 2 of build 2".to_owned(),
        asked(2, 6),
        r#"> server 2 {"id":"own-6","result":{"tools":[{"name":"b","inputSchema":{}}]}}"#.to_owned(),
        none(2, 7),
        none(2, 8),
        none(2, 9),
        "say restarted: - tool a, ~ tool b (schema)".to_owned(),
    ];
    check(true, "lists", &script.join("\n"));
}

//! Scripts for the state machine: events are marked with `>`, and followed by the effects that they cause.

use std::time::Duration;

use crate::commands::dev::proxy::{
    handle,
    state::{Effect, Event, Proxy, ProxyConfig, Timer},
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

/// Formats an effect, or returns `None` for the effects that follow every start.
fn format(effect: Effect) -> Option<String> {
    Some(match effect {
        Effect::SendToClient(line) => format!("client {line}"),
        Effect::SendToServer(server, line) => format!("server {server} {line}"),
        Effect::StartServer(server, build) => format!("start {server} of build {build}"),
        Effect::CloseInput(server) => format!("close {server}"),
        Effect::StopServer(server) => format!("stop {server}"),
        Effect::StartTimer(delay, Timer::Restart) => format!("restart in {delay:?}"),
        Effect::StartTimer(..) | Effect::Activated(..) => return None,
        Effect::Info(text) => format!("info {text}"),
        Effect::Warn(text) => format!("warn {text}"),
        Effect::Exit => "exit".to_owned(),
    })
}

#[track_caller]
pub(super) fn check(can_list: bool, name: &str, script: &str) {
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
pub(super) const SESSION: &str = r#"
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
pub(super) const TAKE_OVER: &str = r#"
    > built 2
    start 2 of build 2
    server 2 {"id":"own-1","method":"initialize","params":{"x": 1.0}}
    > server 2 {"id":"own-1","result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{}}}}
    server 2 {"jsonrpc":"2.0","method":"notifications/initialized"}
    info reloaded
    client {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
"#;

use super::script::check;

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

/// Returns the members of the parameters of requests without a session.
fn meta() -> String {
    format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"cargo-mcp","version":"{}"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#,
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the requests for the lists of a server. `first` is the number of the first one.
fn list_requests(server: u64, first: u64) -> String {
    let (methods, meta) = (["tools/list", "resources/list", "resources/templates/list", "prompts/list"], meta());
    let line = |(at, method): (u64, &str)| {
        format!(
            r#"server {server} {{"jsonrpc":"2.0","id":"own-{}","method":"{method}","params":{{{meta}}}}}"#,
            first + at
        )
    };
    (0..).zip(methods).map(line).collect::<Vec<_>>().join("\n")
}

fn not_found(server: u64, id: u64) -> String {
    format!(r#"> server {server} {{"id":"own-{id}","error":{{"code":-32601,"message":"no"}}}}"#)
}

/// Returns the responses of a server without lists to the requests for them.
fn no_lists(server: u64, first: u64) -> String {
    (first..first + 4).map(|id| not_found(server, id)).collect::<Vec<_>>().join("\n")
}

#[test]
fn changed_lists_are_reported() {
    let meta = meta();
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
        // A list that cannot be read is not empty.
        "> built 3".to_owned(),
        "start 3 of build 3".to_owned(),
        list_requests(3, 10),
        r#"> server 3 {"id":"own-10","error":{"code":-32603,"message":"no"}}"#.to_owned(),
        not_found(3, 11),
        not_found(3, 12),
        not_found(3, 13),
        "info reloaded".to_owned(),
        "stop 2".to_owned(),
    ];
    check(true, "lists", &script.join("\n"));
}

/// A server may name a next page forever.
#[test]
fn the_number_of_pages_is_bounded() {
    let meta = meta();
    let mut script = vec!["> built 1\nstart 1 of build 1".to_owned(), list_requests(1, 1)];
    script.extend([2, 3, 4].map(|id| not_found(1, id)));
    for (page, id) in (1..=100).zip(std::iter::once(1).chain(5..)) {
        script.push(format!(r#"> server 1 {{"id":"own-{id}","result":{{"tools":[],"nextCursor":"c"}}}}"#));
        if page < 100 {
            script.push(format!(
                r#"server 1 {{"jsonrpc":"2.0","id":"own-{}","method":"tools/list","params":{{{meta},"cursor":"c"}}}}"#,
                page + 4
            ));
        }
    }
    script.push("info serving: no tools, resources or prompts".to_owned());
    check(true, "pages", &script.join("\n"));
}

/// A server serves its clients even if it does not list anything, and also if it has changed its lists before.
#[test]
fn a_session_continues_whatever_the_lists() {
    let result = r#""result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}}}"#;
    let script = [
        "> built 1\nstart 1 of build 1".to_owned(),
        list_requests(1, 1),
        no_lists(1, 1),
        "info serving: no tools, resources or prompts".to_owned(),
        format!(
            r#"
            > client {{"id":1,"method":"initialize"}}
            server 1 {{"id":1,"method":"initialize"}}
            > server 1 {{"id":1,{result}}}
            client {{"id":1,{result}}}
            > client {{"method":"notifications/initialized"}}
            server 1 {{"method":"notifications/initialized"}}
            > server 1 {{"method":"notifications/tools/list_changed"}}
            client {{"method":"notifications/tools/list_changed"}}
            > built 2
            start 2 of build 2"#
        ),
        list_requests(2, 5),
        format!("server 2 {{\"id\":\"own-9\",\"method\":\"initialize\"}}\n> server 2 {{\"id\":\"own-9\",{result}}}"),
        no_lists(2, 5),
        // The lists of both builds are the same, but the client may have read others.
        r#"
            server 2 {"jsonrpc":"2.0","method":"notifications/initialized"}
            info reloaded: lists unchanged
            client {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
            stop 1
            > built 3
            start 3 of build 3"#
            .to_owned(),
        list_requests(3, 10),
        format!("server 3 {{\"id\":\"own-14\",\"method\":\"initialize\"}}\n> server 3 {{\"id\":\"own-14\",{result}}}"),
        r#"
            > start-timeout 3
            server 3 {"jsonrpc":"2.0","method":"notifications/initialized"}
            info reloaded
            client {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
            stop 2"#
            .to_owned(),
    ];
    check(true, "session", &script.join("\n"));
}

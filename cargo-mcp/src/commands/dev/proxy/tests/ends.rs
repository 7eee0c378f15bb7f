use super::script::{SESSION, check};

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
            "a queued batch is sent although one of its requests was cancelled",
            r#"
            > client {"id":1,"method":"initialize"}
            > client [{"id":2,"method":"x"},{"id":3,"method":"y"}]
            > client {"method":"notifications/cancelled","params":{"requestId":2}}
            > built 1
            start 1 of build 1
            server 1 {"id":1,"method":"initialize"}
            server 1 [{"id":2,"method":"x"},{"id":3,"method":"y"}]
            info serving
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
            "a server that responds may crash again",
            format!(
                r#"{SESSION}
                > exited 1 exit 1
                warn the server exited (exit 1); the next request or change restarts it
                > client {{"id":5,"method":"a"}}
                {restart}
                > server 2 {{"id":"own-1","result":{{"protocolVersion":"2025-06-18","capabilities":{{"logging":{{}},"tools":{{}}}}}}}}
                server 2 {{"jsonrpc":"2.0","method":"notifications/initialized"}}
                server 2 {{"id":5,"method":"a"}}
                info restarted
                client {{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}
                > server 2 {{"id":5,"result":{{}}}}
                client {{"id":5,"result":{{}}}}
                > exited 2 exit 1
                warn the server exited (exit 1); the next request or change restarts it
                > client {{"id":6,"method":"b"}}
                start 3 of build 1
                server 3 {{"id":"own-2","method":"initialize","params":{{"x": 1.0}}}}
                "#
            ),
        ),
        (
            "a new build may crash again",
            r#"
            > built 1
            start 1 of build 1
            info serving
            > client {"id":1,"method":"initialize"}
            server 1 {"id":1,"method":"initialize"}
            > exited 1 exit 1
            warn the server exited (exit 1); the next request or change restarts it
            start 2 of build 1
            server 2 {"id":1,"method":"initialize"}
            info restarted
            > exited 2 exit 1
            warn the server exited (exit 1); the next request or change restarts it
            restart in 500ms
            > built 2
            start 3 of build 2
            server 3 {"id":1,"method":"initialize"}
            info reloaded
            > restart
            > exited 3 exit 1
            warn the server exited (exit 1); the next request or change restarts it
            start 4 of build 2
            server 4 {"id":1,"method":"initialize"}
            info restarted
            "#
            .to_owned(),
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
            "no further server starts",
            format!(
                r#"{SESSION}{call}
                > built 2
                start 2 of build 2
                server 2 {{"id":"own-1","method":"initialize","params":{{"x": 1.0}}}}
                > closed
                stop 2
                close 1
                > built 3
                > server 1 {{"id":5,"result":1}}
                client {{"id":5,"result":1}}
                exit
                "#
            ),
        ),
        (
            "a subscription does not delay it",
            format!(
                r#"{SESSION}
                > client {{"id":"l","method":"subscriptions/listen","params":{{}}}}
                server 1 {{"id":"l","method":"subscriptions/listen","params":{{}}}}
                {call}
                > closed
                close 1
                > server 1 {{"id":5,"result":1}}
                client {{"id":5,"result":1}}
                client {{"jsonrpc":"2.0","id":"l","result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":"l"}}}}}}
                exit
                "#
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

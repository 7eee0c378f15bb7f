use super::script::{SESSION, TAKE_OVER, check};

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
                > server 1 {{"id":0,"method":"elicitation/create","params":{{"_meta":{{"progressToken":"t"}}}}}}
                client {{"id":0,"method":"elicitation/create","params":{{"_meta":{{"progressToken":"t"}}}}}}
                {TAKE_OVER}
                > client {{"method":"notifications/progress","params":{{"progressToken":"t"}}}}
                server 1 {{"method":"notifications/progress","params":{{"progressToken":"t"}}}}
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
                > client {{"id":7,"method":"resources/subscribe","params":{{"uri":"c://d"}}}}
                server 1 {{"id":7,"method":"resources/subscribe","params":{{"uri":"c://d"}}}}
                > server 1 {{"id":7,"result":{{}}}}
                client {{"id":7,"result":{{}}}}
                > client {{"id":8,"method":"resources/unsubscribe","params":{{"uri":"c://d"}}}}
                server 1 {{"id":8,"method":"resources/unsubscribe","params":{{"uri":"c://d"}}}}
                > server 1 {{"id":8,"result":{{}}}}
                client {{"id":8,"result":{{}}}}
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
            "a client that is not initialized receives no log messages",
            r#"
            > built 1
            start 1 of build 1
            info serving
            > client {"id":1,"method":"initialize"}
            server 1 {"id":1,"method":"initialize"}
            > server 1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{}}}}
            client {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{}}}}
            > failed E
            warn build failed; still serving the last successful build
            "#
            .to_owned(),
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
            "a server that serves has no more time limit",
            format!(
                r#"{SESSION}
                > start-timeout 1
                > client {{"id":5,"method":"a"}}
                server 1 {{"id":5,"method":"a"}}
                "#
            ),
        ),
        (
            "only the server that serves rejects invalid messages",
            format!(
                r#"{SESSION}
                > client nonsense
                server 1 nonsense
                > server 1 {{"id":null,"error":{{"code":-32700,"message":"no"}}}}
                client {{"id":null,"error":{{"code":-32700,"message":"no"}}}}
                > client {{"id":5,"method":"a"}}
                server 1 {{"id":5,"method":"a"}}
                {TAKE_OVER}
                > server 1 {{"id":null,"error":{{"code":-32700,"message":"no"}}}}
                > server 2 {{"id":null,"error":{{"code":-32700,"message":"no"}}}}
                client {{"id":null,"error":{{"code":-32700,"message":"no"}}}}
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

//! Definitions as tools: what models see of them, what they start, and what is wrong with them.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    thread,
    time::Duration,
};

use mcp_runtime::{Revision, Server, auth::Identity, testing::TestClient};
use serde_json::{Value, json};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn client(folder: &Path) -> TestClient {
    let entries = mcp_config::read(folder).unwrap();
    entries.into_iter().fold(Server::empty("test", "1.0.0"), Server::with_entry).test_client(Revision::V2026_07_28)
}

const ECHO: &str = r##"
[tools.say]
title = "Say"
description = "Print words."
read_only = true
timeout = 5

[tools.say.arguments.words]
description = "The words"
type = "array"
items = { type = "string" }

[tools.say.arguments.count]
type = "integer"
maximum = 9
default = 3

[tools.say.arguments.name]
type = "string"
optional = true

[tools.say.arguments.tags]
type = "array"
items = { type = "string" }
default = []

[tools.say.arguments.rest]
"$ref" = "#/properties/name"
optional = true

[tools.say.command]
program = "/bin/echo"
args = ["hi", "--count={count}", ["--name", "{name}"], ["--tag", "{tags}"], "{words}", "--", "{rest}"]
"##;

#[tokio::test]
async fn commands_are_started_with_checked_arguments() {
    let folder = folder(&[("say.toml", ECHO), ("ignored.txt", "?")]);
    let mut client = client(folder.path());
    let listed = client.tools().await.unwrap()[0].0.clone();
    assert_eq!(listed["title"], "Say");
    assert_eq!(listed["annotations"]["readOnlyHint"], true);
    assert_eq!(listed["inputSchema"]["required"], json!(["words"]));
    let words = json!({"description": "The words", "type": "array", "items": {"type": "string"}});
    assert_eq!(listed["inputSchema"]["properties"]["words"], words);
    assert!(listed["inputSchema"]["properties"]["rest"].get("optional").is_none());

    let cases = [
        (json!({"words": []}), Ok("hi --count=3 --")),
        (json!({"words": ["x-y"]}), Ok("hi --count=3 x-y --")),
        (json!({"words": ["$(id)", "a b", ";"]}), Ok("hi --count=3 $(id) a b ; --")),
        (json!({"words": ["x"], "count": 7, "name": "ada"}), Ok("hi --count=7 --name ada x --")),
        (json!({"words": ["x"], "rest": "-rf"}), Ok("hi --count=3 x -- -rf")),
        (json!({"words": [], "count": -7}), Ok("hi --count=-7 --")),
        (json!({"words": [], "tags": []}), Ok("hi --count=3 --")),
        (json!({"words": [], "tags": ["a", "b"]}), Ok("hi --count=3 --tag a --tag b --")),
        (json!({"words": [], "tags": ["a", "--output=x"]}), Err("`tags` must not begin with `-`")),
        (json!({"words": ["-n"]}), Err("`words` must not begin with `-`")),
        (json!({"words": [], "name": "--help"}), Err("`name` must not begin with `-`")),
        (json!({"words": ["a\u{0}b"]}), Err("the program cannot be started")),
        (json!({"words": "x"}), Err("`words`")),
        (json!({"words": [], "count": 10}), Err("must be at most 9")),
        (json!({"words": [], "more": 1}), Err("`more`")),
        (json!({}), Err("`words` is required")),
    ];
    for (arguments, expected) in cases {
        let result = client.call("say", arguments.clone()).await.unwrap();
        match expected {
            Ok(text) => assert_eq!((result.is_error(), result.text().trim_end()), (false, text), "{arguments}"),
            Err(text) => assert!(result.is_error() && result.text().contains(text), "{arguments}: {}", result.text()),
        }
    }
}

/// A group is repeated for each item of a list. Its other arguments have one value.
#[tokio::test]
async fn groups_have_at_most_one_list() {
    let text = r#"
[tools.copy]
description = "Copy."
arguments.to = { type = "string", optional = true }
arguments.files = { type = "array", items = { type = "string" } }
arguments.modes = { type = "array", items = { type = "string" }, default = ["r"] }
arguments.rest = { type = ["string", "null"], optional = true }
command = { program = "/bin/echo", args = [["{modes}", "{files}", "{to}"], "--end-of-options", "{rest}"] }
"#;
    let folder = folder(&[("copy.toml", text)]);
    for (arguments, expected) in [
        (json!({"to": "x", "files": ["a", "b"]}), "r a x r b x --end-of-options"),
        (json!({"to": "x", "files": ["a"], "modes": ["r", "w"]}), "r a x w a x --end-of-options"),
        (json!({"to": "x", "files": []}), "--end-of-options"),
        (json!({"files": ["a"]}), "--end-of-options"),
        (json!({"files": ["a", "b"]}), "--end-of-options"),
        (json!({"files": [], "rest": null}), "--end-of-options"),
        (json!({"files": [], "rest": "-v"}), "--end-of-options -v"),
        (json!({"to": "x", "files": ["a", "b"], "modes": ["r", "w"]}), "only one argument of a group can be a list"),
    ] {
        let result = client(folder.path()).call("copy", arguments.clone()).await.unwrap();
        assert_eq!(result.text().trim_end(), expected, "{arguments}");
    }
}

#[tokio::test]
async fn a_call_ends_after_the_timeout_of_its_definition() {
    let command = "command = { program = \"/bin/sleep\", args = [\"600\"] }";
    let folder = folder(&[("t.toml", &format!("[tools.t]\ndescription = \"T.\"\ntimeout = 0.2\n{command}\n"))]);
    let result = client(folder.path()).call("t", json!({})).await.unwrap();
    assert!(result.is_error() && result.text().contains("did not finish within"), "{}", result.text());
}

#[tokio::test]
async fn stderr_is_sent_to_the_client() {
    let sh = |script: &str| {
        format!("[tools.t]\ndescription = \"T.\"\ncommand = {{ program = \"/bin/sh\", args = [\"-c\", '{script}'] }}")
    };
    for (script, result, progress) in [
        ("echo out", (false, "out"), None),
        ("echo more >&2; echo out", (false, "out"), Some("more")),
        ("echo more >&2", (false, "more"), Some("more")),
        ("for n in 1 2 3 4 5 6 7; do echo $n >&2; done; echo out", (false, "out"), Some("7")),
        ("seq 2000 >&2; echo out", (false, "out"), Some("2000")),
        (
            "printf %70000s | tr \" \" x",
            (false, &format!("{}\n[truncated: 4464 more bytes than the limit of 65536]", "x".repeat(1 << 16))),
            None,
        ),
        ("echo more >&2; echo out; exit 3", (true, "exit status: 3\nmore\nout"), Some("more")),
    ] {
        let folder = folder(&[("t.toml", &sh(script))]);
        let (found, updates) = client(folder.path()).call_with_progress("t", json!({})).await.unwrap();
        assert_eq!((found.is_error(), found.text().trim_end()), result, "{script}");
        assert_eq!(updates.last().and_then(|update| update.message.as_deref()), progress, "{script}");
    }
}

/// A daemon, for example.
#[cfg(unix)]
#[tokio::test]
async fn a_process_that_keeps_no_stream_open_outlives_the_program() {
    let folder = folder(&[]);
    let path = |name: &str| folder.path().join(name);
    let wait = "until [ -e go ]; do [ -d \"$0\" ] || exit; sleep 0.1; done";
    let script = format!("cd \"$0\"; ({wait}; echo > done) > /dev/null 2>&1 &");
    let command = json!({"program": "/bin/sh", "args": ["-c", script, folder.path()]});
    let tools = json!({"tools": {"t": {"description": "T.", "command": command}}});
    fs::write(path("t.json"), tools.to_string()).unwrap();
    let result = client(folder.path()).call("t", json!({})).await.unwrap();
    assert!(!result.is_error(), "{}", result.text());
    fs::write(path("go"), "").unwrap();
    for _ in 0..1000 {
        if path("done").exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the process has ended");
}

/// Returns how the only mistake of a file differs from its position and the beginning of its message.
fn difference(file: &str, text: &str, expected: &str) -> Option<String> {
    let folder = folder(&[(file, text)]);
    let error = mcp_config::read(folder.path()).unwrap_err();
    let found = error.to_string().replace(&format!("{}:", folder.path().join(file).display()), "");
    let is_expected = error.problems().len() == 1 && found.starts_with(expected);
    (!is_expected).then(|| format!("{text}\nexpected {expected}\nfound {found}\n"))
}

#[test]
fn every_mistake_is_reported_with_its_position() {
    let tool = |rest: &str| format!("[tools.t]\ndescription = \"T.\"\n{rest}\n");
    let command = |args: &str| format!("command = {{ program = \"/bin/echo\", args = {args} }}");
    let argument = "arguments.a.type = \"string\"\n";
    let service = |rest: &str| format!("{}\n[service]\nurl = \"http://x\"\n{rest}", tool(&command("[]")));
    let call =
        |http: &str| format!("[service]\nurl = \"http://x\"\n{}", tool(&format!("{argument}http = {{ {http} }}")));
    let mut differences = Vec::new();
    for (text, expected) in [
        ("\n\ntools = 1 2".to_owned(), "3:9: "),
        ("\n[tools.t]\ncommand.program = \"x\"".to_owned(), "2:1: missing field `description`"),
        (tool("describe = \"T.\""), "3:1: unknown field `describe`"),
        (tool(&command("[], shell = true")), "3:47: unknown field `shell`"),
        (service("header = {}\n"), "7:1: unknown field `header`"),
        (call("method = \"GET\", path = \"/{a}\", queries = []"), "6:41: unknown field `queries`"),
        (tool(""), "1:8: the tool `t`: a tool has either a `command` or an `http` table"),
        (
            service("").replace("args = []", "args = []}\nhttp = {method = \"GET\", path = \"/\""),
            "1:8: the tool `t`: a tool has either a `command` or an `http` table",
        ),
        (tool(&command("[\"é\", \"{a}\"]")), "3:49: the tool `t`: `a` is not an argument"),
        (tool(&command("[\"x\",\n  [\"-a\", \"{a}\"]]")), "4:10: the tool `t`: `a` is not an argument"),
        (tool(&format!("{argument}{}", command("[]"))), "3:11: the tool `t`: the argument `a` is not used"),
        (
            format!("{}\n[tools.t.arguments.a]\ntype = \"string\"\n", tool(&command("[]"))),
            "5:20: the tool `t`: the argument `a` is not used",
        ),
        (
            tool(&format!("{argument}{}", command("[\"{a}{a}\"]"))),
            "4:44: the tool `t`: the element `{a}{a}` of `args` names more than one argument",
        ),
        (
            tool(&format!("{argument}arguments.a.optional = true\n{}", command("[\"--x\", \"{a}\"]"))),
            "5:44: the tool `t`: `--x` would remain without `{a}`: write both in a list",
        ),
        (
            tool(&format!("arguments.a.type = [\"string\", \"null\"]\n{}", command("[\"--x\", \"{a}\"]"))),
            "4:44: the tool `t`: `--x` would remain without `{a}`",
        ),
        (
            tool(&format!("arguments.a.type = \"array\"\n{}", command("[\"y\", [\"z\", \"-x\"], \"{a}\"]"))),
            "4:55: the tool `t`: `-x` would remain without",
        ),
        (
            tool(&format!("arguments.a.type = \"array\"\n{}", command("[\"--x\", [\"{a}\", \"y\"]]"))),
            "4:44: the tool `t`: `--x` would remain without `{a}`",
        ),
        (
            tool(&format!("arguments.a.type = \"array\"\n{}", command("[\"--x\", [\"y\", \"{a}\"]]"))),
            "4:44: the tool `t`: `--x` would remain without `{a}`: write both in a list, `[\"--x\", \"y\", \"{a}\"]`",
        ),
        (tool(&format!("arguments.a.type = \"txt\"\n{}", command("[\"{a}\"]"))), "3:20: the tool `t`: `type` must"),
        (
            tool(&format!(
                "arguments.a.\"$ref\" = \"#/properties/b\"\narguments.b.type = \"txt\"\n{}",
                command("[\"{a}\", \"{b}\"]")
            )),
            "4:20: the tool `t`: `type` must",
        ),
        (
            tool(&format!("arguments.a = {{ type = \"string\", pattern = \"[\" }}\n{}", command("[\"{a}\"]"))),
            "3:44: the tool `t`: unsupported pattern `[`",
        ),
        (
            tool(&format!("arguments.a = {{ items = {{ type = 1 }} }}\n{}", command("[\"{a}\"]"))),
            "3:17: the tool `t`: `type` must",
        ),
        (
            tool(&format!(
                "arguments.a = {{ type = \"integer\", maximum = 9, default = 10 }}\n{}",
                command("[\"{a}\"]")
            )),
            "3:58: the tool `t`: the default of the argument `a`: 10 must be at most 9",
        ),
        (
            tool(&format!(
                "arguments.a = {{ type = \"array\", items = {{ type = \"integer\" }}, default = [\"x\", \"y\"] }}\n{}",
                command("[\"{a}\"]")
            )),
            "3:73: the tool `t`: the default of the argument `a[0]`: ",
        ),
        (
            tool(&format!("arguments.a = 1\n{}", command("[\"{a}\"]"))),
            "3:15: the tool `t`: the argument `a` is not a table",
        ),
        (
            tool(&format!("{argument}arguments.a.optional = 1\n{}", command("[\"{a}\"]"))),
            "4:24: the tool `t`: `optional` of the argument `a`",
        ),
        (tool(&format!("timeout = -1.0\n{}", command("[]"))), "3:11: the tool `t`: `timeout`: "),
        (tool(&format!("scopes = [\"a\", \"a b\"]\n{}", command("[]"))), "3:10: the tool `t`: "),
        (
            tool("http = { method = \"GET\", path = \"/\" }"),
            "3:1: the tool `t`: its file has no `service` with a `url`",
        ),
        (
            format!("{}[service]\nurl = \"ftp://x\"\n", tool("")),
            "5:7: the service: the URL of the service, `ftp://x`, must",
        ),
        (service("headers = { a = \"${NONE_SUCH}\" }\n"), "7:17: the service: the environment variable `NONE_SUCH`"),
        (service("headers = { a = \"${NONE\" }\n"), "7:17: the service: `${NONE` has no `}`"),
        (service("[service.headers]\n\"a b\" = \"\"\n"), "8:9: the service: `a b` cannot be the name of a header"),
        (service("headers = { a = \"\", A = \"\" }\n"), "7:17: the service: duplicate header `a`"),
        (call("method = \"GET\", path = \"/{b}\""), "6:33: the tool `t`: `b` is not an argument"),
        (
            call("method = \"GET\", path = \"/{a}\", query = [\"a\", \"b\"]"),
            "6:55: the tool `t`: `b` is not an argument",
        ),
        (call("method = \"PUT\", path = \"/{a}\", body = [\"b\"]"), "6:49: the tool `t`: `b` is not an argument"),
        (call("method = \"GET\", path = \"/{a} b\""), "6:33: the tool `t`: `path` must begin with"),
        (call("method = \"GET\", path = \"/{a}?b=c\""), "6:33: the tool `t`: `path` must begin with"),
        (call("method = \"GET\", path = \"/%2e%2e/{a}\""), "6:33: the tool `t`: `path` must begin with"),
        (call("method = \"GET\", path = \"/{a}#b\""), "6:33: the tool `t`: `path` must begin with"),
        (call("method = \"GET\", path = \"x/{a}\""), "6:33: the tool `t`: `path` must begin with"),
        (call("method = \"GOT\", path = \"/{a}\""), "6:19: unknown variant `GOT`"),
        (format!("[tools.\"a b\"]\ndescription = \"T.\"\n{}", command("[]")), "1:8: the tool `a b`: "),
        (
            format!("[tools.\"a b\"]\ndescription = \"T.\"\nscopes = [\"a\"]\n{}", command("[]")),
            "1:8: the tool `a b`: ",
        ),
    ] {
        differences.extend(difference("t.toml", &text, expected));
    }
    let tool = |rest: &str| format!("{{\"tools\": {{\"t\": {{\n\"description\": \"T.\",\n{rest}}}}}}}");
    let command = |args: &str| format!("\"command\": {{\"program\": \"x\", \"args\": {args}}}");
    let definition = r#"{"description": "T.", "command": {"program": "x"}}"#;
    for (text, expected) in [
        ("{\n\"tools\": {".to_owned(), "2:10: EOF while parsing"),
        ("{\n\"tools\": 1}".to_owned(), "2:10: invalid type: integer `1`, expected an object"),
        ("{\"tool\": 1}".to_owned(), "1:7: unknown field `tool`"),
        ("{\"tools\":\n{\"t\": {\n\n\"describe\": \"T.\"}}}".to_owned(), "4:10: unknown field `describe`"),
        ("{\"tools\": {\"t\":\n {\"description\": \"T.\"}}}".to_owned(), "2:2: the tool `t`: a tool has either"),
        (format!("{{\"tools\": {{\"t\": {definition},\n\"t\": {definition}}}}}"), "2:6: the tool `t` is defined twice"),
        ("{\n\"service\": {\"url\": \"ftp://x\"}}".to_owned(), "2:20: the service: the URL of the service, `ftp://x`"),
        (tool(&command("[\"é\", [\"-x\", \"{a}\"]]")), "3:50: the tool `t`: `a` is not an argument"),
        (
            tool(&format!(
                "\"arguments\": {{\"a\": {{}}, \"b~/\": {{\"type\":\n\"text\"}}}}, {}",
                command("[\"{a}\"]")
            )),
            "4:1: the tool `t`: `type` must",
        ),
        (
            tool(&format!(
                "\"arguments\": {{\"a\": {{\"type\": \"string\", \"default\": 7}}}}, {}",
                command("[\"{a}\"]")
            )),
            "3:50: the tool `t`: the default of the argument `a`: 7 must be",
        ),
    ] {
        differences.extend(difference("t.json", &text, expected));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let twice = "[tools.t]\ndescription = \"T.\"\ncommand.program = \"x\"\n";
    let folder = folder(&[("a.toml", twice), ("b.toml", twice), ("c.toml", "?")]);
    let error = mcp_config::read(folder.path()).unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
    assert!(
        error.problems()[0].contains("b.toml:1:8: the tool `t` is also defined in ")
            && error.problems()[0].contains("a.toml:1")
    );
    assert!(mcp_config::read(folder.path().join("none")).unwrap_err().to_string().contains("none: "));
}

/// An option may precede an argument that every call has, and other elements any argument.
#[test]
fn elements_may_precede_arguments() {
    for (argument, args) in [
        (r#"type = "string""#, r#"["--x", "{a}"]"#),
        (r#"type = "integer""#, r#"["--x", "{a}"]"#),
        (r#"type = "number""#, r#"["--x", "{a}"]"#),
        (r#"type = "boolean""#, r#"["--x", "{a}"]"#),
        (r#"type = "string", optional = false"#, r#"["--x", "{a}"]"#),
        (r#"type = "string", default = "d""#, r#"["--x", "{a}"]"#),
        (r#"type = "array""#, r#"["dry-run", "{a}"]"#),
        (r#"type = "array""#, r#"["--x=y", "{a}"]"#),
        (r#"type = "array""#, r#"["--", "{a}"]"#),
    ] {
        let command = format!("command = {{ program = \"x\", args = {args} }}");
        let text = format!("[tools.t]\ndescription = \"T.\"\narguments.a = {{ {argument} }}\n{command}\n");
        let error = mcp_config::read(folder(&[("t.toml", &text)]).path()).err();
        assert!(error.is_none(), "{text}: {error:?}");
    }
}

#[test]
fn files_are_text() {
    let folder = folder(&[]);
    let path = folder.path().join("a.toml");
    fs::write(&path, b"\xff").unwrap();
    let error = mcp_config::read(folder.path()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
}

#[test]
fn files_and_their_sizes_are_limited() {
    let long = "#".repeat((1 << 20) + 1);
    let large = folder(&[("a.toml", &long[1..]), ("b.toml", &long)]);
    let error = mcp_config::read(large.path()).unwrap_err();
    assert!(error.problems().len() == 1 && error.problems()[0].contains("b.toml: larger than"), "{error}");
    let many = folder(&[]);
    for (files, is_valid) in [(1000, true), (1001, false)] {
        (0..files).for_each(|file| fs::write(many.path().join(format!("{file}.toml")), "").unwrap());
        let read = mcp_config::read(many.path());
        assert_eq!(read.is_ok(), is_valid, "{files}");
        assert!(read.map_err(|error| error.to_string()).err().is_none_or(|it| it.contains("more than 1000 files")));
    }
}

#[tokio::test]
async fn json_has_the_structure_of_toml() {
    let json: Value = toml::from_str(ECHO).unwrap();
    let mut listed = Vec::new();
    for (name, text) in [("echo.toml", ECHO), ("echo.json", &json.to_string())] {
        let tools = client(folder(&[(name, text)]).path()).tools().await.unwrap();
        listed.push(tools.into_iter().map(|tool| tool.0).collect::<Vec<_>>());
    }
    assert_eq!((listed[0].len(), &listed[0]), (1, &listed[1]));
}

/// Answers each request with its own text, as JSON, and returns the URL.
fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            let has_body = |text: &str| text.contains("content-length: ") && !text.contains("content-length: 0");
            while !text.contains("\r\n\r\n") || has_body(&text) && !text.ends_with('}') {
                let count = stream.read(&mut buffer).unwrap();
                text += std::str::from_utf8(&buffer[..count]).unwrap();
            }
            let body = json!({ "request": text }).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            // A client that expects no body may close the connection.
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    url
}

#[tokio::test]
async fn http_calls_are_sent_with_checked_and_encoded_arguments() {
    let text = format!(
        r#"
[service]
url = "{}"
headers = {{ authorization = "Bearer ${{CARGO_PKG_NAME}}-key" }}

[tools.find]
description = "Find tickets."
arguments.project.type = "string"
arguments.text = {{ type = "string", default = "a b&c" }}
arguments.state = {{ type = "string", optional = true }}
arguments.tags = {{ type = "array", default = [] }}
http = {{ method = "GET", path = "/projects/{{project}}/tickets", query = ["text", "state", "tags"] }}

[tools.comment]
description = "Comment a ticket."
arguments.ticket.type = "integer"
arguments.text.type = "string"
http = {{ method = "POST", path = "/tickets/{{ticket}}", body = ["text"] }}

[tools.open]
description = "Open a ticket."
arguments.text = {{ type = "string", optional = true }}
http = {{ method = "POST", path = "/tickets", body = ["text"] }}
"#,
        service()
    );
    let folder = folder(&[("tickets.toml", &text)]);
    let mut client = client(folder.path());
    let cases = [
        ("find", json!({"project": "x/y"}), Ok(("GET /v1/projects/x%2Fy/tickets?text=a%20b%26c HTTP/1.1\r\n", ""))),
        (
            "find",
            json!({"project": "p", "text": "", "state": "open"}),
            Ok(("GET /v1/projects/p/tickets?text=&state=open HTTP", "")),
        ),
        (
            "find",
            json!({"project": "p", "text": "", "tags": ["a", "b"]}),
            Ok(("GET /v1/projects/p/tickets?text=&tags=a&tags=b HTTP", "")),
        ),
        (
            "comment",
            json!({"ticket": 7, "text": "\"hi\""}),
            Ok(("POST /v1/tickets/7 HTTP/1.1\r\n", "{\"text\":\"\\\"hi\\\"\"}")),
        ),
        ("open", json!({}), Ok(("POST /v1/tickets HTTP/1.1\r\n", "\r\n\r\n{}"))),
        ("find", json!({"project": "x/../y"}), Err("`project` must not lead to another path")),
        ("find", json!({"project": ".."}), Err("`project` must not lead to another path")),
        ("comment", json!({"ticket": "7", "text": ""}), Err("`ticket`")),
    ];
    for (tool, arguments, expected) in cases {
        let result = client.call(tool, arguments.clone()).await.unwrap();
        let text = result.text();
        match expected {
            Ok((start, end)) => {
                assert!(!result.is_error(), "{arguments}: {text}");
                let sent: Value = serde_json::from_str(&text).unwrap();
                let sent = sent["request"].as_str().unwrap();
                assert!(sent.starts_with(start) && sent.ends_with(end), "{arguments}: {sent}");
                assert!(sent.contains("authorization: Bearer mcp-runtime-config-key\r\n"), "{sent}");
            }
            Err(problem) => assert!(result.is_error() && text.contains(problem), "{arguments}: {text}"),
        }
    }
}

#[tokio::test]
async fn each_method_is_sent() {
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
    let tools = methods.map(|method| {
        format!("[tools.{method}]\ndescription = \"T.\"\nhttp = {{ method = \"{method}\", path = \"/\" }}\n")
    });
    let text = format!("{}[service]\nurl = \"{}\"\n", tools.concat(), service());
    let folder = folder(&[("t.toml", &text)]);
    let mut client = client(folder.path());
    for method in methods {
        let result = client.call(method, json!({})).await.unwrap();
        // The response to `HEAD` ends before its body.
        if method == "HEAD" {
            assert_eq!(result.text(), "200 OK");
            continue;
        }
        let sent: Value = serde_json::from_str(&result.text()).unwrap();
        assert!(sent["request"].as_str().unwrap().starts_with(&format!("{method} /v1/ HTTP")), "{sent}");
    }
}

/// Waits until the tools have these names.
async fn wait_for(client: &mut TestClient, expected: &[&str]) {
    for _ in 0..1000 {
        let tools = client.tools().await.unwrap();
        if tools.iter().map(|tool| tool.name()).eq(expected.iter().copied()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the tools never become {expected:?}");
}

#[tokio::test]
async fn changes_are_applied_if_all_definitions_are_valid() {
    let tool = |name: &str| format!("[tools.{name}]\ndescription = \"T.\"\ncommand.program = \"/bin/true\"\n");
    let folder = folder(&[("a.toml", &tool("a"))]);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let other = self::folder(&[("other.toml", &tool("other"))]);
    let server = mcp_config::watch(Server::empty("test", "1.0.0"), folder.path()).unwrap();
    let server = mcp_config::watch(server, other.path()).unwrap();
    let own = mcp_runtime::function::ToolEntry::new("own", json!({"type": "object"}), async |_: Value, _| "own");
    let handle = server.handle();
    let mut client = server.with_entry(own).test_client(Revision::V2025_11_25);
    wait_for(&mut client, &["a", "other", "own"]).await;
    client.notifications();
    write(".#a.toml", "?");
    write("b.toml", &tool("b"));
    wait_for(&mut client, &["a", "b", "other", "own"]).await;
    while !client.notifications().iter().any(|message| message["method"] == "notifications/tools/list_changed") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Neither a mistake nor a name that is taken removes a tool.
    write("c.toml", "[tools.c]");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    wait_for(&mut client, &["a", "b", "other", "own"]).await;
    write("c.toml", &format!("{}\n{}", tool("own"), tool("d")));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    wait_for(&mut client, &["a", "b", "other", "own"]).await;
    // The definitions take effect when the name is free, without another change.
    handle.replace_entries(|entry| entry.name == "own", [] as [mcp_runtime::function::Entry; 0]).unwrap();
    wait_for(&mut client, &["a", "b", "d", "other", "own"]).await;
    fs::remove_file(folder.path().join("c.toml")).unwrap();
    fs::remove_file(folder.path().join("a.toml")).unwrap();
    wait_for(&mut client, &["b", "other"]).await;
    // The same number of bytes.
    write("b.toml", &tool("e"));
    wait_for(&mut client, &["e", "other"]).await;
}

/// In a volume of Kubernetes, each file is a link, and a change replaces the folder that they lead to.
#[cfg(unix)]
#[tokio::test]
async fn links_are_followed() {
    use std::os::unix::fs::symlink;
    let folder = folder(&[]);
    let path = |name: &str| folder.path().join(name);
    for (version, name) in [("..1", "a"), ("..2", "second")] {
        fs::create_dir(path(version)).unwrap();
        let tool = format!("[tools.{name}]\ndescription = \"T.\"\ncommand.program = \"/bin/true\"\n");
        fs::write(path(version).join("tools.toml"), tool).unwrap();
    }
    symlink("..1", path("..data")).unwrap();
    symlink("..data/tools.toml", path("tools.toml")).unwrap();
    let server = mcp_config::watch(Server::empty("test", "1.0.0"), folder.path()).unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    wait_for(&mut client, &["a"]).await;
    symlink("..2", path("..new")).unwrap();
    fs::rename(path("..new"), path("..data")).unwrap();
    wait_for(&mut client, &["second"]).await;
    // The size is that of the file.
    fs::write(path("..2").join("tools.toml"), "#".repeat((1 << 20) + 1)).unwrap();
    let error = mcp_config::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("tools.toml: larger than"), "{error}");
}

#[tokio::test]
async fn scopes_tags_and_hints_are_those_of_the_definition() {
    let text = "[tools.t]\ndescription = \"T.\"\nscopes = [\"a\", \"b\"]\ntags = [\"c\"]\ndestructive = false\nopen_world = false\nidempotent = true\n\
                command = { program = \"/bin/echo\", args = [\"done\"] }\n";
    let folder = folder(&[("t.toml", text)]);
    let listed = client(folder.path()).tools().await.unwrap()[0].0.clone();
    assert_eq!(
        listed["annotations"],
        json!({"destructiveHint": false, "idempotentHint": true, "openWorldHint": false})
    );
    for (scopes, is_allowed) in [(&[] as &[&str], false), (&["a"], false), (&["b"], false), (&["a", "b"], true)] {
        let identity = Identity::new("ada").with_scopes(scopes.iter().copied());
        let mut client = client(folder.path()).with_extension(identity);
        assert_eq!(client.call("t", json!({})).await.is_ok(), is_allowed, "{scopes:?}");
    }
    for tag in ["c", "definition"] {
        let entries = mcp_config::read(folder.path()).unwrap();
        let server = entries.into_iter().fold(Server::empty("test", "1.0.0"), Server::with_entry).build().unwrap();
        server.handle().replace_entries(|entry| entry.has_tag(tag), [] as [mcp_runtime::function::Entry; 0]).unwrap();
        assert!(server.test_client(Revision::V2026_07_28).tools().await.unwrap().is_empty(), "{tag}");
    }
}

//! Definitions as tools: what models see of them, what they start, and what is wrong with them.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    thread,
    time::Duration,
};

use mcp_runtime::{Revision, Server, testing::TestClient};
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

const ECHO: &str = r#"
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
type = "string"
optional = true

[tools.say.command]
program = "/bin/echo"
args = ["hi", "--count={count}", ["--name", "{name}"], ["--tag", "{tags}"], "{words}", "--", "{rest}"]
"#;

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
        (json!({"words": ["$(id)", "a b", ";"]}), Ok("hi --count=3 $(id) a b ; --")),
        (json!({"words": ["x"], "count": 7, "name": "ada"}), Ok("hi --count=7 --name ada x --")),
        (json!({"words": ["x"], "rest": "-rf"}), Ok("hi --count=3 x -- -rf")),
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

#[test]
fn every_mistake_is_reported_with_its_file_and_line() {
    let tool = |rest: &str| format!("[tools.t]\ndescription = \"T.\"\n{rest}\n");
    let command = |args: &str| format!("command = {{ program = \"/bin/echo\", args = {args} }}");
    let argument = "arguments.a.type = \"string\"\n";
    for (text, expected) in [
        ("\n\ntools = 1 2".to_owned(), "t.toml:3: "),
        ("\n[tools.t]\ncommand.program = \"x\"".to_owned(), "t.toml:2: missing field `description`"),
        (tool("describe = \"T.\""), "t.toml:3: unknown field `describe`"),
        (tool(""), "t.toml:1: the tool `t`: a tool has either a `command` or an `http` table"),
        (tool(&command("[\"{a}\"]")), "the tool `t`: `a` is not an argument"),
        (tool(&format!("{argument}{}", command("[]"))), "the tool `t`: the argument `a` is not used"),
        (tool(&format!("{argument}{}", command("[\"{a}{a}\"]"))), "`{a}{a}` of `args` names more than one argument"),
        (
            tool(&format!("{argument}arguments.a.optional = true\n{}", command("[\"--x\", \"{a}\"]"))),
            "`--x` would remain without `{a}`: write both in a list",
        ),
        (tool(&format!("arguments.a.type = \"array\"\n{}", command("[\"-x\", \"{a}\"]"))), "`-x` would remain without"),
        (tool(&format!("arguments.a.type = \"txt\"\n{}", command("[\"{a}\"]"))), "t.toml:1: the tool `t`: "),
        (tool(&format!("arguments.a = 1\n{}", command("[\"{a}\"]"))), "the argument `a` is not a table"),
        (
            tool(&format!("{argument}arguments.a.optional = 1\n{}", command("[\"{a}\"]"))),
            "`optional` of the argument `a`",
        ),
        (tool(&format!("timeout = -1.0\n{}", command("[]"))), "`timeout`: "),
        (tool(&format!("scopes = [\"a b\"]\n{}", command("[]"))), "a b"),
        (
            tool("http = { method = \"GET\", path = \"/\" }"),
            "t.toml:1: the tool `t`: its file has no `service` with a `url`",
        ),
        (
            format!("[service]\nurl = \"ftp://x\"\n{}", tool("")),
            "t.toml:1: the service: the URL of the service, `ftp://x`, must",
        ),
        (
            format!("[service]\nurl = \"http://x\"\nheaders = {{ a = \"${{NONE_SUCH}}\" }}\n{}", tool("")),
            "t.toml:1: the service: the environment variable `NONE_SUCH`",
        ),
        (
            format!("[service]\nurl = \"http://x\"\n{}", tool("http = { method = \"GET\", path = \"/{b}\" }")),
            "t.toml:3: the tool `t`: `b` is not an argument",
        ),
        (
            format!("[service]\nurl = \"http://x\"\n{}", tool("http = { method = \"GOT\", path = \"/\" }")),
            "unknown variant `GOT`",
        ),
        (format!("[tools.\"a b\"]\ndescription = \"T.\"\n{}", command("[]")), "expected only ASCII letters"),
    ] {
        let folder = folder(&[("t.toml", &text)]);
        let error = mcp_config::read(folder.path()).unwrap_err();
        let [problem] = error.problems() else { panic!("{text}: {error}") };
        assert!(problem.contains(expected) && problem.contains("t.toml:"), "{text}: {problem}");
    }
    let twice = tool(&command("[]"));
    let folder = folder(&[("a.toml", &twice), ("b.toml", &twice), ("c.toml", "?")]);
    let error = mcp_config::read(folder.path()).unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
    assert!(
        error.problems()[0].contains("b.toml:1: the tool `t` is also defined in ")
            && error.problems()[0].contains("a.toml:1")
    );
    assert!(mcp_config::read(folder.path().join("none")).unwrap_err().to_string().contains("none: "));
}

/// Answers each request with its own text, as JSON, and returns the URL.
fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            while !text.contains("\r\n\r\n") || text.contains("content-length") && !text.ends_with('}') {
                let count = stream.read(&mut buffer).unwrap();
                text += std::str::from_utf8(&buffer[..count]).unwrap();
            }
            let body = json!({ "request": text }).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
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
headers = {{ authorization = "Bearer ${{CARGO_PKG_NAME}}" }}

[tools.find]
description = "Find tickets."
arguments.project.type = "string"
arguments.text = {{ type = "string", default = "a b&c" }}
arguments.state = {{ type = "string", optional = true }}
http = {{ method = "GET", path = "/projects/{{project}}/tickets", query = ["text", "state"] }}

[tools.comment]
description = "Comment a ticket."
arguments.ticket.type = "integer"
arguments.text.type = "string"
http = {{ method = "POST", path = "/tickets/{{ticket}}", body = ["text"] }}
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
            "comment",
            json!({"ticket": 7, "text": "\"hi\""}),
            Ok(("POST /v1/tickets/7 HTTP/1.1\r\n", "{\"text\":\"\\\"hi\\\"\"}")),
        ),
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
                assert!(sent.contains("authorization: Bearer mcp-runtime-config\r\n"), "{sent}");
            }
            Err(problem) => assert!(result.is_error() && text.contains(problem), "{arguments}: {text}"),
        }
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
    let mut client = server.with_entry(own).test_client(Revision::V2025_11_25);
    wait_for(&mut client, &["a", "other", "own"]).await;
    client.notifications();
    write(".#a.toml", "?");
    write("b.toml", &tool("b"));
    wait_for(&mut client, &["a", "b", "other", "own"]).await;
    assert_eq!(client.notifications()[0]["method"], "notifications/tools/list_changed");
    // Neither a mistake nor a name that is taken removes a tool.
    write("c.toml", "[tools.c]");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    wait_for(&mut client, &["a", "b", "other", "own"]).await;
    write("c.toml", &tool("own"));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    wait_for(&mut client, &["a", "b", "other", "own"]).await;
    fs::remove_file(folder.path().join("c.toml")).unwrap();
    fs::remove_file(folder.path().join("a.toml")).unwrap();
    wait_for(&mut client, &["b", "other", "own"]).await;
}

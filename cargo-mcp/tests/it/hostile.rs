//! Servers whose texts contain control characters, none of which reaches the output, whatever the command; and servers whose
//! responses do not end.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::PathBuf,
};

use serde_json::{Value, json};

use crate::{
    common::{CommandOutput, cargo_mcp, run},
    examples::listed_server,
    servers::{HttpServer, script, server_with_response},
    terminal::{CTRL_C, Terminal},
};

/// ESC, CSI, a hyperlink of OSC 8, BEL, backspace, DEL, C1 controls and bidirectional formatting.
const EVIL: &str = "a\u{1b}[2Jb\u{1b}]8;;https://evil.example\u{7}c\u{8}\u{7f}\u{9b}31m\u{85}\u{202e}d\u{2066}e\r";

/// A directory with the server `listed` and its file.
struct Server(tempfile::TempDir);

impl Server {
    fn new(file: &Value) -> Self {
        let server = Self(tempfile::tempdir().expect("a directory"));
        fs::write(server.file(), file.to_string()).expect("the file is written");
        server
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("server.json")
    }

    /// Returns the words that run a command with the server.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let file = self.file().into_os_string().into_string().expect("a path in UTF-8");
        let words = words.iter().map(|&word| word.to_owned());
        words.chain(["--".to_owned(), listed_server().to_owned(), file]).collect()
    }

    fn run(&self, words: &[&str]) -> CommandOutput {
        let mut command = cargo_mcp(&[]);
        command.args(self.words(words)).current_dir(self.0.path()).env("HOME", self.0.path());
        command.output().expect("cargo-mcp starts").into()
    }
}

fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Checks that an output shows something of the server, but nothing that controls a terminal.
#[track_caller]
fn check(words: &[&str], text: &str) {
    assert!(!text.contains(is_control), "{words:?}: {text:?}");
}

fn evil_server() -> Server {
    let schema = json!({
        "type": "object",
        "required": [EVIL],
        "properties": {(EVIL): {"type": "string", "description": EVIL, "default": EVIL, "enum": [EVIL]}},
    });
    let item = json!({"name": "it", "title": EVIL, "description": EVIL, "inputSchema": {"type": "object"}});
    let content = json!([
        {"type": "text", "text": EVIL},
        {"type": "resource_link", "uri": EVIL, "name": EVIL, "mimeType": EVIL},
        {"type": "resource", "resource": {"uri": EVIL, "mimeType": EVIL, "text": EVIL}},
    ]);
    Server::new(&json!({
        "server": {"name": EVIL, "version": EVIL, "title": EVIL},
        "revisions": ["2025-11-25"],
        "instructions": EVIL,
        "tools": [{"name": EVIL, "title": EVIL, "description": EVIL, "inputSchema": schema}, item],
        "resources": [{"uri": EVIL, "name": EVIL, "mimeType": EVIL}, {"uri": "test:it", "name": "it"}],
        "resourceTemplates": [{"uriTemplate": format!("{EVIL}{{x}}"), "name": EVIL}],
        "prompts": [
            {"name": EVIL, "description": EVIL, "arguments": [{"name": EVIL, "description": EVIL}]},
            {"name": "it", "arguments": [{"name": "x"}]},
        ],
        "responses": {
            "tools/call": {"result": {"content": content, "structuredContent": {(EVIL): [EVIL]}}},
            "resources/read": {"result": {"contents": [{"uri": EVIL, "mimeType": EVIL, "text": EVIL}]}},
            "prompts/get": {"result": {
                "description": EVIL,
                "messages": [{"role": "user", "content": {"type": "text", "text": EVIL}}],
            }},
            "completion/complete": {"result": {"completion": {"values": [EVIL], "hasMore": true, "total": 5}}},
        },
    }))
}

#[test]
fn no_command_prints_control_characters_of_a_server() {
    let server = evil_server();
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["call", "it"],
        &["call", "it", "--raw"],
        &["call", "missing"],
        &["call", EVIL, "x=1"],
        &["read", "test:it", "--json"],
        &["prompt", "it", "x=1"],
        &["prompt", "it", "x=1", "--json"],
        &["prompt", "missing"],
        &["complete", "prompt", "it", "x", "v"],
        &["complete", "prompt", "it", "x", "v", "--json"],
        &["complete", "prompt", EVIL, "missing"],
        &["check"],
        &["check", "--format", "json"],
        &["check", "--format", "github"],
        &["lock"],
        &["check", "--locked"],
        &["install", "--client", "cursor", "--force", "--dry-run"],
        &["install", "--client", "cursor", "--force"],
    ] {
        let output = server.run(words);
        assert!(
            output.code != Some(101) && !(output.stdout.clone() + &output.stderr).is_empty(),
            "{words:?}: {output:?}"
        );
        check(words, &output.stdout);
        check(words, &output.stderr);
        // JSON is still exact.
        if let Some(Ok(json)) = words.contains(&"--json").then(|| serde_json::from_str::<Value>(&output.stdout)) {
            assert!(json.to_string().contains(&json!(EVIL).to_string()[1..10]), "{json}");
        }
    }
    let json: Value = serde_json::from_str(&server.run(&["list", "--json"]).expect_success()).expect("JSON");
    assert_eq!(json["tools"][0]["name"], EVIL);
    // A name fits in one line, whatever it contains.
    let forged = json!([{"name": "a\nerror: forged", "inputSchema": {"type": "object"}}]);
    let server = Server::new(&json!({"revisions": ["2025-11-25"], "tools": forged}));
    let listed = server.run(&["list"]).expect_success();
    assert!(!listed.contains("\nerror:") && listed.contains("  a\u{fffd}error: forged("), "{listed}");
}

#[test]
fn no_error_or_notification_prints_control_characters() {
    let evil = json!(EVIL).to_string();
    let rejection = format!(r#"{{"jsonrpc":"2.0","id":2,"error":{{"code":-32000,"message":{evil},"data":{evil}}}}}"#);
    let log = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","logger":{evil},"data":{{"a":{evil}}}}}}}"#
    );
    let progress = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":0,"progress":1,"message":{evil}}}}}"#
    );
    let failed = format!(
        r#"{{"jsonrpc":"2.0","id":2,"result":{{"content":[{{"type":"text","text":{evil}}}],"isError":true}}}}"#
    );
    // `echo` of some shells would replace the escape sequences of JSON.
    let send = |lines: &[&str]| format!("cat <<'END'\n{}\nEND\n", lines.join("\n"));
    for (then, code) in [
        (format!("{}read l", send(&[&rejection])), 1),
        (format!("{}read l", send(&[&log, &progress, &failed])), 1),
        (format!("{}exit 1", send(&[EVIL])), 3),
    ] {
        let words = script(&then);
        let words: Vec<&str> = ["call", "it"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let output = CommandOutput::from(cargo_mcp(&words).output().expect("cargo-mcp starts"));
        assert!(output.code == Some(code) && output.stderr.contains("evil.example"), "{output:?}");
        check(&words[..2], &output.stdout);
        check(&words[..2], &output.stderr);
    }
    let page = server_with_response(
        "HTTP/1.1 403 Forbidden\r\nwww-authenticate: Bearer resource_metadata=\"\u{9b}31m\"\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\n\u{1b}[31m!",
    );
    let output = CommandOutput::from(cargo_mcp(&["list", &page]).output().expect("cargo-mcp starts"));
    check(&["list"], &output.expect_failure(3));
}

/// A terminal also receives what a program writes to stderr, and what prompts and progress bars show.
#[test]
fn a_terminal_receives_no_control_characters_of_a_server() {
    let server = evil_server();
    for words in [&["read", "test:it"][..], &["call", "it"], &["list"]] {
        let words = server.words(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = Terminal::start_in(server.0.path(), &words).output();
        assert!(output.contains("evil.example"), "{output:?}");
        assert!(!output.contains("\u{1b}]8") && !output.contains("\u{1b}[2J"), "{output:?}");
        assert!(!output.contains(['\u{7}', '\u{8}', '\u{7f}', '\u{9b}', '\u{202e}']), "{output:?}");
    }
    let evil = json!(EVIL).to_string();
    let form = format!(
        r#"{{"type":"object","properties":{{{evil}:{{"type":"string","title":{evil},"description":{evil}}}}}}}"#
    );
    let question = script(&format!(
        "cat <<'END'\n{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"elicitation/create\",\"params\":{{\"message\":{evil},\"requestedSchema\":{form}}}}}\nEND\nread a"
    ));
    let words: Vec<&str> = ["call", "it"].into_iter().chain(question.iter().map(String::as_str)).collect();
    let mut terminal = Terminal::start(&words);
    let output = terminal.wait_for("Esc to decline or cancel");
    terminal.send_keys(CTRL_C);
    assert_eq!(output.matches("evil.example").count(), 3, "{output:?}");
    assert!(!output.contains("\u{1b}]8") && !output.contains("\u{1b}[2J"), "{output:?}");
    assert!(!output.contains(['\u{7}', '\u{8}', '\u{7f}', '\u{9b}', '\u{202e}']), "{output:?}");
    let stderr = script(r"printf 'log \033]8;;evil\007\033[2J\302\233\n' >&2; exit 1");
    let words: Vec<&str> = ["call", "it"].into_iter().chain(stderr.iter().map(String::as_str)).collect();
    let output = Terminal::start(&words).output();
    assert!(output.contains("log \u{fffd}]8;;evil\u{fffd}\u{fffd}[2J\u{fffd}"), "{output:?}");
}

/// Logs of a URL's server arrive over HTTP.
#[test]
fn urls_of_servers_are_escaped() {
    let server = HttpServer::start("ask", &[]);
    let output: CommandOutput =
        cargo_mcp(&["call", &server.url, "missing\u{1b}[2J"]).output().expect("cargo-mcp starts").into();
    check(&["call"], &output.expect_failure(2));
}

/// A response without an end does not fill the memory, over HTTP or stdio.
#[test]
fn endless_responses_are_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 10_000]);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\"";
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
        }
    });
    let over_stdio = ["check", "--", "sh", "-c", "read l; exec tr '\\0' x < /dev/zero"];
    for words in [&["check", &url] as &[&str], &over_stdio] {
        let output = run(words);
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(text.contains("the response is larger than 64 MiB"), "{words:?}: {text}");
    }
}

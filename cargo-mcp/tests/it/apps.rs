//! `cargo mcp app`, `cargo mcp types` and `cargo mcp inspect`. `tests/apps/run` shows their pages in a browser.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    check::Server,
    common::{CommandOutput, cargo_mcp, run},
    examples::listed_server,
};

const PAGE: &str = "ui://notes/board";

/// Returns a server with a tool, its page, and a tool without a page.
fn server() -> Value {
    let title = json!({"type": "string"});
    json!({
        "tools": [
            {
                "name": "add_note",
                "description": "Adds a note.",
                "inputSchema": {"type": "object", "properties": {"title": title}, "required": ["title"]},
                "outputSchema": {"type": "object", "properties": {"notes": {"type": "array", "items": title}}},
                "_meta": {"ui": {"resourceUri": PAGE}},
            },
            {
                "name": "plain",
                "inputSchema": {"type": "object", "properties": {}},
                "_meta": {"ui": {"visibility": ["model"]}},
            },
        ],
        "resources": [],
        "responses": {
            "tools/call": {"result": {"content": [{"type": "text", "text": "added"}]}},
            "resources/read": page("text/html;profile=mcp-app"),
        },
    })
}

fn page(mime: &str) -> Value {
    let meta = json!({"ui": {"csp": {"connectDomains": ["https://api.example.com", "* ; script-src *"]}}});
    json!({"result": {"contents": [{"uri": PAGE, "mimeType": mime, "text": "<p>Board</p>", "_meta": meta}]}})
}

/// A running `cargo mcp app`, killed on drop.
struct App {
    process: Child,
    /// `127.0.0.1:PORT`
    authority: String,
    /// The path of the host, with its secret.
    path: String,
}

impl App {
    fn start(server: &Server) -> Self {
        Self::start_with(server.command(&["app", "add_note", "title=Milk", "--no-open", "--revision", "2025-11-25"]))
    }

    fn start_with(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().expect("a pipe")).read_line(&mut url).expect("a line");
        let (authority, path) = url.trim().strip_prefix("http://").and_then(|url| url.split_once('/')).expect("a URL");
        Self { process, authority: authority.to_owned(), path: format!("/{path}") }
    }

    /// Sends a request. Returns the status and everything that follows it.
    fn send(&self, authority: &str, request: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(authority).expect("a connection");
        let length = body.len();
        write!(stream, "{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
            .expect("a request");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        let status = response.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, response)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn only_the_browser_that_knows_the_url_reaches_the_host() {
    let app = App::start(&Server::new(&server()));
    let (authority, path) = (app.authority.as_str(), app.path.as_str());
    assert_eq!(path.len(), "/".len() + 32 + "/".len(), "{path}");
    let host = format!("Host: {authority}\r\n");
    let (status, html) = app.send(authority, &format!("GET {path}"), &host, "");
    assert_eq!(status, 200, "{html}");
    assert!(html.contains("frame-ancestors 'none'") && html.contains("referrer-policy: no-referrer"), "{html}");

    let sandbox = html.split("const SANDBOX = \"http://").nth(1).and_then(|rest| rest.split('"').next());
    let (sandbox, sandbox_path) = sandbox.and_then(|url| url.split_once('/')).expect("the URL of the sandbox");
    assert_ne!(sandbox, authority, "the sandbox has another origin");
    let own = format!("{host}Origin: http://{authority}\r\n");
    let call = r#"{"method":"tools/call","params":{"name":"add_note","arguments":{"title":"Eggs"}}}"#;
    for (request, headers, expected) in [
        ("GET /", host.clone(), 404),
        ("POST /request", own.clone(), 404),
        (&format!("GET {path}"), "Host: rebound.example\r\n".to_owned(), 403),
        (
            &format!("GET {path}"),
            format!("Host: localhost:{}\r\n", authority.rsplit(':').next().unwrap_or_default()),
            403,
        ),
        (&format!("GET {path}"), "Host:\r\n".to_owned(), 403),
        (&format!("POST {path}view"), "Host: rebound.example\r\n".to_owned(), 403),
        (&format!("POST {path}request"), format!("{host}Origin: http://{sandbox}\r\n"), 403),
        (&format!("POST {path}request"), format!("{host}Origin: null\r\n"), 403),
        (&format!("POST {path}request"), format!("{host}Origin: https://evil.example\r\n"), 403),
        (&format!("POST {path}request"), own.clone(), 200),
    ] {
        let (status, response) = app.send(authority, request, &headers, call);
        assert_eq!(status, expected, "{request} {headers}\n{response}");
    }
    let (_, called) = app.send(authority, &format!("POST {path}request"), &own, call);
    assert!(called.ends_with(r#"{"result":{"content":[{"type":"text","text":"added"}]}}"#), "{called}");
    let read = format!(r#"{{"method":"resources/read","params":{{"uri":"{PAGE}"}}}}"#);
    let (_, contents) = app.send(authority, &format!("POST {path}request"), &own, &read);
    assert!(contents.contains(r#""text":"<p>Board</p>""#), "{contents}");
    let (_, refused) = app.send(authority, &format!("POST {path}request"), &own, r#"{"method":"tools/list"}"#);
    assert!(refused.contains("`tools/list` is not passed on"), "{refused}");
    let invisible = r#"{"method":"tools/call","params":{"name":"plain"}}"#;
    let (_, refused) = app.send(authority, &format!("POST {path}request"), &own, invisible);
    assert!(refused.contains("`plain` is not visible to pages"), "{refused}");
    let (status, _) = app.send(authority, &format!("POST {path}request"), &own, "no JSON");
    assert_eq!(status, 400);

    // The sandbox has the policy of the page, and can be embedded only by the host.
    let (_, view) = app.send(authority, &format!("POST {path}view"), &own, "");
    assert!(view.contains(r#""html":"<p>Board</p>""#) && view.contains(r#""arguments":{"title":"Milk"}"#), "{view}");
    let sandbox_host = format!("Host: {sandbox}\r\n");
    let (status, html) = app.send(sandbox, &format!("GET /{sandbox_path}"), &sandbox_host, "");
    assert_eq!(status, 200);
    let policy = html.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).expect("a policy");
    assert!(policy.contains("connect-src https://api.example.com;"), "{policy}");
    assert!(policy.ends_with(&format!("frame-ancestors http://{authority}")), "{policy}");
    assert_eq!(app.send(sandbox, &format!("GET /{sandbox_path}"), "Host: rebound.example\r\n", "").0, 403);
    assert_eq!(app.send(sandbox, "GET /", &sandbox_host, "").0, 404);
}

#[test]
fn declared_domains_that_are_no_origins_are_reported() {
    let mut app = App::start(&Server::new(&server()));
    let own = format!("Host: {0}\r\nOrigin: http://{0}\r\n", app.authority);
    assert_eq!(app.send(&app.authority, &format!("POST {}view", app.path), &own, "").0, 200);
    app.process.kill().expect("it is running");
    let mut shown = String::new();
    app.process.stderr.take().expect("a pipe").read_to_string(&mut shown).expect("text");
    assert_eq!(shown, "`* ; script-src *` is not an origin, and is not part of the policy\n");
}

/// The arguments of a program can be read by other users.
#[cfg(unix)]
#[test]
fn the_browser_gets_a_private_file_that_redirects_to_the_host() {
    use std::{os::unix::fs::PermissionsExt as _, path::Path, thread::sleep, time::Duration};

    let server = Server::new(&server());
    let browser = server.path("browser");
    fs::write(&browser, "#!/bin/sh\necho \"$1\" > \"$0.part\"\nmv \"$0.part\" \"$0.opened\"\n").expect("a script");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).expect("a program");
    let mut command = server.command(&["app", "add_note", "title=Milk", "--revision", "2025-11-25"]);
    command.env("BROWSER", &browser);
    let mut app = App::start_with(command);
    let opened = (0..500).find_map(|_| {
        sleep(Duration::from_millis(20));
        fs::read_to_string(server.path("browser.opened")).ok()
    });
    let opened = opened.expect("a browser");
    let file = Path::new(opened.trim().strip_prefix("file://").expect("a file"));
    let url = format!("http://{}{}", app.authority, app.path);
    assert!(fs::read_to_string(file).expect("a file").contains(&format!("content=\"0; url={url}\"")));
    let directory = file.parent().expect("a directory");
    assert_eq!(fs::metadata(directory).expect("a directory").permissions().mode() & 0o777, 0o700);

    Command::new("kill").args(["-INT", &app.process.id().to_string()]).status().expect("it runs");
    assert!(app.process.wait().expect("it ends").success());
    assert!(!directory.exists());
}

#[test]
fn mistakes_are_reported_before_a_browser_opens() {
    for (tool, read, expected) in [
        (
            "plain",
            page("text/html;profile=mcp-app"),
            "`plain` has no page: its `_meta.ui.resourceUri` is missing\nhelp: tools with a page: `add_note`",
        ),
        ("add_notes", page("text/html;profile=mcp-app"), "unknown tool `add_notes`\nhelp: did you mean `add_note`?"),
        (
            "add_note",
            page("text/html"),
            "`ui://notes/board` has the MIME type `text/html`, expected `text/html;profile=mcp-app`",
        ),
        (
            "add_note",
            json!({"error": {"code": -32603, "message": "broken"}}),
            "`ui://notes/board`: broken (code -32603)",
        ),
    ] {
        let mut file = server();
        file["responses"]["resources/read"] = read;
        let done =
            Server::new(&file).run(&["app", tool, "--json", "{\"title\": \"Milk\"}", "--revision", "2025-11-25"]);
        assert!(done.stderr.starts_with(&format!("error: {expected}")), "{done:?}");
        assert_eq!(done.stdout, "");
        assert_ne!(done.code, Some(0));
    }
}

#[test]
fn types_are_written() {
    let server = Server::new(&server());
    let printed = server.run(&["types"]).expect_success();
    let expected = "
declare namespace mcp {
  /** The tools of the server. */
  interface Tools {
    /** Adds a note. */
    \"add_note\": { input: AddNoteInput; output: AddNoteOutput };
    \"plain\": { input: PlainInput; output: unknown };
  }

  type AddNoteInput = {
    title: string;
  };
  type AddNoteOutput = {
    notes?: string[];
  };
  type PlainInput = Record<string, never>;
}
";
    assert!(printed.ends_with(expected), "{printed}");
    assert!(printed.contains("function app("), "{printed}");
    for expected in ["wrote `mcp.d.ts`\n", "`mcp.d.ts` is up to date\n"] {
        assert_eq!(server.run(&["types", "--out", "mcp.d.ts"]).expect_success(), expected);
    }
    assert_eq!(fs::read_to_string(server.path("mcp.d.ts")).expect("a file"), printed);
    let error = server.run(&["types", "--out", "none/mcp.d.ts"]).expect_failure(2);
    assert!(error.contains("cannot write `none/mcp.d.ts`"), "{error}");
}

/// Otherwise, they would say that the server has no tools.
#[test]
fn types_of_a_server_that_lists_no_tools_are_not_written() {
    let mut listed = server();
    listed["responses"] = json!({"tools/list": {"error": {"code": -32603, "message": "out of order"}}});
    let server = Server::new(&listed);
    fs::write(server.path("mcp.d.ts"), "before").expect("a file");
    let error = server.run(&["types", "--out", "mcp.d.ts"]).expect_failure(3);
    assert!(error.contains("out of order"), "{error}");
    assert_eq!(fs::read_to_string(server.path("mcp.d.ts")).expect("a file"), "before");
}

/// Some servers list tools only for clients that show pages, or have other schemas for them.
#[cfg(unix)]
#[test]
fn types_are_those_for_clients_that_show_pages() {
    let server = Server::new(&server());
    let program = ["--", "sh", "-c", "tee requests | \"$@\"", "sh", listed_server()];
    let mut command = cargo_mcp(&[&["types", "--revision", "2025-06-18"][..], &program].concat());
    let done = command.arg(server.path("server.json")).current_dir(server.path("")).output().expect("it starts");
    CommandOutput::from(done).expect_success();
    let requests = fs::read_to_string(server.path("requests")).expect("a file");
    let expected = r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;
    assert!(requests.contains(expected), "{requests}");
    assert!(requests.contains(r#""protocolVersion":"2025-06-18""#), "{requests}");
}

/// A program stands for `npx`: it prints its arguments and the configuration.
#[cfg(unix)]
#[test]
fn the_inspector_gets_the_transport_and_the_token() {
    use std::os::unix::fs::PermissionsExt as _;

    let server = Server::new(&server());
    let npx = server.path("npx");
    let script = "echo \"$1 $2 $4\"\necho \"$3\"\nls -l \"$3\" | cut -c1-10\ncat \"$3\"\nexit ${NPX_EXIT:-0}\n";
    fs::write(&npx, format!("#!/bin/sh\n{script}")).expect("a file");
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755)).expect("permissions");
    let directory = npx.parent().expect("a directory").to_str().expect("a path in UTF-8");
    let path = format!("{directory}:/usr/bin:/bin");

    let inspect = |name: &str, args: &[&str]| {
        let mut command = crate::common::cargo_mcp(args);
        let done: crate::common::CommandOutput = command.env("PATH", &path).output().expect("it starts").into();
        let text = done.expect_success();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("@modelcontextprotocol/inspector@2 --config "));
        assert!(!std::path::Path::new(lines.next().expect("a path")).exists(), "the configuration is deleted");
        assert_eq!(lines.next(), Some("-rw-------"), "the configuration contains tokens");
        let config: Value = serde_json::from_str(lines.next().expect("a configuration")).expect("JSON");
        config["mcpServers"][name].clone()
    };
    assert_eq!(
        inspect("./server", &["inspect", "--env", "A=1", "--", "./server", "--read-only"]),
        json!({"type": "stdio", "command": "./server", "args": ["--read-only"], "env": {"A": "1"}, "protocolEra": "auto"})
    );
    assert_eq!(
        inspect(
            "https://example.com/mcp",
            &["inspect", "https://example.com/mcp", "--bearer", "secret", "--revision", "2026-07-28"]
        ),
        json!({
            "type": "streamable-http",
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer secret"},
            "protocolEra": "modern",
        })
    );

    let failed = server.command(&["inspect"]).env("PATH", &path).env("NPX_EXIT", "3").output().expect("it starts");
    let error = crate::common::CommandOutput::from(failed).expect_failure(3);
    assert!(error.contains("the Inspector ended with exit status: 3"), "{error}");
    let missing = server.command(&["inspect"]).env("PATH", "/nowhere").output().expect("it starts");
    let error = crate::common::CommandOutput::from(missing).expect_failure(2);
    assert!(error.contains("cannot run `npx`") && error.contains("help: install Node.js"), "{error}");
}

#[test]
fn the_help_describes_the_commands() {
    for (command, expected) in [
        ("app", "Show the page of a tool in the browser"),
        ("types", "Write TypeScript declarations of the tools"),
        ("inspect", "Open a server in the official MCP Inspector"),
    ] {
        let help = run(&[command, "--help"]).expect_success();
        assert!(help.starts_with(expected) && help.contains("Examples:"), "{help}");
    }
}

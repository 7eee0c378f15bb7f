//! `cargo mcp check` and `cargo mcp lock`.

mod authorization;
mod codes;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    common::{CommandOutput, cargo_mcp, repository, run},
    examples::{example, listed_server},
    servers::{HttpServer, for_each_at_once},
};

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// The server `listed` with its file in a temporary directory.
pub(crate) struct Server {
    directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn new(file: &Value) -> Self {
        let server = Self { directory: tempfile::tempdir().expect("a directory") };
        server.set(file);
        server
    }

    fn set(&self, file: &Value) {
        fs::write(self.path("server.json"), file.to_string()).expect("the file is written");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command with the server.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.command(args).output().expect("cargo-mcp starts").into()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let file = text(&self.path("server.json"));
        let args: Vec<&str> = args.iter().copied().chain(["--", listed_server(), &file]).collect();
        let mut command = cargo_mcp(&args);
        command.current_dir(self.directory.path());
        command
    }
}

/// Returns a tool without findings, with some of its members replaced.
fn tool(members: Value) -> Value {
    let mut tool = json!({
        "name": "fetch_page",
        "description": "Fetch a page by its number.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": true},
    });
    for (name, member) in members.as_object().expect("members") {
        tool[name] = member.clone();
    }
    tool
}

/// Returns a server with one tool.
fn with_tool(members: Value) -> Value {
    json!({"tools": [tool(members)]})
}

/// Returns a server with one tool that has one argument.
fn with_argument(name: &str, mut argument: Value) -> Value {
    if argument.is_object() {
        argument["description"] = "What is fetched.".into();
    }
    with_tool(json!({"inputSchema": {"type": "object", "properties": {name: argument}}}))
}

/// Returns a server with one tool that has this input schema.
fn with_schema(schema: Value) -> Value {
    with_tool(json!({ "inputSchema": schema }))
}

/// Formats a finding from the JSON report.
fn line(finding: &Value) -> String {
    let (kind, name) = (finding["entry"]["kind"].as_str().unwrap(), finding["entry"]["name"].as_str().unwrap());
    let entry = if name.is_empty() { kind.to_owned() } else { format!("{kind} `{name}`") };
    format!("{entry}: {}", finding["message"].as_str().unwrap())
}

#[test]
fn the_text_report() {
    let file = json!({
        "revisions": ["2025-06-18", "2025-11-25"],
        "tools": [tool(json!({"name": "fetch.page", "inputSchema": {"type": "object", "properties": {"a": {"type": "array"}}}}))],
    });
    let done = Server::new(&file).run(&["check", "--deny", "dotted-name"]);
    let error = "not supported: `server/discover` returned error -32601: method not found: server/discover";
    let expected = format!(
        "handshakes\n\
        \x20 2024-11-05  not supported: the server offers 2025-06-18\n\
        \x20 2025-03-26  not supported: the server offers 2025-06-18\n\
        \x20 2025-06-18  ok: 1 tool, ping\n\
        \x20 2025-11-25  ok: 1 tool, ping\n\
        \x20 2026-07-28  {error}\n\
        \n\
        server\n\
        \x20 note[revision-refused]: 2024-11-05: the server offers 2025-06-18\n\
        \x20 note[revision-refused]: 2025-03-26: the server offers 2025-06-18\n\
        \x20 note[revision-refused]: 2026-07-28: `server/discover` returned error -32601: method not found: server/discover\n\
        \x20   help: no action is required unless such clients matter\n\
        \n\
        tool `fetch.page`\n\
        \x20 warning[array-without-items]: argument `a` is an array without `items`\n\
        \x20   help: describe the elements in `items`\n\
        \x20 warning[dotted-name]: the name contains a dot\n\
        \x20   help: use an underscore\n\
        \x20 warning[missing-description]: argument `a` has no description\n\
        \x20   help: add a description; with `mcp-runtime`, write a doc comment\n\
        \n\
        tokens (estimated: one token per 3.5 characters of the name, description and input schema as compact JSON)\n\
        \x20 fetch.page      39\n\
        \x20 total           39\n\
        \n\
        0 errors, 3 warnings, 3 notes\n"
    );
    assert_eq!(done.stdout, expected);
    let program = listed_server();
    assert_eq!(
        done.expect_failure(1),
        format!(
            "error: `{program}` failed the check\n\
             help: `cargo mcp check --explain CODE` explains a code, `--allow CODE` suppresses it\n"
        )
    );
}

#[test]
fn the_json_report() {
    let server = Server::new(&with_tool(json!({"name": "fetch.page"})));
    server.run(&["lock"]).expect_success();
    server.set(&json!({"revisions": ["2025-11-25"], "tools": [tool(json!({"name": "fetch.page", "title": "Fetch"}))]}));
    let done = server.run(&["check", "--locked", "--format", "json"]);
    let mut report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    // Keep only the first of the unsupported revisions, which all have the same reason.
    let handshakes = report["handshakes"].as_array_mut().expect("handshakes");
    handshakes.drain(1..3);
    report["findings"].as_array_mut().expect("findings").retain(|found| found["code"] != "revision-refused");
    let help = "run `cargo mcp lock` to accept the change";
    let entry = json!({"kind": "tool", "name": "fetch.page"});
    assert_eq!(
        report,
        json!({
            "formatVersion": 1,
            "server": listed_server(),
            "handshakes": [
                {"revision": "2024-11-05", "outcome": "refused", "why": "the server offers 2025-11-25"},
                {
                    "revision": "2025-11-25", "outcome": "ok", "serverInfo": {"name": "bad", "version": "1.0.0"}, "ping": true,
                    "tools": 1, "resources": 0, "resourceTemplates": 0, "prompts": 0,
                },
                {
                    "revision": "2026-07-28", "outcome": "refused",
                    "why": "`server/discover` returned error -32601: method not found: server/discover",
                },
            ],
            "findings": [
                {"level": "warning", "code": "dotted-name", "entry": entry, "message": "the name contains a dot", "help": "use an underscore"},
                {"level": "error", "code": "compatible-change", "entry": entry, "message": "the title changed", "help": help},
            ],
            "tokens": {
                "method": "one token per 3.5 characters of the name, description and input schema as compact JSON",
                "total": 33,
                "tools": [{"name": "fetch.page", "tokens": 33}],
            },
            "changes": [{"breaking": false, "entry": "tool `fetch.page`", "text": "the title changed"}],
            "summary": {"errors": 1, "warnings": 1, "notes": 4, "failed": true},
        })
    );
}

/// Findings are ordered by their subjects and, in a text, by their levels.
#[test]
fn findings_are_ordered() {
    let server = Server::new(&json!({
        "tools": [tool(json!({
            "name": "fetch page",
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
        }))],
        "resources": [{"uri": "a b", "name": "b", "description": "All of them."}],
        "instructions": "x".repeat(2049),
    }));
    let args = ["check", "--revision", "2025-11-25"];
    let done = server.run(&[&args[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let kinds = report["findings"].as_array().expect("findings").iter().map(|found| &found["entry"]["kind"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["server", "tool", "tool", "resource"]);
    let text = server.run(&args).stdout;
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("error[bad-name]") < at("[boolean-additional-properties]"), "{text}");
}

#[test]
fn findings_can_be_denied_and_allowed() {
    let warns = with_tool(json!({"name": "fetch.page"}));
    let notes = with_tool(json!({"annotations": {}}));
    let fails = with_tool(json!({"name": "fetch page"}));
    for (file, options, code) in [
        (&warns, &[][..], 0),
        (&warns, &["--deny", "warnings"], 1),
        (&warns, &["--deny", "notes"], 1),
        (&warns, &["--deny", "dotted-name"], 1),
        (&warns, &["--deny", "warnings", "--allow", "dotted-name"], 0),
        (&notes, &["--deny", "warnings"], 0),
        (&notes, &["--deny", "notes"], 1),
        (&notes, &["--deny", "notes", "--deny", "warnings"], 1),
        (&fails, &[], 1),
        (&fails, &["--allow", "bad-name"], 0),
    ] {
        let args = [&["check", "--revision", "2025-11-25"][..], options].concat();
        assert_eq!(Server::new(file).run(&args).code, Some(code), "{file} {options:?}");
    }
}

#[test]
fn the_github_report() {
    let output = Server::new(&with_tool(json!({"name": "fetch.page"})))
        .run(&["check", "--revision", "2025-11-25", "--format", "github"])
        .expect_success();
    assert_eq!(
        output,
        "::warning title=dotted-name::tool `fetch.page`: the name contains a dot; use an underscore\n0 errors, 1 warning, 0 notes\n"
    );
    // A line break of a name would begin another command.
    let done = Server::new(&with_tool(json!({"name": "50%\n::error::", "annotations": {}}))).run(&[
        "check",
        "--revision",
        "2025-11-25",
        "--format",
        "github",
    ]);
    for expected in [
        "::error title=bad-name::tool `50%25\u{fffd}::error::`: ",
        "::notice title=no-hints::tool `50%25\u{fffd}::error::`: ",
    ] {
        assert!(done.stdout.lines().any(|line| line.starts_with(expected)), "{}", done.stdout);
    }
}

#[test]
fn invalid_command_lines_are_rejected() {
    let hello = text(&example("hello"));
    for (args, code, expected) in [
        (
            &["check", "--explain", "schema-reff"][..],
            2,
            "error: unknown code `schema-reff`\nhelp: did you mean `schema-ref`?\n",
        ),
        (
            &["check", "--allow", "frobnicate", "--", &hello],
            2,
            "error: unknown code `frobnicate`\nhelp: `cargo mcp check --explain list` lists all codes\n",
        ),
        (
            &["check", "--locked=none.json", "--", &hello],
            2,
            "error: cannot read `none.json`: No such file or directory (os error 2)\nhelp: run `cargo mcp lock` to create it\n",
        ),
        (
            &["check", "--locked", "--revision", "2025-11-25", "--", &hello],
            2,
            "error: `--locked` compares the newest revision that the server supports and conflicts with `--revision 2025-11-25`\nhelp: omit one of them\n",
        ),
        (
            &["check", "--locked=Cargo.toml", "--", &hello],
            2,
            "error: `Cargo.toml` is not a lock file: not valid JSON: expected value at line 1 column 2\nhelp: run `cargo mcp lock` to recreate it\n",
        ),
        (
            &["lock", "--revision", "2025-11-25", "--", &hello],
            2,
            "error: `--revision 2025-11-25` cannot be used here: a lock file records the newest revision that the server supports\nhelp: omit `--revision`\n",
        ),
        (
            &["check", "--", "/no/such/program"],
            3,
            "error: cannot run `/no/such/program`: No such file or directory (os error 2)\n",
        ),
        (
            &["check", "--", "sh", "-c", "echo starting >&2; echo what is this >&2"],
            3,
            "error: cannot connect to `sh`: the server exited; its last line on stderr: what is this\nhelp: run it in a terminal to see its output; stdout must contain only JSON-RPC messages\n",
        ),
        // Only the end of a long output is kept.
        (
            &["check", "--", "sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x >&2; echo >&2; echo what is this >&2"],
            3,
            "error: cannot connect to `sh`: the server exited; its last line on stderr: what is this\nhelp: run it in a terminal to see its output; stdout must contain only JSON-RPC messages\n",
        ),
        (
            &["lock", "--", "sh", "-c", "echo what is this >&2"],
            3,
            "error: cannot connect to `sh`: the server exited; its last line on stderr: what is this\nhelp: run it in a terminal to see its output; stdout must contain only JSON-RPC messages\n",
        ),
    ] {
        assert_eq!(run(args).expect_failure(code), expected, "{args:?}");
    }
}

#[test]
fn changes_are_reported_and_accepted() {
    let before = with_argument("a", json!({"type": "integer", "maximum": 100}));
    let mut after = with_argument("a", json!({"type": "integer", "maximum": 50}));
    after["tools"][0]["inputSchema"]["properties"]["b"] =
        json!({"type": "string", "description": "What else is fetched."});
    let server = Server::new(&before);
    assert_eq!(server.run(&["lock"]).expect_success(), "created `mcp.lock.json`\n");
    assert_eq!(server.run(&["lock"]).expect_success(), "`mcp.lock.json` is up to date\n");
    let same = server.run(&["check", "--locked"]).expect_success();
    assert!(same.contains("\nthe server matches `mcp.lock.json`\n"), "{same}");

    server.set(&after);
    let done = server.run(&["check", "--locked"]);
    let changes = "breaking    tool `fetch_page`: argument `a`: `maximum` changed from 100 to 50\n\
                   compatible  tool `fetch_page`: argument `b` is new and optional\n";
    let expected = format!(
        "{changes}\nthe server does not match `mcp.lock.json`: 1 breaking change and 1 compatible change\n\
         help: run `cargo mcp lock` to accept the changes\n"
    );
    assert!(done.stdout.contains(&expected), "{}", done.stdout);
    assert!(
        done.stdout.contains("error[breaking-change]: argument `a`: `maximum` changed from 100 to 50\n"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("error[compatible-change]: argument `b` is new and optional\n"), "{}", done.stdout);
    done.expect_failure(1);
    // Both kinds of changes can be allowed.
    server.run(&["check", "--locked", "--allow", "breaking-change", "--allow", "compatible-change"]).expect_success();

    let copy = text(&server.path("copy.json"));
    fs::copy(server.path("mcp.lock.json"), &copy).expect("the file is copied");
    assert_eq!(server.run(&["lock"]).expect_success(), format!("{changes}updated `mcp.lock.json`\n"));
    server.run(&["check", "--locked"]).expect_success();
    server.run(&["check", &format!("--locked={copy}")]).expect_failure(1);
}

#[test]
fn the_examples_pass() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a.txt"), "a file").expect("the file is written");
    for (name, notes) in [
        ("hello", "notes"),
        ("notes", "notes"),
        ("ask", "notes"),
        ("jobs", "notes"),
        ("files", "notes"),
        ("everything", ""),
    ] {
        let mut command = cargo_mcp(&["check", "--read"]);
        if notes.is_empty() {
            // The conformance suite dictates the names and one schema of `everything`.
            let dictated = ["top-level-union", "schema-ref", "missing-type", "boolean-additional-properties"];
            command.args(["--deny", "warnings"]).args(dictated.iter().flat_map(|code| ["--allow", code]));
        } else {
            command.args(["--deny", notes]);
        }
        command.arg("--").arg(example(name)).current_dir(directory.path());
        CommandOutput::from(command.output().expect("cargo-mcp starts")).expect_success();
    }
    let server = HttpServer::spawn(Command::new(example("mount_axum")).arg("127.0.0.1:0"));
    run(&["check", &server.url, "--read", "--deny", "notes"]).expect_success();
}

#[test]
fn newer_revisions_that_the_server_announces_are_checked() {
    let server = Server::new(&json!({"revisions": ["2025-11-25", "2026-07-28", "2031-01-02", "2030-01-02", "draft"]}));
    let report = server.run(&["check"]).expect_success();
    let known = "  2025-11-25  ok: no entries, ping\n  2026-07-28  ok: no entries\n";
    let newer = "  2030-01-02  ok: no entries\n  2031-01-02  ok: no entries\n";
    assert!(report.contains(&format!("{known}{newer}\n")), "{report}");
    let report = server.run(&["check", "--revision", "2026-07-28"]).expect_success();
    assert!(!report.contains("2031-01-02"), "{report}");
}

/// Runs `check` with a shell script as the server, which reads the first message into `l` and passes everything on to `listed`.
#[cfg(unix)]
fn check_through(script: &str, file: &Value, options: &[&str]) -> (CommandOutput, Server) {
    let server = Server::new(file);
    let script = format!("read -r l; {script}; {{ printf '%s\\n' \"$l\"; cat; }} | exec \"$@\"");
    let file = text(&server.path("server.json"));
    let args = [&["check"][..], options, &["--", "sh", "-c", &script, "sh", listed_server(), &file]].concat();
    let mut command = cargo_mcp(&args);
    let done = command.current_dir(server.path("")).output().expect("cargo-mcp starts").into();
    (done, server)
}

/// Each revision has a connection of its own.
#[cfg(unix)]
#[test]
fn noise_is_reported_whatever_its_revision() {
    for revision in ["2024-11-05", "2025-11-25"] {
        let noise = format!("case $l in *{revision}*) echo noise;; esac");
        let (done, _) = check_through(&noise, &json!({"revisions": ["2024-11-05", "2025-11-25"]}), &[]);
        let expected = "error[stdout-noise]: stdout contains a line that is not a message: \"noise\"\n";
        assert_eq!(done.stdout.matches(expected).count(), 1, "{}", done.stdout);
    }
    // A line of every connection is reported once.
    let done = Server::new(&json!({"stray_line": "noise"})).run(&["check"]);
    assert_eq!(done.stdout.matches("error[stdout-noise]: ").count(), 1, "{}", done.stdout);
}

/// Some servers list pages only for clients that show them.
#[cfg(unix)]
#[test]
fn pages_are_checked_as_a_client_that_shows_them() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let file = json!({"tools": [], "resources": []});
        let record = "printf '%s\\n' \"$l\" >> requests";
        let (done, server) = check_through(record, &file, &["--revision", revision]);
        done.expect_success();
        let requests = fs::read_to_string(server.path("requests")).expect("a file");
        let expected = r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;
        assert_eq!(requests.matches(expected).count(), 1, "{requests}");
    }
}

/// Some servers wait for `notifications/initialized`, and some respond only to what they have declared.
#[cfg(unix)]
#[test]
fn only_declared_lists_are_requested_after_the_handshake() {
    let server = Server::new(&json!({"prompts": []}));
    let file = text(&server.path("server.json"));
    for (revision, expected) in [
        (
            "2025-11-25",
            &["initialize", "notifications/initialized", "ping", "prompts/list", "cargo-mcp/no-such-method"][..],
        ),
        ("2026-07-28", &["server/discover", "prompts/list", "cargo-mcp/no-such-method"]),
    ] {
        let script = "tee requests | \"$@\"";
        let mut command =
            cargo_mcp(&["check", "--revision", revision, "--", "sh", "-c", script, "sh", listed_server(), &file]);
        let done = command.current_dir(server.path("")).output().expect("cargo-mcp starts");
        CommandOutput::from(done).expect_success();
        let requests = fs::read_to_string(server.path("requests")).expect("a file");
        let messages = requests.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        assert_eq!(messages.map(|message| message["method"].clone()).collect::<Vec<_>>(), expected);
    }
}

#[cfg(unix)]
#[test]
fn a_program_receives_its_variables() {
    let (done, _) = check_through("[ \"$KEY\" = a=b ] || exit", &json!({}), &["--env", "KEY=a=b"]);
    done.expect_success();
}

#[test]
fn a_response_names_its_protocol() {
    let result =
        r#""result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}"#;
    for outcome in [result, r#""error":{"code":-32603,"message":"not today"}"#] {
        let script = format!("read l; echo '{{\"id\":1,{outcome}}}'; read l");
        let done = run(&["check", "--revision", "2025-11-25", "--", "sh", "-c", &script]);
        let expected = "2025-11-25: `initialize`: not a JSON-RPC 2.0 response: ";
        assert!(done.stdout.contains(expected), "{}", done.stdout);
        done.expect_failure(1);
    }
}

#[test]
fn a_stateless_server_names_its_revisions() {
    for (result, expected) in [
        (
            json!({"capabilities": {}, "supportedVersions": ["2025-11-25"]}),
            r#"not supported: the server offers ["2025-11-25"]"#,
        ),
        (json!({"capabilities": {}}), "failed: the result has no `supportedVersions` array"),
    ] {
        let file = json!({"responses": {"server/discover": {"result": result}}});
        let done = Server::new(&file).run(&["check", "--revision", "2026-07-28"]);
        assert!(done.stdout.contains(&format!("  2026-07-28  {expected}\n")), "{}", done.stdout);
    }
}

/// A server may name a next page forever.
#[test]
fn the_number_of_pages_is_bounded() {
    let file = json!({"tools": [], "responses": {"tools/list": {"result": {"tools": [], "nextCursor": "more"}}}});
    let done = Server::new(&file).run(&["check", "--revision", "2025-11-25"]);
    let expected = "  2025-11-25  failed: tools/list: `tools/list` has more than 1000 pages\n";
    assert!(done.stdout.contains(expected), "{}", done.stdout);
    done.expect_failure(1);
}

#[test]
fn the_number_of_newer_revisions_to_check_is_bounded() {
    let newer = (2030..2080).flat_map(|year| [year, year]).map(|year| format!("{year}-01-02"));
    let revisions: Vec<String> = std::iter::once("2026-07-28".to_owned()).chain(newer).collect();
    let server = Server::new(&json!({"revisions": revisions}));
    let report = server.run(&["check"]).expect_success();
    let checked: Vec<_> = report.lines().filter(|line| line.ends_with("-01-02  ok: no entries")).collect();
    let expected: Vec<_> = (2030..2046).map(|year| format!("  {year}-01-02  ok: no entries")).collect();
    assert_eq!(checked, expected);
}

#[test]
fn every_revision_is_supported_over_stdio_and_http() {
    let all = "handshakes\n\
        \x20 2024-11-05  ok: 5 tools, 2 resources, 2 resource templates, 2 prompts, ping\n\
        \x20 2025-03-26  ok: 5 tools, 2 resources, 2 resource templates, 2 prompts, ping\n\
        \x20 2025-06-18  ok: 5 tools, 2 resources, 2 resource templates, 2 prompts, ping\n\
        \x20 2025-11-25  ok: 5 tools, 2 resources, 2 resource templates, 2 prompts, ping\n\
        \x20 2026-07-28  ok: 5 tools, 2 resources, 2 resource templates, 2 prompts\n";
    let notes = text(&example("notes"));
    let over_stdio = run(&["check", "--read", "--deny", "notes", "--", &notes, "--db", ":memory:"]).expect_success();
    assert!(over_stdio.starts_with(all), "{over_stdio}");
    let http = HttpServer::start("notes", &["--db", ":memory:"]);
    let over_http = run(&["check", &http.url, "--read", "--deny", "notes"]).expect_success();
    assert_eq!(over_http, over_stdio);

    let wrong_path = http.url.replace("/mcp", "/nothing");
    for command in ["check", "lock"] {
        for (url, why) in [
            (
                &*wrong_path,
                "the server returned HTTP 404 Not Found: invalid request: path not found: the MCP endpoint is `/mcp`",
            ),
            ("http://127.0.0.1:9/mcp", "Connection refused (os error 111)"),
        ] {
            assert_eq!(
                run(&[command, url]).expect_failure(3),
                format!(
                    "error: cannot connect to `{url}`: {why}\n\
                     help: check the path, and whether the server requires headers (`--header`)\n"
                )
            );
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = text(&directory.path().join("a.json"));
    run(&["lock", &http.url, "--output", &path]).expect_success();
    let committed =
        fs::read_to_string(repository().join("examples/notes/mcp.lock.json")).expect("the example has a lock");
    assert_eq!(fs::read_to_string(path).expect("the file is written"), committed);
}

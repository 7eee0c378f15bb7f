//! `cargo mcp check` and `cargo mcp lock`.

mod codes;

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use serde_json::{Value, json};

use crate::common::{Done, cargo_mcp, example, repository, run};

/// The server that lists what a file says, built once.
fn listed() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let arguments = ["build", "--quiet", "-p", "cargo-mcp", "--example", "listed"];
        let built =
            Command::new(env!("CARGO")).args(arguments).current_dir(repository()).status().expect("cargo starts");
        assert!(built.success(), "the server builds");
        let programs = Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("a program is in a directory");
        text(&programs.join("examples/listed"))
    })
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// A directory with a file for `listed`.
struct Server {
    directory: tempfile::TempDir,
}

impl Server {
    fn new(file: &Value) -> Self {
        let server = Self { directory: tempfile::tempdir().expect("a directory") };
        server.becomes(file);
        server
    }

    fn becomes(&self, file: &Value) {
        fs::write(self.path("server.json"), file.to_string()).expect("the file is written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command against it.
    fn run(&self, words: &[&str]) -> Done {
        let file = text(&self.path("server.json"));
        let words: Vec<&str> = words.iter().copied().chain(["--", listed(), &file]).collect();
        cargo_mcp(&words).current_dir(self.directory.path()).output().expect("cargo-mcp starts").into()
    }
}

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

/// A server with one tool.
fn with(members: Value) -> Value {
    json!({"tools": [tool(members)]})
}

/// A server with one tool with one argument.
fn taking(name: &str, mut argument: Value) -> Value {
    if argument.is_object() {
        argument["description"] = "What is fetched.".into();
    }
    with(json!({"inputSchema": {"type": "object", "properties": {name: argument}}}))
}

fn schema(schema: Value) -> Value {
    with(json!({ "inputSchema": schema }))
}

fn line(finding: &Value) -> String {
    let (kind, name) = (finding["entry"]["kind"].as_str().unwrap(), finding["entry"]["name"].as_str().unwrap());
    let entry = if name.is_empty() { kind.to_owned() } else { format!("{kind} `{name}`") };
    format!("{entry}: {}", finding["message"].as_str().unwrap())
}

#[test]
fn the_whole_report() {
    let file = json!({
        "speaks": ["2025-06-18", "2025-11-25"],
        "tools": [tool(json!({"name": "fetch.page", "inputSchema": {"type": "object", "properties": {"a": {"type": "array"}}}}))],
    });
    let done = Server::new(&file).run(&["check", "--deny", "dotted-name"]);
    let refused = "not spoken: `server/discover` is answered with error -32601: method not found: server/discover";
    let expected = format!(
        "handshakes\n\
        \x20 2024-11-05  not spoken: it offers 2025-06-18\n\
        \x20 2025-03-26  not spoken: it offers 2025-06-18\n\
        \x20 2025-06-18  ok: 1 tool, ping\n\
        \x20 2025-11-25  ok: 1 tool, ping\n\
        \x20 2026-07-28  {refused}\n\
        \n\
        server\n\
        \x20 note[revision-refused]: 2024-11-05: it offers 2025-06-18\n\
        \x20 note[revision-refused]: 2025-03-26: it offers 2025-06-18\n\
        \x20 note[revision-refused]: 2026-07-28: `server/discover` is answered with error -32601: method not found: server/discover\n\
        \x20   help: nothing, unless such clients matter\n\
        \n\
        tool `fetch.page`\n\
        \x20 warning[array-without-items]: the argument `a` is an array of anything\n\
        \x20   help: say in `items` what the array holds\n\
        \x20 warning[dotted-name]: its name has a dot\n\
        \x20   help: use an underscore\n\
        \x20 warning[missing-description]: the argument `a` has no description\n\
        \x20   help: describe it; with `mcp-runtime` it is the doc comment\n\
        \n\
        tokens (an estimate: a token for each 3.5 characters of name, description and input schema as compact JSON)\n\
        \x20 fetch.page      39\n\
        \x20 in all          39\n\
        \n\
        0 errors, 3 warnings, 3 notes\n"
    );
    assert_eq!(done.stdout, expected);
    let program = listed();
    assert_eq!(
        done.failed(1),
        format!(
            "error: `{program}` does not pass the check\n\
             help: `cargo mcp check --explain CODE` tells more, `--allow CODE` leaves a code out\n"
        )
    );
}

#[test]
fn the_report_for_programs() {
    let server = Server::new(&with(json!({"name": "fetch.page"})));
    server.run(&["lock"]).good();
    server
        .becomes(&json!({"speaks": ["2025-11-25"], "tools": [tool(json!({"name": "fetch.page", "title": "Fetch"}))]}));
    let done = server.run(&["check", "--locked", "--format", "json"]);
    let mut report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    // Those of revisions that are not spoken are alike.
    let handshakes = report["handshakes"].as_array_mut().expect("handshakes");
    handshakes.drain(1..3);
    report["findings"].as_array_mut().expect("findings").retain(|found| found["code"] != "revision-refused");
    let help = "run `cargo mcp lock` to accept";
    let entry = json!({"kind": "tool", "name": "fetch.page"});
    assert_eq!(
        report,
        json!({
            "formatVersion": 1,
            "server": listed(),
            "handshakes": [
                {"revision": "2024-11-05", "outcome": "refused", "why": "it offers 2025-11-25"},
                {
                    "revision": "2025-11-25", "outcome": "ok", "serverInfo": {"name": "bad", "version": "1.0.0"}, "ping": true,
                    "tools": 1, "resources": 0, "resourceTemplates": 0, "prompts": 0,
                },
                {
                    "revision": "2026-07-28", "outcome": "refused",
                    "why": "`server/discover` is answered with error -32601: method not found: server/discover",
                },
            ],
            "findings": [
                {"level": "warning", "code": "dotted-name", "entry": entry, "message": "its name has a dot", "help": "use an underscore"},
                {"level": "error", "code": "compatible-change", "entry": entry, "message": "the title changed", "help": help},
            ],
            "tokens": {
                "method": "a token for each 3.5 characters of name, description and input schema as compact JSON",
                "total": 33,
                "tools": [{"name": "fetch.page", "tokens": 33}],
            },
            "changes": [{"breaking": false, "entry": "tool `fetch.page`", "text": "the title changed"}],
            "summary": {"errors": 1, "warnings": 1, "notes": 4, "failed": true},
        })
    );
}

#[test]
fn findings_are_denied_and_allowed() {
    let warns = with(json!({"name": "fetch.page"}));
    let notes = with(json!({"annotations": {}}));
    let fails = with(json!({"name": "fetch page"}));
    for (file, options, code) in [
        (&warns, &[][..], 0),
        (&warns, &["--deny", "warnings"], 1),
        (&warns, &["--deny", "notes"], 1),
        (&warns, &["--deny", "dotted-name"], 1),
        (&warns, &["--deny", "warnings", "--allow", "dotted-name"], 0),
        (&notes, &["--deny", "warnings"], 0),
        (&notes, &["--deny", "notes"], 1),
        (&fails, &[], 1),
        (&fails, &["--allow", "bad-name"], 0),
    ] {
        let words = [&["check", "--revision", "2025-11-25"][..], options].concat();
        assert_eq!(Server::new(file).run(&words).code, Some(code), "{file} {options:?}");
    }
}

#[test]
fn github_shows_findings_beside_a_run() {
    let told = Server::new(&with(json!({"name": "fetch.page"})))
        .run(&["check", "--revision", "2025-11-25", "--format", "github"])
        .good();
    assert_eq!(
        told,
        "::warning title=dotted-name::tool `fetch.page`: its name has a dot; use an underscore\n0 errors, 1 warning, 0 notes\n"
    );
}

#[test]
fn a_wrong_command_line_is_told() {
    let hello = text(&example("hello"));
    for (words, code, expected) in [
        (
            &["check", "--explain", "schema-reff"][..],
            2,
            "error: there is no code `schema-reff`\nhelp: did you mean `schema-ref`?\n",
        ),
        (
            &["check", "--allow", "frobnicate", "--", &hello],
            2,
            "error: there is no code `frobnicate`\nhelp: `cargo mcp check --explain list` lists them\n",
        ),
        (
            &["check", "--locked=none.json", "--", &hello],
            2,
            "error: `none.json` cannot be read: No such file or directory (os error 2)\nhelp: run `cargo mcp lock` to write it\n",
        ),
        (
            &["check", "--locked", "--revision", "2025-11-25", "--", &hello],
            2,
            "error: `--locked` compares the newest revision that the server speaks, and `--revision 2025-11-25` is another\nhelp: leave one of them out\n",
        ),
        (
            &["check", "--locked=Cargo.toml", "--", &hello],
            2,
            "error: `Cargo.toml` is no lock file: it is not JSON: expected value at line 1 column 2\nhelp: run `cargo mcp lock` to write it anew\n",
        ),
        (
            &["lock", "--revision", "2025-11-25", "--", &hello],
            2,
            "error: `--revision 2025-11-25`: a lock is of the newest revision that a server speaks, which says the most\nhelp: leave `--revision` out\n",
        ),
        (
            &["check", "--", "/no/such/program"],
            3,
            "error: `/no/such/program` cannot be started: No such file or directory (os error 2)\n",
        ),
        (
            &["check", "--", "sh", "-c", "echo what is this >&2"],
            3,
            "error: `sh` cannot be connected to: the server has gone; its last words: what is this\nhelp: start it by hand to see what it says; what it prints to stdout must be JSON-RPC\n",
        ),
        (
            &["lock", "--", "sh", "-c", "echo what is this >&2"],
            3,
            "error: `sh` cannot be connected to: the server has gone; its last words: what is this\nhelp: start it by hand to see what it says; what it prints to stdout must be JSON-RPC\n",
        ),
    ] {
        assert_eq!(run(words).failed(code), expected, "{words:?}");
    }
}

#[test]
fn a_change_is_told_and_accepted() {
    let before = taking("a", json!({"type": "integer", "maximum": 100}));
    let mut after = taking("a", json!({"type": "integer", "maximum": 50}));
    after["tools"][0]["inputSchema"]["properties"]["b"] =
        json!({"type": "string", "description": "What else is fetched."});
    let server = Server::new(&before);
    assert_eq!(server.run(&["lock"]).good(), "wrote `mcp.lock.json`\n");
    assert_eq!(server.run(&["lock"]).good(), "`mcp.lock.json` is as it was\n");
    let same = server.run(&["check", "--locked"]).good();
    assert!(same.contains("\nthe server is what `mcp.lock.json` says\n"), "{same}");

    server.becomes(&after);
    let done = server.run(&["check", "--locked"]);
    let changes = "breaking    tool `fetch_page`: argument `a`: `maximum` was 100, is 50\n\
                   compatible  tool `fetch_page`: argument `b` is new and optional\n";
    let expected = format!(
        "{changes}\nthe server is not what `mcp.lock.json` says: 1 breaking change and 1 compatible change\n\
         help: run `cargo mcp lock` to accept\n"
    );
    assert!(done.stdout.contains(&expected), "{}", done.stdout);
    assert!(
        done.stdout.contains("error[breaking-change]: argument `a`: `maximum` was 100, is 50\n"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("error[compatible-change]: argument `b` is new and optional\n"), "{}", done.stdout);
    done.failed(1);
    // Only what breaks callers, for those who want it so.
    server.run(&["check", "--locked", "--allow", "breaking-change", "--allow", "compatible-change"]).good();

    let copy = text(&server.path("copy.json"));
    fs::copy(server.path("mcp.lock.json"), &copy).expect("the file is copied");
    assert_eq!(server.run(&["lock"]).good(), format!("{changes}rewrote `mcp.lock.json`\n"));
    server.run(&["check", "--locked"]).good();
    server.run(&["check", &format!("--locked={copy}")]).failed(1);
}

#[test]
fn a_package_has_its_lock_beside_its_manifest() {
    let words = ["lock", "notes", "--env", "NOTES_DB=:memory:"];
    assert_eq!(
        run(&words).good(),
        "`examples/notes/mcp.lock.json` is as it was\n",
        "`cargo test` and the command agree"
    );
    let checked =
        run(&["check", "notes", "--locked", "--read", "--deny", "notes", "--env", "NOTES_DB=:memory:"]).good();
    assert!(checked.ends_with("\n0 errors, 0 warnings, 0 notes\n"), "{checked}");
}

#[test]
fn examples_have_no_errors() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a.txt"), "a file").expect("it is written");
    for (name, notes) in [
        ("hello", "notes"),
        ("notes", "notes"),
        ("ask", "notes"),
        ("jobs", "notes"),
        ("files", "notes"),
        ("everything", ""),
    ] {
        let mut command = cargo_mcp(&["check", "--read"]);
        // Its schemas and names are those that the conformance suite asks for.
        if !notes.is_empty() {
            command.args(["--deny", notes]);
        }
        command.arg("--").arg(example(name)).current_dir(directory.path());
        Done::from(command.output().expect("cargo-mcp starts")).good();
    }
    let tea = Http::new(Command::new(example("mount_axum")).arg("127.0.0.1:0"));
    run(&["check", &tea.url, "--read", "--deny", "notes"]).good();
}

/// A program that serves HTTP, until it is dropped.
struct Http {
    program: Child,
    url: String,
}

impl Http {
    fn of(name: &str, words: &[&str]) -> Self {
        Self::new(Command::new(example(name)).args(words).args(["--http", "127.0.0.1:0"]))
    }

    fn new(command: &mut Command) -> Self {
        let mut program = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the example starts");
        let stderr = BufReader::new(program.stderr.take().expect("it has a stderr"));
        let mut lines = stderr.lines().map_while(Result::ok);
        let url = lines
            .find_map(|line| Some(line.split_once(" listens on ")?.1.to_owned()))
            .expect("it says where it listens");
        // Read on, so that the program can write on.
        std::thread::spawn(move || lines.for_each(drop));
        Self { program, url }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn every_revision_is_spoken_over_stdio_and_http() {
    let all = "handshakes\n\
        \x20 2024-11-05  ok: 4 tools, 1 resource, 2 resource templates, 2 prompts, ping\n\
        \x20 2025-03-26  ok: 4 tools, 1 resource, 2 resource templates, 2 prompts, ping\n\
        \x20 2025-06-18  ok: 4 tools, 1 resource, 2 resource templates, 2 prompts, ping\n\
        \x20 2025-11-25  ok: 4 tools, 1 resource, 2 resource templates, 2 prompts, ping\n\
        \x20 2026-07-28  ok: 4 tools, 1 resource, 2 resource templates, 2 prompts\n";
    let notes = text(&example("notes"));
    let over_stdio = run(&["check", "--read", "--deny", "notes", "--", &notes, "--db", ":memory:"]).good();
    assert!(over_stdio.starts_with(all), "{over_stdio}");
    let http = Http::of("notes", &["--db", ":memory:"]);
    let over_http = run(&["check", &http.url, "--read", "--deny", "notes"]).good();
    assert_eq!(over_http, over_stdio);

    let elsewhere = http.url.replace("/mcp", "/nothing");
    for command in ["check", "lock"] {
        for (url, why) in [
            (&*elsewhere, "it answers HTTP 404 Not Found: invalid request: path not found: the MCP endpoint is `/mcp`"),
            ("http://127.0.0.1:9/mcp", "Connection refused (os error 111)"),
        ] {
            assert_eq!(
                run(&[command, url]).failed(3),
                format!(
                    "error: `{url}` cannot be connected to: {why}\n\
                     help: is the path right, and is it all that the server asks of `--header`?\n"
                )
            );
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = text(&directory.path().join("a.json"));
    run(&["lock", &http.url, "--output", &path]).good();
    let committed =
        fs::read_to_string(repository().join("examples/notes/mcp.lock.json")).expect("the example has a lock");
    assert_eq!(fs::read_to_string(path).expect("it is written"), committed);
}

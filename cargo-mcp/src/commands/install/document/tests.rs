use jsonc_parser::{ParseOptions, cst};
use serde_json::json;

use super::*;
use crate::{
    commands::install::client::{self, Client},
    target::Target,
};

fn client(syntax: Syntax) -> &'static Client {
    let id = if syntax == Syntax::Toml { "codex" } else { "claude-code" };
    client::named(id).expect("a known client")
}

fn parse(syntax: Syntax, text: &str) -> Result<Document, DocumentError> {
    Document::parse(syntax, client(syntax).object, text)
}

fn entry(client: &Client, name: &str) -> Entry {
    let env = vec![("KEY".to_owned(), "a \"b\"\\ü\n".to_owned())];
    let (program, args) = (format!("/bin/{name}").into(), vec!["--x".into(), "y".into()]);
    client.entry(&Target::Program { name: name.to_owned(), program, args, env }).expect("all clients support programs")
}

/// Returns a text with LF and with CRLF, with spaces and with tabs, with and without a BOM and a final newline.
fn variants(text: &str) -> Vec<String> {
    let mut variants = vec![text.to_owned(), text.trim_end().to_owned()];
    variants.extend(variants.clone().iter().map(|text| text.replace('\n', "\r\n")));
    variants.extend(variants.clone().iter().map(|text| text.replace("  ", "\t")));
    variants.extend(variants.clone().iter().map(|text| format!("{BOM}{text}")));
    variants
}

const JSON: &[&str] = &[
    "",
    "\n\n",
    "// nothing yet\n",
    "/* nothing yet */",
    "{}\n",
    "{ }\n",
    "{\n}\n",
    "{\n\n\n}\n",
    "{ // why\n}\n",
    "{\n  // why\n}\n",
    "{ /* why */ }\n",
    "{\n  \"mcpServers\": {}\n}\n",
    "{\n  \"mcpServers\": {\n  }\n}\n",
    "{\n  \"mcpServers\": {\n    // none\n  }\n}\n",
    "{\"mcpServers\":{}}\n",
    "{\"mcpServers\": {}}\n",
    "{\"a\":1}\n",
    "{\"a\": 1, \"b\": [1, 2]}\n",
    "{\"a\":1,}\n",
    "{\"a\": 1 /* one */}\n",
    "{ \"a\": 1, /* one */ }\n",
    "{\n  \"a\": 1\n}\n",
    "{\n  \"a\": 1,\n}\n",
    "{\n  \"a\": 1 // one\n}\n",
    "{\n  \"a\": 1, // one\n}\n",
    "{\n  \"a\": 1 /* one */, // more\n  // \"old\": 2\n}\n",
    "{\n  \"a\": 1\n  , \"b\": 2\n}\n",
    "{\n    \"a\": {\"mcpServers\": {\"other\": {}}},\n    \"mcpServers\": {\n        \"other\": {\"command\": \"x\"}\n    },\n    \"z\": {\"mcpServers\": null}\n}\n",
    "{\n  \"mcpServers\": {\"other\": {\"command\": \"x\"}}\n}\n",
    "{\n  \"mcpServers\": {\"other\": {\"command\": \"x\"},}, // yes\n}\n",
    "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // it\n    // \"gone\": {},\n  },\n}\n",
    "{\n  \"schlüssel\": \"wört → 🦀\", \"mcpServers\": {\n    \"ключ\": {} },\n  \"x\": \"}{,//\\\"\" }\n",
    "/* top */ {\n\"a\": 1 } // end\n",
    "{\n  \"a\": 1,\n\n\n  \"b\": [\n  ]\n\n\n}\n\n\n",
    "{\n  \"a\": \"// no comment, \\\\\",\n  \"mcpServers\": {\n    \"other\": { \"url\": \"http://x/*y*/\" }\n  }\n}\n",
];

const TOML: &[&str] = &[
    "",
    "\n",
    "# nothing yet\n",
    "model = \"x\"\n",
    "model = \"x\"\n\n\n",
    "[mcp_servers]\n",
    "[mcp_servers]\nother = { command = \"x\" } # it\n",
    "[mcp_servers.other]\ncommand = \"x\"\nargs = [\n  \"1\", # one\n]\n\n# mine\n[mcp_servers.other.env]\nK = \"v\"\n\n[tui]\na = 1\n",
    "# top\n[[list]]\nmcp_servers = \"ü → 🦀\"\n[[list]]\nx = '''\n[mcp_servers.no]\n'''\n",
];

fn texts() -> impl Iterator<Item = (Syntax, String)> {
    let json = JSON.iter().flat_map(|text| variants(text)).map(|text| (Syntax::Json, text));
    json.chain(TOML.iter().flat_map(|text| variants(text)).map(|text| (Syntax::Toml, text)))
}

/// Generates objects with white space, comments and commas in all possible positions, from a fixed seed.
struct Generator(u64);

impl Generator {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).expect("a small number")]
    }

    fn gap(&mut self) -> &'static str {
        self.one(&["", "", " ", "\n  ", "\r\n\t", "\n\n", "/* } */", " // {\n", "\n// \"a\": 1,\n    "])
    }

    fn object(&mut self, depth: u64, names: &[&str]) -> String {
        let mut text = format!("{{{}", self.gap());
        let last = names.len().checked_sub(1);
        for (at, name) in names.iter().enumerate() {
            let value = match (*name, depth) {
                ("mcpServers", 0) => {
                    let inner = ["x", "mcpServers", "ü"];
                    let count = usize::try_from(self.below(4)).expect("a small number");
                    self.object(1, &inner[..count])
                }
                _ => self.one(&["1", "[ ]", "\"}\"", "{\"mcpServers\": [{}]}", "null", "\"//\""]).to_owned(),
            };
            let comma = if last != Some(at) || self.below(3) == 0 { "," } else { "" };
            let gaps = [self.gap(), self.gap(), self.gap(), self.gap()];
            text += &format!("\"{name}\"{}:{}{value}{}{comma}{}", gaps[0], gaps[1], gaps[2], gaps[3]);
        }
        text + "}"
    }
}

/// Returns objects in all styles, from a fixed seed.
fn generated_texts() -> impl Iterator<Item = (Syntax, String)> {
    let mut generator = Generator(7);
    (0..3000).map(move |_| {
        let names = ["a", "mcpServers", "ключ"];
        let from = usize::try_from(generator.below(3)).expect("a small number");
        let to = from + usize::try_from(generator.below(4 - from as u64)).expect("a small number");
        (Syntax::Json, format!("{}{}{}", generator.gap(), generator.object(0, &names[from..to]), generator.gap()))
    })
}

/// Returns the comments of a text, in order.
fn comments(syntax: Syntax, text: &str) -> Vec<String> {
    fn walk(node: &cst::CstNode, found: &mut Vec<String>) {
        found.extend(node.as_comment().map(|comment| comment.raw_value().trim_end().to_owned()));
        node.children().iter().for_each(|child| walk(child, found));
    }
    if syntax == Syntax::Toml {
        return text.lines().filter_map(|line| Some(line.split_once("# ")?.1.to_owned())).collect();
    }
    let root = cst::CstRootNode::parse(text, &ParseOptions::default()).expect(text);
    let mut found = Vec::new();
    root.children().iter().for_each(|node| walk(node, &mut found));
    found
}

#[test]
fn comments_order_and_other_members_are_kept() {
    let written = texts().map(|text| (text, true));
    for ((syntax, text), is_written) in written.chain(generated_texts().map(|text| (text, false))) {
        let client = client(syntax);
        let before = parse(syntax, &text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(before.text(), text);
        let (mut notes, other) = (entry(client, "notes"), entry(client, "other"));
        // A replaced entry keeps none of its members.
        notes.0.insert("only".to_owned(), json!("of the first"));
        let set = |document: &Document, name: &str, entry: Option<&Entry>| {
            let new = document.set(name, entry).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            let comments = |document: &Document| comments(syntax, &document.text);
            // A comment between the entry and its neighbour on the same line may be removed with the entry.
            if is_written || entry.is_some() {
                assert_eq!(comments(&new), comments(document), "{text:?} became {:?}", new.text());
            }
            assert!(!is_written || !text.contains("\r\n") || new.text().contains("\r\n"), "{:?}", new.text());
            new
        };
        let one = set(&before, "notes", Some(&notes));
        assert_eq!(one.names(), [before.names(), vec!["notes"]].concat(), "{text:?}");
        let two = set(&one, "another", Some(&other));
        let replaced = set(&two, "notes", Some(&other));
        assert_eq!(replaced.get("notes"), Some(&Value::from(other.0.clone())), "{text:?}");
        assert_eq!(replaced.names(), two.names(), "{text:?}");
        for names in [["notes", "another"], ["another", "notes"]] {
            let rest = names.iter().fold(replaced.clone(), |document, name| set(&document, name, None));
            assert_eq!(rest.value, before.value, "{text:?}");
            let order = |value: &Value| value.as_object().map(|root| root.keys().cloned().collect::<Vec<_>>());
            assert_eq!(order(&rest.value), order(&before.value), "{text:?} became {:?}", rest.text());
        }
    }
}

#[test]
fn inserted_entries_match_the_style_of_the_file() {
    for (before, after) in [
        ("", "{\n  \"mcpServers\": {\n    \"notes\": {\n      \"url\": \"x\"\n    }\n  }\n}\n"),
        ("{\n\t\"mcpServers\": {}\n}", "{\n\t\"mcpServers\": {\n\t\t\"notes\": {\n\t\t\t\"url\": \"x\"\n\t\t}\n\t}\n}"),
        (
            "{\n \"mcpServers\": {\n  \"x\": 1, // x\n },\n}",
            "{\n \"mcpServers\": {\n  \"x\": 1, // x\n  \"notes\": {\n   \"url\": \"x\",\n  },\n },\n}",
        ),
    ] {
        for newline in ["\n", "\r\n"] {
            let [before, after] = [before, after].map(|text| text.replace('\n', newline));
            let entry = Entry(Map::from_iter([("url".to_owned(), json!("x"))]));
            let document = parse(Syntax::Json, &before).expect(&before);
            let with = document.set("notes", Some(&entry)).expect(&before).text();
            assert!(with == after || before.is_empty(), "{before:?} became {with:?}");
        }
    }
}

#[test]
fn only_the_entry_is_removed() {
    for (syntax, text, expected) in [
        (
            Syntax::Json,
            "{\n  \"mcpServers\": {\n    \"notes\": {},\n    \"z\": {}\n  }\n}\n",
            "{\n  \"mcpServers\": {\n    \"z\": {}\n  }\n}\n",
        ),
        (
            Syntax::Json,
            "{\n  \"mcpServers\": {\n    \"a\": {}, // a\n    \"notes\": {}, // mine\n    \"z\": {}\n  }\n}\n",
            "{\n  \"mcpServers\": {\n    \"a\": {}, // a\n    \"z\": {}\n  }\n}\n",
        ),
        (
            Syntax::Toml,
            "a = 1\n\n[mcp_servers.notes]\ncommand = \"x\"\n\n[mcp_servers.notes.env]\nK = \"v\"\n\n[z]\nb = 1\n",
            "a = 1\n\n[z]\nb = 1\n",
        ),
        (
            Syntax::Toml,
            "# all of this\n[mcp_servers.notes] # it\ncommand = \"x\"\n[mcp_servers.notes.env]\nK = \"v\"\n# z\n[z]\nb = 1\n",
            "# all of this\n# z\n[z]\nb = 1\n",
        ),
        (Syntax::Toml, "[z]\nb = 1\n\n# mine\n[mcp_servers.notes]\ncommand = \"x\"\n", "[z]\nb = 1\n\n# mine\n"),
        (Syntax::Toml, "[mcp_servers]\nnotes = { command = \"x\" } # it\nz = {}\n", "[mcp_servers]\nz = {}\n"),
        (Syntax::Toml, "[mcp_servers]\nnotes.command = \"x\"\nz = {}\n", "[mcp_servers]\nz = {}\n"),
    ] {
        let document = parse(syntax, text).expect(text);
        assert_eq!(document.set("notes", None).expect(text).text(), expected, "{text}");
    }
}

#[test]
fn invalid_texts_are_rejected_with_their_position() {
    for (syntax, text, expected) in [
        (Syntax::Json, "{\n  \"a\": 1\n  \"b\": 2\n}", "line 2, column 9: expected comma"),
        (Syntax::Json, "{\n  \"a\": ", "line 2, column 8: expected value after colon in object property"),
        (Syntax::Json, "{\"ü\": 1", "line 1, column 1: unterminated object"),
        (Syntax::Json, "[]", "line 1, column 1: expected an object"),
        (Syntax::Json, "{} {}", "line 1, column 4: text cannot contain more than one JSON value"),
        (Syntax::Json, "{'a': 1}", "line 1, column 2: single-quoted strings are not allowed"),
        (Syntax::Json, "{\"mcpServers\": []}", "line 1, column 16: `mcpServers` is not an object"),
        (Syntax::Json, "{\"mcpServers\": null}", "line 1, column 16: `mcpServers` is not an object"),
        (Syntax::Json, "{\"mcpServers\": {},\n\"mcpServers\": {}}", "line 2, column 1: duplicate `mcpServers`"),
        (Syntax::Toml, "a = 1\nb = [1,\n", "line 2, column 8: unclosed array, expected `]`"),
        (Syntax::Toml, "mcp_servers = 1", "line 1, column 15: `mcp_servers` is not a table"),
    ] {
        let error = parse(syntax, text).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn secrets_are_masked() {
    for (syntax, text, expected) in [
        (
            Syntax::Json,
            r#"{"apiKey": "s1", "mcpServers": {"a": {"command": "c", "env": {"A": "s2"}, "headers": {"B": "s3"}}}}"#,
            r#"{"apiKey": "***", "mcpServers": {"a": {"command": "c", "env": {"A": "***"}, "headers": {"B": "***"}}}}"#,
        ),
        (
            Syntax::Toml,
            "[mcp_servers.a]\ncommand = \"c\"\nenv = { A = \"s\" }\n[mcp_servers.b]\nhttp_headers.X = 's'\n",
            "[mcp_servers.a]\ncommand = \"c\"\nenv = { A = \"***\" }\n[mcp_servers.b]\nhttp_headers.X = \"***\"\n",
        ),
        (
            Syntax::Json,
            r#"{"headers": ["s1", {"A": "s2"}], "list": [{"token": "s3", "name": "n"}]}"#,
            r#"{"headers": ["***", {"A": "***"}], "list": [{"token": "***", "name": "n"}]}"#,
        ),
        (
            Syntax::Toml,
            "headers = ['s', { A = 's' }]\n[[list]]\ntoken = 's'\nname = 'n'\n[[list.env]]\nA = 's'\n",
            "headers = [\"***\", { A = \"***\" }]\n[[list]]\ntoken = \"***\"\nname = 'n'\n[[list.env]]\nA = \"***\"\n",
        ),
    ] {
        assert_eq!(parse(syntax, text).expect(text).masked(), expected);
    }
    for name in ["token", "client_secret", "Password", "api-key", "API_KEY", "authorization", "credentials", "oauth"] {
        let (text, expected) = (json!({name: "s"}), json!({name: "***"}));
        assert_eq!(super::masked(&text), expected.to_string());
    }
    let entry = json!({"command": "c", "env": {"A": "secret"}, "bearer_token": "secret"});
    assert_eq!(super::masked(&entry), r#"{"command":"c","env":{"A":"***"},"bearer_token":"***"}"#);
}

#[test]
fn only_launch_members_are_compared() {
    let members = json!({"type": "stdio", "command": "/bin/notes", "args": [], "env": {"A": "1"}});
    let entry = Entry(members.as_object().expect("an object").clone());
    for (existing, same) in [
        (json!({"type": "stdio", "command": "/bin/notes", "args": [], "env": {"A": "1"}}), true),
        (json!({"command": "/bin/notes", "env": {"A": "1"}, "disabled": true, "alwaysAllow": ["x"]}), true),
        (json!({"command": "/bin/notes", "env": {"A": "2"}}), false),
        (json!({"command": "/bin/notes"}), false),
        (json!({"command": "/bin/notes", "env": {"A": "1"}, "cwd": "/"}), false),
        (json!({"command": "/bin/notes", "args": ["x"], "env": {"A": "1"}}), false),
        (json!({"type": "http", "url": "http://127.0.0.1/mcp"}), false),
        (json!(null), false),
    ] {
        assert_eq!(entry.is_same(&existing), same, "{existing}");
    }
    // An empty member means the same as none.
    let entry = Entry(Map::from_iter([("command".to_owned(), json!("/bin/notes"))]));
    let empty = json!({"type": "stdio", "command": "/bin/notes", "args": [], "env": {}, "headers": {}, "cwd": null});
    assert!(entry.is_same(&empty));
    for member in ["cwd", "envFile", "url", "serverUrl", "httpUrl", "headers", "http_headers"] {
        let existing = json!({"command": "/bin/notes", (member): {"A": "1"}});
        assert!(!entry.is_same(&existing), "{member}");
    }
}

#[test]
fn of_two_entries_with_one_name_the_effective_one_is_replaced() {
    let text = r#"{"mcpServers": {"a": {"command": "first"}, "a": {"command": "last"}}}"#;
    let document = parse(Syntax::Json, text).expect("JSON");
    let replaced = document.set("a", Some(&entry(client(Syntax::Json), "new"))).expect("the last entry is replaced");
    assert_eq!(replaced.get("a").expect("an entry")["command"], "/bin/new");
    // Without it, the first one would be effective.
    assert!(document.set("a", None).is_err());
}

use serde_json::json;

use super::*;
use crate::commands::install::{clients, entry::Launch, records::Records};

fn client(syntax: Syntax) -> &'static Client {
    let id = if syntax == Syntax::Toml { "codex" } else { "claude-code" };
    clients::named(id).expect("a known client")
}

fn entry(client: &Client, name: &str) -> Entry {
    let env = vec![("KEY".to_owned(), "a \"b\"\\ü\n".to_owned())];
    let launch = Launch::Program { program: format!("/bin/{name}"), args: vec!["--x".into(), "y".into()], env };
    client.entry(&launch).expect("all clients support programs")
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

#[test]
fn removing_an_inserted_entry_restores_the_text() {
    for (syntax, text) in texts() {
        let client = client(syntax);
        let before = Document::parse(client, &text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(before.text(), text);
        let (after, inserted) = before.insert("notes", &entry(client, "notes")).expect(&text);
        assert_eq!(after.get("notes"), Some(entry(client, "notes").to_value()), "{text:?}");
        assert_eq!(after.remove("notes", Some(&inserted)).expect(&text).text(), text, "after {:?}", after.text());
        let newlines = (text.contains("\r\n"), text.replace("\r\n", "").contains('\n'));
        if newlines == (true, false) {
            assert!(!after.text().replace("\r\n", "").contains('\n'), "{:?}", after.text());
        }
    }
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

#[test]
fn removing_an_entry_restores_generated_texts() {
    let mut generator = Generator(7);
    let client = client(Syntax::Json);
    for _ in 0..3000 {
        let names = ["a", "mcpServers", "ключ"];
        let from = usize::try_from(generator.below(3)).expect("a small number");
        let to = from + usize::try_from(generator.below(4 - from as u64)).expect("a small number");
        let text = format!("{}{}{}", generator.gap(), generator.object(0, &names[from..to]), generator.gap());
        let before = Document::parse(client, &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let insert = |document: &Document, name: &str| {
            let inserted = document.insert(name, &entry(client, name));
            inserted.unwrap_or_else(|error| panic!("{text}\n{error}"))
        };
        let (one, inserted) = insert(&before, "notes");
        assert_eq!(one.remove("notes", Some(&inserted)).expect(&text).text(), text, "after {}", one.text());
        let (two, _) = insert(&one, "another");
        assert!(two.remove("notes", Some(&inserted)).expect(&text).get("another").is_some(), "{text}");
        assert!(two.remove("another", None).expect(&text).remove("notes", None).is_ok(), "{text}");
    }
}

#[test]
fn without_a_record_only_the_entry_is_removed() {
    for (syntax, text) in texts() {
        let client = client(syntax);
        let before = Document::parse(client, &text).expect(&text);
        let (after, _) = before.insert("notes", &entry(client, "notes")).expect(&text);
        let left = after.remove("notes", None).expect(&text);
        let kept = |text: &str| text.replace(char::is_whitespace, "").replace("\"mcpServers\":{}", "");
        let (left, text) = (kept(&left.text()), kept(&text));
        let variants = [format!("{text}{{}}"), text.replace('}', ",}"), text.clone()];
        assert!(variants.contains(&left) || left.replace(',', "") == text.replace(',', ""), "{text} became {left}");
    }
}

#[test]
fn two_entries_can_be_removed_in_any_order() {
    for (syntax, text) in texts() {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let client = client(syntax);
            let mut records = Records::default();
            let mut document = Document::parse(client, &text).expect(&text);
            for name in ["a", "b"] {
                let existing = document.names().expect(&text);
                let (after, inserted) = document.insert(name, &entry(client, name)).expect(&text);
                records.add("file", name, inserted, None, &existing);
                document = after;
            }
            let both = document.text();
            for name in [first, second] {
                let names = document.names().expect(&text);
                let at = names.iter().position(|existing| existing == name).expect(name);
                let inserted = records.get("file").and_then(|record| record.inserted(name));
                document = document.remove(name, inserted.as_ref()).expect(&both);
                records.remove("file", name, names.get(at + 1).map(String::as_str));
            }
            assert_eq!(document.text(), text, "{first} before {second}, after {both:?}");
        }
    }
}

#[test]
fn an_entry_is_replaced() {
    for (syntax, text) in texts() {
        let client = client(syntax);
        let (before, inserted) =
            Document::parse(client, &text).expect(&text).insert("x", &entry(client, "x")).expect(&text);
        let after = before.replace("x", &entry(client, "another")).expect(&text);
        assert_eq!(after.get("x"), Some(entry(client, "another").to_value()), "{text:?}");
        assert_eq!(after.remove("x", Some(&inserted)).expect(&text).text(), text, "after {:?}", after.text());
    }
}

#[test]
fn later_changes_by_others_are_preserved() {
    for (syntax, text, expected) in [
        // An entry was added after ours, in an object that was created for ours.
        (
            Syntax::Json,
            "{\n  \"mcpServers\": {\n    \"notes\": {},\n    \"z\": {}\n  }\n}\n",
            "{\n  \"mcpServers\": {\n    \"z\": {}\n  }\n}\n",
        ),
        // An entry was added before ours.
        (
            Syntax::Json,
            "{\n  \"mcpServers\": {\n    \"z\": {},\n    \"notes\": {}\n  }\n}\n",
            "{\n  \"mcpServers\": {\n    \"z\": {}\n  }\n}\n",
        ),
        // Entries were added before and after ours, and a comment.
        (
            Syntax::Json,
            "{\n  \"mcpServers\": {\n    \"a\": {}, // a\n    \"notes\": {}, // mine\n    \"z\": {}\n  }\n}\n",
            "{\n  \"mcpServers\": {\n    \"a\": {}, // a // mine\n    \"z\": {}\n  }\n}\n",
        ),
        // All on one line.
        (Syntax::Json, "{\"mcpServers\":{\"notes\":{},\"z\":{}}}", "{\"mcpServers\":{\"z\":{}}}"),
        (Syntax::Json, "{\"mcpServers\":{\"a\":{},\"notes\":{}},\"z\":1}", "{\"mcpServers\":{\"a\":{}},\"z\":1}"),
        (Syntax::Json, "{\"mcpServers\": { \"notes\": {} }}", "{\"mcpServers\": {}}"),
        // A line comment must not swallow the next entry.
        (
            Syntax::Json,
            "{ \"mcpServers\": {\n  \"a\": {}, // a\n  \"notes\": {}, \"z\": {} } }",
            "{ \"mcpServers\": {\n  \"a\": {}, // a\n  \"z\": {} } }",
        ),
        (
            Syntax::Toml,
            "a = 1\n\n[mcp_servers.notes]\ncommand = \"x\"\n\n[mcp_servers.notes.env]\nK = \"v\"\n\n[z]\nb = 1\n",
            "a = 1\n\n[z]\nb = 1\n",
        ),
        (
            Syntax::Toml,
            "[mcp_servers.notes]\n# mine\ncommand = \"x\"\n[z]\n[mcp_servers.notes.env]\nK = \"v\"\n",
            "# mine\n[z]\n",
        ),
        (Syntax::Toml, "[mcp_servers]\nnotes = { command = \"x\" } # it\nz = {}\n", "[mcp_servers]\nz = {}\n"),
        (Syntax::Toml, "[mcp_servers]\nnotes.command = \"x\"\nz = {}\n", "[mcp_servers]\nz = {}\n"),
    ] {
        let client = client(syntax);
        let document = Document::parse(client, text).expect(text);
        let empty = Document::parse(client, "").expect("an empty text is valid");
        let (_, inserted) = empty.insert("notes", &entry(client, "notes")).expect("an empty text can be extended");
        let inserted = EntryInsertion { entry: inserted.entry, ..EntryInsertion::default() };
        // An outdated record does no harm.
        for inserted in [None, Some(&inserted).filter(|_| syntax == Syntax::Json)] {
            assert_eq!(document.remove("notes", inserted).expect(text).text(), expected, "{text}");
        }
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
        let error = Document::parse(client(syntax), text).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
    let inline = Document::parse(client(Syntax::Toml), "a = 1\nmcp_servers = { x = {} }\n").expect("valid TOML");
    let error =
        inline.insert("notes", &entry(client(Syntax::Toml), "notes")).expect_err("inline tables cannot be extended");
    let expected = "line 2, column 15: cannot add `[mcp_servers.notes]` to the inline table `mcp_servers`";
    assert_eq!(error.to_string(), expected);
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
    ] {
        assert_eq!(Document::parse(client(syntax), text).expect(text).masked(), expected);
    }
    let entry = json!({"command": "c", "env": {"A": "secret"}, "bearer_token": "secret"});
    assert_eq!(super::masked(&entry), r#"{"command":"c","env":{"A":"***"},"bearer_token":"***"}"#);
}

//! A configuration file's text, whatever it is written in.

use serde_json::{Map, Value};

use super::{
    clients::{Client, Syntax},
    entry::Entry,
    json::{self, Inserted},
    toml,
};

/// What is wrong with a text, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

/// The line and the column of a byte, both from 1.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line..].chars().count() + 1)
}

const BOM: &str = "\u{feff}";

/// A text of a client's configuration.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    syntax: Syntax,
    object: &'static str,
    bom: bool,
    text: String,
}

impl Document {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// It is broken, or the servers are not where they should be.
    pub(crate) fn parse(client: &Client, text: &str) -> Result<Self, Broken> {
        let stripped = text.strip_prefix(BOM);
        let document = Self {
            syntax: client.syntax,
            object: client.object,
            bom: stripped.is_some(),
            text: stripped.unwrap_or(text).to_owned(),
        };
        document.value()?;
        document.names()?;
        Ok(document)
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", if self.bom { BOM } else { "" }, self.text)
    }

    /// Whether there is nothing in it, not even a comment.
    pub(crate) fn is_empty(&self) -> bool {
        let text = self.text.trim();
        text.is_empty() || (self.syntax != Syntax::Toml && text == "{}")
    }

    /// The names of the servers, in their order.
    ///
    /// # Errors
    ///
    /// The text is broken.
    pub(crate) fn names(&self) -> Result<Vec<String>, Broken> {
        match self.syntax {
            Syntax::Toml => toml::names(&self.text, self.object),
            _ => json::names(&self.text, self.object),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.value().ok()?.get(self.object)?.get(name).cloned()
    }

    /// Why the client's own reader refuses the text.
    pub(crate) fn beyond_syntax(&self) -> Option<Broken> {
        (self.syntax == Syntax::Json).then(|| json::beyond_json(&self.text)).flatten()
    }

    /// With an entry that was not there.
    ///
    /// # Errors
    ///
    /// The text is such that nothing can be added.
    pub(crate) fn insert(&self, name: &str, entry: &Entry) -> Result<(Self, Inserted), Broken> {
        let (text, inserted) = match self.syntax {
            Syntax::Toml => {
                let (text, seam) = toml::insert(&self.text, self.object, name, entry)?;
                (text, Inserted { entry: seam, ..Inserted::default() })
            }
            _ => json::insert(&self.text, self.object, name, entry)?,
        };
        Ok((self.checked(text, name, Some(entry.to_value()))?, inserted))
    }

    /// With another entry in the place of one.
    ///
    /// # Errors
    ///
    /// As [`Self::insert`].
    pub(crate) fn replace(&self, name: &str, entry: &Entry) -> Result<Self, Broken> {
        let text = match self.syntax {
            Syntax::Toml => toml::replace(&self.text, self.object, name, entry)?,
            _ => json::replace(&self.text, self.object, name, entry)?,
        };
        self.checked(text, name, Some(entry.to_value()))
    }

    /// Without an entry, and without what was made for it if that is known.
    ///
    /// # Errors
    ///
    /// As [`Self::insert`].
    pub(crate) fn remove(&self, name: &str, made: Option<&Inserted>) -> Result<Self, Broken> {
        let without = |made: Option<&Inserted>| {
            let text = match self.syntax {
                Syntax::Toml => toml::remove(&self.text, self.object, name, made.map(|made| &made.entry))?,
                _ => json::remove(&self.text, self.object, name, made)?,
            };
            self.checked(text, name, None)
        };
        // What was noted may be of another time; the text is what counts.
        without(made).or_else(|error| if made.is_some() { without(None) } else { Err(error) })
    }

    /// The text with `***` for what may be secret.
    pub(crate) fn masked(&self) -> String {
        let ranges: Vec<_> = match self.syntax {
            Syntax::Toml => toml::secrets(&self.text, is_secret),
            _ => json::secrets(&self.text, is_secret).into_iter().map(|range| range.start..range.end).collect(),
        };
        let mut text = self.text.clone();
        for range in ranges.into_iter().rev() {
            text.replace_range(range, "\"***\"");
        }
        text
    }

    fn value(&self) -> Result<Value, Broken> {
        let value = match self.syntax {
            Syntax::Toml => Some(toml::parse(&self.text)?),
            _ => json::parse(&self.text)?,
        };
        Ok(value.unwrap_or_else(|| Map::new().into()))
    }

    /// A new text, if it says the same as this one but for an entry.
    fn checked(&self, text: String, name: &str, entry: Option<Value>) -> Result<Self, Broken> {
        let new = Self { text, ..self.clone() };
        let mut expected = self.value()?;
        let servers = expected.as_object_mut().map(|root| root.entry(self.object).or_insert_with(|| Map::new().into()));
        if let Some(servers) = servers.and_then(Value::as_object_mut) {
            match entry {
                Some(entry) => servers.insert(name.to_owned(), entry),
                None => servers.remove(name),
            };
        }
        match new.value() {
            Ok(value) if without_empty(value.clone(), self.object) == without_empty(expected, self.object) => Ok(new),
            _ => {
                let message = format!("`{}` is written in a way that cannot be edited safely", self.object);
                Err(Broken { line: 1, column: 1, message })
            }
        }
    }
}

/// No servers are no servers, be there an empty object for them or none.
fn without_empty(mut root: Value, object: &str) -> Value {
    if let Some(map) = root.as_object_mut()
        && map.get(object).and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        map.remove(object);
    }
    root
}

/// An entry of the configuration as one line, with `***` for what may be secret.
pub(crate) fn shown(entry: &Value) -> String {
    fn walk(value: &mut Value, all: bool) {
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let below = all || is_secret(name, value.is_string());
                    walk(value, below);
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| walk(value, all)),
            Value::String(text) if all => "***".clone_into(text),
            _ => {}
        }
    }
    let mut entry = entry.clone();
    walk(&mut entry, false);
    entry.to_string()
}

/// Whether what has a name may be secret, or may hold what is.
fn is_secret(name: &str, is_text: bool) -> bool {
    let plain = name.to_lowercase().replace(['-', '_'], "");
    let words = ["token", "secret", "password", "apikey", "authorization", "credential", "oauth"];
    (!is_text && matches!(name, "env" | "environment" | "headers" | "http_headers"))
        || words.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::install::{entry::Launch, notes::Notes};

    fn client(syntax: Syntax) -> &'static Client {
        let id = if syntax == Syntax::Toml { "codex" } else { "claude-code" };
        Client::named(id).expect("it is one of them")
    }

    fn entry(client: &Client, name: &str) -> Entry {
        let env = vec![("KEY".to_owned(), "a \"b\"\\ü\n".to_owned())];
        let launch = Launch::Program { program: format!("/bin/{name}"), args: vec!["--x".into(), "y".into()], env };
        client.entry(&launch).expect("a program")
    }

    /// Every text with LF and with CRLF, with and without BOM and final newline.
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
    fn taking_out_leaves_what_was_there() {
        for (syntax, text) in texts() {
            let client = client(syntax);
            let before = Document::parse(client, &text).unwrap_or_else(|broken| panic!("{text:?}: {broken}"));
            assert_eq!(before.text(), text);
            let (after, made) = before.insert("notes", &entry(client, "notes")).expect(&text);
            assert_eq!(after.get("notes"), Some(entry(client, "notes").to_value()), "{text:?}");
            assert_eq!(after.remove("notes", Some(&made)).expect(&text).text(), text, "by way of {:?}", after.text());
            let newlines = (text.contains("\r\n"), text.replace("\r\n", "").contains('\n'));
            if newlines == (true, false) {
                assert!(!after.text().replace("\r\n", "").contains('\n'), "{:?}", after.text());
            }
        }
    }

    /// Objects with white space, comments and commas wherever they may be; the same ones every time.
    struct Scribbler(u64);

    impl Scribbler {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }

        fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
            of[usize::try_from(self.below(of.len() as u64)).expect("it is small")]
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
                        let count = usize::try_from(self.below(4)).expect("it is small");
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
    fn taking_out_leaves_what_was_scribbled() {
        let mut scribbler = Scribbler(7);
        let client = client(Syntax::Json);
        for _ in 0..3000 {
            let names = ["a", "mcpServers", "ключ"];
            let from = usize::try_from(scribbler.below(3)).expect("it is small");
            let to = from + usize::try_from(scribbler.below(4 - from as u64)).expect("it is small");
            let text = format!("{}{}{}", scribbler.gap(), scribbler.object(0, &names[from..to]), scribbler.gap());
            let before = Document::parse(client, &text).unwrap_or_else(|broken| panic!("{text}\n{broken}"));
            let insert = |document: &Document, name: &str| {
                let inserted = document.insert(name, &entry(client, name));
                inserted.unwrap_or_else(|broken| panic!("{text}\n{broken}"))
            };
            let (one, made) = insert(&before, "notes");
            assert_eq!(one.remove("notes", Some(&made)).expect(&text).text(), text, "by way of {}", one.text());
            let (two, _) = insert(&one, "another");
            assert!(two.remove("notes", Some(&made)).expect(&text).get("another").is_some(), "{text}");
            assert!(two.remove("another", None).expect(&text).remove("notes", None).is_ok(), "{text}");
        }
    }

    #[test]
    fn without_notes_the_rest_stays_as_it_is() {
        for (syntax, text) in texts() {
            let client = client(syntax);
            let before = Document::parse(client, &text).expect(&text);
            let (after, _) = before.insert("notes", &entry(client, "notes")).expect(&text);
            let left = after.remove("notes", None).expect(&text);
            let kept = |text: &str| text.replace(char::is_whitespace, "").replace("\"mcpServers\":{}", "");
            let (left, text) = (kept(&left.text()), kept(&text));
            let made = [format!("{text}{{}}"), text.replace('}', ",}"), text.clone()];
            assert!(made.contains(&left) || left.replace(',', "") == text.replace(',', ""), "{text} became {left}");
        }
    }

    #[test]
    fn two_go_in_any_order() {
        for (syntax, text) in texts() {
            for (first, second) in [("a", "b"), ("b", "a")] {
                let client = client(syntax);
                let mut notes = Notes::default();
                let mut document = Document::parse(client, &text).expect(&text);
                for name in ["a", "b"] {
                    let there = document.names().expect(&text);
                    let (after, made) = document.insert(name, &entry(client, name)).expect(&text);
                    notes.add("file", name, made, None, &there);
                    document = after;
                }
                let both = document.text();
                for name in [first, second] {
                    let names = document.names().expect(&text);
                    let at = names.iter().position(|there| there == name).expect(name);
                    let made = notes.of("file").and_then(|noted| noted.inserted(name));
                    document = document.remove(name, made.as_ref()).expect(&both);
                    notes.drop("file", name, names.get(at + 1).map(String::as_str));
                }
                assert_eq!(document.text(), text, "{first} before {second}, by way of {both:?}");
            }
        }
    }

    #[test]
    fn another_takes_the_place_of_one() {
        for (syntax, text) in texts() {
            let client = client(syntax);
            let (before, made) =
                Document::parse(client, &text).expect(&text).insert("x", &entry(client, "x")).expect(&text);
            let after = before.replace("x", &entry(client, "another")).expect(&text);
            assert_eq!(after.get("x"), Some(entry(client, "another").to_value()), "{text:?}");
            assert_eq!(after.remove("x", Some(&made)).expect(&text).text(), text, "by way of {:?}", after.text());
        }
    }

    #[test]
    fn what_somebody_has_done_since_is_kept() {
        for (syntax, text, expected) in [
            // Another one was added behind ours, in what was made for ours.
            (
                Syntax::Json,
                "{\n  \"mcpServers\": {\n    \"notes\": {},\n    \"z\": {}\n  }\n}\n",
                "{\n  \"mcpServers\": {\n    \"z\": {}\n  }\n}\n",
            ),
            // Before it.
            (
                Syntax::Json,
                "{\n  \"mcpServers\": {\n    \"z\": {},\n    \"notes\": {}\n  }\n}\n",
                "{\n  \"mcpServers\": {\n    \"z\": {}\n  }\n}\n",
            ),
            // Both, and a comment.
            (
                Syntax::Json,
                "{\n  \"mcpServers\": {\n    \"a\": {}, // a\n    \"notes\": {}, // mine\n    \"z\": {}\n  }\n}\n",
                "{\n  \"mcpServers\": {\n    \"a\": {}, // a // mine\n    \"z\": {}\n  }\n}\n",
            ),
            // All on one line.
            (Syntax::Json, "{\"mcpServers\":{\"notes\":{},\"z\":{}}}", "{\"mcpServers\":{\"z\":{}}}"),
            (Syntax::Json, "{\"mcpServers\":{\"a\":{},\"notes\":{}},\"z\":1}", "{\"mcpServers\":{\"a\":{}},\"z\":1}"),
            (Syntax::Json, "{\"mcpServers\": { \"notes\": {} }}", "{\"mcpServers\": {}}"),
            // A line comment would swallow the next one.
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
            let empty = Document::parse(client, "").expect("nothing is fine");
            let (_, made) = empty.insert("notes", &entry(client, "notes")).expect("into nothing");
            let made = Inserted { entry: made.entry, ..Inserted::default() };
            // Notes of another time are of no harm.
            for made in [None, Some(&made).filter(|_| syntax == Syntax::Json)] {
                assert_eq!(document.remove("notes", made).expect(text).text(), expected, "{text}");
            }
        }
    }

    #[test]
    fn broken_texts_are_refused_at_their_place() {
        for (syntax, text, expected) in [
            (Syntax::Json, "{\n  \"a\": 1\n  \"b\": 2\n}", "line 2, column 9: expected comma"),
            (Syntax::Json, "{\n  \"a\": ", "line 2, column 8: expected value after colon in object property"),
            (Syntax::Json, "{\"ü\": 1", "line 1, column 1: unterminated object"),
            (Syntax::Json, "[]", "line 1, column 1: expected an object"),
            (Syntax::Json, "{} {}", "line 1, column 4: text cannot contain more than one JSON value"),
            (Syntax::Json, "{'a': 1}", "line 1, column 2: single-quoted strings are not allowed"),
            (Syntax::Json, "{\"mcpServers\": []}", "line 1, column 16: `mcpServers` is not an object"),
            (Syntax::Json, "{\"mcpServers\": null}", "line 1, column 16: `mcpServers` is not an object"),
            (
                Syntax::Json,
                "{\"mcpServers\": {},\n\"mcpServers\": {}}",
                "line 2, column 1: `mcpServers` is there twice",
            ),
            (Syntax::Toml, "a = 1\nb = [1,\n", "line 2, column 8: unclosed array, expected `]`"),
            (Syntax::Toml, "mcp_servers = 1", "line 1, column 15: `mcp_servers` is not a table"),
        ] {
            let broken = Document::parse(client(syntax), text).expect_err(text);
            assert_eq!(broken.to_string(), expected, "{text}");
        }
        let inline = Document::parse(client(Syntax::Toml), "a = 1\nmcp_servers = { x = {} }\n").expect("it is TOML");
        let broken = inline.insert("notes", &entry(client(Syntax::Toml), "notes")).expect_err("it cannot be added to");
        let expected =
            "line 2, column 15: `mcp_servers` is written in a way that no `[mcp_servers.notes]` can be added to";
        assert_eq!(broken.to_string(), expected);
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
        assert_eq!(shown(&entry), r#"{"bearer_token":"***","command":"c","env":{"A":"***"}}"#);
    }
}

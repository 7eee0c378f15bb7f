//! The static data that the macros generate from functions.

#![allow(missing_docs, clippy::too_many_arguments, reason = "the functions imitate those of an author")]

use std::borrow::Cow;

use mcp_runtime::{
    __private::{
        ArgumentDefault, ArgumentEntry, Bound, CommonEntry, Entry, EntryScopes, Handler, Operator, Part, Role, Rule,
        inventory,
    },
    Context, Json, PromptMessage, ResourceLink, Revision, Server,
    function::Collect,
    model::{Icon, Theme},
    prompt, resource, resource_uri, tool, tools,
};
use serde_json::{Value, json};

struct Db;

const LIMIT: i64 = 7;

/// Find notes.
///
/// Every word must
/// appear.
#[tool(
    name = "find-notes",
    title = "Search notes",
    read_only,
    destructive = false,
    open_world = true,
    scopes("notes:read"),
    tags("notes", "search"),
    icon = "https://example.com/icon.png",
    icons("data:image/png;base64,AA", icon("https://example.com/a", mime = "image/svg+xml", sizes("any", "48x48"), theme = dark)),
    timeout = "1m",
    meta(
        "acme/beta" = true,
        "acme/order" = -1.5,
        "acme/words" = ["a", "\"b\"", null, {}],
        "acme/view" = { "columns": [{ "name": "a\n", "width": 1.5 }], "none": null, "é": false }
    )
)]
async fn search(
    db: &Db,
    context: &Context,
    /// Words.
    ///
    /// - one a line
    #[arg(length = 1..=80, pattern = "^[a-z]+$", examples("a", "b"))]
    words: &str,
    #[arg(default = 10, range = 1..=100)] limit: usize,
    #[arg(default = LIMIT, range = -2..9)] more: i64,
    #[arg(default)] offset: u8,
    #[arg(rename = "as", title = "As", description = "How.", format = "uuid", header = "As")] r#as: Option<String>,
    #[arg(length = 2)] pair: &[u8],
    #[arg(range = 0.5..)] weight: f64,
) -> Result<Json<Vec<String>>, std::fmt::Error> {
    let _ = (db, context, limit, more, offset, r#as, pair, weight);
    Ok(Json(vec![words.to_owned()]))
}

#[tool]
fn bare() {}

/// Has lengths of every form.
#[tool]
fn lengths(
    #[arg(length = 1..80)] half_open: String,
    #[arg(length = 1..=80)] closed: String,
    #[arg(length = ..80)] at_most: Vec<u8>,
    #[arg(length = 2..)] at_least: String,
    #[arg(length = 3)] exact: String,
    #[arg(length = 0..1)] empty: String,
) {
    let _ = (half_open, closed, at_most, at_least, exact, empty);
}

#[doc = "From a file:"]
#[doc = include_str!("../hygiene/description.txt")]
/// And after it.
#[tool(blocking)]
fn from_a_file() {}

/// Find notes by a word.
///
/// Ignores case.
#[deprecated(since = "2.0.0", note = "use `find-notes`")]
#[tool]
fn find_word() {}

#[tool(description = include_str!("../hygiene/description.txt"))]
#[deprecated = "the archive is closed"]
fn archive() {}

#[resource("notes://old")]
#[deprecated]
fn old() -> &'static str {
    ""
}

/// Ask about notes.
#[prompt]
#[deprecated(since = "3.1.0")]
fn ask_notes() -> &'static str {
    ""
}

/// A page.
#[resource(
    "notes://{book}{/page}{?words,limit}#end",
    mime = "text/plain",
    audience(user),
    priority = 1,
    list = pages,
    complete(book = books)
)]
fn page(book: String, page: u32, words: Option<String>, limit: Option<u8>) -> String {
    format!("{book} {page} {words:?} {limit:?}")
}

fn pages(_: &Db) -> Vec<ResourceLink> {
    Vec::new()
}

async fn books() -> Vec<String> {
    Vec::new()
}

#[resource("notes:all", size = 12)]
async fn all() -> &'static str {
    "all"
}

/// Ask.
#[prompt]
fn ask(#[arg(complete = books)] about: String) -> PromptMessage {
    PromptMessage::user(about)
}

struct Notes(Vec<String>);

#[tools]
impl Notes {
    const FIRST: usize = 0;

    /// Read one.
    #[tool]
    fn read(&self, #[arg(default = Self::FIRST)] index: usize) -> Option<String> {
        self.0.get(index).cloned()
    }

    #[prompt(name = "without a receiver")]
    fn write() -> String {
        String::new()
    }

    #[resource("notes:count")]
    fn count(&self) -> Json<usize> {
        Json(self.untouched())
    }

    fn untouched(&self) -> usize {
        self.0.len()
    }
}

struct Poems;

#[tools]
impl Poems {
    #[resource("poems://all")]
    fn all(&self) -> &'static str {
        "all"
    }

    #[resource("poems://poem/{title}{?language}", list = Self::links, complete(title = Self::titles))]
    fn poem(&self, title: &str, language: Option<String>) -> String {
        format!("{title} in {}", language.unwrap_or_default())
    }

    #[resource("poems://by/{poet}")]
    fn by(&self, poet: &str) -> String {
        poet.to_owned()
    }

    #[resource("poems://of/{poet}")]
    fn of(&self, poet: &str) -> String {
        poet.to_owned()
    }

    #[resource("poems://page/{number}?size=a4{&color}")]
    fn page(&self, number: &str, color: Option<String>) -> String {
        format!("{number} in {}", color.unwrap_or_default())
    }

    #[prompt]
    fn read(&self, #[arg(complete = Self::titles)] title: String) -> String {
        title
    }

    fn links(&self) -> Vec<ResourceLink> {
        vec![ResourceLink::new(resource_uri::<Self>(&[("title", "Rain")]), "Rain")]
    }

    fn titles(&self, start: &str) -> Vec<&'static str> {
        ["Rain", "Snow"].into_iter().filter(|title| title.starts_with(start)).collect()
    }
}

fn common(entry: &'static Entry) -> &'static CommonEntry {
    match entry {
        Entry::Tool(tool) => &tool.common,
        Entry::Resource(resource) => &resource.common,
        Entry::Prompt(prompt) => &prompt.common,
        Entry::Method(_) => panic!("no macro makes a method"),
    }
}

fn only<F: Collect>() -> &'static Entry {
    let [entry] = F::entries() else { panic!("expected one entry") };
    entry
}

fn argument<F: Collect>(name: &str) -> &'static ArgumentEntry {
    let mut arguments = common(only::<F>()).arguments.iter();
    arguments.find(|argument| argument.name == name).expect("an argument of this name")
}

#[test]
fn entries_contain_options_and_doc_comments() {
    let Entry::Tool(tool) = only::<search>() else { panic!("expected a tool") };
    let CommonEntry { name, title, description, icons, tags, scopes, meta, timeout, .. } = &tool.common;
    assert_eq!((&**name, title.as_deref()), ("find-notes", Some("Search notes")));
    assert_eq!(*description, "Find notes.\n\nEvery word must\nappear.");
    let detailed =
        Icon::new("https://example.com/a").with_mime_type("image/svg+xml").with_size("any").with_size("48x48");
    assert_eq!(
        **icons,
        [
            Icon::new("https://example.com/icon.png"),
            Icon::new("data:image/png;base64,AA"),
            detailed.with_theme(Theme::Dark)
        ]
    );
    assert_eq!(**tags, ["notes", "search"]);
    assert!(matches!(scopes, EntryScopes::Groups([["notes:read"]])), "{scopes:?}");
    assert_eq!(
        meta.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(),
        [
            ("acme/beta", "true"),
            ("acme/order", "-1.5"),
            ("acme/words", r#"["a","\"b\"",null,{}]"#),
            ("acme/view", r#"{"columns":[{"name":"a\u000a","width":1.5}],"none":null,"é":false}"#)
        ]
    );
    assert_eq!(timeout.map(|timeout| timeout.as_secs()), Some(60));
    let hints = tool.hints;
    assert_eq!(
        [hints.read_only, hints.destructive, hints.idempotent, hints.open_world],
        [Some(true), Some(false), None, Some(true)]
    );

    let Entry::Tool(tool) = only::<bare>() else { panic!("expected a tool") };
    let CommonEntry { name, title, description, tags, timeout, .. } = &tool.common;
    assert_eq!((&**name, title, &**description, tags.len(), *timeout), ("bare", &None, "", 0, None));
    assert_eq!(common(only::<from_a_file>()).description, "From a file:\nA line of a file.\n\nAnd after it.");
}

#[test]
fn descriptions_end_with_the_note_of_a_deprecation() {
    for (entry, expected) in [
        (only::<find_word>(), "Find notes by a word.\n\nIgnores case.\n\nDeprecated since 2.0.0: use `find-notes`"),
        (only::<archive>(), "A line of a file.\n\n\nDeprecated: the archive is closed"),
        (only::<old>(), "Deprecated"),
        (only::<ask_notes>(), "Ask about notes.\n\nDeprecated since 3.1.0"),
    ] {
        assert_eq!(common(entry).description, expected);
    }
}

#[test]
fn entries_contain_the_source_location() {
    let source = common(only::<bare>()).source;
    assert!(source.file.ends_with("macros.rs"), "{}", source.file);
    assert_eq!((source.package, source.function), ("mcp-tests", "bare"));
    let text = include_str!("macros.rs");
    let line = text.lines().position(|line| line == "fn bare() {}").map(|index| index + 1);
    assert_eq!(usize::try_from(source.line).ok(), line);
}

#[test]
fn parameters_come_from_the_caller_or_from_the_server() {
    let common = common(only::<search>());
    let names: Vec<_> = common.arguments.iter().map(|argument| &*argument.name).collect();
    assert_eq!(names, ["words", "limit", "more", "offset", "as", "pair", "weight"]);
    let dependencies: Vec<_> = common.dependencies.iter().map(|dependency| dependency.parameter).collect();
    assert_eq!(dependencies, ["db", "context"]);
    let words = argument::<search>("words");
    assert_eq!((&*words.description, &words.title, words.env), ("Words.\n\n- one a line", &None, None));
    let renamed = argument::<search>("as");
    assert_eq!((&*renamed.description, renamed.title.as_deref()), ("How.", Some("As")));
}

#[test]
fn defaults_are_json_or_expressions() {
    let default = |name| match argument::<search>(name).default {
        Some(ArgumentDefault::Json(json)) => Some(serde_json::from_str(json).expect("JSON")),
        Some(ArgumentDefault::Expression(value)) => Some(value().expect("a value that can be serialized")),
        None => None::<Value>,
    };
    let defaults = ["limit", "more", "offset", "words"].map(default);
    assert_eq!(defaults, [Some(json!(10)), Some(json!(7)), Some(json!(0)), None]);
}

#[test]
fn constraints_become_rules() {
    use Bound::{Float, Integer};

    for (name, rules) in [
        (
            "words",
            &[Rule::MinLength(1), Rule::MaxLength(80), Rule::Pattern("^[a-z]+$"), Rule::Examples(&["\"a\"", "\"b\""])]
                [..],
        ),
        ("limit", &[Rule::Minimum(Integer(1)), Rule::Maximum(Integer(100))]),
        ("more", &[Rule::Minimum(Integer(-2)), Rule::ExclusiveMaximum(Integer(9))]),
        ("offset", &[]),
        ("as", &[Rule::Format("uuid"), Rule::Extension("x-mcp-header", "As")]),
        ("pair", &[Rule::MinLength(2), Rule::MaxLength(2)]),
        ("weight", &[Rule::Minimum(Float(0.5))]),
    ] {
        assert_eq!(argument::<search>(name).rules, rules, "{name}");
    }
}

#[test]
fn half_open_lengths_become_inclusive_rules() {
    for (name, rules) in [
        ("half_open", &[Rule::MinLength(1), Rule::MaxLength(79)][..]),
        ("closed", &[Rule::MinLength(1), Rule::MaxLength(80)]),
        ("at_most", &[Rule::MaxLength(79)]),
        ("at_least", &[Rule::MinLength(2)]),
        ("exact", &[Rule::MinLength(3), Rule::MaxLength(3)]),
        ("empty", &[Rule::MinLength(0), Rule::MaxLength(0)]),
    ] {
        assert_eq!(argument::<lengths>(name).rules, rules, "{name}");
    }
}

#[test]
fn templates_are_parsed() {
    let Entry::Resource(page) = only::<page>() else { panic!("expected a resource") };
    assert_eq!(page.uri, "notes://{book}{/page}{?words,limit}#end");
    let variables = |names: &[&'static str]| names.iter().copied().map(Cow::Borrowed).collect();
    let expression = |operator, names: &[&'static str]| Part::Expression { operator, variables: variables(names) };
    assert_eq!(
        page.template.as_deref(),
        Some(
            &[
                Part::Literal("notes://".into()),
                expression(Operator::Simple, &["book"]),
                expression(Operator::Path, &["page"]),
                expression(Operator::Query, &["words", "limit"]),
                Part::Literal("#end".into()),
            ][..]
        )
    );
    assert_eq!(
        (page.mime_type.as_deref(), page.audience, page.priority),
        (Some("text/plain"), &[Role::User][..], Some(1.0))
    );
    assert_eq!(page.list.map(|list| list.function), Some("pages"));
    assert_eq!(argument::<self::page>("book").complete.map(|complete| complete.function), Some("books"));
    assert!(argument::<self::page>("page").complete.is_none());

    let Entry::Resource(all) = only::<all>() else { panic!("expected a resource") };
    assert_eq!((&*all.uri, all.template.is_none(), all.size), ("notes:all", true, Some(12)));
    assert_eq!(argument::<ask>("about").complete.map(|complete| complete.function), Some("books"));
}

#[test]
fn handlers_are_sync_or_async_like_their_functions() {
    let runs_at_once = |entry| matches!(common(entry).handler, Handler::Sync(_));
    assert!(runs_at_once(only::<bare>()) && runs_at_once(only::<page>()) && runs_at_once(only::<ask>()));
    assert!(!runs_at_once(only::<search>()) && !runs_at_once(only::<all>()) && !runs_at_once(only::<from_a_file>()));
}

#[test]
fn methods_are_collected_with_their_type() {
    let entries: Vec<_> = Notes::entries().iter().map(common).collect();
    let names: Vec<_> = entries.iter().map(|common| &*common.name).collect();
    assert_eq!(names, ["read", "without a receiver", "count"]);
    let functions: Vec<_> = entries.iter().map(|common| common.source.function).collect();
    assert_eq!(functions, ["Notes::read", "Notes::write", "Notes::count"]);
    let dependencies: Vec<_> = entries
        .iter()
        .map(|common| common.dependencies.iter().map(|dependency| dependency.parameter).collect::<Vec<_>>())
        .collect();
    assert_eq!(dependencies, [vec!["self"], vec![], vec!["self"]]);
    assert_eq!(Notes(vec!["a".to_owned()]).read(Notes::FIRST).as_deref(), Some("a"));
}

#[tokio::test]
async fn options_of_methods_can_name_other_methods() {
    let mut client = Server::empty("poems", "1").with::<Poems>().with_state(Poems).test_client(Revision::V2026_07_28);
    let resources = client.resources().await.unwrap();
    let uris: Vec<_> = resources.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["poems://all", "poems://poem/Rain"]);
    let template = "poems://poem/{title}{?language}";
    assert_eq!(client.complete_resource(template, "title", "S", &[]).await.unwrap(), ["Snow"]);
    assert_eq!(client.complete_prompt("read", "title", "R", &[]).await.unwrap(), ["Rain"]);
    let [_, Entry::Resource(poem), ..] = Poems::entries() else { panic!("expected a resource") };
    assert_eq!(poem.list.map(|list| list.function), Some("Poems::links"));
}

#[test]
fn a_type_stands_for_the_resource_with_the_same_variables() {
    for (variables, uri) in [
        (&[][..], Ok("poems://all")),
        (&[("title", "Rain")], Ok("poems://poem/Rain")),
        (&[("language", "de"), ("title", "Rain")], Ok("poems://poem/Rain?language=de")),
        (&[("number", "1")], Ok("poems://page/1?size=a4")),
        (&[("number", "1"), ("color", "red")], Ok("poems://page/1?size=a4&color=red")),
        (&[("poet", "Ada")], Err("`it::macros::Poems` has several resources with the variables [`poet`]")),
        (&[("year", "1")], Err("`it::macros::Poems` has no resource with the variables [`year`]")),
    ] {
        let actual = std::panic::catch_unwind(|| resource_uri::<Poems>(variables));
        let actual = actual.map_err(|panic| *panic.downcast::<String>().unwrap());
        assert_eq!(actual, uri.map(str::to_owned).map_err(str::to_owned), "{variables:?}");
    }
}

#[test]
fn functions_of_other_crates_are_collected() {
    let local = hygiene_strict::local();
    assert_eq!(local, ["in_a_function"]);
    assert_eq!(hygiene_renamed::renamed("a".to_owned()), "a");
    assert_eq!(hygiene_reexported::reexported("a".to_owned()), "a");

    let collected = inventory::iter::<Entry>.into_iter().map(common);
    let mut names: Vec<_> =
        collected.filter(|common| *common.tags == ["hygiene"]).map(|common| &*common.name).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "echo_text",
            "echo_u8",
            "in_a_function",
            "input",
            "match",
            "method",
            "old",
            "one",
            "private",
            "read",
            "reexported",
            "reexported_method",
            "renamed",
            "sum_u8",
        ]
    );
}

#[tokio::test]
async fn annotated_functions_can_be_called_directly() {
    let () = bare();
    from_a_file();
    assert_eq!(page("a".to_owned(), 1, None, None), "a 1 None None");
    assert_eq!(all().await, "all");
    assert!(pages(&Db).is_empty() && books().await.is_empty());
}

/// Prompts are listed without a schema.
#[tokio::test]
async fn arguments_of_prompts_are_described_in_words() {
    /// Order copies.
    #[prompt]
    #[allow(unused_variables, reason = "only listed")]
    fn order(
        /// The number of copies.
        #[arg(range = 1..=99)]
        copies: u16,
        /// The first page.
        #[arg(default = 1)]
        page: u64,
        offset: i8,
        scale: f64,
        draft: bool,
        color: String,
    ) -> String {
        String::new()
    }

    let mut client = Server::empty("printer", "1.0.0").with::<order>().test_client(Revision::V2025_11_25);
    let prompts = client.prompts().await.unwrap();
    let arguments = prompts[0]["arguments"].as_array().unwrap();
    let described: Vec<_> = arguments.iter().map(|argument| argument["description"].as_str()).collect();
    assert_eq!(
        described,
        [
            Some("The number of copies. (an integer, at least 1, at most 99)"),
            Some("The first page. (a whole number, default 1)"),
            Some("an integer, at least -128, at most 127"),
            Some("a number"),
            Some("`true` or `false`"),
            None,
        ]
    );
}

/// Declares functions whose options are fragments of a macro.
macro_rules! configured {
    ($name:literal, $title:expr, $read_only:literal, $timeout:literal, $word:literal, $mime:literal) => {
        /// Echo.
        #[tool(name = $name, title = $title, read_only = $read_only, timeout = $timeout, tags($word), meta("acme/word" = $word))]
        async fn fragments(#[arg(rename = $word, pattern = $word)] text: String) -> String {
            text
        }

        /// A text.
        #[resource("fragments://all", mime = $mime)]
        fn fragment() -> &'static str {
            $word
        }
    };
}

configured!("fragments-of-a-macro", "Fragments", true, "1m", "word", "text/markdown");

#[tokio::test]
async fn options_may_be_fragments_of_a_macro() {
    let server = Server::empty("fragments", "1.0.0").with::<fragments>().with::<fragment>();
    let mut client = server.test_client(Revision::V2026_07_28);
    let tools = client.tools().await.unwrap();
    assert_eq!((tools[0].name(), &tools[0]["title"]), ("fragments-of-a-macro", &json!("Fragments")));
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[0]["_meta"]["acme/word"], "word");
    assert_eq!(tools[0]["inputSchema"]["properties"], json!({"word": {"type": "string", "pattern": "word"}}));
    let resources = client.resources().await.unwrap();
    assert_eq!(resources[0]["mimeType"], "text/markdown");
}

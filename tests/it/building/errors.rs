//! Mistakes that only the whole program reveals.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use mcp_runtime::{Context, Revision, function::ToolEntry, tool};
use serde_json::{Value, json};

use super::{Db, empty};
use crate::{layers::log::Log, skills};

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, schemars::JsonSchema)]
struct Point {
    x: u8,
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, schemars::JsonSchema)]
enum Color {
    Red,
    Green,
}

/// An argument that may be text.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "never called")]
enum Place {
    Point(Point),
    Name(String),
}

/// A type whose schema only the running program knows.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[schemars(extend("type" = "integer", "maximum" = 100))]
struct Percent {}

/// Functions with mistakes that only `build` can see.
mod mistakes {
    use super::*;

    /// A range that is larger than the type.
    #[tool]
    pub(super) fn range(#[arg(range = 1..=1000)] _share: Percent) {}

    /// State by reference.
    #[tool]
    pub(super) fn reference(_db: &Db) {}

    /// State in an `Arc`.
    #[tool]
    pub(super) fn arc(_db: &Arc<Db>) {}

    /// A structured argument.
    #[mcp_runtime::prompt]
    pub(super) fn object(_who: Point, _color: Option<Color>, _count: u8, _at: Place) -> String {
        String::new()
    }

    /// An optional structured argument.
    #[mcp_runtime::prompt]
    pub(super) fn optional(_who: Option<Point>) -> String {
        String::new()
    }

    /// A list.
    #[mcp_runtime::prompt]
    pub(super) fn list(_names: Option<Vec<String>>) -> String {
        String::new()
    }
}

#[test]
fn mistakes_that_only_the_whole_program_reveals_have_a_remedy() {
    let with_db = || empty().with_state(Db);
    for (server, function, expected) in [
        (
            empty().with::<mistakes::range>(),
            "range",
            "argument `_share`: `maximum` is 1000, but that of the type is 100",
        ),
        (
            empty().with::<mistakes::reference>().with_state(Arc::new(Db)),
            "reference",
            "has only `alloc::sync::Arc<it::building::Db>`\nhelp: add the `alloc::sync::Arc<it::building::Db>` with \
             `.with_shared(…)` instead of `.with_state(…)`",
        ),
        (
            empty()
                .with::<mistakes::reference>()
                .with_state(1_u8)
                .with_state('a')
                .with_state(2.0)
                .with_state(true)
                .with_state(-1_i8)
                .with_state(1_u16),
            "reference",
            "the server has only `bool`, `char`, `f64`, `i8`, `u16`, `u8`\n",
        ),
        (
            with_db().with::<mistakes::arc>(),
            "arc",
            "has only `it::building::Db`\n\
             help: take `&it::building::Db`: functions take shared state without its `Arc`",
        ),
        (
            empty().with::<mistakes::object>(),
            "object",
            "is an object, but arguments of prompts are strings\n\
             help: take text, a number, a `bool` or an enum without data",
        ),
        (
            empty().with::<mistakes::optional>(),
            "optional",
            "is an object, but arguments of prompts are strings\nhelp: ",
        ),
        (empty().with::<mistakes::list>(), "list", "is a list, but arguments of prompts are strings\nhelp: "),
    ] {
        let error = server.check().unwrap_err();
        let [problem] = error.problems() else { panic!("expected one problem: {error}") };
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.contains(&format!("`{function}` ({}:", file!())), "{problem}");
    }
}

#[test]
fn probable_mistakes_are_logged() {
    const NO_FUNCTIONS: &str = "the server has no functions";
    const NO_SKILLS: &str = "the skill directories contain no `SKILL.md`";
    const NO_DESCRIPTION: &str = "tool without a description";

    let tool = || ToolEntry::new("wait", json!({"type": "object"}), async |_: Value, _: Context| ());
    let without_skills = format!("{}/git-workflow/scripts", skills::DIRECTORY);
    let (log, _guard) = Log::listen();
    for (server, warning, count) in [
        (empty(), NO_FUNCTIONS, 1),
        (empty().with_entry(tool()), NO_FUNCTIONS, 0),
        (empty().with_skills(&without_skills), NO_SKILLS, 1),
        (empty().with_skills(skills::DIRECTORY), NO_SKILLS, 0),
        (empty().with_entry(tool()), NO_DESCRIPTION, 1),
        (empty().with_entry(tool().description("Wait")), NO_DESCRIPTION, 0),
    ] {
        log.take("");
        server.check().unwrap();
        assert_eq!(log.take(warning).len(), count, "{warning}");
    }
}

/// Maps with keys that are not text.
#[tool]
fn tally(counts: HashMap<u32, u8>, offsets: BTreeMap<i64, u8>, colors: BTreeMap<Color, u8>) -> String {
    format!("{counts:?} {offsets:?} {colors:?}")
}

#[tokio::test]
async fn integers_and_enums_can_be_keys() {
    let mut client = empty().with::<tally>().test_client(Revision::V2026_07_28);
    let valid = json!({"counts": {"7": 1}, "offsets": {"-3": 2}, "colors": {"Red": 3}});
    assert_eq!(client.call("tally", valid).await.unwrap().text(), "{7: 1} {-3: 2} {Red: 3}");
    let invalid = json!({"counts": {"x": 1}, "offsets": {}, "colors": {"Blue": 3}});
    let violations = client.call("tally", invalid).await.unwrap().text();
    assert!(violations.contains("`counts.x` is not a property"), "{violations}");
    assert!(violations.contains("`colors.Blue` is not a property, expected one of `Green`, `Red`"), "{violations}");
}

mod conflicting {
    /// The list function has a parameter that only completions receive.
    #[mcp_runtime::resource("conflicting://{id}", list = listed)]
    pub(super) fn first(id: String) -> String {
        id
    }

    fn listed(_: &str) -> Vec<mcp_runtime::ResourceLink> {
        Vec::new()
    }

    /// Matches the same URIs as `first`.
    #[mcp_runtime::resource("conflicting://{name}")]
    pub(super) fn second(name: String) -> String {
        name
    }
}

#[test]
fn wrong_list_parameters_and_ambiguous_templates_are_rejected() {
    let error = empty().with::<conflicting::first>().with::<conflicting::second>().check().unwrap_err();
    let problems = error.problems();
    assert!(problems[0].contains("needs `&str` for its function `listed`"), "{error}");
    assert!(problems[1].contains("the templates `conflicting://{id}` of `first`"), "{error}");
    assert!(problems[1].contains("and `conflicting://{name}` of `second`"), "{error}");
    assert_eq!(problems.len(), 2, "{error}");
}

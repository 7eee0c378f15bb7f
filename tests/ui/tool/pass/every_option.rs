#![forbid(unsafe_code)]
#![deny(missing_docs, unused, unreachable_pub, non_camel_case_types, missing_debug_implementations)]
#![deny(clippy::all, clippy::pedantic)]
#![allow(clippy::unused_async, clippy::needless_pass_by_value, clippy::trivially_copy_pass_by_ref)]
//! Every option, and every kind of parameter.

use std::{borrow::Cow, sync::Arc};

use mcp_runtime::{Context, Json, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State.
#[derive(Debug)]
pub struct Db;

/// A note.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    text: String,
}

const LIMIT: usize = 7;

/// Add two numbers.
#[tool]
fn add(
    /// The first addend.
    a: f64,
    /// The second addend.
    b: f64,
) -> f64 {
    a + b
}

/// Find notes.
#[tool(
    name = "find-notes",
    title = "Search notes",
    read_only,
    destructive = false,
    idempotent = true,
    open_world,
    scopes("notes:read", any("notes:list", "notes:admin")),
    tags("notes"),
    icon = "https://example.com/icon.png",
    icons("data:image/png;base64,AAAA", icon("https://example.com/a", mime = "image/png", sizes("48x48"), theme = light)),
    timeout = "30s",
    task = "required",
    meta("acme/beta" = true, "acme/order" = -1, "acme/words" = ["a", { "b": null }])
)]
async fn search(
    db: &Db,
    ctx: &Context,
    /// Words that must appear.
    query: &str,
    #[arg(default = 10, range = 1..=100)] limit: usize,
    #[arg(default = LIMIT, range = 1..100)] more: usize,
    #[arg(default)] offset: u32,
    #[arg(range = -1.5..)] weight: f32,
    #[arg(length = 1..=3, default = ["a"])] tags: &[String],
    #[arg(pattern = "^[a-z]+$", length = 5, examples("abcde", "vwxyz"), rename = "the-word")] word: String,
    #[arg(format = "date-time", header = "When", title = "When", description = "When it was.")] when: Option<String>,
    mut r#type: Option<Note>,
) -> Result<Json<Vec<Note>>, std::io::Error> {
    let _ = (db, ctx, query, limit, more, offset, weight, tags, word, when);
    Ok(Json(r#type.take().into_iter().collect()))
}

/// Block.
#[tool(blocking)]
fn block(db: &Db, _: &Context, words: &[&'static str; 0], text: &str) -> String {
    let _ = (db, words);
    text.to_owned()
}

/// A trait whose objects are state.
pub trait Store: Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;
}

/// Return a value borrowed from the state.
#[tool]
fn lend(store: &dyn Store) -> &str {
    store.name()
}

/// Return a borrowed value from an async function.
#[tool]
async fn lend_later(store: &dyn Store) -> Result<&str, std::io::Error> {
    Ok(store.name())
}

/// Accept and return a `Cow`.
#[tool]
fn cow(
    _shared: &Arc<Db>,
    #[arg(default = Cow::Borrowed(concat!("a", "b")))] text: Cow<'_, str>,
) -> Result<Cow<'static, str>, &'static str> {
    Ok(Cow::Owned(text.into_owned()))
}

/// A deprecated type.
#[deprecated]
#[derive(Debug)]
pub struct Old;

#[allow(deprecated)]
mod old {
    use super::{Deserialize, JsonSchema, Old};

    impl<'de> Deserialize<'de> for Old {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            <()>::deserialize(deserializer).map(|()| Self)
        }
    }

    impl JsonSchema for Old {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Old".into()
        }

        fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
            <()>::json_schema(generator)
        }
    }
}

/// Use the deprecated type.
#[tool]
#[deprecated]
#[allow(deprecated)]
fn use_old(old: Old) {
    let Old = old;
}

#[tool]
pub(crate) async fn nothing() {}

pub mod inner {
    //! Inside a module.

    /// A type.
    #[mcp_runtime::tool]
    #[must_use]
    pub fn r#type(text: String) -> String {
        text
    }
}

fn main() {
    #[tool]
    fn local(of: Option<u8>) -> u8 {
        of.unwrap_or(3)
    }

    fn named<T: mcp_runtime::function::Collect>() {}

    named::<add>();
    named::<search>();
    named::<inner::r#type>();
    named::<local>();
    assert!((add(1.0, 2.0) - 3.0).abs() < f64::EPSILON);
}

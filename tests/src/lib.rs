//! A server with a function for every part of the protocol, and support for the integration tests.

pub mod backend;
mod expected;
pub mod golden;
pub mod messages;
pub mod schemas;

pub use expected::{Expected, expected, revisions};

use std::{collections::HashSet, time::Duration};

use mcp_runtime::{
    Content, Context, Fault, Image, Json, Level, PromptMessage, Resource, ResourceLink, Server, ToolResult,
    function::EarlierArguments,
    model::{Annotations, Audio, Icon, Role},
    prompt, resource, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of the server.
#[derive(Debug, Default)]
pub struct Greeting(pub String);

/// A tone.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Stiff.
    Formal,
    /// Relaxed.
    Casual,
}

/// A point in the plane.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Point {
    x: f64,
    y: f64,
    /// The label of the point.
    label: Option<String>,
}

/// A person.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Person {
    name: String,
    age: u8,
}

/// Add two numbers.
#[tool(
    read_only,
    idempotent,
    title = "Add",
    icon("https://example.com/add.png", mime = "image/png", sizes("48x48", "96x96"), theme = light),
    meta("example.com/unit" = { "of": ["a", "b"], "name": null })
)]
fn add(
    /// The first addend.
    a: f64,
    /// The second addend.
    b: f64,
) -> f64 {
    a + b
}

/// Return the text.
///
/// The second paragraph has the details.
#[tool]
fn echo(text: &str) -> String {
    text.to_owned()
}

/// Every kind of constraint.
#[tool]
fn constrained(
    style: Style,
    #[arg(default = 2, range = 1..=5)] count: u32,
    #[arg(length = 2..=4, pattern = "^[a-z]+$")] word: Option<String>,
    #[arg(default, length = ..=2)] tags: Vec<String>,
    point: Option<Point>,
) -> String {
    format!("{style:?} {count} {word:?} {tags:?} {point:?}")
}

/// An object.
#[tool]
fn person() -> Json<Person> {
    Json(Person { name: "Ada".to_owned(), age: 36 })
}

/// A list.
#[tool]
fn people() -> Json<Vec<Person>> {
    Json(vec![Person { name: "Ada".to_owned(), age: 36 }])
}

/// An optional object.
#[tool]
fn maybe_person(found: bool) -> Option<Json<Person>> {
    found.then(person)
}

/// Every kind of content.
#[tool]
fn contents() -> Vec<Content> {
    let hints =
        Annotations::default().for_audience([Role::User]).with_priority(0.5).with_last_modified("2025-01-12T15:00:58Z");
    vec![
        Content::text("text").with_annotations(hints),
        Image::png([1, 2, 3]).into(),
        Audio::wav([4, 5, 6]).into(),
        Resource::text("test://embedded", "embedded").with_mime_type("text/plain").into(),
        ResourceLink::new("test://static", "static").with_title("Static").with_description("A link").into(),
    ]
}

/// A complete result.
#[tool]
fn whole() -> ToolResult {
    ToolResult::new(["text"]).with_structured(serde_json::json!({"n": 1})).with_meta("example.com/key", 1)
}

/// Nothing.
#[tool]
fn nothing() {}

/// Fails.
#[tool]
fn fails() -> Result<String, std::fmt::Error> {
    Err(std::fmt::Error)
}

/// Fails with a protocol error.
#[tool]
fn faulty() -> Result<String, Fault> {
    Err(Fault::custom(-31_000, "out of paper"))
}

/// Panics.
#[tool]
fn panics() -> String {
    panic!("a secret")
}

/// Panics after waiting.
#[tool]
async fn panics_later() -> String {
    tokio::task::yield_now().await;
    panic!("a secret")
}

/// Greets with the state of the server.
#[tool]
fn greet(greeting: &Greeting, name: String) -> String {
    format!("{}, {name}!", greeting.0)
}

/// Waits.
#[tool]
async fn wait(milliseconds: u64) -> String {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    format!("waited {milliseconds} ms")
}

/// Waits at most 50 ms.
#[tool(timeout = "50ms")]
async fn impatient() -> String {
    tokio::time::sleep(Duration::from_secs(3600)).await;
    "never".to_owned()
}

/// Blocks a thread.
#[tool(blocking)]
fn block(ctx: &Context, milliseconds: u64) -> String {
    std::thread::sleep(Duration::from_millis(milliseconds));
    format!("cancelled: {}", ctx.is_cancelled())
}

/// Reports progress.
#[tool]
async fn progress(ctx: &Context) -> &'static str {
    for done in 0..=2 {
        ctx.progress(done, 2, format!("step {done}"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ctx.progress(1, 2, "backwards");
    "done"
}

/// Writes log messages.
#[tool]
fn logs(ctx: &Context) -> &'static str {
    ctx.debug("debug");
    ctx.info("info");
    ctx.log_as("fixture", Level::Error, serde_json::json!({"why": "error"}));
    tracing::warn!(count = 3, "traced");
    "logged"
}

/// A text.
#[resource(
    "test://static",
    title = "Static",
    mime = "text/plain",
    size = 4,
    audience(user),
    priority = 0.5,
    ttl = "5m",
    public
)]
fn fixed() -> &'static str {
    "text"
}

/// Bytes.
#[resource("test://binary", mime = "application/octet-stream")]
fn binary() -> Vec<u8> {
    vec![0xff, 0x00]
}

/// Always fails.
#[resource("test://broken")]
fn broken() -> Result<String, std::fmt::Error> {
    Err(std::fmt::Error)
}

/// One of many.
#[resource("test://item/{id}", mime = "application/json", list = items, complete(id = item_ids))]
async fn item(id: u32) -> Option<Json<Person>> {
    tokio::task::yield_now().await;
    (id < 100).then(|| Json(Person { name: format!("item {id}"), age: 0 }))
}

/// The results of a search.
#[resource("test://search{?words,limit}")]
fn found(words: String, #[arg(default = 10, range = 1..=20)] limit: u32) -> String {
    format!("{limit} of {words}")
}

async fn items() -> Vec<ResourceLink> {
    tokio::task::yield_now().await;
    vec![ResourceLink::new("test://item/1", "item 1").with_size(3)]
}

fn item_ids(prefix: &str) -> Vec<String> {
    (0..150).map(|id: u32| id.to_string()).filter(|id| id.starts_with(prefix)).collect()
}

/// Ask for a review.
#[prompt(title = "Review", icon = "https://example.com/review.png")]
fn review(
    /// The code.
    code: String,
    /// The tone.
    style: Style,
    #[arg(range = 1..=9)] lines: Option<u32>,
) -> String {
    format!("{style:?} {lines:?} {code}")
}

/// A conversation.
#[prompt]
fn conversation() -> Vec<PromptMessage> {
    vec![
        PromptMessage::user("Hello"),
        PromptMessage::assistant(Image::png([1, 2, 3])),
        PromptMessage::user(ResourceLink::new("test://static", "static")),
    ]
}

/// Completes the city depending on the country.
#[prompt]
fn travel(country: String, #[arg(complete = cities)] city: String) -> String {
    format!("{city}, {country}")
}

async fn cities(earlier: &EarlierArguments, prefix: &str) -> Vec<&'static str> {
    tokio::task::yield_now().await;
    let all = match earlier.get("country") {
        Some("France") => ["Lyon", "Paris"],
        _ => ["Bern", "Paris"],
    };
    all.into_iter().filter(|city| city.starts_with(prefix)).collect()
}

/// Asserts that ids in base64url have at least 128 bits, each of which is random: unlike the padding of a counter, it
/// is set in about half of the ids.
///
/// # Panics
///
/// Panics if there are fewer than 100 ids, or if they can be guessed.
pub fn assert_unguessable(ids: &[String]) {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    assert!(ids.len() >= 100, "{} ids", ids.len());
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "duplicate ids");
    let length = ids[0].len();
    let random = (0..length * 6).filter(|bit| {
        let is_set = |id: &&String| {
            let digit = id[bit / 6..].chars().next().and_then(|char| ALPHABET.find(char));
            digit.unwrap_or_else(|| panic!("{id:?} is not in base64url")) >> (bit % 6) & 1 == 1
        };
        let set = ids.iter().filter(is_set).count();
        (ids.len() / 7..ids.len() - ids.len() / 7).contains(&set)
    });
    let random = random.count();
    assert!(ids.iter().all(|id| id.len() == length) && random >= 128, "{random} random bits in {:?}", &ids[..3]);
}

/// Returns the server of the golden files.
pub fn server() -> Server {
    configure(Server::new("fixture", "1.2.3"), "Hello").only(|entry| entry.module == module_path!())
}

/// Adds the state that the functions need and the information about the server.
pub fn configure(server: Server, greeting: &str) -> Server {
    server
        .title("Fixture")
        .description("Everything at once")
        .website_url("https://example.com")
        .with_icon(Icon::new("https://example.com/icon.png"))
        .instructions("Call everything.")
        .with_state(Greeting(greeting.to_owned()))
}

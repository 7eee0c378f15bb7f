//! A notebook in SQLite: tools with constraints and structured results, resources with templates and lists, prompts,
//! completion, and a page.
//!
//! ```text
//! cargo run -p notes -- --db notes.db
//! ```

mod store;

use std::path::PathBuf;

// Registers the backend for `--backend redis://…`. Replicas on one machine may share the file, too.
#[cfg(feature = "redis")]
use mcp_redis as _;
use mcp_runtime::{
    Fault, Json, PromptMessage, Resource, ResourceLink, Server, prompt, resource, resource_uri, server, tool, ui,
};
use rusqlite::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use store::{Counts, Note, Store};

/// A label: lower-case letters, digits and hyphens.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
struct Tag(#[schemars(regex(pattern = r"^[a-z0-9-]+$"), length(max = 40))] String);

/// The length of a summary.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Style {
    /// Two sentences.
    Brief,
    /// A page.
    Detailed,
    /// A list of points.
    Bullets,
}

/// Write a note.
///
/// It is kept until `delete_note` removes it.
#[tool(title = "Add a note", destructive = false, blocking)]
fn add_note(
    store: &Store,
    /// A title of one line.
    #[arg(length = 1..=200)]
    title: String,
    /// The text, in Markdown.
    body: String,
    /// Labels to find the note by.
    #[arg(default, length = ..=10)]
    tags: Vec<Tag>,
) -> Result<Json<Note>> {
    store.add(&title, &body, tags.into_iter().map(|Tag(tag)| tag).collect()).map(Json)
}

/// Find notes whose title or body contains a text.
#[tool(title = "Search notes", read_only, blocking)]
fn search_notes(
    store: &Store,
    /// The text to search for, ignoring case.
    query: String,
    /// The maximum number of notes to return.
    #[arg(default = 10, range = 1..=100)]
    limit: u32,
    /// Only notes with this label.
    tag: Option<Tag>,
) -> Result<Json<Vec<Note>>> {
    store.search(&query, tag.as_ref().map(|Tag(tag)| tag.as_str()), limit).map(Json)
}

/// Delete a note permanently.
#[tool(title = "Delete a note", destructive, idempotent, blocking)]
fn delete_note(
    store: &Store,
    /// The number of the note.
    id: i64,
) -> Result<String, String> {
    match store.delete(id) {
        Ok(true) => Ok(format!("deleted note {id}")),
        Ok(false) => Err(format!("note {id} not found")),
        Err(error) => Err(error.to_string()),
    }
}

/// Count the notes and the labels in use.
#[tool(title = "Count notes", read_only, blocking)]
fn count_notes(store: &Store) -> Result<Json<Counts>> {
    store.counts().map(Json)
}

/// A board of all notes.
#[ui("ui://notes/board", title = "Board", file = "board.html", prefers_border = true)]
fn board();

/// Show the board of all notes to the user.
#[tool(title = "Show the board", read_only, ui = board, blocking)]
fn show_board(store: &Store) -> Result<Json<Vec<Note>>> {
    store.all().map(Json)
}

/// A table of contents of all notes.
#[resource("notes://all", mime = "text/markdown", blocking)]
fn index(store: &Store) -> Result<String> {
    let lines = store.all()?.into_iter().map(|note| format!("- [{}]({})\n", note.title, note_uri(note.id)));
    Ok(format!("# Notes\n\n{}", lines.collect::<String>()))
}

/// One note.
#[resource("notes://note/{id}", mime = "application/json", list = note_links, complete(id = note_ids), blocking)]
fn note(store: &Store, id: i64) -> Result<Option<Json<Note>>> {
    Ok(store.get(id)?.map(Json))
}

/// The notes with one label.
#[resource("notes://tag/{tag}", mime = "text/markdown", complete(tag = tags_starting_with), blocking)]
fn notes_with_tag(store: &Store, tag: String) -> Result<Option<String>> {
    let notes = store.search("", Some(&tag), 1000)?;
    Ok((!notes.is_empty()).then(|| notes.iter().map(|note| format!("# {}\n\n{}\n\n", note.title, note.body)).collect()))
}

/// Ask for a summary of the notes with one label.
#[prompt(title = "Summarise notes", blocking)]
fn summarise(
    store: &Store,
    /// The label.
    #[arg(complete = tags_starting_with)]
    tag: String,
    /// The length of the summary.
    style: Style,
) -> Result<Vec<PromptMessage>, Fault> {
    let notes = store.search("", Some(&tag), 1000).map_err(|error| Fault::internal(error.to_string()))?;
    let style = match style {
        Style::Brief => "in two sentences",
        Style::Detailed => "on one page",
        Style::Bullets => "as a list of points",
    };
    let text = notes.iter().map(|note| format!("# {}\n\n{}\n\n", note.title, note.body)).collect::<String>();
    Ok(vec![
        PromptMessage::user(format!("Summarise my notes about \"{tag}\" {style}.")),
        PromptMessage::user(
            Resource::text(resource_uri::<notes_with_tag>(&[("tag", &tag)]), text).with_mime_type("text/markdown"),
        ),
    ])
}

/// Ask for a review of the week.
#[prompt(title = "Weekly review")]
fn weekly_review() -> &'static str {
    "Search my notes of the last seven days, group them by label, and tell me what is unfinished."
}

fn note_uri(id: i64) -> String {
    resource_uri::<note>(&[("id", &id.to_string())])
}

fn note_links(store: &Store) -> Result<Vec<ResourceLink>> {
    let notes = store.all()?.into_iter();
    Ok(notes
        .map(|note| {
            ResourceLink::new(note_uri(note.id), format!("note {}", note.id))
                .with_title(note.title)
                .with_mime_type("application/json")
        })
        .collect())
}

fn note_ids(store: &Store, prefix: &str) -> Result<Vec<String>> {
    let ids = store.all()?.into_iter().map(|note| note.id.to_string());
    Ok(ids.filter(|id| id.starts_with(prefix)).collect())
}

fn tags_starting_with(store: &Store, prefix: &str) -> Result<Vec<String>> {
    store.tags(prefix)
}

#[server]
fn main(
    server: Server,
    /// The SQLite file; `:memory:` keeps the notes only while the server runs.
    #[arg(default = "notes.db", env = "NOTES_DB")]
    db: PathBuf,
) -> Result<Server> {
    Ok(server
        .title("Notebook")
        .instructions("Notes are Markdown with labels. Search before adding a note to avoid duplicates.")
        .with_state(Store::open(&db)?))
}

#[cfg(test)]
mod tests {
    use mcp_runtime::{Revision, testing::TestClient};
    use serde_json::json;

    use super::*;

    mcp_runtime::locked_test!(["--db", ":memory:"]);

    fn client(revision: Revision) -> TestClient {
        Server::new("notes", "0.1.0").with_state(Store::open(":memory:".as_ref()).unwrap()).test_client(revision)
    }

    #[tokio::test]
    async fn notes_can_be_added_found_read_and_deleted() {
        let mut client = client(Revision::V2026_07_28);
        let note = json!({"title": "Milk", "body": "Two litres", "tags": ["shopping"]});
        let added = client.call("add_note", note).await.unwrap();
        assert_eq!(added.structured().unwrap()["id"], 1);

        let found = client.call("search_notes", json!({"query": "LITRES", "tag": "shopping"})).await.unwrap();
        assert_eq!(found.structured().unwrap()[0]["title"], "Milk");
        let read = client.read("notes://note/1").await.unwrap();
        assert_eq!(read[0]["mimeType"], "application/json");
        assert!(client.read("notes://tag/shopping").await.unwrap().text().contains("Two litres"));

        assert_eq!(client.call("delete_note", json!({"id": 1})).await.unwrap().text(), "deleted note 1");
        assert!(client.call("delete_note", json!({"id": 1})).await.unwrap().is_error());
        assert_eq!(client.read("notes://note/1").await.unwrap_err().message, "resource not found: notes://note/1");
    }

    #[tokio::test]
    async fn the_board_is_a_page_and_clients_without_pages_see_text() {
        let mut client = client(Revision::V2025_11_25);
        client.call("add_note", json!({"title": "Milk", "body": "Two litres"})).await.unwrap();
        let shown = client.call("show_board", ()).await.unwrap();
        assert_eq!(shown.structured().unwrap()["result"][0]["title"], "Milk");
        assert!(shown.text().contains("Two litres"));

        let tools = client.tools().await.unwrap();
        let linked: Vec<_> = tools.iter().filter_map(|tool| tool["_meta"]["ui"]["resourceUri"].as_str()).collect();
        assert_eq!(linked, ["ui://notes/board"]);
        let page = client.read(linked[0]).await.unwrap();
        assert_eq!(page[0]["mimeType"], "text/html;profile=mcp-app");
        assert_eq!(page[0]["_meta"]["ui"], json!({"prefersBorder": true}));
        // The policy permits nothing else than the page itself.
        assert!(page.text().contains("window.mcp = ") && !page.text().contains("mcp-runtime:bridge"));
    }

    #[tokio::test]
    async fn all_invalid_arguments_are_reported_at_once() {
        let mut client = client(Revision::V2025_11_25);
        let bad = json!({"title": "", "tags": ["Not a tag"], "colour": "red"});
        let refused = client.call("add_note", bad).await.unwrap();
        assert!(refused.is_error());
        for part in ["`title`", "`body`", "`tags[0]`", "`colour`"] {
            assert!(refused.text().contains(part), "{part} is missing from {}", refused.text());
        }
    }

    #[tokio::test]
    async fn tags_and_ids_are_completed() {
        let mut client = client(Revision::V2025_06_18);
        for (title, tag) in [("Milk", "shopping"), ("Slides", "show"), ("Taxes", "money")] {
            client.call("add_note", json!({"title": title, "body": "", "tags": [tag]})).await.unwrap();
        }
        let prompt = json!({"type": "ref/prompt", "name": "summarise"});
        assert_eq!(client.complete(prompt.clone(), "tag", "sho").await.unwrap(), ["shopping", "show"]);
        assert_eq!(client.complete(prompt, "style", "b").await.unwrap(), ["brief", "bullets"]);
        let template = json!({"type": "ref/resource", "uri": "notes://note/{id}"});
        assert_eq!(client.complete(template, "id", "").await.unwrap(), ["1", "2", "3"]);
    }
}

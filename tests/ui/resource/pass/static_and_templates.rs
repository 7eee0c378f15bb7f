#![deny(missing_docs, unused, clippy::all)]
//! Resources and templates with all options.

use mcp_runtime::{Context, ResourceLink, function::EarlierArguments, resource, tools};

struct Root;

/// A file of the project.
#[resource(
    "file:///{+path}",
    mime = "text/plain; charset=utf-8",
    audience(user, assistant),
    priority = 0.5,
    last_modified = "2025-01-12T15:00:58Z",
    list = all_files,
    complete(path = inner::paths),
    tags("files"),
    timeout = "500ms"
)]
async fn file(root: &Root, _: &Context, path: String) -> std::io::Result<String> {
    let _ = root;
    Ok(path)
}

fn all_files(_root: &Root) -> Vec<ResourceLink> {
    Vec::new()
}

mod inner {
    use super::*;

    pub(super) async fn paths(_: &Root, start: &str, _: &EarlierArguments) -> Vec<String> {
        vec![start.to_owned()]
    }
}

#[resource("about:this", name = "about", title = "About", size = 5, priority = 1, last_modified = "2025-01-12")]
fn about() -> &'static str {
    "about"
}

/// Search.
#[resource("notes://{book}/search{?query,limit}", blocking)]
fn search(
    #[arg(complete = books)] book: &str,
    #[arg(rename = "query")] words: Option<String>,
    #[arg(default = 10)] limit: u8,
) -> String {
    format!("{book}{words:?}{limit}")
}

fn books(_: &str) -> [&'static str; 2] {
    ["a", "b"]
}

struct Notes(u8);

#[tools]
impl Notes {
    fn untouched(&self) -> u8 {
        self.0
    }

    /// Count.
    #[tool]
    fn count(&self, #[arg(default = Self::MANY)] more: u8) -> u8 {
        self.untouched() + more
    }

    const MANY: u8 = 3;

    #[resource("note://{id}")]
    #[allow(clippy::unused_async)]
    async fn note(&self, id: u8) -> Result<String, std::fmt::Error> {
        Ok(id.to_string())
    }

    #[prompt]
    fn ask() -> String {
        String::new()
    }

    #[tool]
    #[cfg(any())]
    fn absent(of: Absent) -> Absent {}
}

fn main() {
    fn named<T: mcp_runtime::function::Collect>() {}
    named::<file>();
    named::<about>();
    named::<search>();
    named::<Notes>();
}

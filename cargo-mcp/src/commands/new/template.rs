//! The examples of the framework, embedded as templates for new packages, and the README of a new package.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use toml_edit::DocumentMut;

use crate::failure::{Failure, find};

/// Links to the examples, so that the published package contains them. Cargo would exclude directories with a
/// `Cargo.toml`.
static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// The name of the link to an example's manifest.
const MANIFEST: &str = "manifest.toml";

/// An example.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    dir: &'static Dir<'static>,
}

impl Template {
    /// Returns all examples, sorted by name.
    pub(super) fn all() -> Vec<Self> {
        let mut all: Vec<_> = TEMPLATES.dirs().map(|dir| Self { dir }).collect();
        all.sort_by_key(|template| template.name());
        all
    }

    /// Returns the example with a name.
    ///
    /// # Errors
    ///
    /// Fails if there is no such example.
    pub(super) fn named(name: &str) -> Result<Self, Failure> {
        let failed = |failure: Failure| failure.help("`cargo mcp new --list` describes the examples");
        find(&Self::all(), Some(name), |template| template.name(), "example").copied().map_err(failed)
    }

    pub(super) fn name(&self) -> &'static str {
        self.dir.path().to_str().expect("example names are ASCII")
    }

    /// Returns the one-line description.
    pub(super) fn description(&self) -> String {
        let manifest = self.manifest();
        manifest["package"]["description"].as_str().expect("examples have a description").to_owned()
    }

    /// Returns the URL of a server that supports only HTTP.
    pub(super) fn only_http(&self) -> Option<String> {
        let manifest = self.manifest();
        let url = manifest["package"].get("metadata")?.get("template")?.get("only-http")?;
        url.as_str().map(str::to_owned)
    }

    /// Returns the Cargo.toml as in the framework's repository.
    pub(super) fn manifest(&self) -> DocumentMut {
        let file = self.dir.get_file(self.dir.path().join(MANIFEST)).expect("examples have a manifest");
        parse(file.contents_utf8())
    }

    /// Returns the paths and contents of all files except for the manifest.
    pub(super) fn files(&self) -> Vec<(PathBuf, &'static [u8])> {
        let mut files = Vec::new();
        collect(self.dir, self.dir.path(), &mut files);
        files.retain(|(path, _)| path != Path::new(MANIFEST));
        for (path, _) in &mut files {
            // Git does not allow `.gitignore` to be a link.
            if path == Path::new("gitignore") {
                *path = ".gitignore".into();
            }
        }
        files.sort();
        files
    }
}

/// Returns the manifest of the framework's workspace, from which the examples inherit.
pub(super) fn workspace() -> DocumentMut {
    parse(TEMPLATES.get_file("workspace.toml").expect("the workspace manifest is embedded").contents_utf8())
}

fn parse(manifest: Option<&str>) -> DocumentMut {
    manifest.expect("manifests are UTF-8").parse().expect("manifests are TOML")
}

fn collect(dir: &Dir<'static>, top: &Path, files: &mut Vec<(PathBuf, &'static [u8])>) {
    for file in dir.files() {
        let path = file.path().strip_prefix(top).expect("files are inside their directory");
        files.push((path.to_owned(), file.contents()));
    }
    for dir in dir.dirs() {
        collect(dir, top, files);
    }
}

/// The names of an example and of the new package.
pub(super) struct Renaming<'a> {
    pub(super) example: &'a str,
    pub(super) name: &'a str,
    /// Whether the package has a library. Without one, its crate cannot be referred to, but a module may have its name.
    pub(super) has_library: bool,
}

impl Renaming<'_> {
    /// Replaces the name of the example where it refers to the crate or the package.
    pub(super) fn apply(&self, source: &str) -> String {
        let (old, new) = (self.example.replace('-', "_"), self.name.replace('-', "_"));
        let words = [self.example, &old];
        let mut text = String::with_capacity(source.len());
        let mut rest = source;
        while let Some((at, word)) = first(rest, words) {
            text.push_str(&rest[..at]);
            rest = &rest[at + word.len()..];
            text.push_str(match meaning(&text, rest) {
                Some(Meaning::Package) => self.name,
                Some(Meaning::Crate) if self.has_library && word == old => &new,
                Some(Meaning::Crate) | None => word,
            });
        }
        text + rest
    }
}

/// Returns the position of the first occurrence of one of the words.
fn first<'a>(text: &str, words: [&'a str; 2]) -> Option<(usize, &'a str)> {
    words.into_iter().filter_map(|word| Some((text.find(word)?, word))).min_by_key(|(at, _)| *at)
}

/// The meaning of an occurrence of the name.
enum Meaning {
    /// `use hello::greet`.
    Crate,
    /// `cargo run -p hello`, `Server::new("hello", …)`, `CARGO_BIN_EXE_hello`.
    Package,
}

/// Returns the meaning of an occurrence of the name between two texts, or `None` if it is another word.
fn meaning(before: &str, after: &str) -> Option<Meaning> {
    let part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let ends = |marks: &[&str]| marks.iter().any(|mark| before.ends_with(mark));
    let continues = after.starts_with(|next| part_of_word(next) || next == '-');
    if ends(&["Server::new(\""]) && after.starts_with('"') || ends(&["CARGO_BIN_EXE_", " -p "]) && !continues {
        return Some(Meaning::Package);
    }
    // The start of a path, or an import of the crate: `use hello as it`, `extern crate hello`.
    let starts_path = !before.ends_with(|last| part_of_word(last) || ".:\"'/-".contains(last));
    let is_path = after.starts_with("::") || (ends(&["use ", "extern crate "]) && after.starts_with([' ', ';']));
    (starts_path && is_path).then_some(Meaning::Crate)
}

/// The default address of a server.
pub(super) const ADDRESS: &str = "127.0.0.1:8080";
/// The URL of the server at that address.
pub(super) const URL: &str = "http://127.0.0.1:8080/mcp";

/// Returns the text of the README. `url` is the URL of the server, if it supports HTTP.
pub(super) fn readme(name: &str, template: Template, url: Option<&str>) -> String {
    let mut text = match template.only_http() {
        Some(_) => include_str!("readme/http.md").to_owned(),
        None => include_str!("readme/stdio.md").to_owned(),
    };
    if url.is_some() {
        text += if template.only_http().is_some() { "" } else { include_str!("readme/serve.md") };
        text += include_str!("readme/url.md");
    }
    text.replace("{example}", template.name())
        .replace("{description}", &lower(&template.description()))
        .replace("{address}", ADDRESS)
        .replace("{url}", url.unwrap_or_default())
        .replace("{name}", name)
}

/// Adapts a description to the middle of a sentence: `A notebook` becomes `a notebook`, but `MCP tools` is unchanged.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), second) if !second.is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path, process::Command};

    use super::{Renaming, Template};

    #[test]
    fn templates_contain_all_files_of_the_examples() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let listed = Command::new("git").arg("ls-files").current_dir(examples).output().expect("git runs");
        let listed = String::from_utf8(listed.stdout).expect("paths are UTF-8");
        let expected: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        let mut found = BTreeSet::new();
        for template in Template::all() {
            found.insert(format!("{}/Cargo.toml", template.name()));
            for (path, _) in template.files() {
                found.insert(format!("{}/{}", template.name(), path.display()));
            }
        }
        assert!(found.contains("hello/src/main.rs"), "{found:?}");
        assert_eq!(found, expected, "`cargo-mcp/templates` must link to all files of the examples");
    }

    #[test]
    fn only_references_to_the_package_are_renamed() {
        for (example, source, expected) in [
            ("hello", "use hello::greet;", "use my_server::greet;"),
            ("hello", "use {hello::greet, std::io};", "use {my_server::greet, std::io};"),
            ("hello", "let it = hello::greet();", "let it = my_server::greet();"),
            ("hello", "use hello as it; extern crate hello;", "use my_server as it; extern crate my_server;"),
            ("hello", "Server::new(\"hello\", \"0.1.0\")", "Server::new(\"my-server\", \"0.1.0\")"),
            ("hello", "env!(\"CARGO_BIN_EXE_hello\")", "env!(\"CARGO_BIN_EXE_my-server\")"),
            ("hello", "//! cargo run -p hello -- --list", "//! cargo run -p my-server -- --list"),
            ("mount_axum", "//! cargo run -p mount_axum\n", "//! cargo run -p my-server\n"),
            (
                "two-words",
                "use two_words::it; // cargo test -p two-words",
                "use my_server::it; // cargo test -p my-server",
            ),
            ("hello", "fn hello() {} // hello, hello-world", "fn hello() {} // hello, hello-world"),
            (
                "files",
                "crate::files::x(); self.files(); \"files:///{+path}\"",
                "crate::files::x(); self.files(); \"files:///{+path}\"",
            ),
            (
                "notes",
                "let notes = \"SELECT * FROM notes\"; // -p notes2",
                "let notes = \"SELECT * FROM notes\"; // -p notes2",
            ),
            ("hello", "othello::x(); hello_world::x();", "othello::x(); hello_world::x();"),
        ] {
            let renaming = Renaming { example, name: "my-server", has_library: true };
            assert_eq!(renaming.apply(source), expected);
        }
    }

    #[test]
    fn modules_of_a_program_are_not_renamed() {
        let renaming = Renaming { example: "notes", name: "diary", has_library: false };
        assert_eq!(
            renaming.apply("notes::all(); Server::new(\"notes\", v)"),
            "notes::all(); Server::new(\"diary\", v)"
        );
    }
}

//! The examples of the framework, embedded as templates for new packages.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use toml_edit::DocumentMut;

use crate::{failure::Failure, near::suggest};

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
        let all = Self::all();
        if let Some(template) = all.iter().find(|template| template.name() == name) {
            return Ok(*template);
        }
        let names: Vec<&str> = all.iter().map(Self::name).collect();
        let failure = Failure::usage(format_args!("unknown example `{name}`"));
        Err(suggest(failure, name, &names, "examples").help("`cargo mcp new --list` describes the examples"))
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path, process::Command};

    use super::Template;

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
}

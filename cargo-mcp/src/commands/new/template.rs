//! The examples of the framework, which are in this program, and can be started from.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use toml_edit::DocumentMut;

use crate::{
    failure::Failure,
    near::{listed, nearest},
};

/// Links to the examples, so that they are in the package too. A directory with a `Cargo.toml` would be left out of it.
static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// The manifest of an example.
const MANIFEST: &str = "manifest.toml";

/// An example.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    dir: &'static Dir<'static>,
}

impl Template {
    /// All of them, in the order of their names.
    pub(super) fn all() -> Vec<Self> {
        let mut all: Vec<_> = TEMPLATES.dirs().map(|dir| Self { dir }).collect();
        all.sort_by_key(|template| template.name());
        all
    }

    /// The example of a name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) fn named(name: &str) -> Result<Self, Failure> {
        let all = Self::all();
        if let Some(template) = all.iter().find(|template| template.name() == name) {
            return Ok(*template);
        }
        let names: Vec<&str> = all.iter().map(Self::name).collect();
        let failure = Failure::usage(format_args!("there is no example `{name}`"));
        Err(match nearest(name, names.iter().copied()) {
            Some(near) => failure.help(format_args!("did you mean `{near}`?")),
            None => failure.help(format_args!("the examples are {}", listed(&names))),
        }
        .help("`cargo mcp new --list` says what each is"))
    }

    pub(super) fn name(&self) -> &'static str {
        self.dir.path().to_str().expect("examples have names in ASCII")
    }

    /// What it shows, in a line.
    pub(super) fn description(&self) -> String {
        let manifest = self.manifest();
        manifest["package"]["description"].as_str().expect("examples have a description").to_owned()
    }

    /// Where it serves HTTP, if it does nothing else.
    pub(super) fn only_http(&self) -> Option<String> {
        let manifest = self.manifest();
        let url = manifest["package"].get("metadata")?.get("template")?.get("only-http")?;
        url.as_str().map(str::to_owned)
    }

    /// Its Cargo.toml as it stands in the framework's repository.
    pub(super) fn manifest(&self) -> DocumentMut {
        let file = self.dir.get_file(self.dir.path().join(MANIFEST)).expect("examples have a manifest");
        parse(file.contents_utf8())
    }

    /// Everything but its manifest: the path inside of it, and the content.
    pub(super) fn files(&self) -> Vec<(PathBuf, &'static [u8])> {
        let mut files = Vec::new();
        collect(self.dir, self.dir.path(), &mut files);
        files.retain(|(path, _)| path != Path::new(MANIFEST));
        for (path, _) in &mut files {
            // Git does not read it through a link, and complains.
            if path == Path::new("gitignore") {
                *path = ".gitignore".into();
            }
        }
        files.sort();
        files
    }
}

/// The manifest of the framework's workspace, from which examples inherit.
pub(super) fn workspace() -> DocumentMut {
    parse(TEMPLATES.get_file("workspace.toml").expect("the workspace is a template too").contents_utf8())
}

fn parse(manifest: Option<&str>) -> DocumentMut {
    manifest.expect("manifests are UTF-8").parse().expect("manifests are TOML")
}

fn collect(dir: &Dir<'static>, top: &Path, files: &mut Vec<(PathBuf, &'static [u8])>) {
    for file in dir.files() {
        let path = file.path().strip_prefix(top).expect("a file is inside its directory");
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
    fn every_file_of_every_example_is_in_a_template() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let listed = Command::new("git").arg("ls-files").current_dir(examples).output().expect("git starts");
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
        assert_eq!(found, expected, "`cargo-mcp/templates` links to what examples consist of");
    }
}

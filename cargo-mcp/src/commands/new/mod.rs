//! `cargo mcp new`: creates a package from one of the framework's examples.

mod args;
mod location;
mod manifest;
mod name;
mod template;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    failure::Failure,
    output::{errln, outln, shell_word},
};

use args::DEFAULT_EXAMPLE;
use manifest::Runtime;
use template::{Renaming, Template};

pub(crate) use args::Args;

pub(crate) fn run(mut args: Args) -> Result<(), Failure> {
    if args.list {
        list();
        return Ok(());
    }
    if args.path.is_none() {
        args::ask(&mut args)?;
    }
    let project = Project::plan(&args)?;
    project.write()?;
    let workspace = location::integrate(&project.path, args.vcs)?;
    project.print_next_steps(workspace.as_deref());
    Ok(())
}

fn list() {
    let all = Template::all();
    let width = all.iter().map(|template| template.name().len()).max().unwrap_or_default();
    for template in all {
        outln!("{:width$}  {}", template.name(), template.description());
    }
}

/// The planned package.
struct Project {
    /// The path as given.
    path: PathBuf,
    name: String,
    template: Template,
    runtime: Runtime,
    url: Option<String>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Project {
    /// Validates the arguments and creates all files in memory.
    fn plan(args: &Args) -> Result<Self, Failure> {
        let path = args.path.clone().unwrap_or_default();
        let template = Template::named(args.from.as_deref().unwrap_or(DEFAULT_EXAMPLE))?;
        let runtime = runtime(args.runtime_path.as_deref())?;
        let name = name::of_path(&path)?;
        let mut manifest = manifest::manifest(template, &name, &runtime, args.http);
        name::check(&name, &manifest::dependencies(&mut manifest))?;
        location::check_free(&path)?;
        let url = template.only_http().or_else(|| manifest::has_http(&manifest).then(|| template::URL.to_owned()));
        let readme = template::readme(&name, template, url.as_deref());
        let mut files = sources(template, &name);
        files.push(("Cargo.toml".into(), manifest.to_string().into_bytes()));
        files.push(("README.md".into(), readme.into_bytes()));
        Ok(Self { path, name, template, runtime, url, files })
    }

    fn write(&self) -> Result<(), Failure> {
        for (path, content) in &self.files {
            let path = self.path.join(path);
            write(&path, content)
                .map_err(|error| Failure::usage(format_args!("cannot write `{}`: {error}", path.display())))?;
        }
        location::format(&self.path, self.files.iter().map(|(path, _)| &**path));
        Ok(())
    }

    /// Prints what was created, and the next steps.
    fn print_next_steps(&self, workspace: Option<&Path>) {
        let (name, path) = (&self.name, self.path.display());
        errln!("created package `{name}` in `{path}` from example `{}`", self.template.name());
        if let Runtime::Path(path) = &self.runtime {
            errln!("using `mcp-runtime` from `{}`", path.display());
        }
        if let Some(workspace) = workspace {
            errln!("added the package to `members` in `{}`", workspace.display());
        }
        errln!("\nnext steps:");
        let mut steps = Vec::new();
        if self.path != Path::new(".") {
            steps.push((format!("cd {}", shell_word(&path.to_string())), ""));
        }
        steps.push(("cargo test".to_owned(), "run the tests"));
        match (&self.url, self.template.only_http()) {
            (Some(url), Some(_)) => {
                steps.push(("cargo run".to_owned(), "serve HTTP"));
                steps.push((format!("claude mcp add --transport http {name} {url}"), "connect Claude Code"));
            }
            (url, _) => {
                steps.push(("cargo run -- --list".to_owned(), "list tools, resources and prompts"));
                if url.is_some() {
                    steps.push((format!("cargo run -- --http {}", template::ADDRESS), "serve HTTP"));
                }
                steps.push(("cargo mcp install --client claude-code".to_owned(), "connect a client"));
            }
        }
        let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
        for (command, why) in steps {
            errln!("{}", format!("  {command:width$}  {why}").trim_end());
        }
        errln!("see `README.md` for other clients");
    }
}

/// Returns the source of the framework: the given path, the checkout from which this program was built, or the version
/// that was published with it.
///
/// # Errors
///
/// Fails if there is no framework at the given path, or if the checkout no longer exists. A version from crates.io is
/// not a substitute: it may not exist yet, and would differ from the checkout.
fn runtime(given: Option<&Path>) -> Result<Runtime, Failure> {
    match given {
        Some(path) => {
            let found = [path.to_owned(), path.join("mcp-runtime")].into_iter().find(|path| is_runtime(path));
            let absolute = found.and_then(|path| canonicalize(&path).ok());
            absolute.map(Runtime::Path).ok_or_else(|| {
                Failure::usage(format_args!("`{}` is not the package `mcp-runtime`", path.display()))
                    .help("`--runtime-path` must be the directory of its `Cargo.toml` in a checkout of the framework")
            })
        }
        None if cfg!(published) => Ok(Runtime::Version),
        None => checkout(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp-runtime")),
    }
}

/// Returns the framework in the checkout from which this program was built.
fn checkout(path: &Path) -> Result<Runtime, Failure> {
    match is_runtime(path).then(|| canonicalize(path).ok()).flatten() {
        Some(path) => Ok(Runtime::Path(path)),
        None => Err(Failure::usage(format_args!(
            "the checkout of `mcp-runtime` from which this program was built no longer exists: `{}` is missing",
            path.display()
        ))
        .help("specify another checkout with `--runtime-path`")),
    }
}

fn is_runtime(path: &Path) -> bool {
    let manifest = fs::read_to_string(path.join("Cargo.toml")).ok().and_then(|text| text.parse().ok());
    manifest.is_some_and(|manifest: toml_edit::DocumentMut| {
        manifest.get("package").and_then(|package| package.get("name")?.as_str()) == Some("mcp-runtime")
    })
}

/// Returns the absolute path, without the prefix `\\?\` of Windows, which cargo does not support.
fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    let path = path.canonicalize()?;
    let text = path.to_string_lossy();
    Ok(text.strip_prefix(r"\\?\").map_or_else(|| path.clone(), PathBuf::from))
}

/// Returns the files of an example, adapted to the new name.
fn sources(template: Template, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = template.files();
    let has_library = files.iter().any(|(path, _)| path == Path::new("src/lib.rs"));
    let renaming = Renaming { example: template.name(), name, has_library };
    let ignored = files.iter().find(|(path, _)| path == Path::new(".gitignore")).map(|(_, content)| *content);
    let mut sources = vec![(PathBuf::from(".gitignore"), [b"/target\n*.mcpb\n", ignored.unwrap_or_default()].concat())];
    for (path, content) in files.into_iter().filter(|(path, _)| path != Path::new(".gitignore")) {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let content = match std::str::from_utf8(content) {
            Ok(text) if is_source => renaming.apply(text).into_bytes(),
            _ => content.to_owned(),
        };
        sources.push((path, content));
    }
    sources
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, content)
}

#[cfg(test)]
mod tests {
    use super::{Runtime, checkout};

    #[test]
    fn a_missing_checkout_is_not_replaced_by_a_version_from_the_registry() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mcp-runtime");
        let failure = checkout(&path).expect_err("there is no checkout");
        assert!(format!("{failure:?}").contains("specify another checkout with `--runtime-path`"), "{failure:?}");
        std::fs::create_dir(&path).expect("a directory");
        std::fs::write(path.join("Cargo.toml"), "[package]\nname = \"mcp-runtime\"\n").expect("a manifest");
        assert!(matches!(checkout(&path), Ok(Runtime::Path(_))));
    }
}

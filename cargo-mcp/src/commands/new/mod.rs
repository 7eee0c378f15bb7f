//! `cargo mcp new`: a project that begins as one of the framework's examples.

mod ask;
mod manifest;
mod name;
mod place;
mod readme;
mod rename;
mod template;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{failure::Failure, stdout::outln};

use manifest::Runtime;
use readme::Readme;
use rename::Renaming;
use template::Template;

/// The example that is meant where none is named.
const DEFAULT: &str = "hello";

const EXAMPLES: &str = "\
Examples:
  cargo mcp new weather                        a server with one tool, in the directory `weather`
  cargo mcp new servers/diary --from notes     one that begins as the example `notes`
  cargo mcp new weather --http                 one that serves HTTP too
  cargo mcp new --list                         what there is to begin with";

/// Make a new server from an example
///
/// The project is complete: sources, tests, a README that tells how clients are connected. In a terminal, what is not given is asked for.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the project is made; the last part of the path is the package's name
    #[arg(value_name = "NAME")]
    path: Option<PathBuf>,
    /// The example to begin with [default: hello]
    #[arg(long, value_name = "EXAMPLE")]
    from: Option<String>,
    /// Turn on the feature `http`, so that the server can be reached by URL
    #[arg(long)]
    http: bool,
    /// List the examples, and make nothing
    #[arg(long, conflicts_with_all = ["path", "from", "http", "runtime_path", "vcs"])]
    list: bool,
    /// Take `mcp-runtime` from this directory, in place of crates.io
    #[arg(long, value_name = "PATH")]
    runtime_path: Option<PathBuf>,
    /// Make a repository; without the option only where there is none yet
    #[arg(long, value_name = "VCS", value_enum)]
    vcs: Option<Vcs>,
}

/// What keeps the project's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Vcs {
    /// A git repository
    Git,
    /// Nothing
    None,
}

pub(crate) fn run(mut args: Args) -> Result<(), Failure> {
    if args.list {
        list();
        return Ok(());
    }
    if args.path.is_none() {
        ask::ask(&mut args)?;
    }
    let project = Project::plan(&args)?;
    project.write()?;
    let joined = place::settle(&project.path, args.vcs)?;
    project.tell(joined.as_deref());
    Ok(())
}

fn list() {
    let all = Template::all();
    let width = all.iter().map(|template| template.name().len()).max().unwrap_or_default();
    for template in all {
        outln!("{:width$}  {}", template.name(), template.description());
    }
}

/// A project that does not exist yet.
struct Project {
    /// As it was given.
    path: PathBuf,
    name: String,
    template: Template,
    runtime: Runtime,
    url: Option<String>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Project {
    /// Checks what was asked for, and makes every file in memory.
    fn plan(args: &Args) -> Result<Self, Failure> {
        let path = args.path.clone().unwrap_or_default();
        let template = Template::named(args.from.as_deref().unwrap_or(DEFAULT))?;
        let runtime = runtime(args.runtime_path.as_deref())?;
        let name = name_of(&path)?;
        let mut manifest = manifest::manifest(template, &name, &runtime, args.http);
        name::check(&name, &manifest::dependencies(&mut manifest))?;
        place::check_free(&path)?;
        let only_http = template.only_http();
        let url = only_http.clone().or_else(|| manifest::has_http(&manifest).then(|| readme::URL.to_owned()));
        let readme = Readme { name: &name, template, url: url.as_deref(), is_stdio: only_http.is_none() };
        let mut files = sources(template, &name);
        files.push(("Cargo.toml".into(), manifest.to_string().into_bytes()));
        files.push(("README.md".into(), readme.to_string().into_bytes()));
        Ok(Self { path, name, template, runtime, url, files })
    }

    fn write(&self) -> Result<(), Failure> {
        for (path, content) in &self.files {
            let path = self.path.join(path);
            write(&path, content)
                .map_err(|error| Failure::usage(format_args!("`{}` cannot be written: {error}", path.display())))?;
        }
        place::format(&self.path, self.files.iter().map(|(path, _)| &**path));
        Ok(())
    }

    /// Says what was done, and what to do next.
    fn tell(&self, joined: Option<&Path>) {
        let (name, path) = (&self.name, self.path.display());
        anstream::eprintln!("made the package `{name}` in `{path}`, from the example `{}`", self.template.name());
        if let Runtime::Path(path) = &self.runtime {
            anstream::eprintln!("it takes `mcp-runtime` from `{}`", path.display());
        }
        if let Some(workspace) = joined {
            anstream::eprintln!("added it to the `members` of `{}`", workspace.display());
        }
        anstream::eprintln!("\nwhat to do next:");
        let mut steps = Vec::new();
        if self.path != Path::new(".") {
            steps.push((format!("cd {}", quoted(&path.to_string())), ""));
        }
        steps.push(("cargo test".to_owned(), "run its tests"));
        match (&self.url, self.template.only_http()) {
            (Some(url), Some(_)) => {
                steps.push(("cargo run".to_owned(), "serve HTTP"));
                steps.push((format!("claude mcp add --transport http {name} {url}"), "connect Claude Code"));
            }
            (url, _) => {
                steps.push(("cargo run -- --list".to_owned(), "see what it offers"));
                if url.is_some() {
                    steps.push((format!("cargo run -- --http {}", readme::ADDRESS), "serve HTTP"));
                }
                steps.push(("cargo mcp install --client claude-code".to_owned(), "connect a client"));
            }
        }
        let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
        for (command, why) in steps {
            anstream::eprintln!("{}", format!("  {command:width$}  {why}").trim_end());
        }
        anstream::eprintln!("`README.md` tells how to connect other clients");
    }
}

/// The last part of a path.
fn name_of(path: &Path) -> Result<String, Failure> {
    let whole = match path.file_name() {
        Some(_) => path.to_owned(),
        // `.` and `..` are the directories that they lead to.
        None => path.canonicalize().unwrap_or_default(),
    };
    match whole.file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => Err(Failure::usage(format_args!("`{}` does not end with a name", path.display()))
            .help("give the package a name, such as `cargo mcp new weather`")),
    }
}

/// Where the framework comes from: from the path that is given, or as this program itself did.
fn runtime(given: Option<&Path>) -> Result<Runtime, Failure> {
    match given {
        Some(path) => {
            let found = [path.to_owned(), path.join("mcp-runtime")].into_iter().find(|path| is_runtime(path));
            let absolute = found.and_then(|path| dunce(&path).ok());
            absolute.map(Runtime::Path).ok_or_else(|| {
                Failure::usage(format_args!("`{}` is not the package `mcp-runtime`", path.display()))
                    .help("`--runtime-path` is the directory of its `Cargo.toml`, in a checkout of the framework")
            })
        }
        None => {
            let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp-runtime");
            Ok(match is_runtime(&beside).then(|| dunce(&beside).ok()).flatten() {
                Some(path) => Runtime::Path(path),
                None => Runtime::Version,
            })
        }
    }
}

fn is_runtime(path: &Path) -> bool {
    let manifest = fs::read_to_string(path.join("Cargo.toml")).ok().and_then(|text| text.parse().ok());
    manifest.is_some_and(|manifest: toml_edit::DocumentMut| {
        manifest.get("package").and_then(|package| package.get("name")?.as_str()) == Some("mcp-runtime")
    })
}

/// The whole path; on Windows without the prefix `\\?\`, which cargo does not read.
fn dunce(path: &Path) -> io::Result<PathBuf> {
    let whole = path.canonicalize()?;
    let text = whole.to_string_lossy();
    Ok(text.strip_prefix(r"\\?\").map_or_else(|| whole.clone(), PathBuf::from))
}

fn sources(template: Template, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = template.files();
    let has_library = files.iter().any(|(path, _)| path == Path::new("src/lib.rs"));
    let renaming = Renaming { example: template.name(), name, has_library };
    let ignored = files.iter().find(|(path, _)| path == Path::new(".gitignore")).map(|(_, content)| *content);
    let mut made = vec![(PathBuf::from(".gitignore"), [b"/target\n*.mcpb\n", ignored.unwrap_or_default()].concat())];
    for (path, content) in files.into_iter().filter(|(path, _)| path != Path::new(".gitignore")) {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let content = match std::str::from_utf8(content) {
            Ok(text) if is_source => renaming.apply(text).into_bytes(),
            _ => content.to_owned(),
        };
        made.push((path, content));
    }
    made
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, content)
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./~+=:,@\\".contains(letter);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

//! The location of a new package: its directory, its workspace and its repository.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use toml_edit::{Array, DocumentMut, Item, Value};

use crate::failure::Failure;

/// A version control system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Vcs {
    /// Initialize a git repository
    Git,
    /// Do not initialize a repository
    None,
}

/// Checks that a package can be created at a path.
///
/// # Errors
///
/// Fails if the path is a file or a directory that is not empty.
pub(super) fn check_free(path: &Path) -> Result<(), Failure> {
    match occupied(path) {
        Some(why) => Err(Failure::usage(why).help("choose another name, or move the existing files")),
        None => Ok(()),
    }
}

/// Returns why a path cannot be used for a new package. A directory may contain a repository, but nothing else.
pub(super) fn occupied(path: &Path) -> Option<String> {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().find(|entry| entry.file_name() != ".git").map(|entry| {
            format!("the directory `{}` is not empty: it contains `{}`", path.display(), entry.file_name().display())
        }),
        Err(_) if fs::symlink_metadata(path).is_ok() => {
            Some(format!("`{}` exists and is not a directory", path.display()))
        }
        Err(_) => None,
    }
}

/// Formats the sources in the style of their new location if rustfmt is installed, as `cargo new` does.
pub(super) fn format<'a>(package: &Path, files: impl Iterator<Item = &'a Path>) {
    let is_root = |path: &&Path| {
        let directory = path.parent().unwrap_or(Path::new(""));
        path.extension().is_some_and(|extension| extension == "rs")
            && match directory.to_str() {
                Some("src") => path.ends_with("main.rs") || path.ends_with("lib.rs"),
                Some(other) => ["src/bin", "tests", "examples", "benches"].contains(&other),
                None => false,
            }
    };
    let roots: Vec<&Path> = files.filter(is_root).collect();
    let rustfmt = std::env::var_os("RUSTFMT").unwrap_or_else(|| "rustfmt".into());
    // Without rustfmt, the sources keep the style of the example.
    let _ = quiet(Command::new(rustfmt).args(["--edition", "2024"]).args(roots).current_dir(package)).status();
}

/// Adds a package to the workspace that contains it, and initializes a repository.
///
/// Returns the manifest of the workspace if it had to be changed.
///
/// # Errors
///
/// Fails if cargo rejects the package, or if a requested repository cannot be initialized.
pub(super) fn integrate(package: &Path, vcs: Option<Vcs>) -> Result<Option<PathBuf>, Failure> {
    repository(package, vcs)?;
    let Err(error) = check_with_cargo(package) else { return Ok(None) };
    let rejected = |why: &dyn std::fmt::Display| {
        Failure::usage(format_args!("the package was created, but cargo rejects it: {why}"))
    };
    let Some(workspace) = enclosing_workspace(package) else { return Err(rejected(&error)) };
    match add_to_workspace(&workspace, package) {
        Ok(()) => Ok(Some(workspace)),
        Err(error) => {
            Err(rejected(&error).help(format_args!("add it to `members` or `exclude` in `{}`", workspace.display())))
        }
    }
}

/// Adds a package to a workspace. Restores the manifest of the workspace if cargo still rejects the package.
fn add_to_workspace(workspace: &Path, package: &Path) -> Result<(), String> {
    let before = fs::read_to_string(workspace).map_err(|error| error.to_string())?;
    let after = with_member(&before, workspace, package)?;
    fs::write(workspace, after).map_err(|error| error.to_string())?;
    check_with_cargo(package).inspect_err(|_| {
        let _ = fs::write(workspace, before);
    })
}

fn repository(package: &Path, vcs: Option<Vcs>) -> Result<(), Failure> {
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(package);
        git
    };
    let is_inside = || quiet(git().args(["rev-parse", "--is-inside-work-tree"])).status().is_ok_and(|it| it.success());
    let wanted = match vcs {
        None => !is_inside(),
        Some(Vcs::Git) => true,
        Some(Vcs::None) => false,
    };
    if !wanted {
        return Ok(());
    }
    let initialized = quiet(git().args(["init", "--quiet"])).status();
    match (initialized, vcs) {
        (Ok(status), _) if status.success() => Ok(()),
        // The repository was not requested.
        (_, None) => Ok(()),
        (Ok(status), _) => {
            Err(Failure::usage(format_args!("the package was created, but `git init` failed: {status}")))
        }
        (Err(error), _) => {
            Err(Failure::usage(format_args!("the package was created, but git cannot be started: {error}"))
                .help("install git, or omit `--vcs git`"))
        }
    }
}

/// Checks whether cargo accepts the package. Returns cargo's message if not.
fn check_with_cargo(package: &Path) -> Result<(), String> {
    let manifest = package.join("Cargo.toml");
    match cargo_metadata::MetadataCommand::new().no_deps().manifest_path(manifest).exec() {
        Ok(_) => Ok(()),
        Err(cargo_metadata::Error::CargoMetadata { stderr }) => {
            Err(stderr.trim().trim_start_matches("error: ").to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the manifest of the innermost workspace that contains a package.
fn enclosing_workspace(package: &Path) -> Option<PathBuf> {
    let package = package.canonicalize().ok()?;
    let manifests = package.ancestors().skip(1).map(|directory| directory.join("Cargo.toml"));
    let is_workspace = |path: &PathBuf| {
        let manifest = fs::read_to_string(path).ok().and_then(|text| text.parse::<DocumentMut>().ok());
        manifest.is_some_and(|manifest| manifest.contains_key("workspace"))
    };
    manifests.into_iter().find(is_workspace)
}

/// Returns the manifest of a workspace with a package added to its members, at its position if they are sorted.
fn with_member(text: &str, workspace: &Path, package: &Path) -> Result<String, String> {
    let mut manifest: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let package = package.canonicalize().map_err(|error| error.to_string())?;
    let root = workspace.parent().unwrap_or(workspace);
    let path = package.strip_prefix(root).map_err(|error| error.to_string())?.display().to_string().replace('\\', "/");
    let members = manifest["workspace"].as_table_like_mut().ok_or("`workspace` is not a table")?;
    let members = members.entry("members").or_insert_with(|| Item::Value(Value::Array(Array::new())));
    let members = members.as_array_mut().ok_or("`members` is not an array")?;
    let names: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
    let at = if names.is_sorted() { names.partition_point(|name| *name < &*path) } else { names.len() };
    let decor = members.get(at).or(members.get(at.wrapping_sub(1))).map(|neighbour| neighbour.decor().clone());
    members.insert(at, path);
    if let (Some(decor), Some(new)) = (decor, members.get_mut(at)) {
        let prefix = decor.prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
        // A comment before the neighbour does not belong to the new member. Members on one line are separated by
        // spaces.
        let lines = prefix.rfind('\n').map(|line| &prefix[line..]);
        new.decor_mut().set_prefix(lines.unwrap_or(if at > 0 { " " } else { "" }));
        if lines.is_none()
            && at == 0
            && let Some(next) = members.get_mut(1)
        {
            next.decor_mut().set_prefix(" ");
        }
    }
    Ok(manifest.to_string())
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

//! The surroundings of a new package: its directory, its workspace, its repository.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use toml_edit::{Array, DocumentMut, Item, Value};

use super::Vcs;
use crate::failure::Failure;

/// Refuses a place where there is something already.
///
/// # Errors
///
/// The path is a file, or a directory with something in it.
pub(super) fn check_free(path: &Path) -> Result<(), Failure> {
    is_free(path).map_err(|fault| Failure::usage(fault).help("choose another name, or move away what is there"))
}

/// A directory may hold a repository, but nothing else yet.
pub(super) fn is_free(path: &Path) -> Result<(), String> {
    match fs::read_dir(path) {
        Ok(entries) => match entries.flatten().find(|entry| entry.file_name() != ".git") {
            Some(entry) => Err(format!(
                "the directory `{}` is not empty: there is `{}`",
                path.display(),
                entry.file_name().display()
            )),
            None => Ok(()),
        },
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(format!("`{}` is there, and no directory", path.display())),
        Err(_) => Ok(()),
    }
}

/// Gives sources the style of their new place, if rustfmt is there, as `cargo new` does.
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
    // Where it is missing, nobody can tell the difference.
    let _ = quiet(Command::new(rustfmt).args(["--edition", "2024"]).args(roots).current_dir(package)).status();
}

/// Lets a package belong to where it was made: to the workspace around it, and to a repository.
///
/// Gives the manifest of the workspace that it was added to, if it had to be.
///
/// # Errors
///
/// The workspace cannot take it, or no repository can be made that was asked for.
pub(super) fn settle(package: &Path, vcs: Option<Vcs>) -> Result<Option<PathBuf>, Failure> {
    repository(package, vcs)?;
    let Err(complaint) = cargo_reads(package) else { return Ok(None) };
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format_args!("the package is made, but cargo does not read it: {why}"))
    };
    let Some(workspace) = workspace_around(package) else { return Err(refused(&complaint)) };
    match join(&workspace, package) {
        Ok(()) => Ok(Some(workspace)),
        Err(complaint) => {
            Err(refused(&complaint)
                .help(format_args!("add it to `members` of `{}`, or to `exclude`", workspace.display())))
        }
    }
}

/// Adds a package to a workspace, which stays as it was if that does not help.
fn join(workspace: &Path, package: &Path) -> Result<(), String> {
    let before = fs::read_to_string(workspace).map_err(|error| error.to_string())?;
    let after = with_member(&before, workspace, package)?;
    fs::write(workspace, after).map_err(|error| error.to_string())?;
    cargo_reads(package).inspect_err(|_| {
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
    let made = quiet(git().args(["init", "--quiet"])).status();
    match (made, vcs) {
        (Ok(status), _) if status.success() => Ok(()),
        // Nobody asked for it.
        (_, None) => Ok(()),
        (Ok(status), _) => Err(Failure::usage(format_args!("the package is made, but `git init` failed: {status}"))),
        (Err(error), _) => Err(Failure::usage(format_args!("the package is made, but git cannot be started: {error}"))
            .help("install git, or leave `--vcs git` out")),
    }
}

/// Whether cargo accepts the package where it is; if not, what it says.
fn cargo_reads(package: &Path) -> Result<(), String> {
    let manifest = package.join("Cargo.toml");
    match cargo_metadata::MetadataCommand::new().no_deps().manifest_path(manifest).exec() {
        Ok(_) => Ok(()),
        Err(cargo_metadata::Error::CargoMetadata { stderr }) => {
            Err(stderr.trim().trim_start_matches("error: ").to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The manifest of the nearest workspace above a package.
fn workspace_around(package: &Path) -> Option<PathBuf> {
    let whole = package.canonicalize().ok()?;
    let manifests = whole.ancestors().skip(1).map(|directory| directory.join("Cargo.toml"));
    let is_workspace = |path: &PathBuf| {
        let manifest = fs::read_to_string(path).ok().and_then(|text| text.parse::<DocumentMut>().ok());
        manifest.is_some_and(|manifest| manifest.contains_key("workspace"))
    };
    manifests.into_iter().find(is_workspace)
}

/// The manifest of a workspace with a package among its members, in order if they are in order.
fn with_member(text: &str, workspace: &Path, package: &Path) -> Result<String, String> {
    let mut manifest: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let whole = package.canonicalize().map_err(|error| error.to_string())?;
    let top = workspace.parent().unwrap_or(workspace);
    let path = whole.strip_prefix(top).map_err(|error| error.to_string())?.display().to_string().replace('\\', "/");
    let members = manifest["workspace"].as_table_like_mut().ok_or("its `workspace` is no table")?;
    let members = members.entry("members").or_insert_with(|| Item::Value(Value::Array(Array::new())));
    let members = members.as_array_mut().ok_or("its `members` are no array")?;
    let names: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
    let is_sorted = names.is_sorted();
    let at = if is_sorted { names.partition_point(|name| *name < &*path) } else { names.len() };
    let decor = members.get(at).or(members.get(at.wrapping_sub(1))).map(|beside| beside.decor().clone());
    members.insert(at, path);
    if let (Some(decor), Some(new)) = (decor, members.get_mut(at)) {
        let prefix = decor.prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
        // A comment before the member beside it is not about this one; between members on one line stands a space.
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

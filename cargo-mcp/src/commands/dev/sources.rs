//! The packages and files that a server is built from.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use cargo_metadata::{Metadata, MetadataCommand, camino::Utf8PathBuf};
use ignore::gitignore::Gitignore;
use notify_debouncer_full::notify::RecursiveMode;

use crate::{
    failure::Failure,
    workspace::{BuildArgs, Server, Workspace},
};

/// The directories that a server is built from.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    /// The directories of the server's package and of its path dependencies.
    pub(super) packages: Vec<PathBuf>,
    /// The directories of other workspace members, which may lie inside of one in `packages`.
    pub(super) others: Vec<PathBuf>,
    /// The directory of the lock file.
    pub(super) workspace: PathBuf,
    /// Cargo's target directory.
    pub(super) target: PathBuf,
}

impl Sources {
    /// Reads the sources of a server from `cargo metadata`.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace cannot be read.
    pub(super) fn read(server: &Server, args: &BuildArgs) -> Result<Self, Failure> {
        let mut command = MetadataCommand::new();
        command.manifest_path(&server.package.manifest_path);
        let metadata = match command.exec() {
            Ok(metadata) => metadata,
            // Dependencies that cannot be resolved now may be fixed in the package itself, which has to be watched.
            Err(_) => Workspace::read(args)?.metadata,
        };
        let mut manifests = vec![server.package.manifest_path.clone()];
        manifests.extend(path_dependencies(server, &metadata));
        let packages: Vec<_> = manifests.iter().filter_map(parent).collect();
        let others = metadata.workspace_packages().into_iter().filter_map(|package| parent(&package.manifest_path));
        Ok(Self {
            others: others.filter(|other| !packages.contains(other)).collect(),
            packages,
            workspace: metadata.workspace_root.as_std_path().to_owned(),
            target: metadata.target_directory.as_std_path().to_owned(),
        })
    }
}

/// Returns the manifests of the local packages that the server depends on, directly or not, and its own.
fn path_dependencies(server: &Server, metadata: &Metadata) -> Vec<Utf8PathBuf> {
    let Some(resolve) = &metadata.resolve else { return Vec::new() };
    let mut pending = vec![&server.package.id];
    let mut seen = HashSet::new();
    while let Some(id) = pending.pop() {
        if seen.insert(id) {
            pending.extend(resolve.nodes.iter().filter(|node| node.id == *id).flat_map(|node| &node.dependencies));
        }
    }
    let local = metadata.packages.iter().filter(|package| package.source.is_none() && seen.contains(&package.id));
    local.map(|package| package.manifest_path.clone()).collect()
}

fn parent(manifest: &Utf8PathBuf) -> Option<PathBuf> {
    manifest.parent().map(|directory| Path::to_owned(directory.as_std_path()))
}

/// The sources of a server, with canonical paths.
pub(super) struct SourceFilter {
    packages: Vec<SourcePackage>,
    others: Vec<PathBuf>,
    /// The files of the workspace that affect every package.
    workspace_files: Vec<PathBuf>,
    /// The paths given with `--watch`.
    pub(super) extra: Vec<PathBuf>,
    target: PathBuf,
}

/// A package's directory, and the rules of the `.gitignore` files that apply to it.
struct SourcePackage {
    directory: PathBuf,
    ignores: Vec<Gitignore>,
}

/// The names of the workspace files that affect every package.
const WORKSPACE_FILES: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml", ".cargo/config.toml", ".cargo/config"];

impl SourceFilter {
    /// Creates a filter for the sources of a server and the paths given with `--watch`.
    pub(super) fn new(sources: &Sources, extra: Vec<PathBuf>) -> Self {
        let canonical = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let directories: BTreeSet<_> = sources.packages.iter().map(canonical).collect();
        let package = |directory: PathBuf| SourcePackage { ignores: ignores(&directory), directory };
        let workspace = canonical(&sources.workspace);
        Self {
            packages: directories.into_iter().map(package).collect(),
            others: sources.others.iter().map(canonical).collect(),
            workspace_files: WORKSPACE_FILES.iter().map(|name| workspace.join(name)).collect(),
            extra,
            target: canonical(&sources.target),
        }
    }

    /// Returns the directories to watch.
    ///
    /// A package's directory is watched without its subdirectories, since the target directory may be one of them.
    /// Subdirectories that contain sources are watched one by one.
    pub(super) fn directories(&self) -> Vec<(PathBuf, RecursiveMode)> {
        let mut directories = Vec::new();
        for SourcePackage { directory: package, .. } in &self.packages {
            directories.push((package.clone(), RecursiveMode::NonRecursive));
            let entries = std::fs::read_dir(package).into_iter().flatten().filter_map(Result::ok);
            let children = entries.map(|entry| entry.path()).filter(|path| path.is_dir() && self.is_source(path));
            directories.extend(children.map(|path| (path, RecursiveMode::Recursive)));
        }
        let parents: BTreeSet<_> =
            self.workspace_files.iter().filter(|file| file.exists()).filter_map(|file| file.parent()).collect();
        directories.extend(parents.into_iter().map(|path| (path.to_owned(), RecursiveMode::NonRecursive)));
        for path in &self.extra {
            // Editors replace files, and a watch on a replaced file reports nothing, so its directory is watched.
            let (directory, mode) = if path.is_dir() {
                (Some(path.as_path()), RecursiveMode::Recursive)
            } else {
                (path.parent(), RecursiveMode::NonRecursive)
            };
            directories.extend(directory.map(|directory| (directory.to_owned(), mode)));
        }
        directories
    }

    /// Returns whether a change of this path requires a build.
    pub(super) fn is_source(&self, path: &Path) -> bool {
        if is_temporary(path) {
            return false;
        }
        if self.extra.iter().any(|extra| path.starts_with(extra))
            || self.workspace_files.iter().any(|file| file.as_path() == path)
        {
            return true;
        }
        let containing = self.packages.iter().filter(|package| path.starts_with(&package.directory));
        let innermost = containing.max_by_key(|package| package.directory.as_os_str().len());
        let Some(SourcePackage { directory: package, ignores }) = innermost else { return false };
        let is_other = self.others.iter().any(|other| path.starts_with(other) && other.starts_with(package));
        let relative = path.strip_prefix(package).unwrap_or(path);
        let is_hidden = relative.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'));
        let is_ignored = |ignore: &Gitignore| {
            path.starts_with(ignore.path()) && ignore.matched_path_or_any_parents(path, path.is_dir()).is_ignore()
        };
        let is_build_output = self.target.starts_with(package) && path.starts_with(&self.target);
        !is_other && !is_hidden && !is_build_output && !ignores.iter().any(is_ignored)
    }
}

/// Reads the `.gitignore` files that apply to a directory. Skips files that ignore the whole directory, since they
/// do not describe its sources.
fn ignores(directory: &Path) -> Vec<Gitignore> {
    let mut found = Vec::new();
    for ancestor in directory.ancestors() {
        let file = ancestor.join(".gitignore");
        if file.is_file() {
            let ignore = Gitignore::new(file).0;
            if !ignore.matched_path_or_any_parents(directory, true).is_ignore() {
                found.push(ignore);
            }
        }
        if ancestor.join(".git").exists() {
            break;
        }
    }
    found
}

/// Returns whether this is a temporary file that an editor or the system creates next to a file.
fn is_temporary(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else { return true };
    let suffixes = ["~", ".swp", ".swo", ".swx", ".tmp", ".bak", ".orig", "___jb_tmp___", "___jb_old___"];
    let prefixes = [".#", ".goutputstream-", ".~lock"];
    suffixes.iter().any(|suffix| name.ends_with(suffix))
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
        || (name.starts_with('#') && name.ends_with('#'))
        || matches!(&*name, "4913" | ".DS_Store" | "Thumbs.db")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_ignored_by_git_still_has_sources() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        let package = top.join("scratch/server");
        std::fs::create_dir_all(package.join("src")).expect("directories");
        std::fs::write(top.join(".gitignore"), "/scratch\n").expect("a file");
        std::fs::write(package.join(".gitignore"), "*.log\n").expect("a file");
        // A directory ignored in one package may be another package.
        let library = top.join("library");
        std::fs::create_dir_all(library.join("src")).expect("directories");
        let sources = Sources { packages: vec![package.clone(), library.clone()], ..Sources::default() };
        let filter = SourceFilter::new(&sources, Vec::new());
        assert!(filter.is_source(&library.join("src/lib.rs")));
        assert!(filter.is_source(&package.join("src/main.rs")));
        assert!(!filter.is_source(&package.join("src/a.log")));
    }

    #[test]
    fn packages_that_dependencies_depend_on_are_sources() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let args = BuildArgs { manifest_path: Some(manifest), ..BuildArgs::default() };
        let server = Workspace::read(&args).and_then(|workspace| workspace.server(None, None)).expect("this package");
        let sources = Sources::read(&server, &args).expect("metadata");
        // `mcp-lock` depends on `mcp-uri-template`, and nothing here on `mcp-redis`.
        for (name, expected) in [
            ("cargo-mcp", [true, false]),
            ("mcp-lock", [true, false]),
            ("mcp-uri-template", [true, false]),
            ("mcp-redis", [false, true]),
        ] {
            let contains = |directories: &[PathBuf]| directories.iter().any(|directory| directory.ends_with(name));
            assert_eq!([contains(&sources.packages), contains(&sources.others)], expected, "{name}");
        }
    }

    /// Editors replace files, and a watch on a replaced file reports nothing. A build writes too much to be watched.
    #[test]
    fn directories_without_build_output_are_watched() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        for path in ["server/src", "server/assets", "server/.git", "server/target/debug", "pages", "data", ".cargo"] {
            std::fs::create_dir_all(top.join(path)).expect("a directory");
        }
        for path in ["server/Cargo.toml", "Cargo.toml", ".cargo/config.toml", "data/words.txt"] {
            std::fs::write(top.join(path), "").expect("a file");
        }
        let sources = Sources {
            packages: vec![top.join("server")],
            others: Vec::new(),
            workspace: top.clone(),
            target: top.join("server/target"),
        };
        let filter = SourceFilter::new(&sources, vec![top.join("pages"), top.join("data/words.txt")]);
        let mut watched = filter.directories();
        watched.sort();
        let expected = [
            ("", RecursiveMode::NonRecursive),
            (".cargo", RecursiveMode::NonRecursive),
            ("data", RecursiveMode::NonRecursive),
            ("pages", RecursiveMode::Recursive),
            ("server", RecursiveMode::NonRecursive),
            ("server/assets", RecursiveMode::Recursive),
            ("server/src", RecursiveMode::Recursive),
        ];
        assert_eq!(watched, expected.map(|(path, mode)| (top.join(path), mode)));
    }

    #[test]
    fn distinguishes_sources_from_other_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        for path in [
            "server/src",
            "library/src",
            "other/src",
            "server/target/package",
            "templates",
            "server/.git",
            "server/crates/sub",
        ] {
            std::fs::create_dir_all(top.join(path)).expect("a directory");
        }
        std::fs::write(top.join("server/.gitignore"), "/generated\n*.log\n!keep.log\n").expect("a file");
        let sources = Sources {
            // The packages of tests lie in the target directory.
            packages: vec![top.join("server"), top.join("library"), top.join("server/target/package")],
            others: vec![top.join("other"), top.join("server/crates/sub")],
            workspace: top.clone(),
            target: top.join("server/target"),
        };
        let filter = SourceFilter::new(&sources, vec![top.join("templates")]);
        for (path, expected) in [
            ("server/src/main.rs", true),
            ("server/build.rs", true),
            ("server/data/x.json", true),
            ("library/src/lib.rs", true),
            ("server/Cargo.toml", true),
            ("Cargo.toml", true),
            ("Cargo.lock", true),
            (".cargo/config.toml", true),
            ("rust-toolchain.toml", true),
            ("templates/deep/page.html", true),
            ("templates/page.html~", false),
            ("README.md", false),
            ("other/src/lib.rs", false),
            ("server/crates/sub/src/lib.rs", false),
            ("target/debug/server", false),
            ("server/target/debug/server", false),
            ("server/target/package/src/main.rs", true),
            ("server/.git/index", false),
            ("server/.idea/workspace.xml", false),
            ("server/generated/code.rs", false),
            ("server/src/generated/code.rs", true),
            ("server/run.log", false),
            ("server/keep.log", true),
            ("server/src/.main.rs.swp", false),
            ("server/src/main.rs~", false),
            ("server/src/4913", false),
            ("server/src/#main.rs#", false),
            ("server/src/.#main.rs", false),
        ] {
            assert_eq!(filter.is_source(&top.join(path)), expected, "{path}");
        }
    }
}

//! Watching what a server is built from.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use ignore::gitignore::Gitignore;
use notify_debouncer_full::{
    DebounceEventHandler, DebounceEventResult, Debouncer, NoCache, RecommendedCache, new_debouncer, new_debouncer_opt,
    notify::{
        self, Config, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode,
        event::{MetadataKind, ModifyKind},
    },
};
use tokio::sync::Notify;

use crate::failure::Failure;

/// How long nothing must change before it is built.
const QUIET: Duration = Duration::from_millis(150);
/// The time between two looks where the system does not tell.
const POLL: Duration = Duration::from_secs(1);

/// What a server is built from.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    /// The directories of its package and of those by path that it depends on.
    pub(super) packages: Vec<PathBuf>,
    /// The directories of other packages, which may lie in one of these.
    pub(super) others: Vec<PathBuf>,
    /// Where the lock file is.
    pub(super) workspace: PathBuf,
    pub(super) target: PathBuf,
}

/// Says when something has changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    changed: Arc<Notify>,
}

impl Changes {
    /// Waits for a change since the last time that it waited.
    pub(super) async fn next(&mut self) {
        self.changed.notified().await;
    }
}

/// Watches until it is dropped.
pub(super) struct Watcher {
    shared: Arc<Shared>,
}

struct Shared {
    filter: RwLock<Filter>,
    debouncer: Mutex<Option<Box<dyn Watch + Send>>>,
    changes: Changes,
    /// The directories that are watched.
    watched: Mutex<HashSet<PathBuf>>,
    /// Wakes who reads the manifests again.
    manifests: Notify,
    /// Wakes who watches directories that came.
    came: Notify,
}

trait Watch {
    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<()>;
}

impl<W: notify::Watcher, C: notify_debouncer_full::FileIdCache> Watch for Debouncer<W, C> {
    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<()> {
        Debouncer::watch(self, path, mode)
    }
}

impl Watcher {
    /// Begins to watch what a server is built from, and other paths.
    ///
    /// # Errors
    ///
    /// The system does not let us, or a path is not there.
    pub(super) fn start(sources: &Sources, extra: &[PathBuf], poll: bool) -> Result<(Self, Changes), Failure> {
        let mut paths = Vec::new();
        for path in extra {
            let there = path.canonicalize();
            paths.push(there.map_err(|error| {
                Failure::usage(format_args!("`{}` cannot be watched: {error}", path.display()))
                    .help("`--watch` takes a file or directory that is there")
            })?);
        }
        let changes = Changes::default();
        let shared = Arc::new(Shared {
            filter: RwLock::new(Filter::new(sources, paths)),
            debouncer: Mutex::new(None),
            watched: Mutex::default(),
            changes: changes.clone(),
            manifests: Notify::new(),
            came: Notify::new(),
        });
        let handler = Handler(Arc::downgrade(&shared));
        let cannot = |error: notify::Error| {
            Failure::connection(format_args!("the source cannot be watched: {error}"))
                .help("`--poll` looks at it instead")
        };
        let debouncer: Box<dyn Watch + Send> =
            match poll {
                false => Box::new(new_debouncer(QUIET, None, handler).map_err(cannot)?
                    as Debouncer<RecommendedWatcher, RecommendedCache>),
                true => {
                    // Times are told in seconds only, in which a file may change twice.
                    let config = Config::default().with_poll_interval(POLL).with_compare_contents(true);
                    Box::new(
                        new_debouncer_opt::<_, PollWatcher, _>(QUIET, None, handler, NoCache::new(), config)
                            .map_err(cannot)?,
                    )
                }
            };
        *shared.debouncer.lock().unwrap_or_else(PoisonError::into_inner) = Some(debouncer);
        let watcher = Self { shared };
        watcher.shared.watch().map_err(cannot)?;
        Ok((watcher, changes))
    }

    /// Watches what comes: new directories, and new packages when a manifest changes.
    pub(super) async fn keep_up(self, read: impl Fn() -> Option<Sources> + Send + Sync + 'static) {
        let read = Arc::new(read);
        loop {
            let reads = tokio::select! {
                () = self.shared.manifests.notified() => true,
                () = self.shared.came.notified() => false,
            };
            let (shared, read) = (Arc::clone(&self.shared), Arc::clone(&read));
            // Nobody may wait for cargo and the file system meanwhile.
            let watched = tokio::task::spawn_blocking(move || {
                if let Some(sources) = reads.then(|| read()).flatten() {
                    let extra = shared.filter().extra.clone();
                    let filter = Filter::new(&sources, extra);
                    *shared.filter.write().unwrap_or_else(PoisonError::into_inner) = filter;
                }
                shared.watch()
            });
            // What cannot be watched now is when it changes again.
            let _ = watched.await;
        }
    }
}

impl Shared {
    fn filter(&self) -> RwLockReadGuard<'_, Filter> {
        self.filter.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches whatever is not yet watched.
    fn watch(&self) -> notify::Result<()> {
        let places = self.filter().places();
        let mut debouncer = self.debouncer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(debouncer) = debouncer.as_mut() else { return Ok(()) };
        for (path, mode) in places {
            if !self.watched().contains(&path) {
                debouncer.watch(&path, mode)?;
                self.watched().insert(path);
            }
        }
        Ok(())
    }
}

struct Handler(std::sync::Weak<Shared>);

impl DebounceEventHandler for Handler {
    fn handle_event(&mut self, result: DebounceEventResult) {
        let Some(shared) = self.0.upgrade() else { return };
        let filter = shared.filter();
        let Ok(events) = result else {
            // Something may have been missed.
            shared.changes.changed.notify_one();
            return;
        };
        let is_change = |kind: &EventKind| match kind {
            EventKind::Access(_) => false,
            EventKind::Modify(ModifyKind::Metadata(what)) => {
                matches!(what, MetadataKind::WriteTime | MetadataKind::Any)
            }
            _ => true,
        };
        let changed: Vec<_> = events.iter().filter(|event| is_change(&event.kind)).collect();
        let paths: BTreeSet<&PathBuf> =
            changed.iter().flat_map(|event| &event.paths).filter(|path| filter.is_source(path)).collect();
        if paths.is_empty() {
            return;
        }
        if paths.iter().any(|path| path.file_name().is_some_and(|name| name == "Cargo.toml")) {
            shared.manifests.notify_one();
        }
        let comes = |kind: &EventKind| matches!(kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)));
        let came = changed.iter().filter(|event| comes(&event.kind)).flat_map(|event| &event.paths);
        let directories: Vec<_> = came.filter(|path| path.is_dir()).collect();
        if !directories.is_empty() {
            // One that came again is another one.
            shared.watched().retain(|watched| !directories.contains(&watched));
            shared.came.notify_one();
        }
        shared.changes.changed.notify_one();
    }
}

/// Tells sources from everything else.
struct Filter {
    packages: Vec<Watched>,
    others: Vec<PathBuf>,
    /// Single files.
    files: Vec<PathBuf>,
    extra: Vec<PathBuf>,
    target: PathBuf,
}

/// The directory of a package, and what git leaves out of it.
struct Watched {
    directory: PathBuf,
    ignores: Vec<Gitignore>,
}

/// What lies beside the lock file and matters to every package.
const SHARED: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml", ".cargo/config.toml", ".cargo/config"];

impl Filter {
    fn new(sources: &Sources, extra: Vec<PathBuf>) -> Self {
        let canonical = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let packages: BTreeSet<_> = sources.packages.iter().map(canonical).collect();
        let watched = |directory: PathBuf| Watched { ignores: ignores(&directory), directory };
        let workspace = canonical(&sources.workspace);
        Self {
            packages: packages.into_iter().map(watched).collect(),
            others: sources.others.iter().map(canonical).collect(),
            files: SHARED.iter().map(|name| workspace.join(name)).collect(),
            extra,
            target: canonical(&sources.target),
        }
    }

    /// What to watch, and how deep. A package's own directory is not watched with everything below it, since build directories
    /// may lie there.
    fn places(&self) -> Vec<(PathBuf, RecursiveMode)> {
        let mut places = Vec::new();
        for Watched { directory: package, .. } in &self.packages {
            places.push((package.clone(), RecursiveMode::NonRecursive));
            let entries = std::fs::read_dir(package).into_iter().flatten().filter_map(Result::ok);
            let directories = entries.map(|entry| entry.path()).filter(|path| path.is_dir() && self.is_source(path));
            places.extend(directories.map(|path| (path, RecursiveMode::Recursive)));
        }
        let parents: BTreeSet<_> =
            self.files.iter().filter(|file| file.exists()).filter_map(|file| file.parent()).collect();
        places.extend(parents.into_iter().map(|path| (path.to_owned(), RecursiveMode::NonRecursive)));
        for path in &self.extra {
            // A file that is written anew is another file; its directory tells.
            let directory = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
            let mode = if path.is_dir() { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            places.extend(directory.map(|directory| (directory.to_owned(), mode)));
        }
        places
    }

    fn is_source(&self, path: &Path) -> bool {
        if is_temporary(path) {
            return false;
        }
        if self.extra.iter().any(|extra| path.starts_with(extra))
            || self.files.iter().any(|file| file.as_path() == path)
        {
            return true;
        }
        let inside = self.packages.iter().filter(|package| path.starts_with(&package.directory));
        let innermost = inside.max_by_key(|package| package.directory.as_os_str().len());
        let Some(Watched { directory: package, ignores }) = innermost else { return false };
        let is_other = self.others.iter().any(|other| path.starts_with(other) && other.starts_with(package));
        let below = path.strip_prefix(package).unwrap_or(path);
        let is_hidden = below.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'));
        let ignored = |ignore: &Gitignore| {
            path.starts_with(ignore.path()) && ignore.matched_path_or_any_parents(path, path.is_dir()).is_ignore()
        };
        let is_built = self.target.starts_with(package) && path.starts_with(&self.target);
        !is_other && !is_hidden && !is_built && !ignores.iter().any(ignored)
    }
}

/// The `.gitignore` files that hold for a directory. One that leaves all of it out says nothing of what matters in it.
fn ignores(directory: &Path) -> Vec<Gitignore> {
    let mut found = Vec::new();
    for above in directory.ancestors() {
        let file = above.join(".gitignore");
        if file.is_file() {
            let ignore = Gitignore::new(file).0;
            if !ignore.matched_path_or_any_parents(directory, true).is_ignore() {
                found.push(ignore);
            }
        }
        if above.join(".git").exists() {
            break;
        }
    }
    found
}

/// Whether an editor or the system leaves such a file beside one that is written.
fn is_temporary(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else { return true };
    let ends = ["~", ".swp", ".swo", ".swx", ".tmp", ".bak", ".orig", "___jb_tmp___", "___jb_old___"];
    let begins = [".#", ".goutputstream-", ".~lock"];
    ends.iter().any(|end| name.ends_with(end))
        || begins.iter().any(|begin| name.starts_with(begin))
        || (name.starts_with('#') && name.ends_with('#'))
        || matches!(&*name, "4913" | ".DS_Store" | "Thumbs.db")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_git_ignores_has_sources() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        let package = top.join("scratch/server");
        std::fs::create_dir_all(package.join("src")).expect("directories");
        std::fs::write(top.join(".gitignore"), "/scratch\n").expect("a file");
        std::fs::write(package.join(".gitignore"), "*.log\n").expect("a file");
        // What is left out of one package may be another.
        let library = top.join("library");
        std::fs::create_dir_all(library.join("src")).expect("directories");
        let sources = Sources { packages: vec![package.clone(), library.clone()], ..Sources::default() };
        let filter = Filter::new(&sources, Vec::new());
        assert!(filter.is_source(&library.join("src/lib.rs")));
        assert!(filter.is_source(&package.join("src/main.rs")));
        assert!(!filter.is_source(&package.join("src/a.log")));
    }

    #[test]
    fn sources_are_told_from_the_rest() {
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
            // A test's package may lie in the directory of builds.
            packages: vec![top.join("server"), top.join("library"), top.join("server/target/package")],
            others: vec![top.join("other"), top.join("server/crates/sub")],
            workspace: top.clone(),
            target: top.join("server/target"),
        };
        let filter = Filter::new(&sources, vec![top.join("templates")]);
        for (path, expected) in [
            ("server/src/main.rs", true),
            ("server/build.rs", true),
            ("server/data/x.json", true),
            ("library/src/lib.rs", true),
            ("server/Cargo.toml", true),
            ("Cargo.toml", true),
            ("Cargo.lock", true),
            (".cargo/config.toml", true),
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

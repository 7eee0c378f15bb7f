//! Watches the sources of a server for changes.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use notify_debouncer_full::{
    DebounceEventResult, DebouncedEvent, Debouncer, NoCache, RecommendedCache, new_debouncer, new_debouncer_opt,
    notify::{
        self, Config, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode,
        event::{MetadataKind, ModifyKind},
    },
};
use tokio::sync::Notify;

use super::sources::{SourceFilter, Sources};
use crate::failure::Failure;

/// The time without changes after which a build starts.
const DEBOUNCE: Duration = Duration::from_millis(150);
/// The interval of `--poll`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Is notified when a source has changed.
pub(super) type Changes = Arc<Notify>;

/// Starts to watch a directory.
type Watch = Box<dyn FnMut(&Path, RecursiveMode) -> notify::Result<()> + Send>;

/// The state of the thread that watches.
struct Watcher {
    filter: SourceFilter,
    watch: Watch,
    /// The directories that are watched.
    watched: HashSet<PathBuf>,
    changes: Changes,
}

/// Watches the sources of a server and additional paths until this process exits. Calls `read_sources` when a manifest
/// changes.
///
/// # Errors
///
/// Returns an error if an additional path does not exist, or if the system refuses to watch a directory.
pub(super) fn start(
    sources: &Sources,
    extra: &[PathBuf],
    poll: bool,
    read_sources: impl Fn() -> Option<Sources> + Send + 'static,
) -> Result<Changes, Failure> {
    let mut paths = Vec::new();
    for path in extra {
        paths.push(path.canonicalize().map_err(|error| {
            Failure::usage(format_args!("cannot watch `{}`: {error}", path.display()))
                .help("`--watch` requires an existing file or directory")
        })?);
    }
    let cannot_watch = |error: notify::Error| {
        Failure::connection(format_args!("cannot watch the source: {error}"))
            .help("`--poll` checks for changes every second instead")
    };
    let (sender, events) = mpsc::channel();
    let watch = watch(sender, poll).map_err(cannot_watch)?;
    let changes = Changes::default();
    let filter = SourceFilter::new(sources, paths);
    let mut watcher = Watcher { filter, watch, watched: HashSet::new(), changes: Arc::clone(&changes) };
    watcher.watch_new_directories().map_err(cannot_watch)?;
    // A thread, since running cargo and accessing the file system block.
    std::thread::spawn(move || {
        for result in events {
            watcher.handle(result, &read_sources);
        }
    });
    Ok(changes)
}

fn watch(events: mpsc::Sender<DebounceEventResult>, poll: bool) -> notify::Result<Watch> {
    if !poll {
        let mut debouncer: Debouncer<RecommendedWatcher, RecommendedCache> = new_debouncer(DEBOUNCE, None, events)?;
        return Ok(Box::new(move |path: &Path, mode| debouncer.watch(path, mode)));
    }
    // Modification times may have a resolution of a second, in which a file can change twice.
    let config = Config::default().with_poll_interval(POLL_INTERVAL).with_compare_contents(true);
    let mut debouncer = new_debouncer_opt::<_, PollWatcher, _>(DEBOUNCE, None, events, NoCache::new(), config)?;
    Ok(Box::new(move |path: &Path, mode| debouncer.watch(path, mode)))
}

impl Watcher {
    fn handle(&mut self, result: DebounceEventResult, read_sources: &impl Fn() -> Option<Sources>) {
        // Lost events may have concerned any file.
        let are_lost = !result.as_ref().is_ok_and(|events| !events.iter().any(|event| event.need_rescan()));
        let events = result.unwrap_or_default();
        let changed: Vec<&DebouncedEvent> = events.iter().filter(|event| is_change(&event.kind)).collect();
        let paths: BTreeSet<&PathBuf> =
            changed.iter().flat_map(|event| &event.paths).filter(|path| self.filter.is_source(path)).collect();
        if paths.is_empty() && !are_lost {
            return;
        }
        self.changes.notify_one();
        let created = changed.iter().filter(|event| is_creation(&event.kind)).flat_map(|event| &event.paths);
        let directories: Vec<_> = created.filter(|path| path.is_dir()).collect();
        // A directory that is created again is a different one and must be watched again.
        self.watched.retain(|watched| !directories.contains(&watched));
        let is_manifest = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "Cargo.toml");
        let has_manifest = are_lost || paths.iter().any(is_manifest);
        if let Some(sources) = has_manifest.then(read_sources).flatten() {
            self.filter = SourceFilter::new(&sources, std::mem::take(&mut self.filter.extra));
        }
        if has_manifest || !directories.is_empty() {
            // A directory that cannot be watched now is tried again after the next change.
            let _ = self.watch_new_directories();
        }
    }

    /// Watches the directories that are not yet watched.
    fn watch_new_directories(&mut self) -> notify::Result<()> {
        for (path, mode) in self.filter.directories() {
            if !self.watched.contains(&path) {
                (self.watch)(&path, mode)?;
                self.watched.insert(path);
            }
        }
        Ok(())
    }
}

fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(_) => false,
        EventKind::Modify(ModifyKind::Metadata(kind)) => matches!(kind, MetadataKind::WriteTime | MetadataKind::Any),
        _ => true,
    }
}

fn is_creation(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)))
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Instant};

    use futures_util::FutureExt as _;
    use notify_debouncer_full::notify::{
        Error, Event,
        event::{AccessKind, CreateKind, DataChange, Flag, RemoveKind},
    };
    use tempfile::TempDir;

    use super::*;

    const MODIFIED: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));

    /// Creates directories with a directory `src` each. Returns the directory that contains them, and its path.
    fn packages(names: &[&str]) -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        for name in names {
            std::fs::create_dir_all(top.join(name).join("src")).expect("directories");
        }
        (directory, top)
    }

    fn sources(top: &Path, packages: &[&str]) -> Sources {
        Sources {
            packages: packages.iter().map(|name| top.join(name)).collect(),
            others: Vec::new(),
            workspace: top.to_owned(),
            target: top.join("target"),
        }
    }

    /// Watches sources and paths given with `--watch`. Returns the directories that the watcher starts to watch later.
    fn watch_sources(sources: &Sources, extra: Vec<PathBuf>) -> (Watcher, Arc<Mutex<Vec<PathBuf>>>) {
        let started = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&started);
        let watch: Watch = Box::new(move |path: &Path, _| {
            record.lock().expect("no panic").push(path.to_owned());
            Ok(())
        });
        let filter = SourceFilter::new(sources, extra);
        let mut watcher = Watcher { filter, watch, watched: HashSet::new(), changes: Changes::default() };
        watcher.watch_new_directories().expect("watching succeeds");
        started.lock().expect("no panic").clear();
        (watcher, started)
    }

    fn event(kind: EventKind, path: PathBuf) -> DebounceEventResult {
        Ok(vec![DebouncedEvent::new(Event::new(kind).add_path(path), Instant::now())])
    }

    /// Returns whether a build was requested since the last call.
    fn is_build_requested(watcher: &Watcher) -> bool {
        watcher.changes.notified().now_or_never().is_some()
    }

    /// A build reads the sources, and must not cause another one.
    #[test]
    fn only_changes_of_sources_request_builds() {
        let (_directory, top) = packages(&["server"]);
        let metadata = |kind| EventKind::Modify(ModifyKind::Metadata(kind));
        for (kind, expected) in [
            (EventKind::Access(AccessKind::Any), false),
            (metadata(MetadataKind::AccessTime), false),
            (metadata(MetadataKind::Permissions), false),
            (metadata(MetadataKind::WriteTime), true),
            (metadata(MetadataKind::Any), true),
            (MODIFIED, true),
            (EventKind::Create(CreateKind::File), true),
            (EventKind::Remove(RemoveKind::File), true),
        ] {
            let (mut watcher, _) = watch_sources(&sources(&top, &["server"]), Vec::new());
            watcher.handle(event(kind, top.join("server/src/main.rs")), &|| None);
            assert_eq!(is_build_requested(&watcher), expected, "{kind:?}");
        }
    }

    /// The system reports a full queue as an event without paths. Any file may have changed, also a manifest.
    #[test]
    fn lost_events_request_a_build() {
        let (_directory, top) = packages(&["library", "server"]);
        let overflow = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        for lost in [Err(vec![Error::generic("lost")]), Ok(vec![DebouncedEvent::new(overflow, Instant::now())])] {
            let (mut watcher, started) = watch_sources(&sources(&top, &["server"]), Vec::new());
            let shown = format!("{lost:?}");
            watcher.handle(lost, &|| Some(sources(&top, &["library", "server"])));
            assert!(is_build_requested(&watcher), "{shown}");
            assert_eq!(*started.lock().expect("no panic"), [top.join("library"), top.join("library/src")], "{shown}");
        }
    }

    /// A watch ends with its directory.
    #[test]
    fn a_directory_that_is_created_again_is_watched_again() {
        let (_directory, top) = packages(&["server"]);
        let (mut watcher, started) = watch_sources(&sources(&top, &["server"]), Vec::new());
        watcher.handle(event(EventKind::Create(CreateKind::Folder), top.join("server/src")), &|| None);
        assert_eq!(*started.lock().expect("no panic"), [top.join("server/src")]);
    }

    #[test]
    fn a_changed_manifest_adds_packages_and_keeps_other_paths() {
        let (_directory, top) = packages(&["library", "server"]);
        let page = top.join("page.html");
        std::fs::write(&page, "").expect("a file");
        let (mut watcher, started) = watch_sources(&sources(&top, &["server"]), vec![page.clone()]);
        let with_library = || Some(sources(&top, &["library", "server"]));
        watcher.handle(event(MODIFIED, top.join("server/Cargo.toml")), &with_library);
        assert!(is_build_requested(&watcher));
        assert_eq!(*started.lock().expect("no panic"), [top.join("library"), top.join("library/src")]);
        for path in [top.join("library/src/lib.rs"), page] {
            let shown = path.display().to_string();
            watcher.handle(event(MODIFIED, path), &|| None);
            assert!(is_build_requested(&watcher), "{shown}");
        }
    }
}

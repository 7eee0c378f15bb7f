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
        let Ok(events) = result else {
            // Events may have been lost.
            return self.changes.notify_one();
        };
        let changed: Vec<&DebouncedEvent> = events.iter().filter(|event| is_change(&event.kind)).collect();
        let paths: BTreeSet<&PathBuf> =
            changed.iter().flat_map(|event| &event.paths).filter(|path| self.filter.is_source(path)).collect();
        if paths.is_empty() {
            return;
        }
        self.changes.notify_one();
        let created = changed.iter().filter(|event| is_creation(&event.kind)).flat_map(|event| &event.paths);
        let directories: Vec<_> = created.filter(|path| path.is_dir()).collect();
        // A directory that is created again is a different one and must be watched again.
        self.watched.retain(|watched| !directories.contains(&watched));
        let has_manifest = paths.iter().any(|path| path.file_name().is_some_and(|name| name == "Cargo.toml"));
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

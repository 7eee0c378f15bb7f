//! Watches the sources of a server for changes.

mod filter;

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak},
    time::Duration,
};

use notify_debouncer_full::{
    DebounceEventHandler, DebounceEventResult, Debouncer, NoCache, RecommendedCache, new_debouncer, new_debouncer_opt,
    notify::{
        self, Config, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode,
        event::{MetadataKind, ModifyKind},
    },
};
use tokio::sync::Notify;

use self::filter::SourceFilter;
use super::sources::Sources;
use crate::failure::Failure;

/// The time without changes after which a build starts.
const DEBOUNCE: Duration = Duration::from_millis(150);
/// The interval of `--poll`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Signals that a source has changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    changed: Arc<Notify>,
}

impl Changes {
    /// Waits for a change. Returns at once if there was one since the last call.
    pub(super) async fn next(&mut self) {
        self.changed.notified().await;
    }
}

/// Watches sources until it is dropped.
pub(super) struct Watcher {
    state: Arc<WatchState>,
}

/// The state that the watcher shares with the thread that receives file events.
struct WatchState {
    filter: RwLock<SourceFilter>,
    debouncer: Mutex<Option<Box<dyn WatchPath + Send>>>,
    changes: Changes,
    /// The directories that are watched.
    watched: Mutex<HashSet<PathBuf>>,
    manifest_changed: Notify,
    directory_created: Notify,
}

/// A debouncer with any backend.
trait WatchPath {
    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<()>;
}

impl<W: notify::Watcher, C: notify_debouncer_full::FileIdCache> WatchPath for Debouncer<W, C> {
    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<()> {
        Debouncer::watch(self, path, mode)
    }
}

impl Watcher {
    /// Starts to watch the sources of a server and additional paths.
    ///
    /// # Errors
    ///
    /// Returns an error if an additional path does not exist, or if the system refuses to watch a directory.
    pub(super) fn start(sources: &Sources, extra: &[PathBuf], poll: bool) -> Result<(Self, Changes), Failure> {
        let mut paths = Vec::new();
        for path in extra {
            paths.push(path.canonicalize().map_err(|error| {
                Failure::usage(format_args!("cannot watch `{}`: {error}", path.display()))
                    .help("`--watch` requires an existing file or directory")
            })?);
        }
        let changes = Changes::default();
        let state = Arc::new(WatchState {
            filter: RwLock::new(SourceFilter::new(sources, paths)),
            debouncer: Mutex::new(None),
            watched: Mutex::default(),
            changes: changes.clone(),
            manifest_changed: Notify::new(),
            directory_created: Notify::new(),
        });
        let cannot_watch = |error: notify::Error| {
            Failure::connection(format_args!("cannot watch the source: {error}"))
                .help("`--poll` checks for changes every second instead")
        };
        let debouncer = debouncer(EventHandler(Arc::downgrade(&state)), poll).map_err(cannot_watch)?;
        *state.debouncer.lock().unwrap_or_else(PoisonError::into_inner) = Some(debouncer);
        let watcher = Self { state };
        watcher.state.watch_new_directories().map_err(cannot_watch)?;
        Ok((watcher, changes))
    }

    /// Watches directories that are created later, and reads the sources again when a manifest changes.
    pub(super) async fn follow_changes(self, read_sources: impl Fn() -> Option<Sources> + Send + Sync + 'static) {
        let read_sources = Arc::new(read_sources);
        loop {
            let reload = tokio::select! {
                () = self.state.manifest_changed.notified() => true,
                () = self.state.directory_created.notified() => false,
            };
            let (state, read_sources) = (Arc::clone(&self.state), Arc::clone(&read_sources));
            // Running cargo and accessing the file system block the thread.
            let watched = tokio::task::spawn_blocking(move || {
                if let Some(sources) = reload.then(|| read_sources()).flatten() {
                    let extra = state.filter().extra().to_vec();
                    let filter = SourceFilter::new(&sources, extra);
                    *state.filter.write().unwrap_or_else(PoisonError::into_inner) = filter;
                }
                state.watch_new_directories()
            });
            // A directory that cannot be watched now is tried again after the next change.
            let _ = watched.await;
        }
    }
}

fn debouncer(handler: EventHandler, poll: bool) -> notify::Result<Box<dyn WatchPath + Send>> {
    if !poll {
        let debouncer: Debouncer<RecommendedWatcher, RecommendedCache> = new_debouncer(DEBOUNCE, None, handler)?;
        return Ok(Box::new(debouncer));
    }
    // Modification times may have a resolution of a second, in which a file can change twice.
    let config = Config::default().with_poll_interval(POLL_INTERVAL).with_compare_contents(true);
    let debouncer = new_debouncer_opt::<_, PollWatcher, _>(DEBOUNCE, None, handler, NoCache::new(), config)?;
    Ok(Box::new(debouncer))
}

impl WatchState {
    fn filter(&self) -> RwLockReadGuard<'_, SourceFilter> {
        self.filter.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the directories that are not yet watched.
    fn watch_new_directories(&self) -> notify::Result<()> {
        let directories = self.filter().directories();
        let mut debouncer = self.debouncer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(debouncer) = debouncer.as_mut() else { return Ok(()) };
        for (path, mode) in directories {
            if !self.watched().contains(&path) {
                debouncer.watch(&path, mode)?;
                self.watched().insert(path);
            }
        }
        Ok(())
    }
}

/// Receives file events.
struct EventHandler(Weak<WatchState>);

impl DebounceEventHandler for EventHandler {
    fn handle_event(&mut self, result: DebounceEventResult) {
        let Some(state) = self.0.upgrade() else { return };
        let Ok(events) = result else {
            // Events may have been lost.
            state.changes.changed.notify_one();
            return;
        };
        let filter = state.filter();
        let changed: Vec<_> = events.iter().filter(|event| is_change(&event.kind)).collect();
        let paths: BTreeSet<&PathBuf> =
            changed.iter().flat_map(|event| &event.paths).filter(|path| filter.is_source(path)).collect();
        if paths.is_empty() {
            return;
        }
        if paths.iter().any(|path| path.file_name().is_some_and(|name| name == "Cargo.toml")) {
            state.manifest_changed.notify_one();
        }
        let created = changed.iter().filter(|event| is_creation(&event.kind)).flat_map(|event| &event.paths);
        let directories: Vec<_> = created.filter(|path| path.is_dir()).collect();
        if !directories.is_empty() {
            // A directory that is created again is a different one and must be watched again.
            state.watched().retain(|watched| !directories.contains(&watched));
            state.directory_created.notify_one();
        }
        state.changes.changed.notify_one();
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

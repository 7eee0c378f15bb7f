//! Changing a server at run time.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;
use tokio::sync::SetOnce;

use crate::{
    engine::Engine,
    error::BuildError,
    handler::{
        entry::{Collect, Entry, EntryGroup, EntryInfo},
        log_notification,
    },
    model::Level,
    registry::{ListKind, ListSet, Registry, Selection},
    stdx::{Mutex, debug},
};

/// A handle that changes a running server: it adds, removes, enables and disables functions, and announces updated
/// resources and lists.
///
/// [`Server::handle`](crate::Server::handle) and [`BuiltServer::handle`](crate::BuiltServer::handle) return a handle,
/// and annotated functions can receive it as `&Handle`. Clones refer to the same server. A server with a handle
/// declares that its lists can change, and notifies clients of changes. Calls in flight are not affected.
///
/// A session is notified only of the kinds of functions that the server had when the session was opened, since these are what
/// the server declared to it. To notify sessions of the first tool, resource or prompt, register one that is disabled with
/// [`Server::with_disabled`](crate::Server::with_disabled).
///
/// If several processes share a [backend](crate::Server::backend), the clients of all of them are notified. Functions,
/// however, are added, removed, enabled and disabled only in this process: make such a change in all of them.
///
/// ```
/// use mcp_runtime::{Handle, Revision, Server, tool};
/// use serde_json::json;
///
/// /// Add two numbers.
/// #[tool]
/// fn add(a: f64, b: f64) -> f64 {
///     a + b
/// }
///
/// /// Learn to add.
/// #[tool]
/// fn learn(handle: &Handle) -> Result<String, mcp_runtime::BuildError> {
///     handle.add::<add>()?;
///     Ok("learnt".to_owned())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = Server::empty("school", "1.0.0").with::<learn>().test_client(Revision::V2025_11_25);
/// assert!(client.call("add", json!({"a": 1, "b": 2})).await.is_err());
/// client.call("learn", ()).await.unwrap();
/// assert_eq!(client.notifications()[0]["method"], "notifications/tools/list_changed");
/// assert_eq!(client.call("add", json!({"a": 1, "b": 2})).await.unwrap().text(), "3");
/// # });
/// ```
#[derive(Clone)]
pub struct Handle {
    target: Arc<Target>,
}

/// The server that a handle changes.
#[derive(Default)]
struct Target {
    /// Set when the server is built.
    engine: OnceLock<Weak<Engine>>,
    /// Whether the author has a handle.
    is_issued: AtomicBool,
    /// The groups of entries of mounted servers to which entries of this handle belong.
    groups: Mutex<Vec<Arc<EntryGroup>>>,
    closed: SetOnce<()>,
}

/// Belongs to a server, and tells its handle when the server is dropped, built or not.
pub(crate) struct Alive(Arc<Target>);

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.0.closed.set(());
    }
}

impl Handle {
    /// Creates a handle, and what its server holds.
    pub(crate) fn new() -> (Self, Alive) {
        let target = Arc::<Target>::default();
        (Self { target: Arc::clone(&target) }, Alive(target))
    }

    /// Returns a handle for the author, who may change the server with it.
    pub(crate) fn issue(&self) -> Self {
        self.target.is_issued.store(true, Ordering::Release);
        self.clone()
    }

    pub(crate) fn is_issued(&self) -> bool {
        self.target.is_issued.load(Ordering::Acquire)
    }

    /// Lets the entries that this handle adds belong to a group.
    pub(crate) fn join(&self, group: &Arc<EntryGroup>) {
        self.target.groups.lock().push(Arc::clone(group));
    }

    /// Connects the handle to the server that was built.
    pub(crate) fn connect(&self, engine: &Arc<Engine>) {
        let _ = self.target.engine.set(Arc::downgrade(engine));
    }

    /// Adds a function, or the functions of a `#[tools]` block. `C` is the type of the same name. Enables functions
    /// that have already been added.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Server::build`](crate::Server::build): duplicate names, missing state, invalid
    /// schemas. In that case, nothing is added. Also returns an error if the server has not been built yet or has been
    /// dropped.
    pub fn add<C: Collect>(&self) -> Result<(), BuildError> {
        self.replace_entries(|_| false, C::entries().iter().cloned())
    }

    /// Adds entries that the program creates, such as a [`ToolEntry`](crate::function::ToolEntry).
    ///
    /// ```
    /// use mcp_runtime::{Context, Handle, function::ToolEntry};
    /// use serde_json::{Map, Value, json};
    ///
    /// fn add_hello(handle: &Handle) -> Result<(), mcp_runtime::BuildError> {
    ///     let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    ///     let hello = ToolEntry::new("hello", schema, |arguments: Map<String, Value>, _: Context| async move {
    ///         format!("Hello, {}!", arguments["name"].as_str().unwrap_or_default())
    ///     });
    ///     handle.add_entries([hello.description("Greet a person.")])
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`add`](Self::add) does.
    pub fn add_entries(&self, entries: impl IntoIterator<Item = impl Into<Entry>>) -> Result<(), BuildError> {
        self.replace_entries(|_| false, entries)
    }

    /// Replaces the entries that `select` returns `true` for with `entries`, in one step: no client sees a list in between.
    /// Without `entries`, it only removes. `select` is called again if the entries change meanwhile.
    ///
    /// # Errors
    ///
    /// Fails as [`add`](Self::add) does. In that case, nothing is removed either.
    pub fn replace_entries(
        &self,
        select: impl Fn(&EntryInfo<'_>) -> bool,
        entries: impl IntoIterator<Item = impl Into<Entry>>,
    ) -> Result<(), BuildError> {
        let entries: Vec<Entry> = entries.into_iter().map(Into::into).collect();
        let engine = self.engine().ok_or_else(|| BuildError::new(vec![self.missing_engine().to_owned()]))?;
        self.target.groups.lock().iter().for_each(|group| group.add(&entries));
        let (names, scopes, states) = (&engine.profile.names, &engine.profile.scopes, &engine.states);
        let changed = change_decided(&engine, select, |registry, selected| {
            let kept = registry.without(|function| selected[&function.id]);
            let selection = Selection { checks_schemas: true, entries: entries.clone(), names, scopes, states };
            let added = kept.as_ref().unwrap_or(registry).with(selection)?;
            Ok(added.or(kept))
        });
        changed.map(drop)
    }

    /// Removes a function, or the functions of a block. Returns whether any of them was present.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tool};
    /// # /// Delete everything.
    /// # #[tool]
    /// # fn delete() {}
    /// let server = Server::empty("files", "1.0.0").with::<delete>().build().unwrap();
    /// assert!(server.handle().remove::<delete>());
    /// assert!(!server.handle().remove::<delete>());
    /// ```
    pub fn remove<C: Collect>(&self) -> bool {
        self.change(|registry| registry.without(|function| function.is_one_of(C::entries())))
    }

    /// Enables a function, or the functions of a block. Returns whether any of them was disabled.
    pub fn enable<C: Collect>(&self) -> bool {
        self.change(|registry| registry.set_enabled_entries(C::entries(), true))
    }

    /// Disables a function, or the functions of a block. Returns whether any of them was enabled.
    ///
    /// Clients cannot see or call disabled functions.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tool};
    /// # /// Delete everything.
    /// # #[tool]
    /// # fn delete() {}
    /// let server = Server::empty("files", "1.0.0").with::<delete>().build().unwrap();
    /// let handle = server.handle();
    /// assert!(handle.disable::<delete>());
    /// assert!(!handle.disable::<delete>(), "already disabled");
    /// assert!(handle.enable::<delete>());
    /// ```
    pub fn disable<C: Collect>(&self) -> bool {
        self.change(|registry| registry.set_enabled_entries(C::entries(), false))
    }

    /// Enables the functions for which `decide` returns `true`, and disables all other functions. Returns whether
    /// anything changed.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tool};
    /// # /// Delete everything.
    /// # #[tool(tags("admin"))]
    /// # fn delete() {}
    /// let server = Server::empty("files", "1.0.0").with::<delete>();
    /// let handle = server.handle();
    /// let server = server.build().unwrap();
    /// assert!(handle.set_enabled(|entry| !entry.has_tag("admin")));
    /// ```
    pub fn set_enabled(&self, decide: impl Fn(&EntryInfo<'_>) -> bool) -> bool {
        let Some(engine) = self.engine() else { return false };
        let changed = change_decided(&engine, decide, |registry, decided| {
            Ok(registry.set_enabled(|function| decided.get(&function.id).copied()))
        });
        changed.unwrap_or_default()
    }

    /// Notifies the clients that are subscribed to a resource that it has changed.
    ///
    /// Notifications about the same resource are coalesced until the client reads them. Without subscribers, the cost
    /// is negligible.
    ///
    /// ```
    /// # use mcp_runtime::{Handle, tool};
    /// /// Set the temperature.
    /// #[tool]
    /// fn set_temperature(handle: &Handle, celsius: f64) {
    ///     // … store it …
    ///     handle.resource_updated("room://temperature");
    /// }
    /// ```
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        if let Some(engine) = self.engine() {
            engine.resource_updated(uri.as_ref());
        }
    }

    /// Notifies clients that the list of resources has changed, because a `list` function returns other links than
    /// before. Clients that have asked for such notifications then request the list again.
    ///
    /// Changes through this handle, such as [`enable`](Self::enable), are announced without this method. Notifications
    /// are coalesced until the client reads them.
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// use mcp_runtime::{Handle, ResourceLink, Revision, Server, resource, resource_uri, tool};
    /// use serde_json::json;
    ///
    /// struct Notes(Mutex<Vec<String>>);
    ///
    /// /// A note.
    /// #[resource("notes://{id}", list = links)]
    /// fn note(notes: &Notes, id: usize) -> Option<String> {
    ///     notes.0.lock().unwrap().get(id).cloned()
    /// }
    ///
    /// fn links(notes: &Notes) -> Vec<ResourceLink> {
    ///     let uri = |id: usize| resource_uri::<note>(&[("id", &id.to_string())]);
    ///     (0..notes.0.lock().unwrap().len()).map(|id| ResourceLink::new(uri(id), format!("Note {id}"))).collect()
    /// }
    ///
    /// /// Write a note.
    /// #[tool]
    /// fn write(handle: &Handle, notes: &Notes, text: String) {
    ///     notes.0.lock().unwrap().push(text);
    ///     handle.resource_list_changed();
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let server = Server::empty("notes", "1.0.0").with::<note>().with::<write>().with_state(Notes(Mutex::default()));
    /// let mut client = server.test_client(Revision::V2025_11_25);
    /// client.call("write", json!({"text": "buy milk"})).await.unwrap();
    /// assert_eq!(client.notifications()[0]["method"], "notifications/resources/list_changed");
    /// assert_eq!(client.resources().await.unwrap()[0]["uri"], "notes://0");
    /// # });
    /// ```
    ///
    /// See [List changed
    /// notification](https://modelcontextprotocol.io/specification/2026-07-28/server/resources#list-changed-notification).
    pub fn resource_list_changed(&self) {
        if let Some(engine) = self.engine() {
            engine.lists_changed(ListSet::from(ListKind::Resources));
        }
    }

    /// Sends a log message that belongs to no call to every client that has asked for messages of this level, including
    /// the clients of other processes that share the [backend](crate::Server::backend).
    ///
    /// `logger` names the source of the message; an empty name is omitted. `data` is text or any serializable value.
    /// Messages must not contain secrets: every client receives them.
    ///
    /// A client receives messages once it has sent `notifications/initialized`. Over stdio they are sent on the
    /// connection, and over HTTP on the stream that the client opens with GET. A message is dropped if the client has
    /// no such stream or reads too slowly, or if the session exceeds the rate of
    /// [`session_rates`](crate::Server::session_rates); see [`dropped_log_messages`](Self::dropped_log_messages).
    /// Clients of stateless revisions receive none, because log messages belong to requests there. A session that was
    /// opened before the handle existed receives none either, unless a function can log.
    ///
    /// ```
    /// # use mcp_runtime::{Handle, Level};
    /// # fn reload(handle: &Handle) {
    /// handle.log(Level::Notice, "the index was rebuilt");
    /// # }
    /// ```
    ///
    /// Deprecated since revision 2026-07-28:
    /// see [Stability](crate::guide::stability#deprecated-features-of-the-protocol).
    ///
    /// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as("", level, data);
    }

    /// Sends a log message with the name of a logger. See [`log`](Self::log).
    pub fn log_as(&self, logger: &str, level: Level, data: impl Serialize) {
        let Some(engine) = self.engine() else { return };
        match log_notification(logger, level, &data, &serde_json::Map::new()) {
            Ok(message) => engine.log(level, &message),
            Err(error) => tracing::warn!(%error, "a log message cannot be serialized"),
        }
    }

    /// Returns how often [`log`](Self::log) could not send a message to a client that had asked for it. With a shared
    /// backend, a session without an open stream in this process is not counted, since the client may read in another
    /// process.
    pub fn dropped_log_messages(&self) -> u64 {
        self.engine().map_or(0, |engine| engine.sessions.dropped_log_messages())
    }

    /// Returns the open sessions, in the order in which they were opened.
    ///
    /// Clients of stateless revisions have no sessions.
    ///
    /// ```
    /// # use mcp_runtime::{Handle, tool};
    /// /// Count the clients that respond within 30 seconds.
    /// #[tool]
    /// async fn count_responsive(handle: &Handle) -> usize {
    ///     let mut responsive = 0;
    ///     for session in handle.sessions() {
    ///         responsive += usize::from(session.ping().await.is_ok());
    ///     }
    ///     responsive
    /// }
    /// ```
    #[cfg(feature = "ask")]
    pub fn sessions(&self) -> Vec<crate::Session> {
        self.engine().map(|engine| engine.open_sessions().map(crate::Session::new).collect()).unwrap_or_default()
    }

    /// Waits until the server has been dropped, which it may have been before it was built. Ends what works for the server
    /// in the background.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::Handle;
    /// async fn announce_every_minute(handle: Handle) {
    ///     while tokio::time::timeout(Duration::from_secs(60), handle.closed()).await.is_err() {
    ///         handle.resource_updated("clock://now");
    ///     }
    /// }
    /// ```
    pub async fn closed(&self) {
        self.target.closed.wait().await;
    }

    /// Returns whether the server has been dropped.
    pub fn is_closed(&self) -> bool {
        self.target.closed.initialized()
    }

    fn change(&self, change: impl FnOnce(&Registry) -> Option<Registry>) -> bool {
        let changed = self.engine().and_then(|engine| engine.change(|registry| Ok(change(registry))).ok());
        changed.unwrap_or_default()
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.target.engine.get()?.upgrade()
    }

    fn missing_engine(&self) -> &'static str {
        if self.is_closed() {
            "a handle cannot add functions after its server has been dropped"
        } else {
            "a handle cannot add functions before the server is built\nhelp: use `.with::<…>()` or `.with_entry(…)` instead"
        }
    }
}

/// Changes the registry by a decision about each function. The author's code may be slow or use the handle, so it decides
/// outside of the update, and again if the registry changes meanwhile. Returns whether anything changed.
fn change_decided(
    engine: &Engine,
    decide: impl Fn(&EntryInfo<'_>) -> bool,
    change: impl Fn(&Registry, &HashMap<u64, bool>) -> Result<Option<Registry>, BuildError>,
) -> Result<bool, BuildError> {
    loop {
        let before = Arc::clone(&engine.registry());
        let decided: HashMap<_, _> =
            before.functions().map(|(function, _)| (function.id, decide(&function.info()))).collect();
        let mut is_current = false;
        let changed = engine.change(|registry| {
            is_current = std::ptr::eq(registry, &*before);
            if is_current { change(registry, &decided) } else { Ok(None) }
        })?;
        if is_current {
            return Ok(changed);
        }
    }
}

debug!(Handle, self, is_connected: self.engine().is_some());

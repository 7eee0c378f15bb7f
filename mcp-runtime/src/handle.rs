//! Changes at run time.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    engine::Engine,
    error::BuildError,
    handler::entry::{Collect, CommonEntry, EntryInfo},
    registry::{Registry, Selection},
};

/// Changes a server while it runs: what it offers, and what clients know of its resources. A clone changes the same server.
///
/// [`Server::handle`](crate::Server::handle) and [`BuiltServer::handle`](crate::BuiltServer::handle) give one, and any annotated
/// function takes it as `&Handle`. A server with a handle tells its clients that it may change, and those that want to
/// know are told when it did; calls in flight go on.
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
    seat: Arc<Seat>,
}

/// Where the server sits down when it is built.
#[derive(Default)]
struct Seat {
    engine: OnceLock<Weak<Engine>>,
    /// Whether somebody may change the server.
    taken: AtomicBool,
}

impl Handle {
    /// A handle that nobody has yet.
    pub(crate) fn untaken() -> Self {
        Self { seat: Arc::default() }
    }

    /// Gives it to somebody.
    pub(crate) fn take(&self) -> Self {
        self.seat.taken.store(true, Ordering::Release);
        self.clone()
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.seat.taken.load(Ordering::Acquire)
    }

    /// Connects it with the server that was built.
    pub(crate) fn connect(&self, engine: &Arc<Engine>) {
        let _ = self.seat.engine.set(Arc::downgrade(engine));
    }

    /// Adds the functions that a type stands for; those that are there already are enabled.
    ///
    /// # Errors
    ///
    /// What [`Server::build`](crate::Server::build) finds wrong with them: duplicate names, missing state, invalid schemas. Nothing is
    /// added then. Also a server that is not built yet, or no longer there.
    pub fn add<C: Collect>(&self) -> Result<(), BuildError> {
        let engine = self.engine().ok_or_else(|| BuildError::new(vec![self.absence().to_owned()]))?;
        let (entries, states) = (C::entries().to_vec(), Arc::clone(&engine.states));
        let added = engine.change(|registry| registry.with(Selection { entries, states: &states }));
        added.map(drop)
    }

    /// Takes away the functions that a type stands for, for good; says whether any of them was there.
    pub fn remove<C: Collect>(&self) -> bool {
        self.change(|registry| registry.without(C::entries()))
    }

    /// Offers the functions that a type stands for again; says whether any of them was disabled.
    pub fn enable<C: Collect>(&self) -> bool {
        self.change(|registry| registry.set_enabled_entries(C::entries(), true))
    }

    /// Offers the functions that a type stands for no longer; says whether any of them was offered.
    ///
    /// To clients it is as if they were not there.
    pub fn disable<C: Collect>(&self) -> bool {
        self.change(|registry| registry.set_enabled_entries(C::entries(), false))
    }

    /// Enables the functions for which `decide` is true and disables all others; says whether that changed anything.
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
        // Whoever decides may take its time, and use this handle.
        let key = |common: &'static CommonEntry| std::ptr::from_ref(common);
        let functions = Arc::clone(&engine.registry());
        let decided: HashMap<_, _> =
            functions.functions().map(|(function, _)| (key(function.common), decide(&function.info()))).collect();
        let changed =
            engine.change(|registry| Ok(registry.set_enabled(|function| decided.get(&key(function.common)).copied())));
        changed.unwrap_or_default()
    }

    /// Tells the clients that subscribed to a resource that it changed. It costs next to nothing if none did, and a client that
    /// has not yet taken the last notification of the same resource gets no second one.
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        if let Some(engine) = self.engine() {
            engine.subscriptions.resource_updated(uri.as_ref());
        }
    }

    fn change(&self, change: impl FnOnce(&Registry) -> Option<Registry>) -> bool {
        let changed = self.engine().and_then(|engine| engine.change(|registry| Ok(change(registry))).ok());
        changed.unwrap_or_default()
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.seat.engine.get()?.upgrade()
    }

    fn absence(&self) -> &'static str {
        match self.seat.engine.get() {
            None => "nothing can be added through a handle before the server is built: use `.with::<…>()`",
            Some(_) => "nothing can be added through a handle to a server that is gone",
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_connected", &self.engine().is_some()).finish_non_exhaustive()
    }
}

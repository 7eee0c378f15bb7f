//! Servers whose functions another server in the same process serves.

use std::{panic::Location, sync::Arc};

use super::Server;
use crate::{
    engine::Visibility,
    handler::entry::{EntryGroup, EntryInfo, EntryKind},
    registry::Change,
};

/// A server that is mounted when the server around it is built.
pub(super) struct Mount {
    prefix: String,
    server: Server,
    location: &'static Location<'static>,
}

/// The entries of a mounted server, to which its rules apply.
#[derive(Clone)]
struct Mounted {
    entries: Arc<EntryGroup>,
    prefix: Arc<str>,
}

impl Mounted {
    fn contains(&self, info: &EntryInfo<'_>) -> bool {
        self.entries.contains(info)
    }

    /// Returns the entry with the name that it has in the mounted server, or `None` if it belongs to another server.
    fn inner<'a>(&self, info: &EntryInfo<'a>) -> Option<EntryInfo<'a>> {
        let name = info.name.strip_prefix(&*self.prefix).unwrap_or(info.name);
        self.contains(info).then(|| info.named(name))
    }
}

impl Server {
    /// Adds the functions of another server, with `prefix` and `_` in front of their names. An empty prefix leaves the names as they
    /// are. URIs, which functions write into their results, and the names of methods do not change. Neither does the text of
    /// pages, which must call tools by the names with the prefix, as in `app.call("notes_search")`.
    ///
    /// Everything that the other server says about its functions continues to hold for them, and only for them: names, scopes,
    /// [`layer`](Self::layer)s, which run inside the layers of this server, and [`visible_to`](Self::visible_to). Rules that
    /// select functions by name see the names without the prefix. Shared state belongs to both, so values of one type in both are
    /// an error. A function that this server has, too, becomes a function of the
    /// other server. A [`Handle`](crate::Handle) of the other server changes this server; the rules also hold for functions that it
    /// adds, unlike functions that this server's own handle adds. Limits, timeouts, telemetry, the caching of lists, and how the
    /// server describes itself are those of this server.
    ///
    /// ```
    /// # mod notes {
    /// # use mcp_runtime::Server;
    /// # /// Search the notes.
    /// # #[mcp_runtime::tool]
    /// # fn search(text: String) {}
    /// pub fn server() -> Server {
    ///     Server::empty("notes", "1.0.0").with::<search>().require_scopes("notes:read")
    /// }
    /// # }
    /// # use mcp_runtime::{Revision, Server};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let server = Server::empty("office", "1.0.0").mount("notes", notes::server());
    /// let tools = server.test_client(Revision::V2026_07_28).tools().await.unwrap();
    /// assert_eq!(tools[0].name(), "notes_search");
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if names or URIs clash, if both servers have state of the same type, or if the other server has
    /// an authenticator, declares that scopes contain other scopes, or has skills together with scopes or a rule of visibility.
    #[track_caller]
    pub fn mount(mut self, prefix: impl Into<String>, server: Self) -> Self {
        self.mounts.push(Mount { prefix: prefix.into(), server, location: Location::caller() });
        self
    }

    /// Adds the functions and the rules of the mounted servers.
    pub(super) fn merge_mounts(&mut self) {
        for Mount { prefix, mut server, location } in std::mem::take(&mut self.mounts) {
            server.merge_mounts();
            let prefix = if prefix.is_empty() { prefix } else { format!("{prefix}_") };
            self.merge(prefix, server, location);
        }
    }

    fn merge(&mut self, prefix: String, server: Self, location: &'static Location<'static>) {
        let problem = |text: &str| format!("`Server::mount` ({}:{}): {text}", location.file(), location.line());
        #[cfg(feature = "http")]
        if server.authenticator.is_some() {
            self.problems.push(problem("a mounted server cannot have an authenticator: set it on the outer server"));
        }
        for name in self.states.merge(server.states) {
            self.problems.push(problem(&format!("both servers have state of type `{name}`")));
        }
        if !server.profile.access.has_hierarchy() {
            self.problems.push(problem(
                "a mounted server cannot declare that scopes contain others: declare it on the outer server",
            ));
        }
        #[cfg(feature = "skills")]
        if !server.skills.is_empty() && (!server.profile.access.base.is_empty() || server.profile.visibility.is_some())
        {
            self.problems.push(problem(
                "scopes and visibility of a mounted server do not apply to its skills: add the skills to the outer server",
            ));
        }
        let entries = Arc::<EntryGroup>::default();
        entries.add(&server.entries);
        server.mounted_handles.iter().chain([&server.handle]).for_each(|handle| handle.join(&entries));
        let mounted = Mounted { entries, prefix: prefix.as_str().into() };
        let (profile, outer) = (server.profile, &mut self.profile);
        outer.alive.extend(profile.alive);

        let mut names = profile.names.limited(|rule| {
            let mounted = mounted.clone();
            Arc::new(move |info| mounted.contains(info) && rule(info))
        });
        let selected = mounted.clone();
        let has_prefix = move |info: &EntryInfo<'_>| info.kind != EntryKind::Method && selected.contains(info);
        names.push(has_prefix, Change::Prefix(prefix), location);
        names.append(std::mem::take(&mut outer.names));
        outer.names = names;

        let base = Arc::unwrap_or_clone(profile.access).base;
        if !base.is_empty() {
            let mounted = mounted.clone();
            outer.scopes.push(move |info| mounted.contains(info), base, location);
        }
        outer.scopes.append(profile.scopes.limited(|rule| {
            let mounted = mounted.clone();
            Arc::new(move |info| mounted.inner(info).is_some_and(|info| rule(&info)))
        }));
        outer.layers.append(profile.layers.limited(|rule| {
            let mounted = mounted.clone();
            Arc::new(move |info| {
                mounted.inner(info).is_some_and(|info| rule.as_ref().is_none_or(|applies| applies(&info)))
            })
        }));
        if let Some(inner) = profile.visibility {
            Visibility::add(&mut outer.visibility, move |caller, info| {
                mounted.inner(info).is_none_or(|info| inner.decide(caller, &info))
            });
        }
        self.entries.extend(server.entries);
        self.disabled.extend(server.disabled);
        self.problems.extend(server.problems);
        self.mounted_handles.extend(server.mounted_handles.into_iter().chain([server.handle]));
        #[cfg(feature = "skills")]
        self.skills.extend(server.skills);
    }
}

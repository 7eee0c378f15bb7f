//! Which functions a server has, how they are named, and who may use them.

use std::{panic::Location, sync::Arc};

use super::Server;
use crate::{
    auth::{Identity, Scopes},
    engine::Visibility,
    handler::{
        Caller,
        entry::{Entry, EntryGroup, EntryInfo},
    },
    registry::Change,
    stdx::setters,
};

/// Selecting, renaming and hiding functions.
impl Server {
    /// Of the functions added so far, keeps only the functions for which `keep` returns `true`.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// // Everything except one method of a `#[tools]` block.
    /// server.only(|entry| entry.function != "Notes::delete")
    /// # }
    /// ```
    pub fn only(mut self, keep: impl Fn(&EntryInfo<'_>) -> bool) -> Self {
        self.entries.retain(|entry| keep(&entry.info()));
        self
    }

    /// Keeps only the functions with at least one of these tags.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.only_tags(["search", "files"])
    /// # }
    /// ```
    pub fn only_tags(self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let tags: Vec<_> = tags.into_iter().collect();
        self.only(|entry| tags.iter().any(|tag| entry.has_tag(tag.as_ref())))
    }

    /// Keeps only the functions of these crates, named as in their `Cargo.toml`.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.only_crates([env!("CARGO_PKG_NAME"), "toolbox"])
    /// # }
    /// ```
    pub fn only_crates(self, crates: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let crates: Vec<_> = crates.into_iter().collect();
        self.only(|entry| crates.iter().any(|package| package.as_ref() == entry.package))
    }

    /// Puts `prefix` in front of the names of the functions for which `applies` returns `true`, so that libraries whose
    /// names clash can be used together.
    ///
    /// The new names are used everywhere: in lists, calls, completions, logs and lock files. URIs do not change. The rule
    /// also applies to functions that are added later, by [`with`](Self::with) or by a [`Handle`](crate::Handle). Several rules may
    /// apply to a function, in the order in which they are added. A rule that applies to no function is logged as a
    /// warning when the server is built.
    ///
    /// ```
    /// # mod toolbox {
    /// /// Search the web.
    /// #[mcp_runtime::tool]
    /// pub fn search(query: &str) {}
    /// # }
    /// use mcp_runtime::{Revision, Server};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// // A library would be selected with `entry.package == "toolbox"`.
    /// let server = Server::empty("search", "1.0.0").with::<toolbox::search>();
    /// let server = server.prefix(|entry| entry.module.ends_with("::toolbox"), "web_");
    /// let tools = server.test_client(Revision::V2026_07_28).tools().await.unwrap();
    /// assert_eq!(tools[0]["name"], "web_search");
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if a resulting name is invalid, or if two tools or two prompts have the same name.
    #[track_caller]
    pub fn prefix(
        mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        prefix: impl Into<String>,
    ) -> Self {
        self.profile.names.push(applies, Change::Prefix(prefix.into()), Location::caller());
        self
    }

    /// Renames the function for which `applies` returns `true`. Otherwise like [`prefix`](Self::prefix).
    ///
    /// ```
    /// use mcp_runtime::{Server, tool};
    ///
    /// /// Search the web.
    /// #[tool]
    /// fn search(query: &str) {}
    ///
    /// let server = Server::empty("search", "1.0.0").with::<search>();
    /// let server = server.rename(|entry| entry.is::<search>(), "search_web");
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the name is invalid, or if two tools or two prompts have the same name.
    #[track_caller]
    pub fn rename(
        mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        name: impl Into<String>,
    ) -> Self {
        self.profile.names.push(applies, Change::Rename(name.into()), Location::caller());
        self
    }

    /// Hides functions from the callers for which `is_visible` returns `false`. Hidden functions are not listed, and
    /// calls to them fail as if they did not exist. Rules add up: a function is visible only if every
    /// rule returns `true`.
    ///
    /// Statements of a client about itself, such as its [name](Caller::client), prove nothing: any program can claim to
    /// be another program. Decide access by the [principal](Caller::principal) or the [identity](Caller::identity).
    ///
    /// The closure is called for every request, so it should be fast. All clients are notified of changed lists, even
    /// if the changed functions are hidden from them. In stateless revisions, shared caches may not store the lists of a
    /// server with this rule, even if it hides nothing: their `cacheScope` is `private`.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.visible_to(|caller, entry| !entry.has_tag("admin") || caller.principal() == Some("root"))
    /// # }
    /// ```
    pub fn visible_to(mut self, is_visible: impl Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        Visibility::add(&mut self.profile.visibility, is_visible);
        self
    }
}

/// Identities and scopes. See the chapter [Authorization](crate::guide::authorization).
impl Server {
    setters! {
        /// Requires every HTTP request to have scopes, in addition to the scopes of the function that it calls.
        /// Challenges of requests that call no function name these scopes.
        pub fn require_scopes(self, scopes: impl Into<Scopes>) {
            let access = Arc::make_mut(&mut self.profile.access);
            access.base = std::mem::take(&mut access.base).and(scopes)
        }

        /// Requires scopes for the functions that `applies` selects, in addition to the scopes of their annotations.
        ///
        /// ```
        /// use mcp_runtime::{Server, auth::Scopes};
        ///
        /// let server = Server::new("notes", "1.0.0")
        ///     .require_scopes_for(|entry| entry.has_tag("admin"), "notes:admin")
        ///     .require_scopes_for(|entry| entry.package == "reports", Scopes::any(["reports:read", "reports:all"]));
        /// ```
        ///
        /// Scopes are not enforced over stdio, where there are no tokens. Over HTTP, a server with scopes and without
        /// [`authenticate`](Self::authenticate) does not start.
        #[track_caller]
        pub fn require_scopes_for(
            self,
            applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
            scopes: impl Into<Scopes>
        ) {
            self.profile.scopes.push(applies, scopes.into(), Location::caller())
        }

        /// Omits functions from lists for callers that lack their scopes. By default, lists contain them, so that
        /// clients find out which scopes they could request.
        ///
        /// A caller that knows the name of a function can still find out that it exists: the call is answered with the
        /// scopes that it needs. [`visible_to`](Self::visible_to) hides functions entirely.
        pub fn hide_unauthorized(self) { self.profile.hides_unauthorized = true }

        /// Declares that a scope contains other scopes: a caller that was granted `scope` may do everything that
        /// requires one of `implied`.
        ///
        /// The relation is transitive.
        ///
        /// ```
        /// use mcp_runtime::Server;
        ///
        /// let server = Server::new("notes", "1.0.0")
        ///     .scope_implies("notes:admin", ["notes:write", "notes:export"])
        ///     .scope_implies("notes:write", ["notes:read"]);
        /// ```
        pub fn scope_implies(self, scope: impl Into<String>, implied: impl IntoIterator<Item = impl Into<String>>) {
            let (scope, access) = (scope.into(), Arc::make_mut(&mut self.profile.access));
            implied.into_iter().for_each(|implied| access.add_contained(scope.clone(), implied.into()))
        }

        /// Sets a rule by which scopes contain other scopes, beside [`scope_implies`](Self::scope_implies): whether its
        /// first argument, a scope that was granted, contains its second.
        ///
        /// ```
        /// use mcp_runtime::Server;
        ///
        /// // `notes:*` contains `notes:read`.
        /// let server = Server::new("notes", "1.0.0").scope_implies_if(|granted, required| {
        ///     granted.strip_suffix('*').is_some_and(|prefix| required.starts_with(prefix))
        /// });
        /// ```
        pub fn scope_implies_if(self, contains: impl Fn(&str, &str) -> bool + Send + Sync + 'static) {
            Arc::make_mut(&mut self.profile.access).set_rule(contains)
        }

        /// Sets the identity of the sender of messages over stdio, or over any transport but HTTP: the user who started
        /// the process.
        ///
        /// The process reads its credentials from the environment. Scopes are not enforced, since the user who starts
        /// the process has its rights anyway.
        ///
        /// ```
        /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        /// use mcp_runtime::{Context, Revision, Server, auth::Identity, tool};
        ///
        /// /// Return the name of the user.
        /// #[tool(read_only)]
        /// fn whoami(ctx: &Context) -> Option<String> {
        ///     Some(ctx.identity()?.principal().to_string())
        /// }
        ///
        /// let server = Server::empty("notes", "1.0.0").with::<whoami>().stdio_identity(Identity::new("ada"));
        /// let mut client = server.test_client(Revision::V2026_07_28);
        /// assert_eq!(client.call("whoami", ()).await.unwrap().text(), "ada");
        /// # });
        /// ```
        pub fn stdio_identity(self, identity: Identity) { self.profile.local_identity = Some(identity) }
    }

    /// Reports scopes that cannot be required.
    pub(super) fn check_scopes(&mut self) {
        self.problems.extend(self.profile.scopes.problems());
        let base = &self.profile.access.base;
        if let Some(problem) = base.problem().filter(|_| !base.is_empty()) {
            self.problems.push(format!("`Server::require_scopes`: {problem}"));
        }
    }
}

/// A server that is mounted when the server around it is built.
pub(super) struct Mount {
    prefix: String,
    server: Server,
    location: &'static Location<'static>,
}

/// Mounting another server, whose functions this server then serves.
impl Server {
    /// Adds the functions of another server, with `prefix` and `_` in front of their names. An empty prefix leaves the names as they
    /// are. URIs, which functions write into their results, and the names of methods do not change. Neither does the text of
    /// pages, which must call tools by the names with the prefix, as in `app.call("notes_search")`.
    ///
    /// Everything that the other server says about its functions continues to hold for them, and only for them: names, scopes,
    /// [`layer`](Self::layer)s, which run inside the layers of this server, and [`visible_to`](Self::visible_to). Rules that
    /// select functions by name see the names without the prefix. Shared state belongs to both, so values of one type in both are
    /// an error. A function that this server has, too, becomes a function of the
    /// other server. A [`Handle`](crate::Handle) of the other server, which is also the one that its functions take, except those of `list`, changes this
    /// server; the rules also hold for functions that it adds, unlike functions that this server's own handle adds. It selects
    /// among the functions of both servers, by the names that clients see. Limits, timeouts, telemetry, the caching of lists, and how the
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
    /// [`build`](Self::build) fails if names or URIs clash, if both servers have state of the same type, if two mounted servers have
    /// the same annotated function, or if the other server has an authenticator, declares that scopes contain other scopes, has skills together with scopes or a rule of visibility, or
    /// [hides functions](Self::hide_unauthorized) while this server does not.
    #[track_caller]
    pub fn mount(mut self, prefix: impl Into<String>, server: Self) -> Self {
        self.mounts.push(Mount { prefix: prefix.into(), server, location: Location::caller() });
        self
    }

    /// Adds the functions and the rules of the mounted servers.
    pub(super) fn merge_mounts(&mut self) {
        let mut mounted = Vec::<Arc<EntryGroup>>::new();
        for Mount { prefix, mut server, location } in std::mem::take(&mut self.mounts) {
            server.merge_mounts();
            let is_mounted = |entry: &&Entry| mounted.iter().any(|group| group.contains(&entry.info()));
            if let Some(entry) = server.entries.iter().find(is_mounted) {
                self.problems.push(format!(
                    "`Server::mount` ({}:{}): another mounted server has `{}`, too, and a function has one name\n\
                     help: mount entries that the program creates, or keep the function out of one of them with `only`",
                    location.file(),
                    location.line(),
                    entry.info().name
                ));
            }
            let prefix = if prefix.is_empty() { prefix } else { format!("{prefix}_") };
            mounted.push(self.merge(prefix, server, location));
        }
    }

    /// Adds a server, and returns its entries.
    fn merge(&mut self, prefix: String, server: Self, location: &'static Location<'static>) -> Arc<EntryGroup> {
        let problem = |text: &str| format!("`Server::mount` ({}:{}): {text}", location.file(), location.line());
        #[cfg(feature = "http")]
        if server.authenticator.is_some() {
            self.problems.push(problem("a mounted server cannot have an authenticator: set it on the outer server"));
        }
        for name in self.states.merge(server.states) {
            self.problems.push(problem(&format!("both servers have state of type `{name}`")));
        }
        if server.profile.access.has_hierarchy() {
            self.problems.push(problem(
                "a mounted server cannot declare that scopes contain others: declare it on the outer server",
            ));
        }
        if server.profile.hides_unauthorized && !self.profile.hides_unauthorized {
            self.problems.push(problem(
                "only the mounted server omits functions from lists: call `hide_unauthorized` on the outer server",
            ));
        }
        #[cfg(feature = "skills")]
        if !server.skills.is_empty() && (!server.profile.access.base.is_empty() || server.profile.visibility.is_some())
        {
            self.problems.push(problem(
                "scopes and visibility of a mounted server do not apply to its skills: add the skills to the outer server",
            ));
        }
        let mounted = Arc::<EntryGroup>::default();
        mounted.add(&server.entries);
        let inner_handles = server.mounted_handles.iter().map(|(_, handle)| handle);
        inner_handles.chain([&server.handle]).for_each(|handle| handle.join(&mounted));
        let (profile, outer) = (server.profile, &mut self.profile);
        outer.alive.extend(profile.alive);

        let mut names = profile.names.limited(|rule| {
            let mounted = mounted.clone();
            Arc::new(move |info| mounted.contains(info) && rule(info))
        });
        // The name so far is that in the mounted server.
        let selected = mounted.clone();
        let has_prefix = move |info: &EntryInfo<'_>| selected.record_name(info);
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
            Arc::new(move |info| mounted.map(info, |info| rule(info)).unwrap_or(false))
        }));
        outer.layers.append(profile.layers.limited(|rule| {
            let mounted = mounted.clone();
            Arc::new(move |info| {
                mounted.map(info, |info| rule.as_ref().is_none_or(|applies| applies(info))).unwrap_or(false)
            })
        }));
        if let Some(inner) = profile.visibility {
            let mounted = mounted.clone();
            Visibility::add(&mut outer.visibility, move |caller, info| {
                mounted.map(info, |info| inner.decide(caller, info)).unwrap_or(true)
            });
        }
        self.entries.extend(server.entries);
        self.disabled.extend(server.disabled);
        self.problems.extend(server.problems);
        self.mounted_handles.extend(server.mounted_handles);
        self.mounted_handles.push((Arc::clone(&mounted), server.handle));
        #[cfg(feature = "skills")]
        self.skills.extend(server.skills);
        mounted
    }
}

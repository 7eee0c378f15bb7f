//! The settings of a server: how it describes itself, its limits and its timeouts.

use std::time::Duration;

use mcp_runtime_uri_template::check_key;
use serde_json::{Map, Value};

use super::Server;
use crate::{
    engine::{MAX_PERIOD, OWN_EXTENSIONS, SessionRates, StateKey, TaskLimits},
    handler::entry::EntryKind,
    model::{CacheScope, Icon},
    stdx::setters,
};

/// Describing the server to its clients.
impl Server {
    setters! {
        /// Sets the programmatic name of the server.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.name(concat!(env!("CARGO_PKG_NAME"), "-staging"))
        /// # }
        /// ```
        pub fn name(self, name: impl Into<String>) { self.profile.identity.name = name.into() }

        /// Sets the version of the server.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.version("1.4.0+2f1c9d")
        /// # }
        /// ```
        pub fn version(self, version: impl Into<String>) { self.profile.identity.version = version.into() }

        /// Sets the display name of the server.
        ///
        /// ```
        /// # use mcp_runtime::{Revision, Server};
        /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        /// let mut client = Server::empty("notes", "1.0.0").title("Notebook").test_client(Revision::V2026_07_28);
        /// let discovered = client.request("server/discover", serde_json::json!({})).await.unwrap();
        /// assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["title"], "Notebook");
        /// # });
        /// ```
        pub fn title(self, title: impl Into<String>) { self.profile.identity.title = Some(title.into()) }

        /// Sets the description of the server. `main!()` and `#[server]` use the crate's description by default.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.description("Searches and edits the notes of one user.")
        /// # }
        /// ```
        pub fn description(self, description: impl Into<String>) {
            self.profile.identity.description = Some(description.into())
        }

        /// Sets the website of the server. `main!()` and `#[server]` use the crate's homepage by default.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.website_url("https://notes.example.com")
        /// # }
        /// ```
        pub fn website_url(self, url: impl Into<String>) { self.profile.identity.website_url = Some(url.into()) }

        /// Sets instructions that tell the model how to use the server.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.instructions("Search before you add a note. Titles are unique.")
        /// # }
        /// ```
        pub fn instructions(self, instructions: impl Into<String>) {
            self.profile.instructions = Some(instructions.into())
        }

        /// Sets instructions that apply unless [`instructions`](Self::instructions) is called, before or after.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// /// Adds what every server of the team has.
        /// fn common(server: Server) -> Server {
        ///     server.default_instructions("Ask before you change anything.")
        /// }
        /// ```
        pub fn default_instructions(self, instructions: impl Into<String>) {
            self.profile.instructions.get_or_insert_with(|| instructions.into());
        }
    }

    /// Adds an icon.
    ///
    /// ```
    /// # use mcp_runtime::{Server, model::Icon};
    /// # fn configure(server: Server) -> Server {
    /// server.with_icon(Icon::new("https://example.com/icon.svg").with_mime_type("image/svg+xml").with_size("any"))
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the source is neither an `https:` URI nor a `data:` URI of an image in base64, or if a
    /// size is invalid.
    pub fn with_icon(mut self, icon: Icon) -> Self {
        self.problems.extend(icon.problem(" of the server"));
        self.profile.identity.icons.push(icon);
        self
    }

    /// Declares an experimental capability, which is not part of the specification. `settings` must be an object.
    /// Functions read the experimental capabilities of the client with
    /// [`Context::client_experimental`](crate::Context::client_experimental).
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # use serde_json::json;
    /// let server = Server::empty("charts", "1.0.0").with_experimental("com.example/charts", json!({"formats": ["svg"]}));
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if `settings` is not an object, or if the capability is declared twice.
    pub fn with_experimental(mut self, name: impl Into<String>, settings: impl Into<serde_json::Value>) -> Self {
        let declared = &mut self.profile.declared.experimental;
        self.problems.extend(declare(declared, "experimental capability", name.into(), settings.into()));
        self
    }

    /// Declares an extension of the protocol, with its settings. `name` needs a prefix, as in `com.example/charts`, and
    /// `settings` must be an object. Functions read the extensions of the client with
    /// [`Context::client_extension`](crate::Context::client_extension).
    ///
    /// Clients of every revision receive it, in the result of `initialize` or of `server/discover`.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # use serde_json::json;
    /// let server = Server::empty("charts", "1.0.0").with_mcp_extension("com.example/charts", json!({}));
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the name is not valid as a `_meta` key with a prefix, if it names an extension
    /// that the framework declares itself, if `settings` is not an object, or if the extension is declared twice.
    ///
    /// See [Capabilities](https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities).
    pub fn with_mcp_extension(mut self, name: impl Into<String>, settings: impl Into<serde_json::Value>) -> Self {
        let name = name.into();
        self.problems.extend(check_extension(&name));
        let declared = &mut self.profile.declared.extensions;
        self.problems.extend(declare(declared, "extension", name, settings.into()));
        self
    }
}

/// Adds a capability. Returns the problem with it, if there is one.
fn declare(declared: &mut Map<String, Value>, kind: &str, name: String, settings: Value) -> Option<String> {
    if !settings.is_object() {
        return Some(format!(
            "the settings of the {kind} `{name}` must be an object, found `{settings}`\nhelp: use `json!({{}})` if there are none"
        ));
    }
    if declared.contains_key(&name) {
        return Some(format!("duplicate {kind} `{name}`"));
    }
    declared.insert(name, settings);
    None
}

/// Returns the problem with the name of an extension, if there is one.
///
/// See [`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta).
fn check_extension(name: &str) -> Option<String> {
    if OWN_EXTENSIONS.contains(&name) {
        return Some(format!(
            "the extension `{name}` is declared by the server itself\nhelp: remove `.with_mcp_extension(…)`"
        ));
    }
    let is_valid = name.contains('/') && check_key(name).is_ok();
    (!is_valid).then(|| {
        format!("invalid name `{name}` of an extension, expected a prefix and a name as in `com.example/charts`")
    })
}

/// Limits and timeouts.
impl Server {
    setters! {
        /// Sets the timeout of calls whose annotation does not set one. The default is 5 minutes; `None` disables the
        /// timeout.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.timeout(Duration::from_secs(30))
        /// # }
        /// ```
        pub fn timeout(self, timeout: impl Into<Option<Duration>>) { self.profile.limits.timeout = timeout.into() }

        /// Sets the timeout of requests to the client, such as elicitation and sampling. The default is 10 minutes. The
        /// wait does not count towards the timeout of the call. Has no effect without the feature `ask`.
        ///
        /// In stateless revisions a call ends when it asks the client something; see [`state_ttl`](Self::state_ttl).
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.ask_timeout(Duration::from_secs(120))
        /// # }
        /// ```
        pub fn ask_timeout(self, timeout: Duration) { self.profile.limits.answer_timeout = timeout }

        /// Sets the maximum number of calls in flight on one connection. The default is 1024. Further calls are
        /// rejected.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.max_in_flight(64)
        /// # }
        /// ```
        pub fn max_in_flight(self, calls: usize) { self.profile.limits.in_flight = calls.max(1) }

        /// Sets the maximum size of a message. The default is 16 MiB. Longer messages are rejected.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.max_message_bytes(64 << 20)
        /// # }
        /// ```
        pub fn max_message_bytes(self, bytes: usize) { self.profile.limits.message_bytes = bytes.max(1) }

        /// Sets the maximum rates of log messages, completions and requests about tasks, of a session or of a peer
        /// without one.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::{Server, SessionRates, layers::Rate};
        /// # fn configure(server: Server) -> Server {
        /// // Twenty log messages a second.
        /// server.session_rates(SessionRates::default().log_messages(Rate::new(20, Duration::from_secs(1))))
        /// # }
        /// ```
        pub fn session_rates(self, rates: SessionRates) { self.profile.limits.rates = rates }

        /// Sets how long calls in flight may continue after the client disconnects or the server is shut down, and, over
        /// HTTP, running tasks after the shutdown. The default is 5 seconds. A client of stdio that closes stdin and then
        /// sends SIGTERM, as the official SDKs do after 2 seconds, does not wait any longer: its calls end at once.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// // Less than the 30 seconds after which Kubernetes kills the process.
        /// server.shutdown_grace(Duration::from_secs(25))
        /// # }
        /// ```
        pub fn shutdown_grace(self, grace: Duration) { self.profile.limits.grace_period = grace }

        /// Sets the maximum number of items on a page of a list. The default is 1000.
        ///
        /// ```
        /// # use mcp_runtime::{Revision, Server, tool};
        /// # /// One.
        /// # #[tool]
        /// # fn one() {}
        /// # /// Two.
        /// # #[tool]
        /// # fn two() {}
        /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        /// let server = Server::empty("numbers", "1.0.0").with::<one>().with::<two>().page_size(1);
        /// let mut client = server.test_client(Revision::V2026_07_28);
        /// let page = client.request("tools/list", serde_json::json!({})).await.unwrap();
        /// assert_eq!(page["tools"].as_array().unwrap().len(), 1);
        /// assert!(page["nextCursor"].is_string());
        /// # });
        /// ```
        pub fn page_size(self, items: usize) { self.profile.limits.page_size = items.max(1) }

        /// Sets how long clients of stateless revisions may cache lists. The default is one minute.
        ///
        /// Clients and gateways may share cached lists between users unless the lists may depend on the caller: all
        /// lists are `private` if the server authenticates requests or has a rule of [`visible_to`](Self::visible_to),
        /// and so is the list of resources if one of them has a `list` function. [`list_cache`](Self::list_cache)
        /// differs for one list, and the options `ttl` and `public` of [`#[resource]`](macro@crate::resource) decide
        /// about the contents of a resource.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.list_ttl(Duration::from_secs(3600))
        /// # }
        /// ```
        ///
        /// See
        /// [Caching](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field).
        pub fn list_ttl(self, ttl: Duration) { self.profile.limits.list_ttl = ttl }

        /// Sets how long clients of stateless revisions may cache the lists of one kind, and whether they may share
        /// them between users, in place of [`list_ttl`](Self::list_ttl). The lists of resources, templates and skills
        /// have the same kind.
        ///
        /// A list that depends on the caller remains `private`: because of [`visible_to`](Self::visible_to),
        /// [`hide_unauthorized`](Self::hide_unauthorized) or a `list` function. A list with a `list` function is not
        /// cached unless this option names a time.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::{Server, function::EntryKind, model::CacheScope};
        /// # fn configure(server: Server) -> Server {
        /// // The server authenticates, but all users have the same tools.
        /// server.list_cache(EntryKind::Tool, Duration::from_secs(3600), CacheScope::Public)
        /// # }
        /// ```
        pub fn list_cache(self, kind: EntryKind, ttl: Duration, scope: CacheScope) {
            self.profile.list_caches[kind as usize] = Some((ttl, scope))
        }

        /// Sets the interval after which a silent client is pinged. The session of a client that does not answer within
        /// the [timeout](Self::ping_timeout) ends. By default, the server sends no pings, since not every client answers
        /// them.
        ///
        /// Any message of a client shows that it is alive. The server looks for messages once per `interval`, so a ping
        /// follows the last message after at most twice that time. Over HTTP, a client is pinged only while it has a stream
        /// open for messages that belong to no request, which it opens with GET.
        ///
        /// When a session ends, its calls are cancelled. Over HTTP, its streams close, and requests that contain its id are
        /// rejected with status 404. Over stdio, the connection ends as if the input had ended. Clients of revision
        /// 2026-07-28 are never pinged: they have no sessions, and servers send them no requests.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.ping_interval(Duration::from_secs(30)).ping_timeout(Duration::from_secs(20))
        /// # }
        /// ```
        ///
        /// See [Ping](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping).
        pub fn ping_interval(self, interval: impl Into<Option<Duration>>) {
            self.profile.limits.ping_interval = interval.into()
        }

        /// Sets the time within which a client must answer a [ping](Self::ping_interval). The default is one minute. It
        /// should exceed the longest time for which a function blocks its thread.
        pub fn ping_timeout(self, timeout: Duration) { self.profile.limits.ping_timeout = timeout }

        /// Sets how long the state of a request remains valid between two rounds. The default is one hour. Has no effect
        /// without the feature `ask`.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// // Users have a day to answer a question.
        /// server.state_ttl(Duration::from_secs(24 * 60 * 60))
        /// # }
        /// ```
        pub fn state_ttl(self, ttl: Duration) { self.profile.limits.round_ttl = ttl.min(MAX_PERIOD) }

        /// Sets the keys that seal the state of requests between rounds. The first key seals new state, and every key
        /// opens existing state of servers with the same name, so that keys can be rotated by adding the new key in
        /// front.
        ///
        /// By default, the server generates a random key that no other process knows, unless processes share a
        /// [backend](Self::backend): then, they share keys through it, which are replaced every 24 hours and kept until
        /// the states that they sealed have expired. The first call that needs a key waits until the process has read
        /// them, for at most two seconds; if the backend does not respond, the call is refused with status 503.
        /// Replicas without a backend must share a key. The option `--state-key` and the environment variable
        /// `MCP_STATE_KEY` take precedence.
        ///
        /// Without the feature `sealed-state`, which `http` and `cluster` enable, states stay in the memory of the process
        /// and are lost when it ends. Keys then have no effect.
        ///
        /// A state of digests alone, like that of most first rounds, is not sealed, since a client gains nothing by changing
        /// it: it contains only digests of the request and its questions, and is accepted only together with them.
        ///
        /// ```
        /// # use mcp_runtime::{Server, StateKey, StateKeyError};
        /// # fn configure(server: Server, new: &str, old: &str) -> Result<Server, StateKeyError> {
        /// let keys: [StateKey; 2] = [new.parse()?, old.parse()?];
        /// Ok(server.state_keys(keys))
        /// # }
        /// ```
        ///
        /// See [Server
        /// requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow).
        pub fn state_keys(self, keys: impl IntoIterator<Item = StateKey>) {
            self.profile.state_keys = keys.into_iter().collect()
        }
    }
}

/// Limiting tasks. These options have no effect without the feature `tasks`.
impl Server {
    setters! {
        /// Sets the time to live, counted from creation, of tasks whose client does not request one. The default is one
        /// hour. An expired task is deleted, and cancelled if it is still running.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.task_ttl(Duration::from_secs(10 * 60))
        /// # }
        /// ```
        pub fn task_ttl(self, ttl: Duration) { self.profile.limits.task_ttl = ttl }

        /// Sets the maximum time to live that a client may request for a task. The default is one day.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.max_task_ttl(Duration::from_secs(60 * 60))
        /// # }
        /// ```
        pub fn max_task_ttl(self, ttl: Duration) { self.profile.limits.max_task_ttl = ttl }

        /// Sets the interval at which clients should poll their tasks. The default is one second.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.task_poll_interval(Duration::from_secs(10))
        /// # }
        /// ```
        pub fn task_poll_interval(self, interval: Duration) { self.profile.limits.task_poll_interval = interval }

        /// Sets how many tasks the server keeps, including finished tasks. Calls that would exceed the limits are
        /// rejected, or run as plain calls if their tool allows it.
        ///
        /// ```
        /// # use mcp_runtime::{Server, TaskLimits};
        /// # fn configure(server: Server) -> Server {
        /// server.max_tasks(TaskLimits::default().total(10_000).per_peer(50))
        /// # }
        /// ```
        pub fn max_tasks(self, limits: TaskLimits) { self.profile.limits.max_tasks = limits }
    }
}

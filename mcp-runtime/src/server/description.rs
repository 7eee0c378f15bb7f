//! The server's description of itself: name, icons, instructions and declared capabilities.

use mcp_runtime_uri_template::check_key;
use serde_json::{Map, Value};

use super::Server;
use crate::{
    engine::OWN_EXTENSIONS,
    model::{Icon, setters},
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
    /// [`build`](Self::build) fails if the source is neither an `https:` URI nor a `data:` URI of an image.
    pub fn with_icon(mut self, icon: Icon) -> Self {
        if !icon.is_safe() {
            let message = "of the server, expected an `https:` or a `data:image/…` URI";
            self.problems.push(format!("invalid icon `{}` {message}", crate::excerpt::excerpt(&icon.src)));
        }
        self.profile.identity.icons.push(icon);
        self
    }

    /// Sets instructions that tell the model how to use the server.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.instructions("Search before you add a note. Titles are unique.")
    /// # }
    /// ```
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.profile.instructions = Some(instructions.into());
        self
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
    pub fn default_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.profile.instructions.get_or_insert_with(|| instructions.into());
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
pub(super) fn declare(declared: &mut Map<String, Value>, kind: &str, name: String, settings: Value) -> Option<String> {
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
pub(super) fn check_extension(name: &str) -> Option<String> {
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

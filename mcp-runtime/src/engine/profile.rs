//! The description and the settings of a server, and what clients are told of them: its identity and its capabilities.

use std::{any::Any, sync::Arc, time::Duration};

use super::{
    layers::Layers,
    limits::Limits,
    replicas::StateKey,
    request::{params::TASKS_EXTENSION, source::Visibility},
};
use crate::{
    auth::{AccessRules, Identity},
    handler::{Encoding, SchemaProfile, entry::EntryKind},
    jsonrpc::write,
    model::{CacheScope, Implementation, OptionalCapabilities},
    registry::{ListKind, ListSet, Names, ScopeRules, ServerCapabilities},
    revision::{
        Dialect, Feature, Revision,
        encode::{self, Object},
    },
    telemetry::SharedTelemetry,
};

const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The extensions that the server declares itself if it has entries that need them.
pub(crate) const OWN_EXTENSIONS: &[&str] = &[
    TASKS_EXTENSION,
    SKILLS_EXTENSION,
    #[cfg(feature = "ui")]
    crate::ui::EXTENSION,
];

/// The description and the settings of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    pub(crate) identity: Implementation,
    /// The names of servers with which this one may share a backend, the oldest first.
    pub(crate) former_names: Vec<String>,
    pub(crate) instructions: Option<String>,
    /// The capabilities that the author declared.
    pub(crate) declared: OptionalCapabilities,
    pub(crate) limits: Limits,
    /// The targets whose events are forwarded to clients in addition to the events of the functions' crates. `None` if
    /// no log events of functions are forwarded.
    pub(crate) log_targets: Option<Arc<[String]>>,
    /// The form in which the schemas of tools are listed.
    pub(crate) schemas: SchemaProfile,
    /// Whether structured results are checked against their output schema. `None` if the author has not decided.
    pub(crate) checks_results: Option<bool>,
    /// How long and by whom the lists of each kind may be cached, in the order of [`EntryKind`].
    pub(crate) list_caches: [Option<(Duration, CacheScope)>; EntryKind::COUNT],
    /// The keys that seal the state of requests. If empty, the server uses a random key.
    pub(crate) state_keys: Vec<StateKey>,
    /// The rule that decides which entries a caller sees. `None` if every caller sees all of them.
    pub(crate) visibility: Option<Visibility>,
    pub(crate) layers: Layers,
    #[cfg(feature = "ask")]
    pub(crate) roots_hook: Option<super::client_requests::RootsHook>,
    /// The names of functions, including functions that will be added.
    pub(crate) names: Names,
    pub(crate) access: Arc<AccessRules>,
    /// The scopes of functions, including functions that will be added.
    pub(crate) scopes: ScopeRules,
    /// Whether lists omit what the caller may not use.
    pub(crate) hides_unauthorized: bool,
    /// Whether a transport requires its senders to be authenticated.
    pub(crate) authenticates: bool,
    /// The identity of the sender on transports that do not identify senders.
    pub(crate) local_identity: Option<Identity>,
    /// Receives spans and measurements. `None` if the author has not set any.
    pub(crate) telemetry: Option<SharedTelemetry>,
    /// Tells the handles when the server is dropped: its own handle, and those of mounted servers.
    pub(crate) alive: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Profile {
    /// Returns the name that belongs to everything that the server has ever stored or sealed: its first name.
    pub(crate) fn first_name(&self) -> &str {
        self.former_names.iter().find(|name| !name.is_empty()).unwrap_or(&self.identity.name)
    }

    /// Returns whether a list for one caller is not valid for other callers.
    fn is_private(&self) -> bool {
        self.visibility.is_some() || self.hides_unauthorized || self.authenticates
    }

    /// Returns the encoding of a dialect. Its results identify the server by name and version only; `server/discover`
    /// returns the full identity.
    pub(super) fn encoding(&self, dialect: &'static Dialect) -> Encoding {
        let Implementation { name, version, .. } = self.identity.clone();
        self.encoding_with_identity(dialect, &Implementation { name, version, ..Implementation::default() })
    }

    fn encoding_with_identity(&self, dialect: &'static Dialect, identity: &Implementation) -> Encoding {
        let mut encoding = Encoding::new(dialect, identity);
        encoding.is_private = self.is_private();
        encoding.checks_results = self.checks_results.unwrap_or(cfg!(debug_assertions));
        encoding
    }

    /// Writes the result of `initialize` or, in a stateless dialect, of `server/discover`. `announces_changes` is
    /// whether the lists may change.
    pub(super) fn describe(
        &self,
        dialect: &'static Dialect,
        capabilities: ServerCapabilities,
        announces_changes: bool,
    ) -> Vec<u8> {
        let encoding = &self.encoding_with_identity(dialect, &self.identity);
        let mut out = Vec::new();
        let mut result = Object::begin(&mut out);
        if encoding.has(Feature::Handshake) {
            result.string("protocolVersion", encoding.dialect.name());
        } else {
            let versions = Revision::ALL.iter().rev().map(|revision| revision.as_str());
            encode::array(result.key("supportedVersions"), versions, write::string);
        }
        self.write_capabilities(result.key("capabilities"), encoding, capabilities, announces_changes);
        if encoding.has(Feature::Handshake) {
            encode::implementation(result.key("serverInfo"), encoding.dialect.features(), &self.identity);
        }
        result.optional("instructions", self.instructions.as_deref());
        encoding.cache_hints(result.out, self.limits.list_ttl, encoding.cache_scope());
        encoding.end_result(&mut out, None);
        out
    }

    fn write_capabilities(
        &self,
        out: &mut Vec<u8>,
        encoding: &Encoding,
        capabilities: ServerCapabilities,
        announces_changes: bool,
    ) {
        let lists = if announces_changes { ListSet::listed_in(encoding.dialect) } else { ListSet::default() };
        let if_announced = |kind, capability: &'static [u8]| if lists.has(kind) { capability } else { b"{}" };
        let mut object = Object::begin(out);
        for (name, is_supported, capability) in [
            ("completions", capabilities.completions && encoding.has(Feature::CompletionsCapability), &b"{}"[..]),
            ("logging", capabilities.logging || (announces_changes && encoding.has(Feature::LogLevel)), b"{}"),
            ("prompts", capabilities.prompts, if_announced(ListKind::Prompts, br#"{"listChanged":true}"#)),
            (
                "resources",
                capabilities.resources,
                if_announced(ListKind::Resources, br#"{"subscribe":true,"listChanged":true}"#),
            ),
            (
                "tasks",
                capabilities.tasks && encoding.has(Feature::SessionTasks),
                br#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#,
            ),
            ("tools", capabilities.tools, if_announced(ListKind::Tools, br#"{"listChanged":true}"#)),
        ] {
            if is_supported {
                object.raw(name, capability);
            }
        }
        object.value("experimental", Some(&self.declared.experimental).filter(|all| !all.is_empty()));
        self.write_extensions(&mut object, encoding, capabilities);
        object.end();
    }

    /// Writes the extensions. Sessions of every revision negotiate them, although only the newest schema names the
    /// member.
    ///
    /// See [Extensions](https://modelcontextprotocol.io/seps/2133-extensions).
    fn write_extensions(&self, object: &mut Object<'_>, encoding: &Encoding, capabilities: ServerCapabilities) {
        let ServerCapabilities { tasks, skills, pages, .. } = capabilities;
        let skills = skills && encoding.has(Feature::SkillsExtension);
        let tasks = tasks && encoding.has(Feature::TaskExtension);
        if !(skills || tasks || pages) && self.declared.extensions.is_empty() {
            return;
        }
        let mut extensions = Object::begin(object.key("extensions"));
        if skills {
            extensions.raw(SKILLS_EXTENSION, br#"{"directoryRead":true}"#);
        }
        if tasks {
            extensions.raw(TASKS_EXTENSION, b"{}");
        }
        #[cfg(feature = "ui")]
        if pages {
            extensions.raw(crate::ui::EXTENSION, b"{}");
        }
        for (name, settings) in &self.declared.extensions {
            write::plain(extensions.key(name), settings);
        }
        extensions.end();
    }
}

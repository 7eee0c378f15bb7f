//! The server's description of itself: its identity and its capabilities.

use std::time::Duration;

use crate::{
    handler::{Encoding, member},
    jsonrpc::write,
    model::{Implementation, OptionalCapabilities},
    registry::{ListKind, ListSet, ServerCapabilities},
    revision::{
        Dialect, Feature, Revision,
        encode::{self, Object},
    },
};

pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The extensions that the server declares itself if it has entries that need them.
pub(crate) const OWN_EXTENSIONS: &[&str] = &[
    TASKS_EXTENSION,
    SKILLS_EXTENSION,
    #[cfg(feature = "ui")]
    crate::ui::EXTENSION,
];

/// Returns the encoding of a dialect. Its results identify the server by name and version only; `server/discover`
/// returns the full identity.
pub(super) fn encoding(
    dialect: &'static Dialect,
    identity: &Implementation,
    is_private: bool,
    checks_results: bool,
) -> Encoding {
    let Implementation { name, version, .. } = identity.clone();
    Encoding {
        is_private,
        checks_results,
        ..encoding_with_identity(dialect, &Implementation { name, version, ..Implementation::default() })
    }
}

fn encoding_with_identity(dialect: &'static Dialect, identity: &Implementation) -> Encoding {
    let mut meta = Vec::new();
    if dialect.has(Feature::ResultType) {
        meta.extend_from_slice(br#""io.modelcontextprotocol/serverInfo":"#);
        encode::implementation(&mut meta, dialect.features(), identity);
    }
    for (name, json) in dialect.meta_members {
        member(&mut meta, name, json.as_bytes());
    }
    Encoding { dialect, features: dialect.features(), identity: meta, is_private: false, checks_results: false }
}

/// The content of the results of `initialize` and `server/discover`.
pub(super) struct ServerDescription<'a> {
    pub(super) identity: &'a Implementation,
    pub(super) instructions: Option<&'a str>,
    pub(super) capabilities: ServerCapabilities,
    /// The capabilities that the author declared.
    pub(super) declared: &'a OptionalCapabilities,
    /// Whether the lists may change.
    pub(super) announces_changes: bool,
    /// How long clients may cache the result.
    pub(super) ttl: Duration,
    /// Whether shared caches must not store the result.
    pub(super) is_private: bool,
}

impl ServerDescription<'_> {
    /// Writes the result of `initialize` or, in a stateless dialect, of `server/discover`.
    pub(super) fn write(&self, dialect: &'static Dialect) -> Vec<u8> {
        let encoding = &Encoding { is_private: self.is_private, ..encoding_with_identity(dialect, self.identity) };
        let mut out = Vec::new();
        let mut result = Object::begin(&mut out);
        if encoding.has(Feature::Handshake) {
            result.string("protocolVersion", encoding.dialect.name());
        } else {
            let versions = Revision::ALL.iter().rev().map(|revision| revision.as_str());
            encode::array(result.key("supportedVersions"), versions, write::string);
        }
        self.write_capabilities(result.key("capabilities"), encoding);
        if encoding.has(Feature::Handshake) {
            encode::implementation(result.key("serverInfo"), encoding.features, self.identity);
        }
        result.optional("instructions", self.instructions);
        encoding.cache_hints(result.out, self.ttl, encoding.cache_scope());
        encoding.end_result(&mut out, None);
        out
    }

    fn write_capabilities(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        let capabilities = self.capabilities;
        let lists = if self.announces_changes { ListSet::listed_in(encoding.dialect) } else { ListSet::default() };
        let if_announced = |kind, capability: &'static [u8]| if lists.has(kind) { capability } else { b"{}" };
        let mut object = Object::begin(out);
        for (name, is_supported, capability) in [
            ("completions", capabilities.completions && encoding.has(Feature::CompletionsCapability), &b"{}"[..]),
            ("logging", capabilities.logging || (self.announces_changes && encoding.has(Feature::LogLevel)), b"{}"),
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
        if !self.declared.experimental.is_empty() {
            write::plain(object.key("experimental"), &self.declared.experimental);
        }
        self.write_extensions(&mut object, encoding);
        object.end();
    }

    /// Writes the extensions. Sessions of every revision negotiate them, although only the newest schema names the
    /// member.
    ///
    /// See [Extensions](https://modelcontextprotocol.io/seps/2133-extensions).
    fn write_extensions(&self, object: &mut Object<'_>, encoding: &Encoding) {
        let ServerCapabilities { tasks, skills, pages, .. } = self.capabilities;
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

use serde_json::{Map, Value};

/// The capabilities that the author of a server declares, by name. Every value is an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OptionalCapabilities {
    /// Capabilities outside of the specification.
    pub(crate) experimental: Map<String, Value>,
    /// Extensions of the protocol. Sent in revisions that have them.
    pub(crate) extensions: Map<String, Value>,
}

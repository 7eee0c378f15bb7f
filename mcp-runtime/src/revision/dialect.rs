use serde_json::{Value, json};

use super::{
    codes::ErrorCodes,
    encode::Object,
    feature::{Feature, Features},
    table::Revision,
};
use crate::{
    error::{Fault, RequiredElicitation},
    excerpt::excerpt,
};

/// The properties of one protocol revision. Each dialect is a constant that lists only the differences from the
/// previous revision.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(super) revision: Revision,
    pub(super) features: Features,
    pub(super) codes: ErrorCodes,
    /// The methods that are answered from their parameters alone. The engine implements all other methods.
    pub(super) methods: &'static [Method],
    /// The members that are added to every result, as names and JSON.
    pub(super) result_members: &'static [(&'static str, &'static str)],
    /// The members that are added to `_meta` in every result, as names and JSON.
    pub(super) meta_members: &'static [(&'static str, &'static str)],
}

/// A method that exists only in the revisions that declare it.
#[derive(Debug)]
pub(crate) struct Method {
    pub(super) name: &'static str,
    pub(super) respond: Respond,
}

/// A function that writes the members of a result, given the JSON of the parameters.
pub(crate) type Respond = fn(params: Option<&str>, result: &mut Object<'_>) -> Result<(), Fault>;

impl Dialect {
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the date that identifies the revision in messages.
    pub(crate) fn name(&self) -> &'static str {
        self.revision.as_str()
    }

    pub(crate) fn features(&self) -> Features {
        self.features
    }

    pub(crate) const fn has(&self, feature: Feature) -> bool {
        self.features.has(feature)
    }

    /// Returns the function that answers a method which this revision declares.
    pub(crate) fn method(&self, name: &str) -> Option<Respond> {
        self.methods.iter().find(|method| method.name == name).map(|method| method.respond)
    }

    /// Returns the members that this revision adds to every result.
    pub(crate) fn result_members(&self) -> &'static [(&'static str, &'static str)] {
        self.result_members
    }

    /// Returns the members that this revision adds to `_meta` in every result.
    pub(crate) fn meta_members(&self) -> &'static [(&'static str, &'static str)] {
        self.meta_members
    }

    /// Returns whether a fault of a tool's function is sent as a tool result with `isError`, which the model reads,
    /// instead of as a JSON-RPC error.
    ///
    /// See [Error handling](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling).
    pub(crate) fn is_tool_error(&self, fault: &Fault) -> bool {
        match fault {
            Fault::InvalidAnswer { .. }
            | Fault::AnswerError { .. }
            | Fault::AnswerTimeout { .. }
            | Fault::InteractionRequired(_) => true,
            Fault::MissingCapability { .. } => !self.has(Feature::CapabilityErrors),
            _ => false,
        }
    }

    /// Returns the JSON-RPC error code of a fault.
    pub(crate) fn code(&self, fault: &Fault) -> i32 {
        self.codes.of(fault)
    }

    /// Returns the `data` of a fault's error object.
    pub(crate) fn data(&self, fault: &Fault) -> Option<Value> {
        match fault {
            Fault::ResourceNotFound(uri) => Some(json!({ "uri": excerpt(uri) })),
            Fault::UnsupportedVersion { requested } => {
                let supported: Vec<_> = Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
                Some(json!({ "supported": supported, "requested": excerpt(requested) }))
            }
            Fault::MissingCapability { required } if self.has(Feature::CapabilityErrors) => {
                Some(json!({ "requiredCapabilities": required }))
            }
            Fault::InsufficientScope { required } => Some(json!({ "requiredScopes": required })),
            Fault::UrlElicitationRequired { elicitations } if self.has(Feature::ElicitationIds) => {
                let encode = |RequiredElicitation { id, url, message }: &RequiredElicitation| json!({ "mode": "url", "elicitationId": id, "url": url, "message": message });
                Some(json!({ "elicitations": elicitations.iter().map(encode).collect::<Vec<_>>() }))
            }
            Fault::Custom { data, .. } => data.clone(),
            _ => None,
        }
    }
}

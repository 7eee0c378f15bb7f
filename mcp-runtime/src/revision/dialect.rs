use serde_json::{Value, json};

use super::{
    encode::Object,
    table::{Feature, Features, Revision},
};
use crate::{
    error::{Fault, RequiredElicitation, excerpt},
    jsonrpc::RawJson,
    model::Implementation,
};

/// The properties of one protocol revision. Each dialect is a constant that lists only the differences from the
/// previous revision.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(super) revision: Revision,
    pub(super) features: Features,
    pub(super) codes: ErrorCodes,
    /// The names of the lists of entries that exist in this revision. Their changes are announced.
    pub(crate) lists: &'static [&'static str],
    /// The methods that are answered from their parameters alone. The engine implements all other methods.
    pub(super) methods: &'static [Method],
    /// The members that are added to every result.
    pub(crate) result_members: &'static [Member],
    /// The members that are added to `_meta` in every result.
    pub(crate) meta_members: &'static [Member],
}

/// A member of every result, by its name, and the function that writes its value from the description of the server.
pub(crate) type Member = (&'static str, fn(&mut Vec<u8>, Features, &Implementation));

/// A method that exists only in the revisions that declare it.
#[derive(Debug)]
pub(crate) struct Method {
    pub(super) name: &'static str,
    pub(super) respond: Respond,
}

/// A function that writes the members of a result, given the parameters.
pub(crate) type Respond = fn(params: Option<RawJson<'_>>, result: &mut Object<'_>) -> Result<(), Fault>;

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
        let codes = &self.codes;
        match fault {
            Fault::Parse(_) => codes.parse,
            Fault::InvalidRequest(_) => codes.invalid_request,
            Fault::MethodNotFound(_) => codes.method_not_found,
            Fault::InvalidParams(_) => codes.invalid_params,
            Fault::UnknownTool(_) => codes.unknown_tool,
            Fault::UnknownPrompt(_) => codes.unknown_prompt,
            Fault::ResourceNotFound(_) => codes.resource_not_found,
            Fault::Internal(_)
            | Fault::InteractionRequired(_)
            | Fault::InvalidAnswer { .. }
            | Fault::AnswerError { .. }
            | Fault::AnswerTimeout { .. } => codes.internal,
            Fault::Overloaded(_) => codes.overloaded,
            Fault::UnsupportedVersion { .. } => codes.unsupported_version,
            Fault::HeaderMismatch(_) => codes.header_mismatch,
            Fault::MissingCapability { .. } => codes.missing_capability,
            Fault::InsufficientScope { .. } => codes.insufficient_scope,
            Fault::UrlElicitationRequired { .. } => codes.url_elicitation_required,
            Fault::Custom { code, .. } => *code,
        }
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

/// Defines the error codes, those of mistakes of the client first.
macro_rules! error_codes {
    (mistakes: $($mistake:ident)*; failures: $($failure:ident)*;) => {
        /// The JSON-RPC error code of every kind of [`Fault`] but [`Fault::Custom`], which carries its own.
        ///
        /// The oldest revision lists all codes. A later revision lists only the codes that it changes and inherits the
        /// other codes.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct ErrorCodes {
            $(pub(super) $mistake: i32,)*
            $(pub(super) $failure: i32,)*
        }

        impl ErrorCodes {
            /// Returns whether a code says that the client has made a mistake.
            pub(super) fn is_mistake(&self, code: i32) -> bool {
                [$(self.$mistake),*].contains(&code)
            }
        }
    };
}

error_codes! {
    mistakes: parse invalid_request method_not_found invalid_params unknown_tool unknown_prompt resource_not_found
        insufficient_scope;
    failures: internal overloaded unsupported_version header_mismatch missing_capability url_elicitation_required;
}

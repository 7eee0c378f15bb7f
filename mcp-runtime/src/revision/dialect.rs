use serde_json::{Value, json};

use super::{ALL, Revision};
use crate::error::Fault;

/// Something that a protocol revision has or has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Feature {
    /// `initialize` opens a session; what it settles holds for every later message.
    Handshake,
    /// Every request says its version and the client's capabilities in `_meta`; `server/discover` exists.
    RequestMeta,
    /// An array of messages is one transmission.
    Batching,
    /// `readOnlyHint` and the like on tools.
    ToolAnnotations,
    /// Audio content.
    Audio,
    /// `message` in progress notifications.
    ProgressMessage,
    /// The `completions` capability; before it, servers complete without saying so.
    CompletionsCapability,
    /// `title` beside `name`.
    Titles,
    /// `_meta` on tools, resources, prompts and contents.
    ItemMeta,
    /// `lastModified` in annotations.
    LastModified,
    /// `resource_link` content.
    ResourceLinks,
    /// `outputSchema` and `structuredContent`, which must be an object.
    StructuredContent,
    /// `structuredContent` may be any JSON value.
    StructuredAnyValue,
    /// `icons`, and more about the server than its name and version.
    Icons,
    /// Bad arguments go back to the model as a tool result.
    InputErrorsAsResults,
    /// An error response whose request had no readable id goes out without one, not with `null`.
    AbsentErrorId,
    /// `resultType` on every result, the server's identity in its `_meta`.
    ResultType,
    /// `ttlMs` and `cacheScope` on what may be cached.
    CacheHints,
    /// `logging/setLevel`, `resources/subscribe` and `ping`.
    SessionUtilities,
    /// A server may end the response of a stream and have the client ask again; streams begin with an event without a message.
    StreamPolling,
    /// `subscriptions/listen`: a request that is answered with notifications, until somebody ends it.
    Listening,
    /// `tasks/list`, `tasks/result` and what goes with them: a client says of each call whether it wants a task.
    SessionTasks,
    /// The extension for tasks: a client says that it can have them, the server which calls are.
    TaskExtension,
    /// `elicitation/create`: a person fills in a form.
    Elicitation,
    /// `mode` of an elicitation, defaults of every kind, choices with titles, several choices in one field.
    RichForms,
    /// A person is sent to a URL.
    UrlElicitation,
    /// `elicitationId`, by which a session hears of the end of what a URL started.
    ElicitationIds,
    /// Tools in `sampling/createMessage`, and several contents in one of its messages.
    SamplingTools,
    /// `extensions` among the capabilities, and the methods of those.
    Extensions,
}

/// A set of features, to be asked on the hot path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    pub(crate) const fn of(features: &[Feature]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < features.len() {
            bits |= 1 << features[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    pub(crate) const fn and(self, more: &[Feature]) -> Self {
        Self(self.0 | Self::of(more).0)
    }

    pub(crate) const fn without(self, less: &[Feature]) -> Self {
        Self(self.0 & !Self::of(less).0)
    }

    pub(crate) const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u8) != 0
    }
}

/// One protocol revision: what it has and how it spells.
pub(crate) trait Dialect: std::fmt::Debug + Send + Sync + 'static {
    fn revision(&self) -> Revision;

    /// The date that names the revision on the wire.
    fn name(&self) -> &'static str;

    fn features(&self) -> Features;

    fn has(&self, feature: Feature) -> bool {
        self.features().has(feature)
    }

    /// The JSON-RPC error code for a fault.
    fn code(&self, fault: &Fault) -> i32 {
        match fault {
            Fault::Parse(_) => -32700,
            Fault::InvalidRequest(_) => -32600,
            Fault::MethodNotFound(_) => -32601,
            Fault::InvalidParams(_) | Fault::UnknownTool(_) | Fault::UnknownPrompt(_) => -32602,
            Fault::ResourceNotFound(_) => self.resource_not_found(),
            Fault::Internal(_) | Fault::Overloaded(_) => -32603,
            Fault::UnsupportedVersion { .. } => self.unsupported_version(),
            Fault::HeaderMismatch(_) => -32020,
            Fault::MissingCapability { .. } => self.missing_capability(),
            Fault::Custom { code, .. } => *code,
        }
    }

    /// The code for a resource that does not exist.
    fn resource_not_found(&self) -> i32 {
        -32002
    }

    /// The code for a protocol version that the server does not speak.
    fn unsupported_version(&self) -> i32 {
        -32602
    }

    /// The code for a client that has not declared what a request needs.
    fn missing_capability(&self) -> i32 {
        -32600
    }

    /// The `data` of a fault's error object.
    fn data(&self, fault: &Fault) -> Option<Value> {
        match fault {
            Fault::ResourceNotFound(uri) => Some(json!({ "uri": uri })),
            Fault::UnsupportedVersion { requested } => {
                let supported: Vec<_> = ALL.iter().map(|dialect| dialect.name()).collect();
                Some(json!({ "supported": supported, "requested": requested }))
            }
            Fault::MissingCapability { required } if self.has(Feature::RequestMeta) => {
                Some(json!({ "requiredCapabilities": required }))
            }
            Fault::Custom { data, .. } => data.clone(),
            _ => None,
        }
    }
}

/// Writes the unit struct of a revision with the parts of [`Dialect`] that never have logic.
macro_rules! dialect {
    ($name:ident, $date:literal, $features:expr $(, { $($method:item)* })?) => {
        #[derive(Debug)]
        pub(super) struct $name;

        impl $name {
            pub(super) const FEATURES: $crate::revision::Features = $features;
        }

        impl $crate::revision::Dialect for $name {
            fn revision(&self) -> $crate::revision::Revision {
                $crate::revision::Revision::$name
            }

            fn name(&self) -> &'static str {
                $date
            }

            fn features(&self) -> $crate::revision::Features {
                Self::FEATURES
            }

            $($($method)*)?
        }
    };
}

pub(super) use dialect;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    error::Fault,
    jsonrpc::{object_member, raw},
    revision::{Feature, Features},
};

/// A capability that a client must declare before the server may send the requests that require it.
///
/// [`Context::supports`](crate::Context::supports) returns whether the client has declared it.
///
/// ```
/// use mcp_runtime::{Context, ask::Capability, tool};
///
/// /// Return what the client supports.
/// #[tool(read_only)]
/// fn client(ctx: &Context) -> String {
///     let (forms, pages) = (Capability::Elicitation, Capability::UrlElicitation);
///     format!("forms: {}, web pages: {}", ctx.supports(forms), ctx.supports(pages))
/// }
/// ```
///
/// See [Client features](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Capability {
    /// Asking the user to fill in forms.
    Elicitation,
    /// Sending the user to web pages.
    UrlElicitation,
    /// Completions by the client's model.
    Sampling,
    /// Completions that use tools.
    SamplingTools,
    /// Completions that include the context of this or other servers.
    SamplingContext,
    /// Listing the directories that the server may work in.
    Roots,
}

impl Capability {
    /// Returns whether the client's capabilities, an object as JSON, allow any question.
    #[cfg(feature = "tasks")]
    pub(crate) fn any_is_declared_in(capabilities: &str) -> bool {
        [Self::Elicitation, Self::UrlElicitation, Self::Sampling, Self::Roots]
            .into_iter()
            .any(|capability| capability.is_declared_in(capabilities))
    }

    /// Returns whether the client's capabilities, an object as JSON, declare this one.
    ///
    /// An `elicitation` object without modes declares forms.
    pub(crate) fn is_declared_in(self, capabilities: &str) -> bool {
        let elicitation = || object_member(capabilities, "elicitation");
        let sampling = || object_member(capabilities, "sampling");
        let declared = match self {
            Self::Elicitation => elicitation()
                .filter(|modes| object_member(modes, "form").is_some() || object_member(modes, "url").is_none()),
            Self::UrlElicitation => elicitation().and_then(|modes| object_member(modes, "url")),
            Self::Sampling => sampling(),
            Self::SamplingTools => sampling().and_then(|parts| object_member(parts, "tools")),
            Self::SamplingContext => sampling().and_then(|parts| object_member(parts, "context")),
            Self::Roots => object_member(capabilities, "roots"),
        };
        declared.is_some()
    }

    /// Returns the capability that clients of a revision declare to support this one, which is usually the same.
    /// Returns `None` if the revision does not support the requests that require it.
    pub(crate) fn declared_as(self, features: Features) -> Option<Self> {
        match self {
            Self::Elicitation if !features.has(Feature::Elicitation) => None,
            Self::UrlElicitation if !features.has(Feature::UrlElicitation) => None,
            Self::SamplingTools if !features.has(Feature::SamplingTools) => None,
            // In revisions without `sampling.tools`, `sampling` implies the context.
            Self::SamplingContext if !features.has(Feature::SamplingTools) => Some(Self::Sampling),
            capability => Some(capability),
        }
    }

    /// Returns the minimal capabilities that a client must declare, for `requiredCapabilities` in an error.
    fn required(self) -> Map<String, Value> {
        let (name, parts) = match self {
            Self::Elicitation => ("elicitation", json!({})),
            Self::UrlElicitation => ("elicitation", json!({ "url": {} })),
            Self::Sampling => ("sampling", json!({})),
            Self::SamplingTools => ("sampling", json!({ "tools": {} })),
            Self::SamplingContext => ("sampling", json!({ "context": {} })),
            Self::Roots => ("roots", json!({})),
        };
        Map::from_iter([(name.to_owned(), parts)])
    }

    /// Returns the fault for a client that has not declared these capabilities.
    pub(crate) fn missing(capabilities: &[Self]) -> Fault {
        let mut required = Map::new();
        for (name, parts) in capabilities.iter().flat_map(|capability| capability.required()) {
            let merged = required.entry(name).or_insert_with(|| json!({}));
            if let (Some(merged), Value::Object(parts)) = (merged.as_object_mut(), parts) {
                merged.extend(parts);
            }
        }
        Fault::MissingCapability { required: required.into() }
    }
}

/// Returns whether the client's capabilities, an object as JSON, declare that it announces changes of its roots.
pub(crate) fn announces_root_changes(capabilities: &str) -> bool {
    let roots = object_member(capabilities, "roots");
    roots.and_then(|roots| raw::member(roots, "listChanged")) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::{
        Capability::{self, *},
        *,
    };
    use crate::revision::DIALECTS;

    #[test]
    fn declared_capabilities() {
        for (capabilities, expected) in [
            ("{}", &[] as &[Capability]),
            (r#"{"elicitation":{}}"#, &[Elicitation]),
            (r#"{"elicitation":{"form":{}}}"#, &[Elicitation]),
            (r#"{"elicitation":{"url":{}}}"#, &[UrlElicitation]),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, &[Elicitation, UrlElicitation]),
            (r#"{"elicitation":{"schemaValidation":true}}"#, &[Elicitation]),
            (r#"{"elicitation":null,"sampling":false,"roots":[]}"#, &[]),
            (r#"{"sampling":{}}"#, &[Sampling]),
            (r#"{"sampling":{"tools":{}}}"#, &[Sampling, SamplingTools]),
            (r#"{"sampling":{"context":{},"tools":null}}"#, &[Sampling, SamplingContext]),
            (r#"{ "roots" : { "listChanged" : true } }"#, &[Roots]),
            (r#"{"experimental":{"roots":{}}}"#, &[]),
            ("[]", &[]),
            ("", &[]),
        ] {
            for capability in [Elicitation, UrlElicitation, Sampling, SamplingTools, SamplingContext, Roots] {
                let declared = capability.is_declared_in(capabilities);
                assert_eq!(declared, expected.contains(&capability), "{capability:?} in {capabilities}");
            }
        }
    }

    #[test]
    fn stateless_revisions_encode_the_required_capabilities() {
        let fault = Capability::missing(&[UrlElicitation]);
        for dialect in DIALECTS {
            let (code, data) = if dialect.revision().is_stateless() {
                (-32021, Some(json!({ "requiredCapabilities": { "elicitation": { "url": {} } } })))
            } else {
                (-32600, None)
            };
            assert_eq!((dialect.code(&fault), dialect.data(&fault)), (code, data), "{}", dialect.name());
        }
    }

    #[test]
    fn required_capabilities_are_sufficient() {
        for (capability, named) in [
            (Elicitation, "`elicitation`"),
            (UrlElicitation, "`elicitation.url`"),
            (Sampling, "`sampling`"),
            (SamplingTools, "`sampling.tools`"),
            (SamplingContext, "`sampling.context`"),
            (Roots, "`roots`"),
        ] {
            let required = Value::Object(capability.required()).to_string();
            assert!(capability.is_declared_in(&required), "{capability:?}");
            #[cfg(feature = "tasks")]
            assert!(Capability::any_is_declared_in(&required), "{capability:?}");
            let message = format!("the client has not declared the capability {named}");
            assert_eq!(Capability::missing(&[capability]).to_string(), message);
        }
        let both = Capability::missing(&[SamplingTools, SamplingContext, Roots]);
        let required = json!({ "sampling": { "tools": {}, "context": {} }, "roots": {} });
        assert_eq!(both, Fault::MissingCapability { required });
    }
}

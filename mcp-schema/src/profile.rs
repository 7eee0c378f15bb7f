/// Which form of their schemas tools are listed with.
///
/// All forms describe the same contract, and calls are checked against all of it with every profile. They differ in the
/// keywords that clients have to understand. The default is the form that survives the most agent frameworks.
///
/// ```
/// use mcp_schema::{SchemaProfile, listed};
/// use serde_json::json;
///
/// let schema = json!({"oneOf": [{"const": "ascending"}, {"type": "integer", "exclusiveMinimum": 0}]});
/// assert_eq!(
///     listed(&schema, SchemaProfile::Compatible, &[]),
///     json!({"anyOf": [{"type": "string", "enum": ["ascending"]}, {"type": "integer", "minimum": 1}]})
/// );
/// assert_eq!(listed(&schema, SchemaProfile::Exact, &[]), schema);
/// ```
///
/// A schema that names its `$schema` is listed as its author wrote it, with every profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SchemaProfile {
    /// Lists the form that most clients understand:
    ///
    /// | contract | listed |
    /// | --- | --- |
    /// | an optional argument or field, which may be `null` | `anyOf` of its schema and `null`, with the description in both |
    /// | an argument that clients mirror in a header | its schema without `null`, as the specification demands |
    /// | several types | `anyOf`; `type` is never an array |
    /// | `additionalProperties: false` | not listed; unknown arguments are still rejected |
    /// | `additionalProperties: true` | `additionalProperties: {}`, or not listed next to `properties` |
    /// | `oneOf` | `anyOf` |
    /// | `unevaluatedProperties` next to `anyOf` | not listed |
    /// | `const` with a string | `enum` with one value |
    /// | a tuple | `items` if all elements are alike, else `prefixItems` and `items` |
    /// | `exclusiveMinimum`, `exclusiveMaximum` | an inclusive bound; for fractions, in addition to the exclusive one |
    /// | `allOf` | merged where that is possible |
    #[default]
    Compatible,
    /// Lists the same form as [`Compatible`](Self::Compatible), but does not list `null` for optional arguments and
    /// fields.
    ///
    /// Use it for clients that do not understand `anyOf`, such as LangChain.js, which replaces it with a schema that
    /// accepts everything. Strict clients make such arguments required.
    WithoutNull,
    /// Lists the contract with all keywords that are enforced, including `additionalProperties: false`.
    ///
    /// Some clients reject such schemas: google-genai for Python cannot list a tool with a boolean
    /// `additionalProperties`.
    Exact,
}

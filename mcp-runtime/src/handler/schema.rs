//! The schemas of arguments and results, with what the protocol adds to JSON Schema.

use serde_json::Value;

pub use mcp_schema::SchemaProfile;
pub(crate) use mcp_schema::{
    Checker, Keyword, Property, SchemaError, Violation, decoding_violation, generator, input, is_object, nearest,
    output, output_generator, whole_input,
};

/// The keyword with the HTTP header that repeats an argument, without the prefix `Mcp-Param-`.
pub(crate) const HEADER: &str = "x-mcp-header";

/// Returns the form in which a schema is listed. Headers are permitted only for primitive types, so that arguments with
/// a header are listed without `null`.
pub(crate) fn listed(schema: &Value, profile: SchemaProfile) -> Value {
    mcp_schema::listed(schema, profile, &[HEADER])
}

/// Wraps the schema of a result in the schema of an object, for dialects that have no other structured results.
pub(crate) fn wrap(schema: Value) -> Value {
    mcp_schema::wrap(schema, "result")
}

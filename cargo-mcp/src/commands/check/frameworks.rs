//! The agent frameworks that are known to have trouble with a schema.
//!
//! The versions are those that were measured. Forms that all of these frameworks understand are not in the table.

use super::codes::{self, Code};

/// The frameworks that do not understand the schemas of a finding, and what becomes of them.
const TABLE: [(&Code, &str); 8] = [
    (
        codes::RECURSIVE_SCHEMA,
        "autogen-ext 0.7 cannot list the tool, openai-agents is no longer strict, mcp-use 1 weakens the schema",
    ),
    (codes::SCHEMA_REF, "autogen-ext 0.7 and mcp-use 1 weaken or lose the schema"),
    (codes::MISSING_TYPE, "autogen-ext 0.7 cannot list the tool, Mastra loses the argument"),
    (codes::TYPE_ARRAY, "autogen-ext 0.7 cannot list the tool"),
    (
        codes::BOOLEAN_SCHEMA,
        "google-genai, @google/genai, autogen-ext 0.7, LangChain.js and mcp-use 1 cannot list the tool",
    ),
    (codes::TUPLE, "autogen-ext 0.7 loses the types of the items, google-genai and mcp-use 1 weaken the schema"),
    (codes::BOOLEAN_ADDITIONAL, "google-genai for Python cannot list the tool"),
    (codes::MAP_SCHEMA, "autogen-ext 0.7, google-genai and mcp-use 1 weaken or lose the schema"),
];

/// Returns the frameworks that are affected by findings of a code.
pub(crate) fn affected(code: &Code) -> Option<&'static str> {
    TABLE.iter().find(|(known, _)| known.name == code.name).map(|(_, frameworks)| *frameworks)
}

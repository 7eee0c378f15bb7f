//! 2024-11-05: <https://modelcontextprotocol.io/specification/2024-11-05>.

use super::{
    dialect::{Dialect, ErrorCodes},
    table::{Feature, Features, Revision},
};

pub(super) const DIALECT: Dialect = Dialect {
    revision: Revision::V2024_11_05,
    features: Features::of(&[Feature::Handshake, Feature::Ping, Feature::LogLevel, Feature::ResourceSubscriptions]),
    codes: ErrorCodes {
        parse: -32700,
        invalid_request: -32600,
        method_not_found: -32601,
        invalid_params: -32602,
        unknown_tool: -32602,
        unknown_prompt: -32602,
        resource_not_found: -32002,
        internal: -32603,
        overloaded: -32603,
        unsupported_version: -32602,
        header_mismatch: -32020,
        missing_capability: -32600,
        insufficient_scope: -32600,
        url_elicitation_required: -32603,
    },
    lists: &["tools", "resources", "prompts"],
    methods: &[],
    result_members: &[],
    meta_members: &[],
};

//! 2026-07-28: <https://modelcontextprotocol.io/specification/2026-07-28/changelog>.

use super::{
    dialect::{Dialect, ErrorCodes},
    encode,
    table::{Feature, Revision},
    v2025_11_25::DIALECT as PREVIOUS,
};

pub(super) const DIALECT: Dialect = Dialect {
    revision: Revision::V2026_07_28,
    features: PREVIOUS
        .features
        .without(&[
            Feature::Handshake,
            Feature::Ping,
            Feature::LogLevel,
            Feature::ResourceSubscriptions,
            Feature::StreamPolling,
            Feature::ElicitationIds,
            Feature::SessionTasks,
        ])
        .and(&[
            Feature::RequestMeta,
            Feature::CapabilityErrors,
            Feature::StructuredAnyValue,
            Feature::ResultType,
            Feature::CacheHints,
            Feature::Listening,
            Feature::TaskExtension,
            Feature::SkillsExtension,
            Feature::Deprecations,
        ]),
    codes: ErrorCodes {
        resource_not_found: -32602,
        unsupported_version: -32022,
        missing_capability: -32021,
        url_elicitation_required: -32603,
        ..PREVIOUS.codes
    },
    meta_members: &[("io.modelcontextprotocol/serverInfo", encode::implementation)],
    ..PREVIOUS
};

//! 2025-03-26: <https://modelcontextprotocol.io/specification/2025-03-26/changelog>.

use super::{
    dialect::Dialect,
    table::{Feature, Revision},
    v2024_11_05::DIALECT as PREVIOUS,
};

pub(super) const DIALECT: Dialect = Dialect {
    revision: Revision::V2025_03_26,
    features: PREVIOUS.features.and(&[
        Feature::Batching,
        Feature::ToolAnnotations,
        Feature::Audio,
        Feature::ProgressMessage,
        Feature::CompletionsCapability,
    ]),
    ..PREVIOUS
};

//! 2025-06-18: <https://modelcontextprotocol.io/specification/2025-06-18/changelog>.

use super::{
    dialect::Dialect,
    table::{Feature, Revision},
    v2025_03_26::DIALECT as PREVIOUS,
};

pub(super) const DIALECT: Dialect = Dialect {
    revision: Revision::V2025_06_18,
    features: PREVIOUS.features.without(&[Feature::Batching]).and(&[
        Feature::Titles,
        Feature::ItemMeta,
        Feature::LastModified,
        Feature::ResourceLinks,
        Feature::StructuredContent,
        Feature::Elicitation,
    ]),
    ..PREVIOUS
};

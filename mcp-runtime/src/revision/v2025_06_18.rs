//! 2025-06-18: <https://modelcontextprotocol.io/specification/2025-06-18/changelog>.

use super::{Feature, dialect::dialect, v2025_03_26::V2025_03_26};

dialect!(
    V2025_06_18,
    "2025-06-18",
    V2025_03_26::FEATURES.without(&[Feature::Batching]).and(&[
        Feature::Titles,
        Feature::ItemMeta,
        Feature::LastModified,
        Feature::ResourceLinks,
        Feature::StructuredContent,
        Feature::Elicitation,
    ])
);

//! 2025-03-26: <https://modelcontextprotocol.io/specification/2025-03-26/changelog>.

use super::{Feature, dialect::dialect, v2024_11_05::V2024_11_05};

dialect!(
    V2025_03_26,
    "2025-03-26",
    V2024_11_05::FEATURES.and(&[
        Feature::Batching,
        Feature::ToolAnnotations,
        Feature::Audio,
        Feature::ProgressMessage,
        Feature::CompletionsCapability,
    ])
);

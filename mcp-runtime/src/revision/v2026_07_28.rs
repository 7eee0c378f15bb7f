//! 2026-07-28: <https://modelcontextprotocol.io/specification/2026-07-28/changelog>.

use super::{Feature, dialect::dialect, v2025_11_25::V2025_11_25};

dialect!(
    V2026_07_28,
    "2026-07-28",
    V2025_11_25::FEATURES
        .without(&[
            Feature::Handshake,
            Feature::SessionUtilities,
            Feature::StreamPolling,
            Feature::ElicitationIds,
            Feature::SessionTasks,
        ])
        .and(&[
            Feature::RequestMeta,
            Feature::StructuredAnyValue,
            Feature::ResultType,
            Feature::CacheHints,
            Feature::Listening,
            Feature::TaskExtension,
            Feature::Extensions,
        ]),
    {
        fn resource_not_found(&self) -> i32 {
            -32602
        }

        fn unsupported_version(&self) -> i32 {
            -32022
        }

        fn missing_capability(&self) -> i32 {
            -32021
        }
    }
);

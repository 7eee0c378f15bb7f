//! 2025-11-25: <https://modelcontextprotocol.io/specification/2025-11-25/changelog>.

use super::{Feature, dialect::dialect, v2025_06_18::V2025_06_18};

dialect!(
    V2025_11_25,
    "2025-11-25",
    V2025_06_18::FEATURES.and(&[
        Feature::Icons,
        Feature::InputErrorsAsResults,
        Feature::AbsentErrorId,
        Feature::StreamPolling,
        Feature::SessionTasks,
        Feature::RichForms,
        Feature::UrlElicitation,
        Feature::ElicitationIds,
        Feature::SamplingTools,
    ])
);

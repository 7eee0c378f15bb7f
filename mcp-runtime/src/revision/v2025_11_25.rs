//! 2025-11-25: <https://modelcontextprotocol.io/specification/2025-11-25/changelog>.

use super::{
    dialect::{Dialect, ErrorCodes},
    table::{Feature, Revision},
    v2025_06_18::DIALECT as PREVIOUS,
};

pub(super) const DIALECT: Dialect = Dialect {
    revision: Revision::V2025_11_25,
    features: PREVIOUS.features.and(&[
        Feature::Icons,
        Feature::AbsentErrorId,
        Feature::StreamPolling,
        Feature::SessionTasks,
        Feature::RichForms,
        Feature::UrlElicitation,
        Feature::ElicitationIds,
        Feature::SamplingTools,
    ]),
    codes: ErrorCodes { url_elicitation_required: -32042, ..PREVIOUS.codes },
    ..PREVIOUS
};

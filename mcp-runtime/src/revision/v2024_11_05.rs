//! 2024-11-05: <https://modelcontextprotocol.io/specification/2024-11-05>.

use super::{Feature, Features, dialect::dialect};

dialect!(V2024_11_05, "2024-11-05", Features::of(&[Feature::Handshake, Feature::SessionUtilities]));

//! The registered functions, validated, with their schemas and the encoded bytes of each list.
//!
//! Registration has three stages. A macro emits an [`Entry`](crate::handler::entry::Entry); [`build`] validates it and
//! turns it into a [`Function`](crate::handler::Function); a [`Registry`] holds these. A registry is immutable: a change
//! creates another registry, which shares the functions.

mod build;
mod encode;
mod lists;
mod names;
#[cfg_attr(not(feature = "skills"), expect(dead_code, reason = "without the feature, a server has no skills"))]
mod skills;
mod snapshot;

pub(crate) use build::Selection;
pub(crate) use lists::{ListKind, Pager, decode_offset, write_resources};
pub(crate) use lists::{ListSet, ServerCapabilities};
pub(crate) use names::{Change, Names, ScopeRules};
pub(crate) use skills::Skills;
pub(crate) use snapshot::{Found, Registry, ResourceLists};

//! Every registered function, checked, with its schema and the prepared bytes of each list.
//!
//! Registration has three stages. A macro emits an [`Entry`](crate::handler::entry::Entry); [`build`] checks it and
//! makes a [`Tool`], a [`Prompt`](entries::Prompt) or a [`Resource`](entries::Resource) of it; a [`Registry`] holds those. A registry is immutable: a change
//! makes another one, which shares the entries.

mod build;
mod capabilities;
mod contract;
mod encode;
mod entries;
mod headers;
mod lists;
#[cfg_attr(not(feature = "skills"), expect(dead_code, reason = "without the feature, a server has no skills"))]
mod skills;
mod snapshot;
mod table;

pub(crate) use capabilities::{Kinds, ServerCapabilities};
pub(crate) use contract::contract;
pub(crate) use entries::{Completed, Function, Tool};
pub(crate) use lists::{ListKind, Pager, offset, write_resources};
pub(crate) use skills::{Node, Skills};
pub(crate) use snapshot::{Found, Registry, ResourceLists, Selection};

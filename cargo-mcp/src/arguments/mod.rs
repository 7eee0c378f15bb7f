//! User input: arguments of tools and prompts, and answers to questions, converted and checked by their schemas.

pub(crate) mod coerce;
pub(crate) mod elicit;
pub(crate) mod exact;
pub(crate) mod schema;
pub(crate) mod uri_template;

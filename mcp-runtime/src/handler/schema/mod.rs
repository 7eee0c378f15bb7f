//! JSON schemas: generated from Rust types and enforced on arguments and answers.

mod check;
mod error;
mod generate;
mod nearest;
mod pointer;
mod profile;
mod subschemas;

pub(crate) use check::{Checker, Violation, decoding_violation};
pub(crate) use error::SchemaError;
pub(crate) use generate::{
    Keyword, Property, generator, input, is_object, listed, output, output_generator, whole_input, wrap,
};
pub(crate) use nearest::nearest;
pub use profile::SchemaProfile;

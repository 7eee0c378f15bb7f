#![doc = include_str!("../README.md")]

mod check;
mod generate;
#[doc(hidden)]
pub mod json;
mod references;
mod schema;

pub use check::{Checker, Violation, decoding_violation, nearest};
#[doc(hidden)]
pub use check::{is_date, is_date_time};
pub use generate::{
    Bound, Keyword, Property, SchemaProfile, generator, input, is_object, listed, output, output_generator,
    whole_input, wrap,
};
pub use schema::SchemaError;

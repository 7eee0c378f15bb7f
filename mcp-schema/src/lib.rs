#![doc = include_str!("../README.md")]

mod check;
mod date_time;
mod error;
mod generate;
#[doc(hidden)]
pub mod json;
mod nearest;
mod pointer;
mod subschemas;

pub use check::{Checker, Violation, decoding_violation};
#[doc(hidden)]
pub use date_time::{is_date, is_date_time};
pub use error::SchemaError;
pub use generate::{
    Keyword, Property, SchemaProfile, generator, input, is_object, listed, output, output_generator, whole_input, wrap,
};
pub use nearest::nearest;

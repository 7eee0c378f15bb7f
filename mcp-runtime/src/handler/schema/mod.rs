//! Schemas: made from types, friendly to weak clients, and enforced.

mod check;
mod friendly;
mod nearest;
mod pointer;

pub(crate) use check::{Checker, Violation};
pub(crate) use friendly::{
    Property, Rule as Keyword, generator, input, is_object, output, output_generator, whole_input, wrap,
};
pub(crate) use nearest::nearest;

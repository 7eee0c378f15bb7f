//! Compares the sets of values that two schemas accept, keyword by keyword.
//!
//! Equivalent notations (a `$ref` or its target, an `enum` of one value or a `const`, two `type`s or an `anyOf`)
//! compare equal. Differences whose effect is undecidable (`not`, `if`, another `pattern`) count as narrowing *and*
//! widening, so no breaking change is reported as compatible.

mod compare;
mod difference;
mod keywords;
mod normal;
mod object;
mod report;
mod values;

pub use compare::compare;
pub use difference::{Difference, Effect, Role};

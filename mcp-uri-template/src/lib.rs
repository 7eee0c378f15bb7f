//! URI templates as defined by [RFC 6570](https://www.rfc-editor.org/rfc/rfc6570), levels 1 to 3.
//!
//! The macros of `mcp-runtime` parse templates at compile time, the runtime matches URIs against them and expands them,
//! and `mcp-runtime-lock` matches templates that other servers list. RFC 6570 defines only expansion; [`matches()`] is its
//! inverse: the values that it returns expand to the same URI, except for characters that needed no percent-encoding, the
//! order of named parameters, and the `=` of empty ones.
//!
//! Other crates do not suffice: `uri-template-system` 0.1 and `iri-string` only expand, and `uri-template-ex` 0.0.2
//! matches level 2.

#![warn(clippy::missing_errors_doc)]

mod checks;
mod expand;
mod matching;
mod parse;
mod part;
mod percent;

#[doc(hidden)]
pub use self::checks::{ICON_SOURCE, check_key, check_meta_key, is_icon_size, is_icon_source};
pub use self::{
    expand::expand,
    matching::{MAX_URI_LENGTH, matches},
    parse::{ParseError, parse},
    part::{Operator, Part},
};

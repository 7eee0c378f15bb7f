//! JSON Schema 2020-12 for the arguments and results of functions: generated from Rust types, simplified for clients
//! with limited support, enforced on JSON text, and explained to whoever sent a wrong value.
//!
//! ```
//! use mcp_schema::Checker;
//! use serde_json::json;
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": { "style": { "enum": ["formal", "casual"] }, "limit": { "type": "integer", "maximum": 100 } },
//!     "required": ["style"],
//!     "additionalProperties": false
//! });
//! let checker = Checker::compile(&schema)?;
//! assert!(checker.accepts(r#"{"style": "formal", "limit": 10}"#));
//!
//! let violations = checker.violations(r#"{"style": "formel", "limt": 10}"#);
//! let messages: Vec<String> = violations.iter().map(ToString::to_string).collect();
//! assert_eq!(
//!     messages,
//!     [
//!         r#"`style`: "formel" must be one of "formal", "casual" (did you mean "formal"?)"#,
//!         "`limt` is not an argument, expected one of `limit`, `style` (did you mean `limit`?)",
//!     ]
//! );
//! # Ok::<(), mcp_schema::SchemaError>(())
//! ```
//!
//! - [`input`], [`whole_input`] and [`output`] build schemas from what [`schemars`] generates. They inline references
//!   and remove what clients do not need. [`listed`] turns a schema into the form that most clients understand.
//! - [`Checker`] enforces a schema on JSON text, without building a tree, and reports all violations.
//! - [`decoding_violation`] words the errors of serde in the same way.
//!
//! A keyword that constrains values but is not supported is an error, so that nothing is accepted by mistake.

mod check;
mod date_time;
mod error;
mod generate;
#[doc(hidden)]
pub mod json;
mod nearest;
mod pointer;
mod profile;
mod subschemas;

pub use check::{Checker, Violation, decoding_violation};
#[doc(hidden)]
pub use date_time::{is_date, is_date_time};
pub use error::SchemaError;
pub use generate::{
    Keyword, Property, generator, input, is_object, listed, output, output_generator, whole_input, wrap,
};
pub use nearest::nearest;
pub use profile::SchemaProfile;

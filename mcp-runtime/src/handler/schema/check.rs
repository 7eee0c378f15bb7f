//! Checks JSON text against a schema and reports all violations.
//!
//! A schema is compiled once into a list of nodes that refer to each other by index. A check walks over the raw text
//! without building a tree. For valid text it allocates only for strings with escapes.
//!
//! Keywords that constrain values but are not supported (`unevaluatedItems`, `unevaluatedProperties`, `$dynamicRef`),
//! and references to other documents or by `$id`, are errors. The test module `suite` lists every deviation from the
//! official test suite; the test module `vocabulary` lists how every keyword is treated.

mod compile;
mod decode;
mod explain;
mod format;
mod integral;
mod keywords;
mod node;
mod number;
mod report;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests;
mod violation;
#[cfg(test)]
mod vocabulary;
mod walk;

use serde_json::Value;

use self::{
    compile::compile,
    node::Node,
    report::{Collector, StopAtFirst},
    walk::Walk,
};
pub(crate) use self::{decode::decoding_violation, violation::Violation};
use super::error::SchemaError;

/// A compiled schema.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// The root is the first node.
    nodes: Vec<Node>,
}

impl Checker {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// Fails if a keyword is not supported or has an invalid value, a pattern is not a supported regular expression, or
    /// a reference cannot be resolved.
    pub(crate) fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Ok(Self { nodes: compile(schema)? })
    }

    /// Returns whether the JSON text is valid.
    pub(crate) fn accepts(&self, json: &str) -> bool {
        let mut walk = Walk::new(&self.nodes, json);
        walk.root(json, &mut StopAtFirst).is_continue() && !walk.is_exhausted()
    }

    /// Returns the violations of the JSON text: at most 32, followed by one that counts the others.
    pub(crate) fn violations(&self, json: &str) -> Vec<Violation> {
        let mut walk = Walk::new(&self.nodes, json);
        let mut violations = Collector::default();
        let _ = walk.root(json, &mut violations);
        if walk.is_exhausted() {
            let rule = "is too large or too deeply nested to be checked";
            violations.push(Violation::new("", Some(json), rule));
        }
        violations.finish()
    }

    /// Rewrites numbers such as `1.0` and `1e2` as `1` and `100` where the schema expects an integer.
    ///
    /// JSON Schema considers them integers, but serde does not decode them as such.
    pub(crate) fn normalize_integers(&self, json: &str) -> String {
        integral::rewrite(&self.nodes, json)
    }
}

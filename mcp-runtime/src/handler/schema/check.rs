//! Checks JSON text against a schema, and says all that is wrong with it.
//!
//! A schema is compiled once into a list of nodes that refer to each other by index. A check walks over the text as it came,
//! builds no tree, and on text that fits allocates only for strings with escapes.
//!
//! `unevaluatedItems` and `unevaluatedProperties` are not checked, nor are references to other documents supported.

mod compile;
mod explain;
mod format;
mod integral;
mod node;
mod number;
mod report;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests;
mod violation;
mod walk;

use serde_json::Value;

pub(crate) use self::violation::Violation;
use self::{
    compile::compile,
    node::Node,
    report::{Collected, Silent},
    walk::Walk,
};

/// A compiled schema.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// The root comes first.
    nodes: Vec<Node>,
}

impl Checker {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with the schema: a keyword with a value that it cannot have, a pattern that is no
    /// regular expression, a reference to nothing.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        Ok(Self { nodes: compile(schema)? })
    }

    /// Tells whether the JSON text fits the schema.
    pub(crate) fn accepts(&self, json: &str) -> bool {
        let mut walk = Walk::new(&self.nodes, json);
        walk.root(json, &mut Silent).is_continue() && !walk.is_exhausted()
    }

    /// Returns all that is wrong with the JSON text: at most 32 violations, and then one that says how many more there are.
    pub(crate) fn violations(&self, json: &str) -> Vec<Violation> {
        let mut walk = Walk::new(&self.nodes, json);
        let mut collected = Collected::default();
        let _ = walk.root(json, &mut collected);
        if walk.is_exhausted() {
            let rule = "is nested too deeply or is too large to be checked";
            collected.push(Violation::new("", Some(json), rule));
        }
        collected.finish()
    }

    /// Writes `1.0` and `1e2` as `1` and `100` wherever the schema asks for an integer. Everything else stays as it is.
    ///
    /// To JSON Schema these are integers, and to serde they are not.
    pub(crate) fn integral(&self, json: &str) -> String {
        integral::rewrite(&self.nodes, json)
    }
}

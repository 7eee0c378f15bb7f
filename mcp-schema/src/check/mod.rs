//! Checks JSON text against a schema and reports all violations.
//!
//! A schema is compiled once into a list of nodes that refer to each other by index. A check walks over the raw text
//! without building a tree. For valid text it allocates only for strings with escapes.
//!
//! Keywords of earlier drafts that constrain values, references to other documents, and a `$dynamicRef` with
//! several possible targets are errors. The test module `suite` lists every deviation from the
//! official test suite; the test module `vocabulary` lists how every keyword is treated.

mod compile;
mod decode;
mod explain;
mod format;
mod integral;
mod node;
mod number;
#[cfg(test)]
mod tests;
mod unevaluated;
mod violation;
mod walk;

use serde_json::Value;

use self::{
    compile::{AbsentNull, compile},
    node::Node,
    violation::{Collector, StopAtFirst},
    walk::{DEPTH, Walk},
};
pub use self::{
    decode::decoding_violation,
    explain::nearest,
    format::{is_date, is_date_time},
    violation::Violation,
};
use crate::{
    json::{Repetition, repetition},
    schema::SchemaError,
};

/// A compiled schema.
#[derive(Debug, Default)]
pub struct Checker {
    /// The root is the first node.
    nodes: Vec<Node>,
    /// The number of steps that all patterns together need for each byte of a text.
    pattern_weight: u64,
    /// Whether objects must not repeat a member.
    refuses_repetitions: bool,
}

/// The number of steps for each byte of a text that a check may take, in addition to the steps of patterns.
const STEPS_PER_BYTE: u64 = 1 << 10;
/// The number of steps that a check may take for any text. A step takes about a nanosecond.
const BASE_STEPS: u64 = 1 << 20;
/// The maximum number of steps of a check. A text that needs more is rejected.
const MAX_STEPS: u64 = 1 << 28;
/// The maximum number of steps of a check on a thread that serves connections.
const MAX_QUICK_STEPS: u64 = 1 << 23;
/// The number of steps for each byte that such a check may take in addition, since long strings are checked quickly.
const QUICK_STEPS_PER_BYTE: u64 = 8;

impl Checker {
    /// Compiles a schema. `null` as the value of any optional property counts as absent, unless it is accepted.
    ///
    /// # Errors
    ///
    /// Fails if a keyword is not supported or has an invalid value, a pattern is not a supported regular expression, or
    /// a reference cannot be resolved.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::new(schema, AbsentNull::All)
    }

    /// Compiles a schema of arguments. `null` counts as absent only where a marker states that decoding accepts it.
    ///
    /// # Errors
    ///
    /// Same as [`compile`](Self::compile).
    pub fn of_arguments(schema: &Value) -> Result<Self, SchemaError> {
        Self::new(schema, AbsentNull::Marked)
    }

    fn new(schema: &Value, absent: AbsentNull) -> Result<Self, SchemaError> {
        let nodes = compile(schema, absent)?;
        let pattern_weight = nodes.iter().map(Node::pattern_weight).sum();
        let refuses_repetitions = nodes.iter().any(Node::accepts_what_fails);
        Ok(Self { nodes, pattern_weight, refuses_repetitions })
    }

    /// Returns whether a check of a text may take so long that it must not run on a thread that serves connections.
    pub fn is_slow(&self, json: &str) -> bool {
        self.max_steps(json) > BASE_STEPS + MAX_QUICK_STEPS
    }

    /// Returns the maximum number of steps of a check.
    fn max_steps(&self, json: &str) -> u64 {
        let factor = STEPS_PER_BYTE.saturating_add(self.pattern_weight);
        (json.len() as u64).saturating_mul(factor).saturating_add(BASE_STEPS).min(MAX_STEPS)
    }

    /// Returns whether the JSON text is valid.
    pub fn accepts(&self, json: &str) -> bool {
        if self.repetition(json).is_some() {
            return false;
        }
        let mut walk = Walk::new(&self.nodes, self.max_steps(json));
        walk.root(json, &mut StopAtFirst).is_continue() && !walk.is_exhausted()
    }

    /// Returns the violations of the JSON text: at most 32, followed by one that counts the remaining violations.
    pub fn violations(&self, json: &str) -> Vec<Violation> {
        let (mut violations, is_complete) = self.violations_within(json, self.max_steps(json));
        if !is_complete {
            violations.push(Violation::too_large(json));
        }
        violations.finish()
    }

    /// Returns the violations of the JSON text like [`violations`](Self::violations), or `None` if the check takes too
    /// long for a thread that serves connections.
    pub fn quick_violations(&self, json: &str) -> Option<Vec<Violation>> {
        let quick = MAX_QUICK_STEPS + QUICK_STEPS_PER_BYTE * json.len() as u64;
        let (violations, is_complete) = self.violations_within(json, self.max_steps(json).min(quick));
        is_complete.then(|| violations.finish())
    }

    /// Returns the violations that are found within a number of steps, and whether these are all.
    fn violations_within(&self, json: &str, steps: u64) -> (Collector, bool) {
        let mut walk = Walk::new(&self.nodes, steps);
        let mut violations = Collector::default();
        if let Some(Repetition { path, object, name }) = self.repetition(json) {
            violations.push(Violation::new(&path, Some(object), &format!("has the member `{name}` twice")));
        }
        let _ = walk.root(json, &mut violations);
        (violations, !walk.is_exhausted())
    }

    /// Returns a member that an object repeats, if that matters: each of the values must match, but decoding
    /// takes the last one. Where a value is accepted because it does not match, as in `not`, the first one could hide the
    /// last one.
    fn repetition<'a>(&self, json: &'a str) -> Option<Repetition<'a>> {
        if self.refuses_repetitions { repetition(json, DEPTH) } else { None }
    }

    /// Returns the number of steps of a check that finds all violations.
    #[cfg(test)]
    fn steps(&self, json: &str) -> u64 {
        let mut walk = Walk::new(&self.nodes, MAX_STEPS);
        let _ = walk.root(json, &mut Collector::default());
        MAX_STEPS - walk.budget()
    }

    /// Rewrites numbers such as `1.0` and `1e2` as `1` and `100` where the schema expects an integer.
    ///
    /// JSON Schema considers them integers, but serde does not decode them as such.
    pub fn normalize_integers(&self, json: &str) -> String {
        integral::rewrite(&self.nodes, json)
    }
}

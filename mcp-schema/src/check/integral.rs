//! Rewrites integral numbers such as `1.0` in the form that serde decodes as integers.

use super::{
    node::{Id, Node, ROOT, with_applied},
    number::integer,
};
use crate::json::{self, Kind};

/// The nesting depth beyond which values are left unchanged.
const DEPTH: usize = 128;

/// The maximum number of digits of an `i128` or `u128`.
const DIGITS: usize = 39;

/// The maximum number of schemas that are considered for all values together. The values beyond it are left unchanged.
const MAX_STEPS: usize = 1 << 20;

/// Rewrites integral numbers without fraction and exponent where the schema expects an integer.
pub(super) fn rewrite(nodes: &[Node], json: &str) -> String {
    let mut rewriter = Rewriter { nodes, json, copied: 0, out: String::with_capacity(json.len()), steps: MAX_STEPS };
    rewriter.value(&[ROOT], json, 0);
    rewriter.out.push_str(json.get(rewriter.copied..).unwrap_or_default());
    rewriter.out
}

/// Returns the schemas that may apply to any member of a value of this kind.
fn unevaluated<'a>(nodes: &'a [&Node], kind: Kind) -> impl Iterator<Item = Id> + 'a {
    nodes.iter().filter_map(move |node| node.unevaluated.as_ref()?.of(kind))
}

struct Rewriter<'a> {
    nodes: &'a [Node],
    json: &'a str,
    /// The length of the text that is already in `out`.
    copied: usize,
    out: String,
    /// The number of schemas that may still be considered.
    steps: usize,
}

impl<'a> Rewriter<'a> {
    /// Rewrites a value to which these schemas apply or may apply.
    fn value(&mut self, ids: &[Id], value: &'a str, depth: usize) {
        if ids.is_empty() || depth > DEPTH || self.steps == 0 {
            return;
        }
        let nodes = self.applying(ids);
        self.steps = self.steps.saturating_sub(nodes.len());
        match json::kind(value) {
            Kind::Number if nodes.iter().any(|node| node.types.is_some_and(|types| types.has_integer())) => {
                self.number(value);
            }
            Kind::Array => {
                for (index, element) in json::elements(value).enumerate() {
                    let rules = nodes.iter().filter_map(|node| node.array.as_ref());
                    let mut ids: Vec<Id> =
                        rules.filter_map(|rules| rules.prefix.get(index).copied().or(rules.items)).collect();
                    ids.extend(unevaluated(&nodes, Kind::Array));
                    self.value(&ids, element, depth + 1);
                }
            }
            Kind::Object => {
                for (name, member) in json::members(value) {
                    let mut ids = Vec::new();
                    for rules in nodes.iter().filter_map(|node| node.object.as_ref()) {
                        let before = ids.len();
                        ids.extend(rules.property(&name).map(|property| property.node));
                        ids.extend(rules.patterns.iter().filter(|(it, _)| it.regex.is_match(&name)).map(|(_, id)| *id));
                        if ids.len() == before {
                            ids.extend(rules.additional);
                        }
                    }
                    ids.extend(unevaluated(&nodes, Kind::Object));
                    self.value(&ids, member, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn number(&mut self, value: &'a str) {
        if value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            return;
        }
        let Some(written) = integer(value, DIGITS) else { return };
        // The value is a slice of the text, so the difference of the addresses is its position.
        let start = (value.as_ptr() as usize).wrapping_sub(self.json.as_ptr() as usize);
        if let Some(between) = self.json.get(self.copied..start) {
            self.out.push_str(between);
            self.out.push_str(&written);
            self.copied = start + value.len();
        }
    }

    /// Returns these schemas and all schemas that they apply to the same value.
    fn applying(&self, ids: &[Id]) -> Vec<&'a Node> {
        let applied = with_applied(self.nodes, ids, |node| {
            let applicators = node.applicators.iter().flat_map(|applicators| {
                let optional = [applicators.reference, applicators.then, applicators.otherwise];
                let listed = [&applicators.all, &applicators.any, &applicators.one].into_iter().flatten().copied();
                optional.into_iter().flatten().chain(listed)
            });
            let dependent = node.object.iter().flat_map(|rules| rules.dependent_schemas.iter().map(|(_, id)| *id));
            applicators.chain(dependent)
        });
        applied.into_iter().map(|id| &self.nodes[id]).collect()
    }
}

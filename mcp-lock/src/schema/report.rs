//! Collects differences and their paths.

use serde_json::Value;

use super::{
    difference::{Difference, Effect},
    values::shown,
};

/// The differences found so far, and the path of the schemas that are being compared.
#[derive(Default)]
pub(super) struct Report {
    path: String,
    differences: Vec<Difference>,
}

impl Report {
    /// Reports a difference at the current path.
    pub(super) fn difference(&mut self, effect: Effect, text: impl Into<String>) {
        self.differences.push(Difference { path: self.path.clone(), effect, text: text.into() });
    }

    /// Reports a difference of a member of the current object.
    pub(super) fn member(&mut self, name: &str, effect: Effect, text: &str) {
        let length = self.enter(&format!(".{name}"));
        self.difference(effect, text);
        self.leave(length);
    }

    /// Reports the change of a keyword, if its value changed or its meaning may have.
    pub(super) fn keyword(&mut self, effect: Effect, keyword: &str, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) if old == new && effect == Effect::None => {}
            (Some(old), Some(new)) if old == new && keyword == "x-mcp-header" => {}
            (Some(old), Some(new)) => {
                self.difference(effect, format!("`{keyword}` changed from {} to {}", shown(old), shown(new)))
            }
            (None, Some(new)) => self.difference(effect, format!("`{keyword}` added: {}", shown(new))),
            (Some(old), None) => self.difference(effect, format!("`{keyword}` removed: {}", shown(old))),
            (None, None) => {}
        }
    }

    /// Appends a step to the path and returns the length to pass to [`leave`](Self::leave).
    pub(super) fn enter(&mut self, step: &str) -> usize {
        let length = self.path.len();
        let step = if length == 0 { step.strip_prefix('.').unwrap_or(step) } else { step };
        self.path.push_str(step);
        length
    }

    /// Restores the path to its previous length.
    pub(super) fn leave(&mut self, length: usize) {
        self.path.truncate(length);
    }

    pub(super) fn finish(self) -> Vec<Difference> {
        self.differences
    }
}

//! The keywords `unevaluatedItems` and `unevaluatedProperties`.

use super::{
    node::{Id, Node},
    violation::{Flow, Path, Report},
    walk::Walk,
};
use crate::json::{self, Kind};

impl<'a> Walk<'a> {
    /// Checks the members of a value that no other keyword of its schema has evaluated.
    pub(super) fn unevaluated<R: Report>(
        &mut self,
        id: Id,
        rest: Id,
        json: &str,
        path: &Path<'_>,
        report: &mut R,
    ) -> Flow {
        if json::kind(json) == Kind::Array {
            let elements: Vec<&str> = json::elements(json).collect();
            let mut evaluated = vec![false; elements.len()];
            self.mark_members(id, json, &mut evaluated)?;
            for (index, element) in elements.into_iter().enumerate().filter(|(index, _)| !evaluated[*index]) {
                self.check(rest, element, &Path::Element(path, index), report)?;
            }
        } else {
            let members: Vec<_> = json::members(json).collect();
            let mut evaluated = vec![false; members.len()];
            self.mark_members(id, json, &mut evaluated)?;
            for (_, (name, value)) in members.iter().enumerate().filter(|(index, _)| !evaluated[*index]) {
                self.check(rest, value, &Path::Member(path, name), report)?;
            }
        }
        Flow::Continue(())
    }

    /// Marks the members of a value that a schema evaluates, apart from its own `unevaluatedItems` and
    /// `unevaluatedProperties`.
    fn mark_members(&mut self, id: Id, json: &str, evaluated: &mut [bool]) -> Flow {
        self.enter(json)?;
        let node: &'a Node = &self.nodes[id];
        let mut applied = Vec::new();
        if let (Some(rules), Kind::Array) = (&node.array, json::kind(json)) {
            let described = if rules.evaluates_rest { evaluated.len() } else { rules.prefix.len() };
            evaluated.iter_mut().take(described).for_each(|mark| *mark = true);
            if let Some((id, _)) = rules.contains {
                for (mark, element) in evaluated.iter_mut().zip(json::elements(json)) {
                    *mark |= self.accepts(id, element);
                }
            }
        }
        if let (Some(rules), Kind::Object) = (&node.object, json::kind(json)) {
            for (mark, (name, _)) in evaluated.iter_mut().zip(json::members(json)) {
                *mark |= rules.evaluates_rest || rules.property(&name).is_some();
                for (pattern, _) in &rules.patterns {
                    self.spend(pattern.weight.saturating_mul(name.len() as u64))?;
                    *mark |= pattern.regex.is_match(&name);
                }
                applied.extend(rules.dependent_schemas.iter().filter(|(other, _)| **other == *name).map(|(_, id)| *id));
            }
        }
        if let Some(applicators) = &node.applicators {
            applied.extend(applicators.reference.iter().chain(&applicators.all));
            for &id in applicators.any.iter().chain(&applicators.one) {
                if self.accepts(id, json) {
                    applied.push(id);
                }
            }
            if let Some(condition) = applicators.condition {
                if self.accepts(condition, json) {
                    applied.push(condition);
                    applied.extend(applicators.then);
                } else {
                    applied.extend(applicators.otherwise);
                }
            }
        }
        for id in applied {
            let unevaluated = self.nodes[id].unevaluated.as_ref();
            if unevaluated.is_some_and(|unevaluated| unevaluated.of(json::kind(json)).is_some()) {
                evaluated.fill(true);
            }
            self.mark_members(id, json, evaluated)?;
        }
        self.depth -= 1;
        Flow::Continue(())
    }
}

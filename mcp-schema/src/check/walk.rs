//! Walks over JSON text and a compiled schema in parallel.

use std::{collections::HashSet, ops::ControlFlow};

use serde_json::Value;

use super::{
    explain,
    node::{
        Applicators, ArrayRules, Counts, Id, Node, NumberRules, ObjectRules, ROOT, StringRules, canonical, with_applied,
    },
    number::Number,
    violation::{Collector, Flow, Path, Report, StopAtFirst, Violation},
};
use crate::json::{self, Kind};

/// The maximum depth, which counts nested values and nested schemas alike.
pub(super) const DEPTH: usize = 256;

/// The length in bytes up to which all violations in an array or object are reported, even if it has too many items.
const SHORT: usize = 1 << 10;

/// The number of steps to check a value, in addition to one for each of its bytes.
const VISIT: u64 = 16;

/// The number of steps to compare a value with an alternative that it does not match, in addition to its check and one
/// for each of its bytes.
const EXPLANATION: u64 = 1 << 10;

/// A single check of a text.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) nodes: &'a [Node],
    /// The number of steps that may still be taken, each of which takes about a nanosecond. Bounds the time for schemas
    /// with recursive alternatives, which can be exponential, and for long patterns.
    budget: u64,
    pub(super) depth: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(nodes: &'a [Node], budget: u64) -> Self {
        Self { nodes, budget, depth: 0 }
    }

    /// Returns the number of steps that may still be taken.
    #[cfg(test)]
    pub(super) fn budget(&self) -> u64 {
        self.budget
    }

    /// Checks the whole text, starting at the root.
    pub(super) fn root(&mut self, json: &str, report: &mut impl Report) -> Flow {
        self.check(ROOT, json, &Path::Root, report)
    }

    /// Returns whether the walk was aborted because it exceeded its budget or the maximum depth.
    pub(super) fn is_exhausted(&self) -> bool {
        self.budget == 0
    }

    pub(super) fn accepts(&mut self, id: Id, json: &str) -> bool {
        self.check(id, json, &Path::Root, &mut StopAtFirst).is_continue()
    }

    fn violations(&mut self, id: Id, json: &str, path: &Path<'_>) -> Collector {
        let mut violations = Collector::default();
        let _ = self.check(id, json, path, &mut violations);
        violations
    }

    pub(super) fn check<R: Report>(&mut self, id: Id, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        self.enter(json)?;
        let flow = self.node(id, json, path, report);
        self.depth -= 1;
        flow
    }

    /// Counts the check of a value by a schema, which ends with `depth -= 1`.
    pub(super) fn enter(&mut self, json: &str) -> Flow {
        self.spend(if self.depth < DEPTH { json.len() as u64 + VISIT } else { u64::MAX })?;
        self.depth += 1;
        Flow::Continue(())
    }

    /// Takes steps, and breaks off the walk if too few are left.
    pub(super) fn spend(&mut self, steps: u64) -> Flow {
        self.budget = self.budget.saturating_sub(steps);
        if self.is_exhausted() { Flow::Break(()) } else { Flow::Continue(()) }
    }

    fn node<R: Report>(&mut self, id: Id, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        let node: &'a Node = &self.nodes[id];
        let violated = |rule: &str| Violation::at(path, Some(json), rule);
        if node.never {
            return report.fail(|| violated("is not allowed"));
        }
        let kind = json::kind(json);
        let without_absent = if kind == Kind::Object { self.without_absent(id, json)? } else { None };
        let json = without_absent.as_deref().unwrap_or(json);
        for values in &node.values {
            if !values.contain(kind, json) {
                return report.fail(|| violated(&explain::expected_value(&[values], json)));
            }
        }
        if let Some(types) = node.types
            && !types.accepts(kind, json)
        {
            return report.fail(|| violated(&format!("must be {}", types.in_words())));
        }
        match kind {
            Kind::Number => {
                if let Some(rules) = &node.number {
                    number(rules, json, path, report)?;
                }
            }
            Kind::String => {
                if let Some(rules) = &node.string {
                    self.string(rules, json, path, report)?;
                }
            }
            Kind::Array => {
                if let Some(rules) = &node.array {
                    self.array(rules, json, path, report)?;
                }
            }
            Kind::Object => {
                if let Some(rules) = &node.object {
                    self.object(rules, json, path, report)?;
                }
            }
            Kind::Null | Kind::Bool => {}
        }
        if let Some(applicators) = &node.applicators {
            self.applicators(applicators, json, path, report)?;
        }
        match node.unevaluated.as_ref().and_then(|unevaluated| unevaluated.of(kind)) {
            Some(rest) => self.unevaluated(id, rest, json, path, report),
            None => Flow::Continue(()),
        }
    }

    fn array<R: Report>(&mut self, rules: &'a ArrayRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        // The items of a long array are not checked if there are too many.
        let most = usize::try_from(rules.length.most).unwrap_or(usize::MAX);
        if json.len() > most.saturating_mul(2).max(SHORT) && json::elements(json).nth(most).is_some() {
            self.spend(json.len() as u64)?;
            let length = json::elements(json).count();
            return counted(length, rules.length, ["item", "items"], json, path, report);
        }
        let mut length = 0_usize;
        let mut contained = 0_u64;
        let mut seen = HashSet::new();
        for (index, element) in json::elements(json).enumerate() {
            length = index + 1;
            let element_path = Path::Element(path, index);
            if let Some(id) = rules.prefix.get(index).copied().or(rules.items) {
                self.check(id, element, &element_path, report)?;
            }
            if let Some((id, _)) = rules.contains {
                contained += u64::from(self.accepts(id, element));
            }
            if rules.unique {
                self.spend(element.len() as u64 * 8 + VISIT)?;
            }
            if rules.unique && !seen.insert(canonical(element)) {
                report.fail(|| Violation::at(&element_path, Some(element), "must be unique"))?;
            }
        }
        counted(length, rules.length, ["item", "items"], json, path, report)?;
        if let Some((id, counts)) = rules.contains
            && (contained < counts.least || contained > counts.most)
        {
            return report.fail(|| Violation::at(path, Some(json), explain::contains(self.nodes, id, counts)));
        }
        Flow::Continue(())
    }

    fn string<R: Report>(&mut self, rules: &'a StringRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        let violated = |rule: String| Violation::at(path, Some(json), rule);
        let Some(text) = json::string(json) else {
            return report.fail(|| violated("must be valid Unicode".to_owned()));
        };
        // A character has at most four bytes, so most lengths need no counting.
        let Counts { least, most } = rules.length;
        let bytes = text.len() as u64;
        if bytes > most || bytes / 4 < least {
            let count = text.chars().count();
            counted(count, rules.length, ["character", "characters"], json, path, report)?;
            if count as u64 > most {
                // Text that is too long is not searched for a pattern.
                return Flow::Continue(());
            }
        }
        if let Some(pattern) = &rules.pattern {
            self.spend(pattern.weight.saturating_mul(bytes))?;
            if !pattern.regex.is_match(&text) {
                report.fail(|| violated(format!("must match the pattern `{}`", pattern.regex.as_str())))?;
            }
        }
        match rules.format.filter(|format| !(format.accepts)(&text)) {
            Some(format) => report.fail(|| violated(format!("must match the format `{}`", format.name))),
            None => Flow::Continue(()),
        }
    }

    /// Returns an object without the members that count as absent, or `None` if there are none: `null` as the value of
    /// a nullable property that does not accept it, which decoding treats like an absent property. No keyword of any
    /// schema sees such a member, so it does not satisfy the `required` of an alternative either.
    fn without_absent(&mut self, id: Id, json: &str) -> ControlFlow<(), Option<String>> {
        if !json.contains("null") {
            return ControlFlow::Continue(None);
        }
        self.spend(json.len() as u64)?;
        let nodes = self.nodes;
        let mut absent = HashSet::new();
        let ids = with_applied(nodes, &[id], |node| {
            node.applicators
                .iter()
                .flat_map(|applicators| applicators.reference.iter().chain(&applicators.all))
                .copied()
        });
        self.spend(ids.len() as u64)?;
        for (name, value) in json::members(json).filter(|(_, value)| json::kind(value) == Kind::Null) {
            let rules = ids.iter().filter_map(|&id| nodes[id].object.as_ref());
            let mut nullable = rules.filter_map(|rules| rules.property(&name)).filter(|property| property.nullable);
            if nullable.any(|property| !self.accepts(property.node, value)) {
                absent.insert(name);
            }
        }
        if absent.is_empty() {
            return ControlFlow::Continue(None);
        }
        let kept =
            json::members(json).filter(|(name, value)| json::kind(value) != Kind::Null || !absent.contains(name));
        let members: Vec<_> = kept.map(|(name, value)| format!("{}:{value}", Value::from(&*name))).collect();
        ControlFlow::Continue(Some(format!("{{{}}}", members.join(","))))
    }

    fn object<R: Report>(&mut self, rules: &'a ObjectRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        // The members of a long object are not checked if there are too many.
        let most = usize::try_from(rules.length.most).unwrap_or(usize::MAX);
        if json.len() > most.saturating_mul(5).max(SHORT) && json::members(json).nth(most).is_some() {
            self.spend(json.len() as u64)?;
            let length = json::members(json).count();
            return counted(length, rules.length, ["property", "properties"], json, path, report);
        }
        let mut length = 0_usize;
        let mut seen = Seen::new(rules.required.len());
        for (name, value) in json::members(json) {
            length += 1;
            let name = name.as_ref();
            self.spend(rules.required.len() as u64 + VISIT)?;
            let member_path = Path::Member(path, name);
            if let Some(index) = rules.required.iter().position(|required| **required == *name) {
                seen.insert(index);
            }
            if let Some(id) = rules.names {
                let quoted = serde_json::Value::from(name).to_string();
                if !self.accepts(id, &quoted) {
                    report.fail(|| {
                        let violations = self.violations(id, &quoted, &Path::Root);
                        Violation::at(&member_path, None, explain::name(violations))
                    })?;
                }
            }
            let mut known = false;
            if let Some(property) = rules.property(name) {
                known = true;
                self.check(property.node, value, &member_path, report)?;
            }
            for (pattern, id) in &rules.patterns {
                self.spend(pattern.weight.saturating_mul(name.len() as u64))?;
                if pattern.regex.is_match(name) {
                    known = true;
                    self.check(*id, value, &member_path, report)?;
                }
            }
            match rules.additional {
                Some(id) if !known && self.nodes[id].never => {
                    report.fail(|| Violation::at(&member_path, None, explain::unknown(rules, name, path)))?;
                }
                Some(id) if !known => self.check(id, value, &member_path, report)?,
                _ => {}
            }
        }
        counted(length, rules.length, ["property", "properties"], json, path, report)?;
        for (index, name) in rules.required.iter().enumerate() {
            if !seen.contains(index) {
                report.fail(|| explain::missing(self.nodes, rules, name, path))?;
            }
        }
        self.dependent(rules, json, path, report)
    }

    fn dependent<R: Report>(&mut self, rules: &'a ObjectRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        let searches = rules.dependent_required.iter().map(|(_, others)| 1 + others.len()).sum::<usize>();
        self.spend((json.len() as u64).saturating_mul((searches + rules.dependent_schemas.len()) as u64))?;
        let has = |name: &str| json::members(json).any(|(member, _)| member == name);
        for (name, others) in &rules.dependent_required {
            for other in others.iter().filter(|other| has(name) && !has(other)) {
                let rule = format!("is required when `{name}` is given");
                report.fail(|| Violation::at(&Path::Member(path, other), None, &rule))?;
            }
        }
        for (name, id) in &rules.dependent_schemas {
            if has(name) {
                self.check(*id, json, path, report)?;
            }
        }
        Flow::Continue(())
    }

    fn applicators<R: Report>(
        &mut self,
        applicators: &'a Applicators,
        json: &str,
        path: &Path<'_>,
        report: &mut R,
    ) -> Flow {
        for &id in applicators.reference.iter().chain(&applicators.all) {
            self.check(id, json, path, report)?;
        }
        if !applicators.any.is_empty() && !applicators.any.iter().any(|&id| self.accepts(id, json)) {
            self.no_branch(&applicators.any, json, path, report)?;
        }
        if !applicators.one.is_empty() {
            match applicators.one.iter().filter(|&&id| self.accepts(id, json)).take(2).count() {
                0 => self.no_branch(&applicators.one, json, path, report)?,
                1 => {}
                _ => {
                    let rule = "matches more than one of the alternatives, but must match exactly one";
                    report.fail(|| Violation::at(path, Some(json), rule))?;
                }
            }
        }
        if let Some(id) = applicators.not
            && self.accepts(id, json)
            && !self.is_exhausted()
        {
            let words = || match explain::describe(self.nodes, id) {
                Some(excluded) => format!("must not be {excluded}"),
                None => "matches a schema that is not allowed".to_owned(),
            };
            report.fail(|| Violation::at(path, Some(json), words()))?;
        }
        let Some(condition) = applicators.condition else { return Flow::Continue(()) };
        let branch = if self.accepts(condition, json) { applicators.then } else { applicators.otherwise };
        branch.map_or(Flow::Continue(()), |id| self.check(id, json, path, report))
    }

    /// Reports that no branch matches, with the violations of the branch that was probably meant.
    fn no_branch<R: Report>(&mut self, branches: &'a [Id], json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        if self.is_exhausted() {
            return Flow::Break(());
        }
        if !report.needs_message() {
            return report.fail(|| Violation::new("", None, ""));
        }
        self.spend((branches.len() as u64).saturating_mul(json.len() as u64 + EXPLANATION))?;
        let nodes = self.nodes;
        explain::branches(nodes, branches, json, path, &mut |id| self.violations(id, json, path)).forward(report)
    }
}

fn number<R: Report>(rules: &NumberRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
    let violated = |rule: String| Violation::at(path, Some(json), rule);
    let Some(value) = Number::parse(json.trim()) else { return Flow::Continue(()) };
    for bound in &rules.bounds {
        let order = value.compare(bound.value);
        if order == Some(bound.beyond) || !bound.inclusive && order == Some(std::cmp::Ordering::Equal) {
            report.fail(|| violated(explain::bounds(&rules.bounds)))?;
            break;
        }
    }
    match &rules.multiple_of {
        Some((of, shown)) if !value.is_multiple_of(*of) => {
            report.fail(|| violated(format!("must be a multiple of {shown}")))
        }
        _ => Flow::Continue(()),
    }
}

/// Checks a length. The unit is given in singular and plural.
fn counted<R: Report>(
    count: usize,
    counts: Counts,
    unit: [&str; 2],
    json: &str,
    path: &Path<'_>,
    report: &mut R,
) -> Flow {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    if (counts.least..=counts.most).contains(&count) {
        return Flow::Continue(());
    }
    report.fail(|| Violation::at(path, Some(json), explain::length(counts, unit)))
}

/// The set of required properties that were seen. Allocates only if there are more than 64.
#[derive(Debug)]
struct Seen {
    first: u64,
    rest: Vec<bool>,
}

impl Seen {
    fn new(count: usize) -> Self {
        Self { first: 0, rest: vec![false; count.saturating_sub(64)] }
    }

    fn insert(&mut self, index: usize) {
        match index.checked_sub(64) {
            None => self.first |= 1 << index,
            Some(index) => self.rest[index] = true,
        }
    }

    fn contains(&self, index: usize) -> bool {
        match index.checked_sub(64) {
            None => self.first & (1 << index) != 0,
            Some(index) => self.rest[index],
        }
    }
}

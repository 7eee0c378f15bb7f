//! Walks over JSON text and a compiled schema in parallel.

use std::collections::HashSet;

use super::{
    explain,
    node::{Applicators, ArrayRules, Counts, Id, Node, NumberRules, ObjectRules, ROOT, StringRules, canonical},
    number::Number,
    report::{Collector, Flow, Report, StopAtFirst},
    violation::{Path, Violation},
};
use crate::jsonrpc::raw::{self, Kind};

/// The maximum depth, which counts nested values and nested schemas alike.
const DEPTH: usize = 256;

/// A single check of a text.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    nodes: &'a [Node],
    /// The number of bytes that may still be visited. Bounds the time for schemas with recursive alternatives, which
    /// can be exponential.
    budget: u64,
    depth: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(nodes: &'a [Node], json: &str) -> Self {
        const BASE: u64 = 1 << 20;
        const FACTOR: u64 = 1 << 10;
        const MOST: u64 = 1 << 30;

        let length = u64::try_from(json.len()).unwrap_or(MOST);
        Self { nodes, budget: length.saturating_mul(FACTOR).saturating_add(BASE).min(MOST), depth: 0 }
    }

    /// Checks the whole text, starting at the root.
    pub(super) fn root(&mut self, json: &str, report: &mut impl Report) -> Flow {
        self.check(ROOT, json, &Path::Root, report)
    }

    /// Returns whether the walk was aborted because it exceeded its budget or the maximum depth.
    pub(super) fn is_exhausted(&self) -> bool {
        self.budget == 0
    }

    fn accepts(&mut self, id: Id, json: &str) -> bool {
        self.check(id, json, &Path::Root, &mut StopAtFirst).is_continue()
    }

    fn violations(&mut self, id: Id, json: &str, path: &Path<'_>) -> Collector {
        let mut violations = Collector::default();
        let _ = self.check(id, json, path, &mut violations);
        violations
    }

    fn check<R: Report>(&mut self, id: Id, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        let cost = u64::try_from(json.len()).unwrap_or(u64::MAX).saturating_add(8);
        self.budget = if self.depth < DEPTH { self.budget.saturating_sub(cost) } else { 0 };
        if self.is_exhausted() {
            return Flow::Break(());
        }
        self.depth += 1;
        let flow = self.node(id, json, path, report);
        self.depth -= 1;
        flow
    }

    fn node<R: Report>(&mut self, id: Id, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        let node: &'a Node = &self.nodes[id];
        let violated = |rule: &str| Violation::new(&path.to_string(), Some(json), rule);
        if node.never {
            return report.fail(|| violated("is not allowed"));
        }
        let kind = raw::kind(json);
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
                    string(rules, json, path, report)?;
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
        match &node.applicators {
            Some(applicators) => self.applicators(applicators, json, path, report),
            None => Flow::Continue(()),
        }
    }

    fn array<R: Report>(&mut self, rules: &'a ArrayRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        let mut length = 0_usize;
        let mut contained = 0_u64;
        let mut seen = HashSet::new();
        for (index, element) in raw::elements(json).enumerate() {
            length = index + 1;
            let element_path = Path::Element(path, index);
            if let Some(id) = rules.prefix.get(index).copied().or(rules.items) {
                self.check(id, element, &element_path, report)?;
            }
            if let Some((id, _)) = rules.contains {
                contained += u64::from(self.accepts(id, element));
            }
            if rules.unique && !seen.insert(canonical(element)) {
                report.fail(|| Violation::new(&element_path.to_string(), Some(element), "must be unique"))?;
            }
        }
        counted(length, rules.length, ["item", "items"], json, path, report)?;
        if let Some((id, counts)) = rules.contains
            && (contained < counts.least || contained > counts.most)
        {
            let words = || explain::contains(self.nodes, id, counts);
            return report.fail(|| Violation::new(&path.to_string(), Some(json), &words()));
        }
        Flow::Continue(())
    }

    fn object<R: Report>(&mut self, rules: &'a ObjectRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
        let mut length = 0_usize;
        let mut seen = Seen::new(rules.required.len());
        for (name, value) in raw::members(json) {
            length += 1;
            let name = name.as_ref();
            let member_path = Path::Member(path, name);
            if let Some(index) = rules.required.iter().position(|required| **required == *name) {
                seen.insert(index);
            }
            if let Some(id) = rules.names {
                let quoted = serde_json::Value::from(name).to_string();
                if !self.accepts(id, &quoted) {
                    report.fail(|| {
                        let violations = self.violations(id, &quoted, &Path::Root);
                        Violation::new(&member_path.to_string(), None, &explain::name(violations))
                    })?;
                }
            }
            let mut known = false;
            if let Some(property) = rules.property(name) {
                known = true;
                // `null` is decoded like an absent property.
                let absent =
                    !property.required && raw::kind(value) == Kind::Null && !self.accepts(property.node, value);
                if !absent {
                    self.check(property.node, value, &member_path, report)?;
                }
            }
            for (pattern, id) in &rules.patterns {
                if pattern.is_match(name) {
                    known = true;
                    self.check(*id, value, &member_path, report)?;
                }
            }
            match rules.additional {
                Some(id) if !known && self.nodes[id].never => {
                    report.fail(|| {
                        Violation::new(&member_path.to_string(), None, &explain::unknown(rules, name, path))
                    })?;
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
        let has = |name: &str| raw::members(json).any(|(member, _)| member == name);
        for (name, others) in &rules.dependent_required {
            for other in others.iter().filter(|other| has(name) && !has(other)) {
                let rule = format!("is required when `{name}` is given");
                report.fail(|| Violation::new(&Path::Member(path, other).to_string(), None, &rule))?;
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
                    report.fail(|| Violation::new(&path.to_string(), Some(json), rule))?;
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
            report.fail(|| Violation::new(&path.to_string(), Some(json), &words()))?;
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
        let nodes = self.nodes;
        explain::branches(nodes, branches, json, path, &mut |id| self.violations(id, json, path)).forward(report)
    }
}

fn number<R: Report>(rules: &NumberRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
    let violated = |rule: String| Violation::new(&path.to_string(), Some(json), &rule);
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

fn string<R: Report>(rules: &StringRules, json: &str, path: &Path<'_>, report: &mut R) -> Flow {
    let violated = |rule: String| Violation::new(&path.to_string(), Some(json), &rule);
    let Some(text) = raw::string(json) else {
        return report.fail(|| violated("must be valid Unicode".to_owned()));
    };
    // A character has at most four bytes, so most lengths need no counting.
    let Counts { least, most } = rules.length;
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if bytes > most || bytes / 4 < least {
        counted(text.chars().count(), rules.length, ["character", "characters"], json, path, report)?;
    }
    if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(&text)) {
        report.fail(|| violated(format!("must match the pattern `{}`", pattern.as_str())))?;
    }
    match rules.format.filter(|format| !format.accepts(&text)) {
        Some(format) => report.fail(|| violated(format!("must match the format `{}`", format.name()))),
        None => Flow::Continue(()),
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
    report.fail(|| Violation::new(&path.to_string(), Some(json), &explain::length(counts, unit)))
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

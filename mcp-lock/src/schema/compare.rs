//! The comparison of two schemas.

use std::{cell::Cell, collections::BTreeSet, rc::Rc};

use serde_json::{Map, Value};

use super::{
    difference::{Difference, Effect, Role},
    keywords::{self, effect},
    normal::{self, Document, Normal},
    object::ObjectMembers,
    report::Report,
    values::{self, Types, is_enforced},
};

/// The maximum number of pairs of schemas that are compared. Bounds the time for nested unions.
const MAX_PAIRS: u32 = 20_000;

/// The maximum depth of references.
const MAX_DEPTH: usize = 64;

/// A comparison of two schemas and its state.
struct Comparison<'a> {
    old: Document<'a>,
    new: Document<'a>,
    role: Role,
    /// The pairs with references that are being compared. A pair that recurs inside itself counts as equal.
    in_progress: BTreeSet<(String, String)>,
    /// Whether equal references have equal targets in both documents.
    same_targets: bool,
    /// The number of pairs that may still be compared, shared with nested comparisons.
    remaining: Rc<Cell<u32>>,
    report: Report,
}

/// Compares two schemas and returns the differences.
#[must_use]
pub fn compare(old: &Value, new: &Value, role: Role) -> Vec<Difference> {
    let mut comparison = Comparison {
        old: Document(old),
        new: Document(new),
        role,
        in_progress: BTreeSet::new(),
        same_targets: normal::have_same_targets(old, new),
        remaining: Rc::new(Cell::new(MAX_PAIRS)),
        report: Report::default(),
    };
    comparison.schemas(old, new);
    comparison.report.finish()
}

impl Comparison<'_> {
    /// Compares two schemas, unless the pair is already being compared.
    fn schemas(&mut self, old: &Value, new: &Value) {
        if self.same_targets && old == new {
            return;
        }
        let is_reference = old.get("$ref").is_some() || new.get("$ref").is_some();
        let pair = if is_reference { (old.to_string(), new.to_string()) } else { (String::new(), String::new()) };
        if is_reference && !self.in_progress.insert(pair.clone()) {
            return;
        }
        match self.remaining.get().checked_sub(1).filter(|_| self.in_progress.len() < MAX_DEPTH) {
            Some(left) => {
                self.remaining.set(left);
                let (old, new) = (self.old.normal(old), self.new.normal(new));
                self.normals(&old, &new);
            }
            None => self.report.difference(Effect::Changed, "is too large to compare"),
        }
        if is_reference {
            self.in_progress.remove(&pair);
        }
    }

    /// Compares two normalized schemas.
    fn normals(&mut self, old: &Normal, new: &Normal) {
        match (old, new) {
            (Normal::Never, Normal::Never) => {}
            (Normal::Members(old), Normal::Members(new)) if old == new && self.is_equivalent(old.values()) => {}
            (Normal::Never, Normal::Members(_)) => {
                self.report.difference(Effect::Widened, "accepted no value and now accepts some")
            }
            (Normal::Members(_), Normal::Never) => {
                self.report.difference(Effect::Narrowed, "no longer accepts any value")
            }
            (Normal::Members(old), Normal::Members(new)) => {
                self.annotations(old, new);
                if normal::is_union(old) || normal::is_union(new) {
                    self.unions(old, new);
                } else {
                    self.members(old, new);
                }
            }
        }
    }

    /// Compares keywords that do not constrain values, and `x-mcp-header`.
    fn annotations(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for keyword in ["title", "description"] {
            if old.get(keyword) != new.get(keyword) {
                self.report.difference(Effect::None, format!("the {keyword} changed"));
            }
        }
        for keyword in ["default", "examples", "deprecated", "readOnly", "writeOnly", "$schema"] {
            self.report.keyword(Effect::None, keyword, old.get(keyword), new.get(keyword));
        }
        // Since 2026-07-28, requests without the header are rejected.
        self.report.keyword(Effect::Changed, "x-mcp-header", old.get("x-mcp-header"), new.get("x-mcp-header"));
    }

    /// Compares alternatives: each old alternative must be a subset of a new alternative, and vice versa.
    fn unions(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let (Some(before), Some(after)) = (self.old.variants(old), self.new.variants(new)) else {
            return self.report.difference(Effect::Changed, "is too large to compare");
        };
        let removed: Vec<&Normal> =
            before.iter().filter(|old| !after.iter().any(|new| self.is_subset(old, new))).collect();
        let added: Vec<&Normal> =
            after.iter().filter(|new| !before.iter().any(|old| self.is_superset(old, new))).collect();
        if let ([old], [new]) = (&*removed, &*added)
            && old.types().is_disjoint(new.types())
        {
            return self.report.keyword(
                Effect::Changed,
                "type",
                Some(&old.types().shown()),
                Some(&new.types().shown()),
            );
        }
        // If the counterpart of an alternative is unambiguous, reports the differences between the two.
        let mut pairs: Vec<(&Normal, &Normal)> = Vec::new();
        for old in removed {
            match &*after.iter().filter(|new| old.corresponds_to(new)).collect::<Vec<_>>() {
                [new] => pairs.push((old, new)),
                _ => self.report.difference(Effect::Narrowed, format!("alternative {} removed", old.describe())),
            }
        }
        for new in added {
            match &*before.iter().filter(|old| old.corresponds_to(new)).collect::<Vec<_>>() {
                [old] if pairs.contains(&(old, new)) => {}
                [old] => pairs.push((old, new)),
                _ => self.report.difference(Effect::Widened, format!("alternative {} added", new.describe())),
            }
        }
        for (old, new) in pairs {
            self.normals(old, new);
        }
    }

    /// Returns whether the old schema accepts a subset of the new schema.
    fn is_subset(&self, old: &Normal, new: &Normal) -> bool {
        self.compare_nested(old, new).iter().all(|found| !matches!(found.effect, Effect::Narrowed | Effect::Changed))
    }

    /// Returns whether the old schema accepts a superset of the new schema.
    fn is_superset(&self, old: &Normal, new: &Normal) -> bool {
        self.compare_nested(old, new).iter().all(|found| !matches!(found.effect, Effect::Widened | Effect::Changed))
    }

    fn compare_nested(&self, old: &Normal, new: &Normal) -> Vec<Difference> {
        let mut comparison = Comparison {
            old: self.old,
            new: self.new,
            role: self.role,
            in_progress: self.in_progress.clone(),
            same_targets: self.same_targets,
            remaining: Rc::clone(&self.remaining),
            report: Report::default(),
        };
        comparison.normals(old, new);
        comparison.report.finish()
    }

    /// Compares schemas without alternatives.
    fn members(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let (before, after) = (Types::of(old), Types::of(new));
        if before.is_disjoint(after) || before != after {
            let effect = effect(!before.is_within(after), !after.is_within(before));
            self.report.keyword(effect, "type", Some(&before.shown()), Some(&after.shown()));
        }
        let common = before.intersection(after);
        if keywords::enumerations(&mut self.report, old, new) {
            return;
        }
        if common.overlaps(Types::NUMBER) {
            keywords::numbers(&mut self.report, old, new, !before.union(after).has_fractions());
        }
        if common.overlaps(Types::STRING) {
            keywords::sizes(&mut self.report, old, new, "minLength", "maxLength");
            self.opaque(old, new, "pattern");
            if is_enforced(old.get("format")) || is_enforced(new.get("format")) {
                self.opaque(old, new, "format");
            } else {
                self.report.keyword(Effect::None, "format", old.get("format"), new.get("format"));
            }
        }
        if common.overlaps(Types::ARRAY) {
            self.arrays(old, new);
        }
        if common.overlaps(Types::OBJECT) {
            self.objects(old, new);
        }
        for keyword in ["not", "if", "then", "else", "allOf", "$dynamicRef", "contentEncoding", "contentMediaType"] {
            self.opaque(old, new, keyword);
        }
    }

    fn arrays(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        keywords::sizes(&mut self.report, old, new, "minItems", "maxItems");
        let unique = |schema: &Map<String, Value>| schema.get("uniqueItems").is_some_and(|unique| *unique == true);
        match (unique(old), unique(new)) {
            (false, true) => self.report.difference(Effect::Narrowed, "`uniqueItems` added"),
            (true, false) => self.report.difference(Effect::Widened, "`uniqueItems` removed"),
            _ => {}
        }
        let firsts = |schema: &Map<String, Value>| schema.get("prefixItems").and_then(Value::as_array).cloned();
        match (firsts(old), firsts(new)) {
            (Some(before), Some(after)) if before.len() == after.len() => {
                for (at, (old, new)) in before.iter().zip(&after).enumerate() {
                    self.within(&format!("[{at}]"), old, new);
                }
            }
            _ => self.opaque(old, new, "prefixItems"),
        }
        let item = |schema: &Map<String, Value>| schema.get("items").cloned().unwrap_or(Value::Bool(true));
        self.within("[]", &item(old), &item(new));
        for keyword in ["contains", "minContains", "maxContains", "unevaluatedItems"] {
            self.opaque(old, new, keyword);
        }
    }

    fn objects(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let (before, after) = (ObjectMembers::of(old), ObjectMembers::of(new));
        for (name, property) in &before.properties {
            match after.declared(name) {
                Some(other) => {
                    self.within(&member(name), property, other);
                    match (before.required.contains(name), after.required.contains(name)) {
                        (false, true) => self.report.member(name, Effect::Narrowed, "is now required"),
                        (true, false) => self.report.member(name, Effect::Widened, "is no longer required"),
                        _ => {}
                    }
                }
                None if after.is_closed() && self.role == Role::Input => {
                    self.report.member(name, Effect::Narrowed, "is removed");
                }
                // Callers may read any member of a result. An open object accepts any member, but servers may list their
                // schemas as open and still reject unknown arguments.
                None => self.report.member(name, Effect::Changed, "is removed"),
            }
        }
        for (name, property) in after.properties.iter().filter(|(name, _)| !before.properties.contains_key(*name)) {
            if let Some(other) = before.declared(name) {
                self.within(&member(name), other, property);
            }
            let (effect, text) = match (before.required.contains(name), after.required.contains(name)) {
                (true, true) if before.is_closed() => (Effect::Widened, "is now declared"),
                (true, true) => (Effect::None, "is now declared"),
                (true, false) => (Effect::Widened, "is no longer required"),
                (false, true) if before.is_closed() => (Effect::Changed, "is new and required"),
                (false, true) => (Effect::Narrowed, "is new and required"),
                (false, false) if before.is_closed() => (Effect::Widened, "is new and optional"),
                (false, false) => (Effect::None, "is new and optional"),
            };
            self.report.member(name, effect, text);
        }
        self.undeclared_requirements(&before, &after);
        self.undeclared_members(&before, &after);
        keywords::sizes(&mut self.report, old, new, "minProperties", "maxProperties");
        for keyword in ["patternProperties", "propertyNames", "dependentRequired", "dependentSchemas"] {
            self.opaque(old, new, keyword);
        }
    }

    /// Compares required members without a declaration.
    fn undeclared_requirements(&mut self, before: &ObjectMembers<'_>, after: &ObjectMembers<'_>) {
        // Declared members have been compared already.
        let is_known = |name: &str| {
            if before.properties.contains_key(name) {
                after.declared(name).is_some()
            } else {
                after.properties.contains_key(name)
            }
        };
        for name in after.required.iter().filter(|name| !is_known(name) && !before.required.contains(*name)) {
            self.report.member(name, Effect::Narrowed, "is now required");
        }
        for name in before.required.iter().filter(|name| !is_known(name) && !after.required.contains(*name)) {
            self.report.member(name, Effect::Widened, "is no longer required");
        }
    }

    /// Compares the rules for undeclared members.
    fn undeclared_members(&mut self, before: &ObjectMembers<'_>, after: &ObjectMembers<'_>) {
        match (before.is_closed(), after.is_closed()) {
            (true, true) => {}
            (false, true) => self.report.difference(Effect::Narrowed, "undeclared members are no longer accepted"),
            (true, false) => self.report.difference(Effect::Widened, "undeclared members are now accepted"),
            (false, false) => {
                let anything = Value::Bool(true);
                self.within(".*", before.undeclared.unwrap_or(&anything), after.undeclared.unwrap_or(&anything));
            }
        }
    }

    /// Compares a keyword as a whole: adding it narrows, removing it widens, and a change may do both.
    fn opaque(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, keyword: &str) {
        let (before, after) = (old.get(keyword), new.get(keyword));
        let effect = match (before, after) {
            (None, Some(_)) => Effect::Narrowed,
            (Some(_), None) => Effect::Widened,
            _ => Effect::Changed,
        };
        if before != after || !self.is_equivalent(before) {
            self.report.keyword(effect, keyword, before, after);
        }
    }

    /// Returns whether equal values have the same meaning in both documents.
    fn is_equivalent<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> bool {
        self.same_targets || !values.into_iter().any(values::contains_reference)
    }

    /// Compares the schemas one step down the path.
    fn within(&mut self, step: &str, old: &Value, new: &Value) {
        let length = self.report.enter(step);
        self.schemas(old, new);
        self.report.leave(length);
    }
}

fn member(name: &str) -> String {
    format!(".{name}")
}

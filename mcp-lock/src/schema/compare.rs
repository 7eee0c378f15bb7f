//! The comparison of two schemas.

use std::{cell::Cell, collections::BTreeSet, rc::Rc};

use serde_json::{Map, Value};

use super::{
    difference::{Difference, Effect, Role},
    normal::{self, Document, Normal},
    object::ObjectMembers,
    values::{self, Types, admits, is_enforced, shown},
};

/// The maximum number of pairs of schemas that are compared. Bounds the time for nested unions.
const STEPS: u32 = 20_000;

/// The maximum depth of references.
const DEEPEST: usize = 64;

struct Walk<'a> {
    old: Document<'a>,
    new: Document<'a>,
    role: Role,
    path: String,
    /// The pairs with references that are being compared. A pair inside itself is equal if everything else is.
    open: BTreeSet<(String, String)>,
    /// Whether equal references have equal targets in both documents.
    same_targets: bool,
    /// The remaining steps, shared with nested comparisons.
    steps: Rc<Cell<u32>>,
    found: Vec<Difference>,
}

/// Compares two schemas and returns the differences.
#[must_use]
pub fn compare(old: &Value, new: &Value, role: Role) -> Vec<Difference> {
    let mut walk = Walk {
        old: Document(old),
        new: Document(new),
        role,
        path: String::new(),
        open: BTreeSet::new(),
        same_targets: normal::have_same_targets(old, new),
        steps: Rc::new(Cell::new(STEPS)),
        found: Vec::new(),
    };
    walk.schemas(old, new);
    walk.found
}

impl Walk<'_> {
    fn schemas(&mut self, old: &Value, new: &Value) {
        if self.same_targets && old == new {
            return;
        }
        let is_reference = old.get("$ref").is_some() || new.get("$ref").is_some();
        let pair = if is_reference { (old.to_string(), new.to_string()) } else { (String::new(), String::new()) };
        if is_reference && !self.open.insert(pair.clone()) {
            return;
        }
        match self.steps.get().checked_sub(1).filter(|_| self.open.len() < DEEPEST) {
            Some(left) => {
                self.steps.set(left);
                let (old, new) = (self.old.normal(old), self.new.normal(new));
                self.normals(&old, &new);
            }
            None => self.report(Effect::Changed, "is too large to compare"),
        }
        if is_reference {
            self.open.remove(&pair);
        }
    }

    fn normals(&mut self, old: &Normal, new: &Normal) {
        match (old, new) {
            (Normal::Never, Normal::Never) => {}
            (Normal::Members(old), Normal::Members(new)) if old == new && self.is_equivalent(old.values()) => {}
            (Normal::Never, Normal::Members(_)) => {
                self.report(Effect::Widened, "accepted no value, and now accepts some")
            }
            (Normal::Members(_), Normal::Never) => self.report(Effect::Narrowed, "no longer accepts any value"),
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

    /// Compares annotations.
    fn annotations(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for keyword in ["title", "description"] {
            if old.get(keyword) != new.get(keyword) {
                self.report(Effect::None, format!("the {keyword} changed"));
            }
        }
        for keyword in ["default", "examples", "deprecated", "readOnly", "writeOnly", "$schema"] {
            self.changed(Effect::None, keyword, old.get(keyword), new.get(keyword));
        }
        // Since 2026-07-28, requests without the header are rejected.
        self.changed(Effect::Changed, "x-mcp-header", old.get("x-mcp-header"), new.get("x-mcp-header"));
    }

    /// Compares alternatives: each old one must be a subset of a new one, and vice versa.
    fn unions(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let (before, after) = (self.old.variants(old), self.new.variants(new));
        let removed: Vec<&Normal> =
            before.iter().filter(|old| !after.iter().any(|new| self.is_subset(old, new))).collect();
        let added: Vec<&Normal> =
            after.iter().filter(|new| !before.iter().any(|old| self.is_superset(old, new))).collect();
        if let ([old], [new]) = (&*removed, &*added)
            && old.types().is_disjoint(new.types())
        {
            return self.changed(Effect::Changed, "type", Some(&old.types().shown()), Some(&new.types().shown()));
        }
        // If the counterpart of an alternative is unambiguous, reports the differences between the two.
        let mut pairs: Vec<(&Normal, &Normal)> = Vec::new();
        for old in removed {
            match &*after.iter().filter(|new| old.is_like(new)).collect::<Vec<_>>() {
                [new] => pairs.push((old, new)),
                _ => self.report(Effect::Narrowed, format!("alternative {} removed", old.described())),
            }
        }
        for new in added {
            match &*before.iter().filter(|old| old.is_like(new)).collect::<Vec<_>>() {
                [old] if pairs.contains(&(old, new)) => {}
                [old] => pairs.push((old, new)),
                _ => self.report(Effect::Widened, format!("alternative {} added", new.described())),
            }
        }
        for (old, new) in pairs {
            self.normals(old, new);
        }
    }

    /// Returns whether the old schema accepts a subset of the new one.
    fn is_subset(&self, old: &Normal, new: &Normal) -> bool {
        self.compare_nested(old, new).iter().all(|found| !matches!(found.effect, Effect::Narrowed | Effect::Changed))
    }

    /// Returns whether the old schema accepts a superset of the new one.
    fn is_superset(&self, old: &Normal, new: &Normal) -> bool {
        self.compare_nested(old, new).iter().all(|found| !matches!(found.effect, Effect::Widened | Effect::Changed))
    }

    fn compare_nested(&self, old: &Normal, new: &Normal) -> Vec<Difference> {
        let mut walk = Walk {
            old: self.old,
            new: self.new,
            role: self.role,
            path: String::new(),
            open: self.open.clone(),
            same_targets: self.same_targets,
            steps: Rc::clone(&self.steps),
            found: Vec::new(),
        };
        walk.normals(old, new);
        walk.found
    }

    /// Compares schemas without alternatives.
    fn members(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let (before, after) = (Types::of(old), Types::of(new));
        if before.is_disjoint(after) || before != after {
            let effect = effect(!before.is_within(after), !after.is_within(before));
            self.changed(effect, "type", Some(&before.shown()), Some(&after.shown()));
        }
        let common = before.and(after);
        if self.enumerations(old, new) {
            return;
        }
        if common.has(Types::NUMBER) {
            self.numbers(old, new, !before.or(after).has_fractions());
        }
        if common.has(Types::STRING) {
            self.sizes(old, new, "minLength", "maxLength");
            self.opaque(old, new, "pattern");
            if is_enforced(old.get("format")) || is_enforced(new.get("format")) {
                self.opaque(old, new, "format");
            } else {
                self.changed(Effect::None, "format", old.get("format"), new.get("format"));
            }
        }
        if common.has(Types::ARRAY) {
            self.arrays(old, new);
        }
        if common.has(Types::OBJECT) {
            self.objects(old, new);
        }
        for keyword in ["not", "if", "then", "else", "allOf", "$dynamicRef", "contentEncoding", "contentMediaType"] {
            self.opaque(old, new, keyword);
        }
    }

    /// Compares `enum` and `const`. Returns whether the comparison is complete.
    fn enumerations(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
        let list = |values: &[&Value]| values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ");
        let (before, after) = (values::enumerated(old), values::enumerated(new));
        // Values of one schema that the other rejects. Other keywords that are equal in both reject no additional values.
        let same_constraints = values::constraints(old) == values::constraints(new);
        let rejected = |values: &Option<Vec<Value>>, listed: &Option<Vec<Value>>, schema| {
            let is_listed = |value: &Value| listed.as_ref().is_none_or(|listed| values::holds(listed, value));
            let is_accepted = |value: &Value| is_listed(value) && (same_constraints || admits(schema, value));
            values.iter().flatten().filter(|value| !is_accepted(value)).cloned().collect::<Vec<_>>()
        };
        let (removed, added) = (rejected(&before, &after, new), rejected(&after, &before, old));
        let (removed, added): (Vec<_>, Vec<_>) = (removed.iter().collect(), added.iter().collect());
        let listed = before.is_some() && after.is_some();
        if !removed.is_empty() {
            let what = if listed { "`enum` no longer contains" } else { "no longer accepts" };
            self.report(Effect::Narrowed, format!("{what} {}", list(&removed)));
        }
        if !added.is_empty() {
            let what = if listed { "`enum` now contains" } else { "now accepts" };
            self.report(Effect::Widened, format!("{what} {}", list(&added)));
        }
        // Only the values of a boolean can be listed completely.
        let is_partial = |values: &[Value], schema| Types::of(schema) != Types::BOOLEAN || values.len() < 2;
        match (&before, &after) {
            (None, Some(after)) if is_partial(after, old) => {
                self.report(Effect::Narrowed, format!("`enum` added: {}", list(&after.iter().collect::<Vec<_>>())));
            }
            (Some(before), None) if is_partial(before, new) => {
                self.report(Effect::Widened, format!("`enum` removed: {}", list(&before.iter().collect::<Vec<_>>())));
            }
            _ => {}
        }
        before.is_some() || after.is_some()
    }

    fn numbers(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, whole: bool) {
        for (inclusive, exclusive, sign) in
            [("minimum", "exclusiveMinimum", 1.0), ("maximum", "exclusiveMaximum", -1.0)]
        {
            let bound = |schema| values::bound(schema, inclusive, exclusive, sign, whole);
            let (before, after) = (bound(old), bound(new));
            if before == after {
                continue;
            }
            let keyword =
                if new.contains_key(exclusive) || (old.contains_key(exclusive) && !new.contains_key(inclusive)) {
                    exclusive
                } else {
                    inclusive
                };
            let (was, is) = (either(old, keyword, inclusive, exclusive), either(new, keyword, inclusive, exclusive));
            self.changed(if after > before { Effect::Narrowed } else { Effect::Widened }, keyword, was, is);
        }
        let (before, after) = (old.get("multipleOf"), new.get("multipleOf"));
        if before != after {
            let is_multiple = |left: Option<&Value>, right: Option<&Value>| match (left, right) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(left), Some(right)) => values::is_multiple(left, right),
            };
            self.changed(effect(!is_multiple(before, after), !is_multiple(after, before)), "multipleOf", before, after);
        }
    }

    /// Compares a minimum and a maximum size.
    fn sizes(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, least: &str, greatest: &str) {
        let size = |schema: &Map<String, Value>, keyword, missing| {
            schema.get(keyword).and_then(Value::as_f64).unwrap_or(missing)
        };
        for (keyword, sign, missing) in [(least, 1.0, 0.0), (greatest, -1.0, f64::INFINITY)] {
            let (before, after) = (sign * size(old, keyword, missing), sign * size(new, keyword, missing));
            if before != after {
                let effect = if after > before { Effect::Narrowed } else { Effect::Widened };
                self.changed(effect, keyword, old.get(keyword), new.get(keyword));
            }
        }
    }

    fn arrays(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        self.sizes(old, new, "minItems", "maxItems");
        let unique = |schema: &Map<String, Value>| schema.get("uniqueItems").is_some_and(|unique| *unique == true);
        match (unique(old), unique(new)) {
            (false, true) => self.report(Effect::Narrowed, "`uniqueItems` added"),
            (true, false) => self.report(Effect::Widened, "`uniqueItems` removed"),
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
                        (false, true) => self.report_member(name, Effect::Narrowed, "is now required"),
                        (true, false) => self.report_member(name, Effect::Widened, "is no longer required"),
                        _ => {}
                    }
                }
                // Callers may read any member of a result, and may pass any member of an open object.
                None if self.role == Role::Output => self.report_member(name, Effect::Changed, "is removed"),
                None if after.is_closed() => self.report_member(name, Effect::Narrowed, "is removed"),
                None => self.report_member(name, Effect::None, "is removed, but calls with it are still accepted"),
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
            self.report_member(name, effect, text);
        }
        self.undeclared_requirements(&before, &after);
        self.others(&before, &after);
        self.sizes(old, new, "minProperties", "maxProperties");
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
            self.report_member(name, Effect::Narrowed, "is now required");
        }
        for name in before.required.iter().filter(|name| !is_known(name) && !after.required.contains(*name)) {
            self.report_member(name, Effect::Widened, "is no longer required");
        }
    }

    /// Compares the rules for undeclared members.
    fn others(&mut self, before: &ObjectMembers<'_>, after: &ObjectMembers<'_>) {
        match (before.is_closed(), after.is_closed()) {
            (true, true) => {}
            (false, true) => self.report(Effect::Narrowed, "undeclared members are no longer accepted"),
            (true, false) => self.report(Effect::Widened, "undeclared members are now accepted"),
            (false, false) => {
                let anything = Value::Bool(true);
                self.within(".*", before.others.unwrap_or(&anything), after.others.unwrap_or(&anything));
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
            self.changed(effect, keyword, before, after);
        }
    }

    /// Returns whether equal values have the same meaning in both documents.
    fn is_equivalent<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> bool {
        self.same_targets || !values.into_iter().any(values::mentions_reference)
    }

    fn within(&mut self, step: &str, old: &Value, new: &Value) {
        let length = self.path.len();
        let step = if length == 0 { step.strip_prefix('.').unwrap_or(step) } else { step };
        self.path.push_str(step);
        self.schemas(old, new);
        self.path.truncate(length);
    }

    fn changed(&mut self, effect: Effect, keyword: &str, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) if old == new && effect == Effect::None => {}
            (Some(old), Some(new)) if old == new && keyword == "x-mcp-header" => {}
            (Some(old), Some(new)) => {
                self.report(effect, format!("`{keyword}` changed from {} to {}", shown(old), shown(new)))
            }
            (None, Some(new)) => self.report(effect, format!("`{keyword}` added: {}", shown(new))),
            (Some(old), None) => self.report(effect, format!("`{keyword}` removed: {}", shown(old))),
            (None, None) => {}
        }
    }

    fn report_member(&mut self, name: &str, effect: Effect, text: &str) {
        let length = self.path.len();
        let step = member(name);
        self.path.push_str(if length == 0 { &step[1..] } else { &step });
        self.report(effect, text);
        self.path.truncate(length);
    }

    fn report(&mut self, effect: Effect, text: impl Into<String>) {
        self.found.push(Difference { path: self.path.clone(), effect, text: text.into() });
    }
}

fn effect(fewer: bool, more: bool) -> Effect {
    match (fewer, more) {
        (true, false) => Effect::Narrowed,
        (false, true) => Effect::Widened,
        _ => Effect::Changed,
    }
}

fn member(name: &str) -> String {
    format!(".{name}")
}

/// Returns the value of a keyword or, if absent, of one of two others.
fn either<'a>(schema: &'a Map<String, Value>, keyword: &str, one: &str, other: &str) -> Option<&'a Value> {
    schema.get(keyword).or_else(|| schema.get(one)).or_else(|| schema.get(other))
}

//! Whether one schema takes what another took, keyword by keyword.
//!
//! What an author writes as one schema in two ways (a `$ref` or its target, an `enum` of one or a `const`, a `type` of two or an
//! `anyOf`) is the same here. What cannot be decided (`not`, `if`, a `pattern` that became another) counts as taking less *and* more, so
//! that nothing that breaks callers is called compatible.

mod normal;
mod values;

use std::{cell::Cell, collections::BTreeSet, rc::Rc};

use serde_json::{Map, Value};

use normal::{Document, Normal};
use values::{Types, admits, shown};

/// Who writes the values that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The caller, whose old values must still be taken.
    Input,
    /// The server, whose new values must be among the old.
    Output,
}

/// What a difference does to the values that a schema takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It takes fewer.
    Narrowed,
    /// It takes more.
    Widened,
    /// It takes others, or nobody can say.
    Changed,
    /// It takes the same: words for people and models.
    Told,
}

impl Kind {
    /// Whether it breaks callers.
    #[must_use]
    pub fn breaks(self, role: Role) -> bool {
        match self {
            Self::Changed => true,
            Self::Told => false,
            Self::Narrowed => role == Role::Input,
            Self::Widened => role == Role::Output,
        }
    }
}

/// Something that differs between two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where: `filter.tags[]`; empty for the whole.
    pub path: String,
    /// What it does.
    pub kind: Kind,
    /// What differs.
    pub text: String,
}

/// Compares two schemas.
#[must_use]
pub fn compare(old: &Value, new: &Value, role: Role) -> Vec<Difference> {
    let mut walk = Walk {
        old: Document(old),
        new: Document(new),
        role,
        path: String::new(),
        open: BTreeSet::new(),
        means_the_same: normal::mean_the_same(old, new),
        steps: Rc::new(Cell::new(STEPS)),
        found: Vec::new(),
    };
    walk.schemas(old, new);
    walk.found
}

/// The most pairs of schemas that are compared, for schemas whose unions would take for ever.
const STEPS: u32 = 20_000;

/// The deepest nesting that is followed.
const DEEPEST: usize = 64;

struct Walk<'a> {
    old: Document<'a>,
    new: Document<'a>,
    role: Role,
    path: String,
    /// The pairs with a reference that are being compared: met again inside themselves, they are equal if everything else is.
    open: BTreeSet<(String, String)>,
    /// Whether the same text refers to the same in both.
    means_the_same: bool,
    /// What is left; shared with what is compared aside.
    steps: Rc<Cell<u32>>,
    found: Vec<Difference>,
}

impl Walk<'_> {
    fn schemas(&mut self, old: &Value, new: &Value) {
        if self.means_the_same && old == new {
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
            None => self.say(Kind::Changed, "is too large to be compared"),
        }
        if is_reference {
            self.open.remove(&pair);
        }
    }

    fn normals(&mut self, old: &Normal, new: &Normal) {
        match (old, new) {
            (Normal::Never, Normal::Never) => {}
            (Normal::Members(old), Normal::Members(new)) if old == new && self.is_settled(old.values()) => {}
            (Normal::Never, Normal::Members(_)) => self.say(Kind::Widened, "took nothing, and now takes something"),
            (Normal::Members(_), Normal::Never) => self.say(Kind::Narrowed, "no longer takes anything"),
            (Normal::Members(old), Normal::Members(new)) => {
                self.words(old, new);
                match normal::is_union(old) || normal::is_union(new) {
                    true => self.unions(old, new),
                    false => self.members(old, new),
                }
            }
        }
    }

    /// Compares what people and models read.
    fn words(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for keyword in ["title", "description"] {
            if old.get(keyword) != new.get(keyword) {
                self.say(Kind::Told, format!("the {keyword} changed"));
            }
        }
        for keyword in ["default", "examples", "deprecated", "readOnly", "writeOnly", "$schema"] {
            self.was_is(Kind::Told, keyword, old.get(keyword), new.get(keyword));
        }
        // A header is what the transport of 2026-07-28 refuses a request for.
        self.was_is(Kind::Changed, "x-mcp-header", old.get("x-mcp-header"), new.get("x-mcp-header"));
    }

    /// Compares alternatives: each old one must be within a new one, and the other way round.
    fn unions(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let (before, after) = (self.old.variants(old), self.new.variants(new));
        let gone: Vec<&Normal> =
            before.iter().filter(|old| !after.iter().any(|new| self.is_within(old, new))).collect();
        let fresh: Vec<&Normal> =
            after.iter().filter(|new| !before.iter().any(|old| self.is_around(old, new))).collect();
        if let ([old], [new]) = (&*gone, &*fresh)
            && old.types().is_disjoint(new.types())
        {
            return self.was_is(Kind::Changed, "type", Some(&old.types().shown()), Some(&new.types().shown()));
        }
        // An alternative that became another is told by what of it did, if it is known which one that is.
        let mut pairs: Vec<(&Normal, &Normal)> = Vec::new();
        for old in gone {
            match &*after.iter().filter(|new| old.is_like(new)).collect::<Vec<_>>() {
                [new] => pairs.push((old, new)),
                _ => self.say(Kind::Narrowed, format!("the alternative {} is gone", old.described())),
            }
        }
        for new in fresh {
            match &*before.iter().filter(|old| old.is_like(new)).collect::<Vec<_>>() {
                [old] if pairs.contains(&(old, new)) => {}
                [old] => pairs.push((old, new)),
                _ => self.say(Kind::Widened, format!("the alternative {} is new", new.described())),
            }
        }
        for (old, new) in pairs {
            self.normals(old, new);
        }
    }

    /// Says whether everything that an old schema takes is taken by a new one.
    fn is_within(&self, old: &Normal, new: &Normal) -> bool {
        self.aside(old, new).iter().all(|found| !matches!(found.kind, Kind::Narrowed | Kind::Changed))
    }

    /// Says whether an old schema took everything that a new one takes.
    fn is_around(&self, old: &Normal, new: &Normal) -> bool {
        self.aside(old, new).iter().all(|found| !matches!(found.kind, Kind::Widened | Kind::Changed))
    }

    fn aside(&self, old: &Normal, new: &Normal) -> Vec<Difference> {
        let mut walk = Walk {
            old: self.old,
            new: self.new,
            role: self.role,
            path: String::new(),
            open: self.open.clone(),
            means_the_same: self.means_the_same,
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
            let kind = kind(!before.is_within(after), !after.is_within(before));
            self.was_is(kind, "type", Some(&before.shown()), Some(&after.shown()));
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
                self.was_is(Kind::Told, "format", old.get("format"), new.get("format"));
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

    /// Compares the lists of values; true if there is nothing else to compare.
    fn enumerations(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
        let list = |values: &[&Value]| values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ");
        let (before, after) = (values::enumerated(old), values::enumerated(new));
        // Those of one that the other does not take; what both say besides refuses nothing that it did not refuse.
        let is_all = values::besides(old) == values::besides(new);
        let refused = |values: &Option<Vec<Value>>, listed: &Option<Vec<Value>>, schema| {
            let is_listed = |value: &Value| listed.as_ref().is_none_or(|listed| values::holds(listed, value));
            let taken = |value: &Value| is_listed(value) && (is_all || admits(schema, value));
            values.iter().flatten().filter(|value| !taken(value)).cloned().collect::<Vec<_>>()
        };
        let (gone, fresh) = (refused(&before, &after, new), refused(&after, &before, old));
        let (gone, fresh): (Vec<_>, Vec<_>) = (gone.iter().collect(), fresh.iter().collect());
        let listed = before.is_some() && after.is_some();
        if !gone.is_empty() {
            let what = if listed { "`enum` no longer has" } else { "no longer takes" };
            self.say(Kind::Narrowed, format!("{what} {}", list(&gone)));
        }
        if !fresh.is_empty() {
            let what = if listed { "`enum` now has" } else { "now takes" };
            self.say(Kind::Widened, format!("{what} {}", list(&fresh)));
        }
        // Only a boolean can be listed to the full.
        let is_partial = |values: &[Value], schema| Types::of(schema) != Types::BOOLEAN || values.len() < 2;
        match (&before, &after) {
            (None, Some(after)) if is_partial(after, old) => {
                self.say(Kind::Narrowed, format!("`enum` is new: {}", list(&after.iter().collect::<Vec<_>>())));
            }
            (Some(before), None) if is_partial(before, new) => {
                self.say(Kind::Widened, format!("`enum` is gone: {}", list(&before.iter().collect::<Vec<_>>())));
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
            self.was_is(if after > before { Kind::Narrowed } else { Kind::Widened }, keyword, was, is);
        }
        let (before, after) = (old.get("multipleOf"), new.get("multipleOf"));
        if before != after {
            let is_multiple = |left: Option<&Value>, right: Option<&Value>| match (left, right) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(left), Some(right)) => values::is_multiple(left, right),
            };
            self.was_is(kind(!is_multiple(before, after), !is_multiple(after, before)), "multipleOf", before, after);
        }
    }

    /// Compares a least and a greatest size.
    fn sizes(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, least: &str, greatest: &str) {
        let size = |schema: &Map<String, Value>, keyword, missing| {
            schema.get(keyword).and_then(Value::as_f64).unwrap_or(missing)
        };
        for (keyword, sign, missing) in [(least, 1.0, 0.0), (greatest, -1.0, f64::INFINITY)] {
            let (before, after) = (sign * size(old, keyword, missing), sign * size(new, keyword, missing));
            if before != after {
                let kind = if after > before { Kind::Narrowed } else { Kind::Widened };
                self.was_is(kind, keyword, old.get(keyword), new.get(keyword));
            }
        }
    }

    fn arrays(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        self.sizes(old, new, "minItems", "maxItems");
        let unique = |schema: &Map<String, Value>| schema.get("uniqueItems").is_some_and(|unique| *unique == true);
        match (unique(old), unique(new)) {
            (false, true) => self.say(Kind::Narrowed, "`uniqueItems` is new"),
            (true, false) => self.say(Kind::Widened, "`uniqueItems` is gone"),
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
        let (before, after) = (Shape::of(old), Shape::of(new));
        for (name, property) in &before.properties {
            match after.declared(name) {
                Some(other) => {
                    self.within(&member(name), property, other);
                    match (before.required.contains(name), after.required.contains(name)) {
                        (false, true) => self.say_of(name, Kind::Narrowed, "is now required"),
                        (true, false) => self.say_of(name, Kind::Widened, "is no longer required"),
                        _ => {}
                    }
                }
                // Callers read what a result had, and nobody stops them from giving what an open object had.
                None if self.role == Role::Output => self.say_of(name, Kind::Changed, "is removed"),
                None if after.is_closed() => self.say_of(name, Kind::Narrowed, "is removed"),
                None => self.say_of(name, Kind::Told, "is removed, and still taken without a meaning"),
            }
        }
        for (name, property) in after.properties.iter().filter(|(name, _)| !before.properties.contains_key(*name)) {
            if let Some(other) = before.declared(name) {
                self.within(&member(name), other, property);
            }
            let (kind, text) = match (before.required.contains(name), after.required.contains(name)) {
                (true, true) if before.is_closed() => (Kind::Widened, "is now described"),
                (true, true) => (Kind::Told, "is now described"),
                (true, false) => (Kind::Widened, "is no longer required"),
                (false, true) if before.is_closed() => (Kind::Changed, "is new and required"),
                (false, true) => (Kind::Narrowed, "is new and required"),
                (false, false) if before.is_closed() => (Kind::Widened, "is new and optional"),
                (false, false) => (Kind::Told, "is new and optional"),
            };
            self.say_of(name, kind, text);
        }
        self.undeclared_requirements(&before, &after);
        self.others(&before, &after);
        self.sizes(old, new, "minProperties", "maxProperties");
        for keyword in ["patternProperties", "propertyNames", "dependentRequired", "dependentSchemas"] {
            self.opaque(old, new, keyword);
        }
    }

    /// Compares what is required and nowhere described.
    fn undeclared_requirements(&mut self, before: &Shape<'_>, after: &Shape<'_>) {
        // Those that stayed, and those that are new, have been compared.
        let is_known = |name: &str| match before.properties.contains_key(name) {
            true => after.declared(name).is_some(),
            false => after.properties.contains_key(name),
        };
        for name in after.required.iter().filter(|name| !is_known(name) && !before.required.contains(*name)) {
            self.say_of(name, Kind::Narrowed, "is now required");
        }
        for name in before.required.iter().filter(|name| !is_known(name) && !after.required.contains(*name)) {
            self.say_of(name, Kind::Widened, "is no longer required");
        }
    }

    /// Compares what becomes of members that are not described.
    fn others(&mut self, before: &Shape<'_>, after: &Shape<'_>) {
        match (before.is_closed(), after.is_closed()) {
            (true, true) => {}
            (false, true) => self.say(Kind::Narrowed, "members that are not described are no longer taken"),
            (true, false) => self.say(Kind::Widened, "members that are not described are now taken"),
            (false, false) => {
                let anything = Value::Bool(true);
                self.within(".*", before.others.unwrap_or(&anything), after.others.unwrap_or(&anything));
            }
        }
    }

    /// Compares a keyword that nobody here understands: more of it takes less, and another one takes others.
    fn opaque(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, keyword: &str) {
        let (before, after) = (old.get(keyword), new.get(keyword));
        let kind = match (before, after) {
            (None, Some(_)) => Kind::Narrowed,
            (Some(_), None) => Kind::Widened,
            _ => Kind::Changed,
        };
        if before != after || !self.is_settled(before) {
            self.was_is(kind, keyword, before, after);
        }
    }

    /// Whether a text that both have means the same in both.
    fn is_settled<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> bool {
        self.means_the_same || !values.into_iter().any(values::mentions_reference)
    }

    fn within(&mut self, step: &str, old: &Value, new: &Value) {
        let length = self.path.len();
        let step = if length == 0 { step.strip_prefix('.').unwrap_or(step) } else { step };
        self.path.push_str(step);
        self.schemas(old, new);
        self.path.truncate(length);
    }

    fn was_is(&mut self, kind: Kind, keyword: &str, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) if old == new && kind == Kind::Told => {}
            (Some(old), Some(new)) if old == new && keyword == "x-mcp-header" => {}
            (Some(old), Some(new)) => self.say(kind, format!("`{keyword}` was {}, is {}", shown(old), shown(new))),
            (None, Some(new)) => self.say(kind, format!("`{keyword}` is new: {}", shown(new))),
            (Some(old), None) => self.say(kind, format!("`{keyword}` is gone: {}", shown(old))),
            (None, None) => {}
        }
    }

    fn say_of(&mut self, name: &str, kind: Kind, text: &str) {
        let length = self.path.len();
        let step = member(name);
        self.path.push_str(if length == 0 { &step[1..] } else { &step });
        self.say(kind, text);
        self.path.truncate(length);
    }

    fn say(&mut self, kind: Kind, text: impl Into<String>) {
        self.found.push(Difference { path: self.path.clone(), kind, text: text.into() });
    }
}

/// What an object looks like.
struct Shape<'a> {
    properties: std::collections::BTreeMap<&'a str, &'a Value>,
    required: BTreeSet<&'a str>,
    /// What other members look like; nothing if they may be anything.
    others: Option<&'a Value>,
}

impl<'a> Shape<'a> {
    fn of(schema: &'a Map<String, Value>) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        Self {
            properties: properties.map(|(name, property)| (name.as_str(), property)).collect(),
            required: required.filter_map(Value::as_str).collect(),
            others: schema.get("additionalProperties").or_else(|| schema.get("unevaluatedProperties")),
        }
    }

    fn is_closed(&self) -> bool {
        self.others.is_some_and(|others| *others == false)
    }

    /// What is said of a member: by itself, or as one of the others.
    fn declared(&self, name: &str) -> Option<&'a Value> {
        self.properties.get(name).copied().or_else(|| self.others.filter(|others| others.is_object()))
    }
}

fn kind(fewer: bool, more: bool) -> Kind {
    match (fewer, more) {
        (true, false) => Kind::Narrowed,
        (false, true) => Kind::Widened,
        _ => Kind::Changed,
    }
}

fn member(name: &str) -> String {
    format!(".{name}")
}

/// A keyword or, where that is not there, the one of the two that is.
fn either<'a>(schema: &'a Map<String, Value>, keyword: &str, one: &str, other: &str) -> Option<&'a Value> {
    schema.get(keyword).or_else(|| schema.get(one)).or_else(|| schema.get(other))
}

/// Whether servers refuse what has not this format. Others, such as `uint32`, say what a type is called in some language.
fn is_enforced(format: Option<&Value>) -> bool {
    let known = [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "idn-email",
        "hostname",
        "idn-hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "iri",
        "iri-reference",
        "uri-template",
        "uuid",
        "json-pointer",
        "relative-json-pointer",
        "regex",
    ];
    format.and_then(Value::as_str).is_some_and(|format| known.contains(&format))
}

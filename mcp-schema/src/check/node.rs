//! The nodes of a compiled schema.

use std::{cmp::Ordering, io::Write as _};

use regex_lite::Regex;
use serde_json::Value;

use super::{
    format::Format,
    number::{Number, is_integral},
};
use crate::json::{self, Kind, canonical_by};

/// The index of a node.
pub(super) type Id = usize;

/// The root.
pub(super) const ROOT: Id = 0;

/// One schema. Groups of keywords that are absent are `None` and cost a single test.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Whether the schema is `false` and rejects everything.
    pub(super) never: bool,
    /// The valid types; `None` if the schema does not restrict them.
    pub(super) types: Option<Types>,
    /// `enum` and `const`. Both apply.
    pub(super) values: Vec<Values>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) string: Option<Box<StringRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    pub(super) applicators: Option<Box<Applicators>>,
    pub(super) unevaluated: Option<Box<Unevaluated>>,
}

impl Node {
    /// Returns the number of steps that the patterns of the schema need for each byte of a text.
    pub(super) fn pattern_weight(&self) -> u64 {
        let string = self.string.as_ref().and_then(|rules| rules.pattern.as_ref());
        let names = self.object.as_ref().map_or(&[][..], |rules| &rules.patterns);
        string.into_iter().chain(names.iter().map(|(pattern, _)| pattern)).map(|pattern| pattern.weight).sum()
    }

    /// Returns whether the schema may accept a value because another schema does not match it, or because it has more
    /// members.
    pub(super) fn accepts_what_fails(&self) -> bool {
        let applicators = self.applicators.as_ref();
        applicators.is_some_and(|it| it.not.is_some() || it.condition.is_some() || !it.one.is_empty())
            || self.object.as_ref().is_some_and(|rules| rules.length.least > 1)
            || self.array.as_ref().and_then(|rules| rules.contains).is_some_and(|(_, counts)| counts.most != u64::MAX)
    }

    /// Returns whether the schema accepts everything.
    pub(super) fn is_empty(&self) -> bool {
        let Self { never, types, values, number, string, array, object, applicators, unevaluated } = self;
        !never
            && types.is_none()
            && values.is_empty()
            && number.is_none()
            && string.is_none()
            && array.is_none()
            && object.is_none()
            && applicators.is_none()
            && unevaluated.is_none()
    }
}

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Types(u8);

impl Types {
    const NAMES: [(&'static str, &'static str); 7] = [
        ("null", "null"),
        ("boolean", "a boolean"),
        ("integer", "an integer"),
        ("number", "a number"),
        ("string", "a string"),
        ("array", "an array"),
        ("object", "an object"),
    ];
    const INTEGER: u8 = 1 << 2;
    const NUMBER: u8 = 1 << 3;

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|(known, _)| *known == name).map(|bit| Self(1 << bit))
    }

    pub(super) fn of(kind: Kind) -> Self {
        Self(match kind {
            Kind::Null => 1,
            Kind::Bool => 1 << 1,
            Kind::Number => Self::INTEGER | Self::NUMBER,
            Kind::String => 1 << 4,
            Kind::Array => 1 << 5,
            Kind::Object => 1 << 6,
        })
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn has_integer(self) -> bool {
        self.0 & Self::INTEGER != 0
    }

    pub(super) fn accepts(self, kind: Kind, json: &str) -> bool {
        match kind {
            Kind::Number => self.0 & Self::NUMBER != 0 || self.0 & Self::INTEGER != 0 && is_integral(json),
            kind => self.overlaps(Self::of(kind)),
        }
    }

    /// Names the types: `string`.
    pub(super) fn plain(self) -> String {
        self.join(|&(name, _)| name)
    }

    /// Names the types with articles: `a string or null`.
    pub(super) fn in_words(self) -> String {
        self.join(|&(_, words)| words)
    }

    /// Joins the names, with `null` last.
    fn join(self, word: impl Fn(&(&'static str, &'static str)) -> &'static str) -> String {
        let bits = Self::NAMES.iter().enumerate().cycle().skip(1).take(Self::NAMES.len());
        let names = bits.filter(|(bit, _)| self.0 & (1 << bit) != 0).map(|(_, names)| word(names));
        names.collect::<Vec<_>>().join(" or ")
    }
}

/// The valid values, grouped by how they are compared.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) strings: Vec<Box<str>>,
    sorted_strings: Vec<Box<str>>,
    /// All other values, in [`canonical`] form, sorted.
    others: Vec<Box<str>>,
    /// All values, as written in the schema.
    pub(super) shown: Vec<Box<str>>,
    pub(super) types: Types,
}

impl Values {
    pub(super) fn new(values: &[Value]) -> Self {
        let mut compiled = Self::default();
        for value in values {
            let json = value.to_string();
            match value {
                Value::String(string) => compiled.strings.push(string.as_str().into()),
                _ => compiled.others.push(canonical(&json).into()),
            }
            compiled.types = compiled.types.with(Types::of(json::kind(&json)));
            compiled.shown.push(json.into());
        }
        compiled.sorted_strings.clone_from(&compiled.strings);
        compiled.sorted_strings.sort_unstable();
        compiled.others.sort_unstable();
        compiled
    }

    pub(super) fn contain(&self, kind: Kind, json: &str) -> bool {
        match kind {
            Kind::String => json::string(json).is_some_and(|string| contains(&self.sorted_strings, &string)),
            _ if !self.types.overlaps(Types::of(kind)) => false,
            _ => contains(&self.others, &canonical(json)),
        }
    }
}

/// Searches a sorted list, which may be long: the time for a value must not depend on the length of an `enum`.
fn contains(sorted: &[Box<str>], value: &str) -> bool {
    sorted.binary_search_by(|known| (**known).cmp(value)).is_ok()
}

/// A regular expression, and the maximum number of steps that it needs for each byte of a text.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    pub(super) weight: u64,
}

/// Rules for numbers.
#[derive(Debug, Default)]
pub(super) struct NumberRules {
    pub(super) bounds: Vec<Bound>,
    pub(super) multiple_of: Option<(Number, Box<str>)>,
}

/// One bound of a number.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) value: Number,
    /// The result of comparing an invalid number with the bound.
    pub(super) beyond: Ordering,
    pub(super) inclusive: bool,
    pub(super) shown: Box<str>,
}

/// A minimum and a maximum count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { least: 0, most: u64::MAX }
    }
}

/// Rules for strings.
#[derive(Debug, Default)]
pub(super) struct StringRules {
    pub(super) length: Counts,
    pub(super) pattern: Option<Pattern>,
    pub(super) format: Option<&'static Format>,
}

/// Rules for arrays.
#[derive(Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) length: Counts,
    pub(super) unique: bool,
    pub(super) prefix: Vec<Id>,
    pub(super) items: Option<Id>,
    /// Whether there is an `items`, even if it accepts everything.
    pub(super) evaluates_rest: bool,
    pub(super) contains: Option<(Id, Counts)>,
}

/// Rules for objects.
#[derive(Debug, Default)]
pub(super) struct ObjectRules {
    pub(super) length: Counts,
    pub(super) required: Vec<Box<str>>,
    /// The properties, sorted by name.
    pub(super) properties: Vec<PropertyRules>,
    pub(super) patterns: Vec<(Pattern, Id)>,
    pub(super) additional: Option<Id>,
    /// Whether there is an `additionalProperties`, even if it accepts everything.
    pub(super) evaluates_rest: bool,
    pub(super) names: Option<Id>,
    pub(super) dependent_required: Vec<(Box<str>, Vec<Box<str>>)>,
    pub(super) dependent_schemas: Vec<(Box<str>, Id)>,
}

/// One property of an object.
#[derive(Debug)]
pub(super) struct PropertyRules {
    pub(super) name: Box<str>,
    pub(super) node: Id,
    /// Whether the property is optional and counts as absent if its value is a `null` that its schema does not accept.
    pub(super) nullable: bool,
}

impl ObjectRules {
    pub(super) fn property(&self, name: &str) -> Option<&PropertyRules> {
        let index = self.properties.binary_search_by(|property| (*property.name).cmp(name)).ok()?;
        self.properties.get(index)
    }
}

/// Keywords that apply schemas to the same value.
#[derive(Debug, Default)]
pub(super) struct Applicators {
    pub(super) reference: Option<Id>,
    pub(super) all: Vec<Id>,
    /// `anyOf`, unless empty.
    pub(super) any: Vec<Id>,
    /// `oneOf`, unless empty.
    pub(super) one: Vec<Id>,
    pub(super) not: Option<Id>,
    pub(super) condition: Option<Id>,
    pub(super) then: Option<Id>,
    pub(super) otherwise: Option<Id>,
}

/// Returns schemas with all schemas that they apply to the same value. `applied` returns those of one schema.
pub(super) fn with_applied<'a, I: IntoIterator<Item = Id>>(
    nodes: &'a [Node],
    ids: &[Id],
    applied: impl Fn(&'a Node) -> I,
) -> Vec<Id> {
    let mut found = ids.to_vec();
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        for id in applied(&nodes[id]) {
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }
    found
}

/// The schemas of the items and properties that no other keyword of the same schema has evaluated.
#[derive(Debug, Default)]
pub(super) struct Unevaluated {
    pub(super) items: Option<Id>,
    pub(super) properties: Option<Id>,
}

impl Unevaluated {
    /// Returns the schema for the members of a value of this kind.
    pub(super) fn of(&self, kind: Kind) -> Option<Id> {
        match kind {
            Kind::Array => self.items,
            Kind::Object => self.properties,
            _ => None,
        }
    }
}

/// Writes JSON such that equal values have equal texts: sorts members, and normalizes numbers and strings.
pub(super) fn canonical(json: &str) -> String {
    canonical_by(json, &|out, number| {
        let _ = match Number::parse(number) {
            Some(Number::Integer(value)) => write!(out, "{value}"),
            Some(Number::Float(value)) => write!(out, "{value:e}"),
            None => out.write_all(number.as_bytes()),
        };
    })
}

//! Types, bounds and lists of values.

use serde_json::{Map, Value, json};

/// A set of JSON types. Integers are a subset of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

const NAMES: [(&str, u8); 7] =
    [("null", 1), ("boolean", 2), ("object", 4), ("array", 8), ("string", 16), ("number", 32 | 64), ("integer", 32)];

impl Types {
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const OBJECT: Self = Self(4);
    pub(super) const ARRAY: Self = Self(8);
    pub(super) const STRING: Self = Self(16);
    pub(super) const NUMBER: Self = Self(32 | 64);
    const ALL: Self = Self(127);

    /// Returns the types of a schema or of its listed values, or all types if it has neither.
    pub(super) fn of(schema: &Map<String, Value>) -> Self {
        let named = |name: &Value| NAMES.iter().find(|(known, _)| name == *known).map_or(0, |(_, bits)| *bits);
        match (schema.get("type"), enumerated(schema)) {
            (Some(Value::Array(names)), _) => Self(names.iter().map(named).fold(0, |all, bits| all | bits)),
            (Some(name), _) => Self(named(name)),
            (None, Some(values)) => {
                Self(values.iter().map(|value| Self::of_value(value).0).fold(0, |all, bits| all | bits))
            }
            (None, None) => Self::ALL,
        }
    }

    pub(super) fn of_value(value: &Value) -> Self {
        Self(match value {
            Value::Null => 1,
            Value::Bool(_) => 2,
            Value::Object(_) => 4,
            Value::Array(_) => 8,
            Value::String(_) => 16,
            Value::Number(number) => match number.as_f64() {
                Some(number) if number.fract() != 0.0 => 64,
                _ => 32,
            },
        })
    }

    pub(super) fn is_disjoint(self, other: Self) -> bool {
        self.0 & other.0 == 0
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        !self.is_disjoint(other)
    }

    pub(super) fn has_fractions(self) -> bool {
        self.0 & 64 != 0
    }

    /// Returns the types as the value of `type`.
    pub(super) fn shown(self) -> Value {
        let is_listed = |name: &str, bits: u8| self.0 & bits == bits && (name != "integer" || !self.has_fractions());
        let names: Vec<&str> =
            NAMES.iter().filter(|(name, bits)| is_listed(name, *bits)).map(|(name, _)| *name).collect();
        match &*names {
            _ if self == Self::ALL => json!("any"),
            [name] => json!(name),
            names => json!(names),
        }
    }
}

/// Formats a value for a message. Shortens long values and writes the names of types without quotes.
pub(super) fn shown(value: &Value) -> String {
    let plain = match value {
        Value::String(name) if name == "any" || NAMES.iter().any(|(known, _)| name == known) => name.clone(),
        Value::Array(names) if !names.is_empty() && names.iter().all(is_type) => {
            names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        other => other.to_string(),
    };
    match plain.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

fn is_type(name: &Value) -> bool {
    NAMES.iter().any(|(known, _)| name == *known)
}

/// Returns the values of `const` or `enum`.
pub(super) fn enumerated(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => {
            let types = schema.get("type").map(|_| Types::of(&without_enum(schema)));
            Some(
                values
                    .iter()
                    .filter(|value| types.is_none_or(|types| types.overlaps(Types::of_value(value))))
                    .cloned()
                    .collect(),
            )
        }
        _ => None,
    }
}

fn without_enum(schema: &Map<String, Value>) -> Map<String, Value> {
    schema
        .iter()
        .filter(|(keyword, _)| *keyword == "type")
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect()
}

/// Returns the keywords of a schema other than `type`, lists of values, and annotations.
pub(super) fn constraints(schema: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let excluded = ["type", "enum", "const", "title", "description", "default", "examples"];
    schema.iter().filter(|(keyword, _)| !excluded.contains(&keyword.as_str())).collect()
}

/// Returns whether a list contains a value. `1` equals `1.0`.
pub(super) fn contains(values: &[Value], value: &Value) -> bool {
    let same = |other: &Value| match (other, value) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (left, right) => left == right,
    };
    values.iter().any(same)
}

/// Returns whether a schema, apart from `enum` and `const`, accepts a value. Returns `false` if the keywords do not
/// decide it.
pub(super) fn accepts(schema: &Map<String, Value>, value: &Value) -> bool {
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let is_within = |size: f64, least: &str, greatest: &str| {
        number(least).is_none_or(|least| size >= least) && number(greatest).is_none_or(|greatest| size <= greatest)
    };
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| schema.contains_key(*keyword));
    if !Types::of(schema).overlaps(Types::of_value(value))
        || has(&["not", "if", "allOf", "anyOf", "oneOf", "$ref", "$dynamicRef"])
    {
        return false;
    }
    match value {
        Value::String(text) => {
            is_within(text.chars().count() as f64, "minLength", "maxLength") && !has(&["pattern", "format"])
        }
        Value::Number(value) => {
            let value = value.as_f64().unwrap_or_default();
            is_within(value, "minimum", "maximum")
                && number("exclusiveMinimum").is_none_or(|least| value > least)
                && number("exclusiveMaximum").is_none_or(|greatest| value < greatest)
                && !has(&["multipleOf"])
        }
        Value::Array(_) | Value::Object(_) => schema
            .keys()
            .all(|keyword| ["type", "enum", "const", "title", "description", "default"].contains(&&**keyword)),
        _ => true,
    }
}

/// Returns the tighter of an inclusive and an exclusive bound, and whether it is exclusive. The bound is multiplied by
/// `sign`, so that a greater number always means a tighter bound.
pub(super) fn bound(
    schema: &Map<String, Value>,
    inclusive: &str,
    exclusive: &str,
    sign: f64,
    whole: bool,
) -> (f64, bool) {
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64).map(|number| number * sign);
    let inclusive = number(inclusive).map(|number| if whole { (number.ceil(), false) } else { (number, false) });
    let exclusive = number(exclusive).map(|number| if whole { (number.floor() + 1.0, false) } else { (number, true) });
    let none = (f64::NEG_INFINITY, false);
    let (inclusive, exclusive) = (inclusive.unwrap_or(none), exclusive.unwrap_or(none));
    if exclusive >= inclusive { exclusive } else { inclusive }
}

/// Returns whether every multiple of `number` is a multiple of `of`.
pub(super) fn is_multiple(number: &Value, of: &Value) -> bool {
    let (Some(number), Some(of)) = (number.as_f64(), of.as_f64()) else { return false };
    let times = number / of;
    times.is_finite() && (times - times.round()).abs() < 1e-9
}

/// Returns whether a value contains a `$ref`.
pub(super) fn contains_reference(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(contains_reference),
        Value::Array(items) => items.iter().any(contains_reference),
        _ => false,
    }
}

/// Returns whether servers enforce the format. Others, such as `uint32`, name types of programming languages.
pub(super) fn is_enforced(format: Option<&Value>) -> bool {
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

//! Compares keywords that do not contain other schemas.

use serde_json::{Map, Value};

use super::{
    difference::Effect,
    report::Report,
    values::{self, Types, accepts, shown},
};

/// Compares `enum` and `const`. Returns `true` if one of the schemas has them, so that other keywords need not be
/// compared.
pub(super) fn enumerations(report: &mut Report, old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let list = |values: &[&Value]| values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ");
    let (before, after) = (values::enumerated(old), values::enumerated(new));
    // Values of one schema that the other rejects. Other keywords that are equal in both reject no additional values.
    let same_constraints = values::constraints(old) == values::constraints(new);
    let rejected = |values: &Option<Vec<Value>>, listed: &Option<Vec<Value>>, schema| {
        let is_listed = |value: &Value| listed.as_ref().is_none_or(|listed| values::contains(listed, value));
        let is_accepted = |value: &Value| is_listed(value) && (same_constraints || accepts(schema, value));
        values.iter().flatten().filter(|value| !is_accepted(value)).cloned().collect::<Vec<_>>()
    };
    let (removed, added) = (rejected(&before, &after, new), rejected(&after, &before, old));
    let (removed, added): (Vec<_>, Vec<_>) = (removed.iter().collect(), added.iter().collect());
    let listed = before.is_some() && after.is_some();
    if !removed.is_empty() {
        let what = if listed { "`enum` no longer contains" } else { "no longer accepts" };
        report.difference(Effect::Narrowed, format!("{what} {}", list(&removed)));
    }
    if !added.is_empty() {
        let what = if listed { "`enum` now contains" } else { "now accepts" };
        report.difference(Effect::Widened, format!("{what} {}", list(&added)));
    }
    let is_partial = |values: &[Value], schema| !is_complete(values, Types::of(schema));
    match (&before, &after) {
        (None, Some(after)) if is_partial(after, old) => {
            report.difference(Effect::Narrowed, format!("`enum` added: {}", list(&after.iter().collect::<Vec<_>>())));
        }
        (Some(before), None) if is_partial(before, new) => {
            report.difference(Effect::Widened, format!("`enum` removed: {}", list(&before.iter().collect::<Vec<_>>())));
        }
        _ => {}
    }
    before.is_some() || after.is_some()
}

/// Returns whether a list contains every value of the types. Only `null` and booleans can be listed completely.
fn is_complete(values: &[Value], types: Types) -> bool {
    let listable = [Value::Null, Value::Bool(false), Value::Bool(true)];
    types.is_within(Types::NULL.union(Types::BOOLEAN))
        && listable
            .iter()
            .filter(|value| types.overlaps(Types::of_value(value)))
            .all(|value| values::contains(values, value))
}

/// Compares the bounds and the divisor of numbers. Bounds of integers (`whole`) are rounded.
pub(super) fn numbers(report: &mut Report, old: &Map<String, Value>, new: &Map<String, Value>, whole: bool) {
    for (inclusive, exclusive, sign) in [("minimum", "exclusiveMinimum", 1.0), ("maximum", "exclusiveMaximum", -1.0)] {
        let bound = |schema| values::bound(schema, inclusive, exclusive, sign, whole);
        let (before, after) = (bound(old), bound(new));
        if before == after {
            continue;
        }
        let keyword = if new.contains_key(exclusive) || (old.contains_key(exclusive) && !new.contains_key(inclusive)) {
            exclusive
        } else {
            inclusive
        };
        let (was, is) = (either(old, keyword, inclusive, exclusive), either(new, keyword, inclusive, exclusive));
        let effect = if after > before { Effect::Narrowed } else { Effect::Widened };
        match (was, is) {
            (Some(was), Some(is)) if was == is => {
                let name =
                    |schema: &Map<String, Value>| if schema.contains_key(exclusive) { exclusive } else { inclusive };
                report.difference(effect, format!("`{}` changed to `{}`: {is}", name(old), name(new)));
            }
            _ => report.keyword(effect, keyword, was, is),
        }
    }
    let (before, after) = (old.get("multipleOf"), new.get("multipleOf"));
    if before != after {
        let is_multiple = |left: Option<&Value>, right: Option<&Value>| match (left, right) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => values::is_multiple(left, right),
        };
        report.keyword(effect(!is_multiple(before, after), !is_multiple(after, before)), "multipleOf", before, after);
    }
}

/// Compares a minimum and a maximum size.
pub(super) fn sizes(
    report: &mut Report,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    least: &str,
    greatest: &str,
) {
    let size =
        |schema: &Map<String, Value>, keyword, missing| schema.get(keyword).and_then(Value::as_f64).unwrap_or(missing);
    for (keyword, sign, missing) in [(least, 1.0, 0.0), (greatest, -1.0, f64::INFINITY)] {
        let (before, after) = (sign * size(old, keyword, missing), sign * size(new, keyword, missing));
        if before != after {
            let effect = if after > before { Effect::Narrowed } else { Effect::Widened };
            report.keyword(effect, keyword, old.get(keyword), new.get(keyword));
        }
    }
}

/// Returns the effect of accepting fewer values, more values, or both.
pub(super) fn effect(fewer: bool, more: bool) -> Effect {
    match (fewer, more) {
        (true, false) => Effect::Narrowed,
        (false, true) => Effect::Widened,
        _ => Effect::Changed,
    }
}

/// Returns the value of the first of three keywords that is present.
fn either<'a>(schema: &'a Map<String, Value>, keyword: &str, one: &str, other: &str) -> Option<&'a Value> {
    schema.get(keyword).or_else(|| schema.get(one)).or_else(|| schema.get(other))
}

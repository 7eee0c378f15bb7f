//! Encodes a form as `requestedSchema`.
//!
//! See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).

use serde_json::{Map, Number, Value, json};

use super::{
    InvalidAnswer,
    field::{Choice, ChoiceSet, FieldKind, FieldType, FormField},
    question::parse,
};
use crate::{
    handler::{
        entry::{Bound, Rule},
        schema::Violation,
    },
    revision::{Feature, Features},
};

/// The constraints that a schema contains.
#[derive(Clone, Copy)]
struct SchemaDetail {
    /// Whether it uses keywords that revision 2025-06-18 does not support.
    rich: bool,
    /// Whether it contains constraints that forms do not display: the range of a type, and the uniqueness of choices.
    exact: bool,
}

/// Returns the schema that the client displays as a form.
pub(super) fn requested_schema(form: &[FormField], features: Features) -> Value {
    schema(form, SchemaDetail { rich: features.has(Feature::RichForms), exact: false })
}

/// Returns the schema that answers are validated against. It does not depend on the revision of the client.
pub(super) fn enforced_schema(form: &[FormField]) -> Value {
    schema(form, SchemaDetail { rich: true, exact: true })
}

/// Returns the name of the boolean that represents one of several choices, in revisions that do not support lists of
/// choices.
pub(super) fn boolean_name(field: &FormField, choice: &Choice) -> String {
    format!("{}.{}", field.name, choice.value)
}

/// Evaluates the default of a field.
pub(super) fn default_of(field: &FormField) -> Option<Value> {
    field.default?.value().ok().filter(|value| !value.is_null())
}

fn schema(form: &[FormField], detail: SchemaDetail) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in form {
        let members: Vec<_> = match field.kind {
            FieldKind::Multiple(choices) if !detail.rich => {
                let default = default_of(field);
                let member = |choice| (boolean_name(field, choice), choice_as_boolean(field, choice, default.as_ref()));
                choices.all.iter().map(member).collect()
            }
            _ => vec![(field.name.to_owned(), property(field, detail))],
        };
        if field.is_required() {
            required.extend(members.iter().map(|(name, _)| name.clone()));
        }
        properties.extend(members);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn property(field: &FormField, detail: SchemaDetail) -> Value {
    let mut property = json!({ "type": type_name(field.kind) });
    if let Some(title) = field.title {
        property["title"] = title.into();
    }
    if !field.description.is_empty() {
        property["description"] = field.description.into();
    }
    match field.kind {
        FieldKind::Text => lengths(&mut property, field.rules, ["minLength", "maxLength"]),
        FieldKind::Boolean => {}
        FieldKind::Integer { min, max } => {
            // The limits of a type matter to users only if they are small.
            let is_small = max <= i128::from(u16::MAX);
            let low = (detail.exact || is_small || min == 0).then_some(Bound::Integer(min));
            let high = (detail.exact || is_small).then_some(Bound::Integer(max));
            range(&mut property, field.rules, low, high);
        }
        FieldKind::Number => range(&mut property, field.rules, None, None),
        FieldKind::Single(choices) if !choices.is_titled() => property["enum"] = values(choices),
        FieldKind::Single(choices) if detail.rich && !choices.legacy_names => property["oneOf"] = titled(choices),
        FieldKind::Single(choices) => {
            property["enum"] = values(choices);
            property["enumNames"] = choices.all.iter().map(Choice::title).collect();
        }
        FieldKind::Multiple(choices) => {
            property["items"] = if choices.is_titled() {
                json!({ "anyOf": titled(choices) })
            } else {
                json!({ "type": "string", "enum": values(choices) })
            };
            if detail.exact {
                property["uniqueItems"] = true.into();
            }
            lengths(&mut property, field.rules, ["minItems", "maxItems"]);
        }
    }
    let has_default = detail.rich || field.kind == FieldKind::Boolean;
    if let Some(default) = has_default.then(|| default_of(field)).flatten() {
        property["default"] = default;
    }
    property
}

fn type_name(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Text | FieldKind::Single(_) => "string",
        FieldKind::Boolean => "boolean",
        FieldKind::Integer { .. } => "integer",
        FieldKind::Number => "number",
        FieldKind::Multiple(_) => "array",
    }
}

fn lengths(property: &mut Value, rules: &[Rule], [min, max]: [&str; 2]) {
    for rule in rules {
        match *rule {
            Rule::MinLength(length) => property[min] = length.into(),
            Rule::MaxLength(length) => property[max] = length.into(),
            Rule::Format(format) => property["format"] = format.into(),
            _ => {}
        }
    }
}

/// Adds the range of a number: the author's constraints, or else the limits of its type.
fn range(property: &mut Value, rules: &[Rule], mut low: Option<Bound>, mut high: Option<Bound>) {
    for rule in rules {
        match *rule {
            Rule::Minimum(bound) => low = Some(bound),
            Rule::Maximum(bound) => high = Some(bound),
            Rule::ExclusiveMaximum(Bound::Integer(bound)) => high = Some(Bound::Integer(bound - 1)),
            _ => {}
        }
    }
    if let Some(low) = low {
        property["minimum"] = number(low);
    }
    if let Some(high) = high {
        property["maximum"] = number(high);
    }
}

fn number(bound: Bound) -> Value {
    match bound {
        // An integer beyond 64 bits becomes the nearest floating-point number.
        Bound::Integer(bound) => Number::from_i128(bound).map_or_else(|| (bound as f64).into(), Value::Number),
        Bound::Float(bound) => bound.into(),
    }
}

fn values(choices: &ChoiceSet) -> Value {
    choices.all.iter().map(|choice| choice.value).collect()
}

fn titled(choices: &ChoiceSet) -> Value {
    choices.all.iter().map(|choice| json!({ "const": choice.value, "title": choice.title() })).collect()
}

/// Returns the schema of the boolean that represents one of several choices.
fn choice_as_boolean(field: &FormField, choice: &Choice, default: Option<&Value>) -> Value {
    let chosen = default.and_then(Value::as_array).is_some_and(|all| all.iter().any(|value| value == choice.value));
    let title = format!("{}: {}", field.title.unwrap_or(field.name), choice.title());
    let mut boolean = json!({ "type": "boolean", "title": title });
    let description = [field.description, &count_hint(field.rules)].join(" ");
    if !description.trim().is_empty() {
        boolean["description"] = description.trim().into();
    }
    boolean["default"] = chosen.into();
    boolean
}

/// Describes how many choices are allowed, which a schema of booleans cannot express.
fn count_hint(rules: &[Rule]) -> String {
    let min = rules.iter().find_map(|rule| if let Rule::MinLength(min) = rule { Some(min) } else { None });
    let max = rules.iter().find_map(|rule| if let Rule::MaxLength(max) = rule { Some(max) } else { None });
    match (min, max) {
        (Some(min), Some(max)) if min == max => format!("(exactly {min})"),
        (Some(min), Some(max)) => format!("(at least {min} and at most {max})"),
        (Some(min), None) => format!("(at least {min})"),
        (None, Some(max)) => format!("(at most {max})"),
        (None, None) => String::new(),
    }
}

/// The maximum length of a list from which duplicates are removed. Removal takes quadratic time.
const MAX_DEDUPLICATED: usize = 1000;

/// The validated content of a completed form.
#[derive(Debug)]
pub struct FormContent {
    fields: &'static [FormField],
    values: Map<String, Value>,
}

impl FormContent {
    /// Validates the `content` of an answer and applies the defaults. Members that are not fields are ignored.
    ///
    /// Clients may have validated it already, but are not trusted.
    pub(super) fn new(fields: &'static [FormField], content: &Map<String, Value>) -> Result<Self, InvalidAnswer> {
        let mut values = Map::new();
        for field in fields {
            let given = match (content.get(field.name), field.kind) {
                (None, FieldKind::Multiple(choices)) => chosen_by_booleans(field, choices, content)?,
                // Clients send `null` for empty fields.
                (Some(Value::Null), _) if !field.is_required() => None,
                (Some(Value::Array(given)), FieldKind::Multiple(_)) => Some(without_duplicates(given)),
                (given, _) => given.cloned(),
            };
            if let Some(value) = given.or_else(|| default_of(field)) {
                values.insert(field.name.to_owned(), value);
            }
        }
        let values = Value::Object(values);
        match parse(&enforced_schema(fields), &values.to_string())? {
            Value::Object(values) => Ok(Self { fields, values }),
            _ => Ok(Self { fields, values: Map::new() }),
        }
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not valid for the type.
    pub fn field<T>(&self, ty: &FieldType<T>, index: usize) -> Result<T, InvalidAnswer> {
        let name = self.fields.get(index).map_or("", |field| field.name);
        (ty.from_json)(self.values.get(name)).ok_or_else(|| InvalidAnswer::new(format!("`{name}` is invalid")))
    }
}

/// Removes choices that occur more than once.
fn without_duplicates(given: &[Value]) -> Value {
    // The schema rejects a longer list, because it contains duplicates or more choices than any form has.
    if given.len() > MAX_DEDUPLICATED {
        return given.into();
    }
    let is_new = |(index, value): &(usize, &Value)| !given[..*index].contains(value);
    given.iter().enumerate().filter(is_new).map(|(_, value)| value.clone()).collect()
}

/// Collects choices that were sent as one boolean each. Returns `None` if there are no such booleans.
fn chosen_by_booleans(
    field: &FormField,
    choices: &ChoiceSet,
    content: &Map<String, Value>,
) -> Result<Option<Value>, InvalidAnswer> {
    let mut all = Vec::new();
    let mut is_given = false;
    for choice in choices.all {
        let name = boolean_name(field, choice);
        match content.get(&name) {
            None | Some(Value::Null) => {}
            Some(Value::Bool(is_chosen)) => {
                is_given = true;
                all.extend(is_chosen.then(|| Value::from(choice.value)));
            }
            Some(other) => {
                return Err(Violation::new(&name, Some(&other.to_string()), "must be a boolean").into());
            }
        }
    }
    Ok(is_given.then_some(Value::Array(all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_bounds_of_64_bits_are_exact() {
        for (bound, expected) in [
            (Bound::Integer(-1), json!(-1)),
            (Bound::Integer(i64::MIN.into()), json!(i64::MIN)),
            (Bound::Integer(u64::MAX.into()), json!(u64::MAX)),
            (Bound::Integer(100_000_000_000_000_000_001), json!(1e20)),
            (Bound::Float(0.5), json!(0.5)),
        ] {
            assert_eq!(number(bound), expected, "{bound:?}");
        }
    }
}

//! Encodes a form as `requestedSchema`.
//!
//! See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).

use std::borrow::Cow;

use serde_json::{Map, Value};

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
    jsonrpc::write::{plain, string},
    revision::{
        Feature, Features,
        encode::{Object, array},
    },
};

/// The constraints that a schema contains.
#[derive(Clone, Copy)]
struct SchemaDetail {
    /// Whether it uses keywords that revision 2025-06-18 does not support.
    rich: bool,
    /// Whether it contains constraints that forms do not display: the range of a type, and the uniqueness of choices.
    exact: bool,
}

/// Writes the schema that the client displays as a form.
pub(super) fn requested_schema(out: &mut Vec<u8>, form: &[FormField], features: Features) {
    schema(out, form, SchemaDetail { rich: features.has(Feature::RichForms), exact: false });
}

/// Returns the schema that answers are validated against. It does not depend on the revision of the client.
pub(super) fn enforced_schema(form: &[FormField]) -> Value {
    let mut out = Vec::new();
    schema(&mut out, form, SchemaDetail { rich: true, exact: true });
    serde_json::from_slice(&out).unwrap_or_default()
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

fn schema(out: &mut Vec<u8>, form: &[FormField], detail: SchemaDetail) {
    let mut object = Object::begin(out);
    object.string("type", "object");
    let mut required: Vec<Cow<'_, str>> = Vec::new();
    let mut properties = Object::begin(object.key("properties"));
    for field in form {
        match field.kind {
            FieldKind::Multiple(choices) if !detail.rich => {
                let default = default_of(field);
                for choice in choices.all {
                    let name = boolean_name(field, choice);
                    choice_as_boolean(properties.key(&name), field, choice, default.as_ref());
                    required.extend(field.is_required().then_some(Cow::Owned(name)));
                }
            }
            _ => {
                property(properties.key(field.name), field, detail);
                required.extend(field.is_required().then_some(Cow::Borrowed(field.name)));
            }
        }
    }
    properties.end();
    if !required.is_empty() {
        array(object.key("required"), required, |out, name| string(out, &name));
    }
    object.end();
}

fn property(out: &mut Vec<u8>, field: &FormField, detail: SchemaDetail) {
    let mut object = Object::begin(out);
    object.string("type", type_name(field.kind));
    object.optional("title", field.title);
    object.optional("description", Some(field.description).filter(|text| !text.is_empty()));
    match field.kind {
        FieldKind::Text => lengths(&mut object, field.rules, ["minLength", "maxLength"]),
        FieldKind::Boolean => {}
        FieldKind::Integer { min, max } => {
            // The limits of a type matter to users only if they are small.
            let is_small = max <= i128::from(u16::MAX);
            let low = (detail.exact || is_small || min == 0).then_some(Bound::Integer(min));
            let high = (detail.exact || is_small).then_some(Bound::Integer(max));
            range(&mut object, field.rules, low, high);
        }
        FieldKind::Number => range(&mut object, field.rules, None, None),
        FieldKind::Single(choices) => single_choice(&mut object, choices, detail),
        FieldKind::Multiple(choices) => {
            multiple_choice(&mut object, choices);
            if detail.exact {
                plain(object.key("uniqueItems"), &true);
            }
            lengths(&mut object, field.rules, ["minItems", "maxItems"]);
        }
    }
    let has_default = detail.rich || field.kind == FieldKind::Boolean;
    if let Some(default) = has_default.then(|| default_of(field)).flatten() {
        plain(object.key("default"), &default);
    }
    object.end();
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

fn lengths(object: &mut Object<'_>, rules: &[Rule], [min, max]: [&str; 2]) {
    for rule in rules {
        match rule {
            Rule::MinLength(length) => plain(object.key(min), length),
            Rule::MaxLength(length) => plain(object.key(max), length),
            Rule::Format(format) => object.string("format", format),
            _ => {}
        }
    }
}

/// Writes the range of a number: the author's constraints, or else the limits of its type.
fn range(object: &mut Object<'_>, rules: &[Rule], mut low: Option<Bound>, mut high: Option<Bound>) {
    for rule in rules {
        match *rule {
            Rule::Minimum(bound) => low = Some(bound),
            Rule::Maximum(bound) => high = Some(bound),
            Rule::ExclusiveMaximum(Bound::Integer(bound)) => high = Some(Bound::Integer(bound - 1)),
            _ => {}
        }
    }
    if let Some(low) = low {
        number(object.key("minimum"), &low);
    }
    if let Some(high) = high {
        number(object.key("maximum"), &high);
    }
}

fn number(out: &mut Vec<u8>, bound: &Bound) {
    match bound {
        Bound::Integer(bound) => plain(out, bound),
        Bound::Float(bound) => plain(out, bound),
    }
}

fn single_choice(object: &mut Object<'_>, choices: &ChoiceSet, detail: SchemaDetail) {
    if !choices.is_titled() {
        return values(object, choices);
    }
    if detail.rich && !choices.legacy_names {
        return titled(object.key("oneOf"), choices);
    }
    values(object, choices);
    array(object.key("enumNames"), choices.all, |out, choice| string(out, choice.title()));
}

fn multiple_choice(object: &mut Object<'_>, choices: &ChoiceSet) {
    let mut items = Object::begin(object.key("items"));
    if choices.is_titled() {
        titled(items.key("anyOf"), choices);
    } else {
        items.string("type", "string");
        values(&mut items, choices);
    }
    items.end();
}

fn values(object: &mut Object<'_>, choices: &ChoiceSet) {
    array(object.key("enum"), choices.all, |out, choice| string(out, choice.value));
}

fn titled(out: &mut Vec<u8>, choices: &ChoiceSet) {
    array(out, choices.all, |out, choice| {
        let mut object = Object::begin(out);
        object.string("const", choice.value);
        object.string("title", choice.title());
        object.end();
    });
}

/// Writes the boolean that represents one of several choices.
fn choice_as_boolean(out: &mut Vec<u8>, field: &FormField, choice: &Choice, default: Option<&Value>) {
    let chosen = default.and_then(Value::as_array).is_some_and(|all| all.iter().any(|value| value == choice.value));
    let mut object = Object::begin(out);
    object.string("type", "boolean");
    object.string("title", &format!("{}: {}", field.title.unwrap_or(field.name), choice.title()));
    let description = [field.description, &count_hint(field.rules)].join(" ");
    object.optional("description", Some(description.trim()).filter(|text| !text.is_empty()));
    plain(object.key("default"), &chosen);
    object.end();
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

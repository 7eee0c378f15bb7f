//! Spells a form as `requestedSchema`.
//!
//! See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).

use std::borrow::Cow;

use serde_json::Value;

use super::{
    choice::{Choice, Choices},
    field::FieldKind,
    form::FormField,
};
use crate::{
    handler::entry::rule::{ArgumentDefault, Bound, Rule},
    jsonrpc::write::{plain, string},
    revision::{
        Feature, Features,
        encode::{Object, array},
    },
};

/// How much a schema says.
#[derive(Clone, Copy)]
struct Manner {
    /// All that is known; else what 2025-06-18 has words for.
    rich: bool,
    /// What goes without saying as well: what a type can hold, that nothing is chosen twice.
    exact: bool,
}

/// Writes the schema that a client shows as a form.
pub(super) fn requested_schema(out: &mut Vec<u8>, form: &[FormField], features: Features) {
    schema(out, form, Manner { rich: features.has(Feature::RichForms), exact: false });
}

/// Makes the schema that an answer is held against, whatever the client was told.
pub(super) fn enforced_schema(form: &[FormField]) -> Value {
    let mut out = Vec::new();
    schema(&mut out, form, Manner { rich: true, exact: true });
    serde_json::from_slice(&out).unwrap_or_default()
}

/// Names the boolean that stands for one choice of several, where a revision has no list of choices.
pub(super) fn name_of_choice(field: &FormField, choice: &Choice) -> String {
    format!("{}.{}", field.name, choice.value)
}

/// Works out a default, as JSON.
pub(super) fn default_of(field: &FormField) -> Option<Value> {
    let value = match field.default? {
        ArgumentDefault::Json(json) => serde_json::from_str(json),
        ArgumentDefault::Expression(make) => make(),
    };
    value.ok().filter(|value| !value.is_null())
}

fn schema(out: &mut Vec<u8>, form: &[FormField], manner: Manner) {
    let mut object = Object::begin(out);
    object.string("type", "object");
    let mut required: Vec<Cow<'_, str>> = Vec::new();
    let mut properties = Object::begin(object.key("properties"));
    for field in form {
        match field.kind {
            FieldKind::Many(choices) if !manner.rich => {
                let default = default_of(field);
                for choice in choices.all {
                    let name = name_of_choice(field, choice);
                    one_of_many(properties.key(&name), field, choice, default.as_ref());
                    required.extend(field.is_required().then_some(Cow::Owned(name)));
                }
            }
            _ => {
                property(properties.key(field.name), field, manner);
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

fn property(out: &mut Vec<u8>, field: &FormField, manner: Manner) {
    let mut object = Object::begin(out);
    object.string("type", type_name(field.kind));
    object.optional("title", field.title);
    object.optional("description", Some(field.description).filter(|text| !text.is_empty()));
    match field.kind {
        FieldKind::Text => lengths(&mut object, field.rules, ["minLength", "maxLength"]),
        FieldKind::Truth => {}
        FieldKind::Integer { least, most } => whole_range(&mut object, field.rules, least, most, manner),
        FieldKind::Number => range(&mut object, field.rules),
        FieldKind::One(choices) => one(&mut object, choices, manner),
        FieldKind::Many(choices) => {
            many(&mut object, choices);
            if manner.exact {
                plain(object.key("uniqueItems"), &true);
            }
            lengths(&mut object, field.rules, ["minItems", "maxItems"]);
        }
    }
    let has_default = manner.rich || field.kind == FieldKind::Truth;
    if let Some(default) = has_default.then(|| default_of(field)).flatten() {
        plain(object.key("default"), &default);
    }
    object.end();
}

fn type_name(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Text | FieldKind::One(_) => "string",
        FieldKind::Truth => "boolean",
        FieldKind::Integer { .. } => "integer",
        FieldKind::Number => "number",
        FieldKind::Many(_) => "array",
    }
}

fn lengths(object: &mut Object<'_>, rules: &[Rule], [least, most]: [&str; 2]) {
    for rule in rules {
        match rule {
            Rule::MinLength(length) => plain(object.key(least), length),
            Rule::MaxLength(length) => plain(object.key(most), length),
            Rule::Format(format) => object.string("format", format),
            _ => {}
        }
    }
}

fn range(object: &mut Object<'_>, rules: &[Rule]) {
    for rule in rules {
        match rule {
            Rule::Minimum(bound) => number(object.key("minimum"), bound),
            Rule::Maximum(bound) => number(object.key("maximum"), bound),
            _ => {}
        }
    }
}

/// Writes the range of a whole number: what its author says, and of its type what a person would want to know.
fn whole_range(object: &mut Object<'_>, rules: &[Rule], least: i128, most: i128, manner: Manner) {
    let is_short = most <= i128::from(u16::MAX);
    let mut low = (manner.exact || is_short || least == 0).then_some(Bound::Integer(least));
    let mut high = (manner.exact || is_short).then_some(Bound::Integer(most));
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

fn one(object: &mut Object<'_>, choices: &Choices, manner: Manner) {
    if !choices.is_titled() {
        return values(object, choices);
    }
    if manner.rich && !choices.legacy_names {
        return titled(object.key("oneOf"), choices);
    }
    values(object, choices);
    array(object.key("enumNames"), choices.all, |out, choice| string(out, choice.title()));
}

fn many(object: &mut Object<'_>, choices: &Choices) {
    let mut items = Object::begin(object.key("items"));
    if choices.is_titled() {
        titled(items.key("anyOf"), choices);
    } else {
        items.string("type", "string");
        values(&mut items, choices);
    }
    items.end();
}

fn values(object: &mut Object<'_>, choices: &Choices) {
    array(object.key("enum"), choices.all, |out, choice| string(out, choice.value));
}

fn titled(out: &mut Vec<u8>, choices: &Choices) {
    array(out, choices.all, |out, choice| {
        let mut object = Object::begin(out);
        object.string("const", choice.value);
        object.string("title", choice.title());
        object.end();
    });
}

/// Writes the boolean that stands for one choice of several.
fn one_of_many(out: &mut Vec<u8>, field: &FormField, choice: &Choice, default: Option<&Value>) {
    let chosen = default.and_then(Value::as_array).is_some_and(|all| all.iter().any(|value| value == choice.value));
    let mut object = Object::begin(out);
    object.string("type", "boolean");
    object.string("title", &format!("{}: {}", field.title.unwrap_or(field.name), choice.title()));
    let description = [field.description, &how_many(field.rules)].join(" ");
    object.optional("description", Some(description.trim()).filter(|text| !text.is_empty()));
    plain(object.key("default"), &chosen);
    object.end();
}

/// Says how many choices there may be, where a schema has no word for it.
fn how_many(rules: &[Rule]) -> String {
    let least = rules.iter().find_map(|rule| if let Rule::MinLength(least) = rule { Some(least) } else { None });
    let most = rules.iter().find_map(|rule| if let Rule::MaxLength(most) = rule { Some(most) } else { None });
    match (least, most) {
        (Some(least), Some(most)) if least == most => format!("(exactly {least})"),
        (Some(least), Some(most)) => format!("(at least {least} and at most {most})"),
        (Some(least), None) => format!("(at least {least})"),
        (None, Some(most)) => format!("(at most {most})"),
        (None, None) => String::new(),
    }
}

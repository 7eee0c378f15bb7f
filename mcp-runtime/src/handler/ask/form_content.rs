use serde_json::{Map, Value};

use super::{
    InvalidAnswer,
    choice::ChoiceSet,
    field::{FieldKind, FieldType},
    form_field::FormField,
    question::parse,
    requested_schema::{boolean_name, default_of, enforced_schema},
};
use crate::handler::schema::Violation;

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

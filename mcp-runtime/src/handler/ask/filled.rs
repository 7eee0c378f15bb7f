use serde_json::{Map, Value};

use super::{
    choice::Choices,
    conforming,
    field::{FieldKind, FieldType},
    form::FormField,
    requested::{default_of, enforced_schema, name_of_choice},
};
use crate::handler::schema::Violation;

/// The most choices of which those that are chosen twice are left out.
const MOST_CHOSEN: usize = 1000;

/// What a person filled in: everything that was checked, and nothing else.
#[derive(Debug)]
pub struct Filled {
    form: &'static [FormField],
    values: Map<String, Value>,
}

impl Filled {
    /// Takes the fields out of an answer's `content`, with defaults for what is missing, and holds them against the form.
    ///
    /// The client's own checks count for nothing. What the form does not know is left out.
    pub(super) fn check(form: &'static [FormField], content: &Map<String, Value>) -> Result<Self, String> {
        let mut values = Map::new();
        for field in form {
            let given = match (content.get(field.name), field.kind) {
                (None, FieldKind::Many(choices)) => chosen(field, choices, content)?,
                // Clients write `null` for what stays empty.
                (Some(Value::Null), _) if !field.is_required() => None,
                (Some(Value::Array(given)), FieldKind::Many(_)) => Some(distinct(given)),
                (given, _) => given.cloned(),
            };
            if let Some(value) = given.or_else(|| default_of(field)) {
                values.insert(field.name.to_owned(), value);
            }
        }
        let values = Value::Object(values);
        match conforming(&enforced_schema(form), &values.to_string())? {
            Value::Object(values) => Ok(Self { form, values }),
            _ => Ok(Self { form, values: Map::new() }),
        }
    }

    /// Reads a field.
    pub fn field<T>(&self, of: &FieldType<T>, index: usize) -> Result<T, String> {
        let name = self.form.get(index).map_or("", |field| field.name);
        (of.read)(self.values.get(name)).ok_or_else(|| format!("`{name}` does not fit"))
    }
}

/// Leaves out what was chosen before.
fn distinct(given: &[Value]) -> Value {
    let is_new = |(at, value): &(usize, &Value)| !given[..*at].contains(value);
    // What no form can have that many choices for is refused by the schema, which says so.
    match given.len() > MOST_CHOSEN {
        true => given.into(),
        false => given.iter().enumerate().filter(is_new).map(|(_, value)| value.clone()).collect(),
    }
}

/// Puts several choices together that came one by one, as booleans.
fn chosen(field: &FormField, choices: &Choices, content: &Map<String, Value>) -> Result<Option<Value>, String> {
    let mut all = Vec::new();
    let mut is_given = false;
    for choice in choices.all {
        let name = name_of_choice(field, choice);
        match content.get(&name) {
            None | Some(Value::Null) => {}
            Some(Value::Bool(is_chosen)) => {
                is_given = true;
                all.extend(is_chosen.then(|| Value::from(choice.value)));
            }
            Some(other) => {
                return Err(Violation::new(&name, Some(&other.to_string()), "must be a boolean").to_string());
            }
        }
    }
    Ok(is_given.then_some(Value::Array(all)))
}

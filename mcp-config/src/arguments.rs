//! The arguments of a tool, and their names in templates.

use serde_json::{Map, Value, json};

/// The arguments of a tool.
pub(crate) struct Arguments {
    schemas: Map<String, Value>,
    required: Vec<String>,
}

impl Arguments {
    pub(crate) fn new(mut schemas: Map<String, Value>) -> Result<Self, String> {
        let mut required = Vec::new();
        for (name, schema) in &mut schemas {
            let Some(members) = schema.as_object_mut() else {
                return Err(format!("the argument `{name}` is not a table"));
            };
            let optional = members.shift_remove("optional");
            if optional.as_ref().is_some_and(|optional| !optional.is_boolean()) {
                return Err(format!("`optional` of the argument `{name}` is neither `true` nor `false`"));
            }
            if optional != Some(Value::Bool(true)) && !members.contains_key("default") {
                required.push(name.clone());
            }
        }
        Ok(Self { schemas, required })
    }

    /// Returns the schema of the arguments.
    pub(crate) fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": self.schemas,
            "required": self.required,
            "additionalProperties": false,
        })
    }

    /// Returns the defaults of the arguments that have one.
    pub(crate) fn defaults(&self) -> Map<String, Value> {
        let defaults =
            self.schemas.iter().filter_map(|(name, schema)| Some((name.clone(), schema.get("default")?.clone())));
        defaults.collect()
    }

    /// Returns whether a call may leave out the argument, or give any number of values for it.
    pub(crate) fn may_be_absent(&self, name: &str) -> bool {
        let Some(schema) = self.schemas.get(name) else { return true };
        let is_one_value = ["string", "integer", "number", "boolean"].iter().any(|kind| schema["type"] == *kind);
        !is_one_value || !(self.required.iter().any(|required| required == name) || schema.get("default").is_some())
    }

    /// Checks that the names that a definition uses are arguments, and that it uses all of them.
    pub(crate) fn check_used<'a>(&self, used: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let used: Vec<_> = used.into_iter().collect();
        if let Some(unknown) = used.iter().find(|name| !self.schemas.contains_key(**name)) {
            return Err(format!("`{unknown}` is not an argument"));
        }
        match self.schemas.keys().find(|name| !used.contains(&name.as_str())) {
            Some(unused) => Err(format!("the argument `{unused}` is not used")),
            None => Ok(()),
        }
    }
}

/// Adds defaults to the arguments of a call.
pub(crate) fn with_defaults(defaults: &Map<String, Value>, mut arguments: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in defaults {
        arguments.entry(name).or_insert_with(|| value.clone());
    }
    arguments
}

/// Returns the names in braces.
pub(crate) fn names(element: &str) -> impl Iterator<Item = &str> {
    element.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

//! The arguments of a tool, and their names in templates.

use mcp_schema::Checker;
use serde_json::{Map, Value, json};

use crate::mistake::Mistake;

/// The arguments of a tool.
pub(crate) struct Arguments {
    schemas: Map<String, Value>,
    required: Vec<String>,
}

impl Arguments {
    pub(crate) fn new(mut schemas: Map<String, Value>) -> Result<Self, Mistake> {
        let mut required = Vec::new();
        for (name, schema) in &mut schemas {
            let Some(members) = schema.as_object_mut() else {
                return Err(Mistake::at(&["arguments", name], format!("the argument `{name}` is not a table")));
            };
            let optional = members.shift_remove("optional");
            if optional.as_ref().is_some_and(|optional| !optional.is_boolean()) {
                let message = format!("`optional` of the argument `{name}` is neither `true` nor `false`");
                return Err(Mistake::at(&["arguments", name, "optional"], message));
            }
            if optional != Some(Value::Bool(true)) && !members.contains_key("default") {
                required.push(name.clone());
            }
        }
        let arguments = Self { schemas, required };
        // Schemas may refer to each other.
        let checker = match Checker::of_arguments(&json!({ "properties": arguments.schemas })) {
            Ok(checker) => checker,
            Err(error) => return Err(Mistake::at(&arguments.invalid(), error.to_string())),
        };
        for (name, default) in arguments.defaults() {
            let violations = checker.violations(&json!({ name.as_str(): default }).to_string());
            if let Some(violation) = violations.first() {
                let message = format!("the default of the argument {violation}");
                return Err(Mistake::at(&["arguments", &name, "default"], message));
            }
        }
        Ok(arguments)
    }

    /// Returns the path of the first keyword that is invalid in itself.
    fn invalid(&self) -> Vec<&str> {
        let is_invalid = |name: &str, schema: &Value| {
            let mut schemas: Map<_, _> = self.schemas.keys().map(|name| (name.clone(), Value::Bool(true))).collect();
            schemas.insert(name.to_owned(), schema.clone());
            Checker::of_arguments(&json!({ "properties": schemas })).is_err()
        };
        let mut found = vec!["arguments"];
        if let Some((name, schema)) = self.schemas.iter().find(|(name, schema)| is_invalid(name, schema)) {
            let mut keywords = schema.as_object().into_iter().flatten();
            let keyword = keywords.find(|(keyword, value)| is_invalid(name, &json!({ keyword.as_str(): value })));
            found.extend([name.as_str()].into_iter().chain(keyword.map(|(keyword, _)| keyword.as_str())));
        }
        found
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

    /// Returns the schema of one argument.
    pub(crate) fn schema_of(&self, name: &str) -> Option<&Value> {
        self.schemas.get(name)
    }

    /// Returns whether a call may leave out the argument, or give any number of values for it.
    pub(crate) fn may_be_absent(&self, name: &str) -> bool {
        let Some(schema) = self.schemas.get(name) else { return true };
        let is_one_value = ["string", "integer", "number", "boolean"].iter().any(|kind| schema["type"] == *kind);
        !is_one_value || !(self.required.iter().any(|required| required == name) || schema.get("default").is_some())
    }

    /// Checks that the names that a definition uses are arguments, and that it uses all of them. `texts` contain the names in
    /// braces, and have the path of their values.
    pub(crate) fn check_used(&self, texts: &[(Vec<String>, Vec<&str>)]) -> Result<(), Mistake> {
        let unknown = |name: &&&str| !self.schemas.contains_key(**name);
        let unknown = texts.iter().find_map(|(path, names)| Some((path, names.iter().find(unknown)?)));
        if let Some((path, name)) = unknown {
            return Err(Mistake { path: path.clone(), message: format!("`{name}` is not an argument") });
        }
        let used = |name: &str| texts.iter().any(|(_, names)| names.contains(&name));
        match self.schemas.keys().find(|name| !used(name)) {
            Some(unused) => Err(Mistake::at(&["arguments", unused], format!("the argument `{unused}` is not used"))),
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

//! The members of objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The members of an object.
pub(super) struct ObjectMembers<'a> {
    pub(super) properties: BTreeMap<&'a str, &'a Value>,
    pub(super) required: BTreeSet<&'a str>,
    /// The schema of undeclared members; `None` if they are unrestricted.
    pub(super) undeclared: Option<&'a Value>,
}

impl<'a> ObjectMembers<'a> {
    pub(super) fn of(schema: &'a Map<String, Value>) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        Self {
            properties: properties.map(|(name, property)| (name.as_str(), property)).collect(),
            required: required.filter_map(Value::as_str).collect(),
            undeclared: schema.get("additionalProperties").or_else(|| schema.get("unevaluatedProperties")),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.undeclared.is_some_and(|undeclared| *undeclared == false)
    }

    /// Returns the schema of a member, either its own or the schema of undeclared members.
    pub(super) fn declared(&self, name: &str) -> Option<&'a Value> {
        self.properties.get(name).copied().or_else(|| self.undeclared.filter(|undeclared| undeclared.is_object()))
    }
}

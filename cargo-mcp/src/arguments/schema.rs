//! The part of JSON Schema that a command line needs: the expected values, and their descriptions.

use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Map, Value};

/// The keywords that limit a value of a certain type.
const LIMITS: [&str; 8] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"];
/// The number of references to follow before they are considered recursive.
const MAX_DEPTH: usize = 16;
/// The number of nested unions whose schemas are listed.
const MAX_UNIONS: usize = 100;

/// A schema, and the root document for its references.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'a> {
    root: &'a Map<String, Value>,
    /// The keywords. `None` for `true`, or an invalid schema: all values match.
    node: Option<&'a Map<String, Value>>,
}

impl<'a> Schema<'a> {
    pub(crate) fn new(root: &'a Map<String, Value>) -> Self {
        Self { root, node: Some(root) }
    }

    fn at(self, node: &'a Value) -> Self {
        let mut node = node;
        for _ in 0..MAX_DEPTH {
            match node.get("$ref").and_then(Value::as_str).and_then(|reference| self.resolve(reference)) {
                Some(target) => node = target,
                None => break,
            }
        }
        Self { node: node.as_object(), ..self }
    }

    fn resolve(self, reference: &str) -> Option<&'a Value> {
        let mut parts = reference.strip_prefix("#/")?.split('/');
        let part = |part: &str| part.replace("~1", "/").replace("~0", "~");
        let first = self.root.get(&part(parts.next()?))?;
        parts.try_fold(first, |node, name| node.get(part(name)))
    }

    fn get(self, key: &str) -> Option<&'a Value> {
        self.node?.get(key)
    }

    fn text(self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    fn list(self, key: &str) -> impl Iterator<Item = &'a Value> {
        self.get(key).and_then(Value::as_array).into_iter().flatten()
    }

    /// Returns this schema and the schemas of its `allOf`.
    fn with_all_of(self) -> Vec<Self> {
        let others = self.list("allOf").map(|node| self.at(node));
        std::iter::once(self).chain(others).collect()
    }

    /// Returns the names of the types; empty if all types match.
    pub(crate) fn types(self) -> Vec<&'a str> {
        match self.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ if self.get("properties").is_some() => vec!["object"],
            _ => Vec::new(),
        }
    }

    /// Returns the schemas of a union, in order, or the schema itself. Each union in a recursive one counts once.
    pub(crate) fn alternatives(self) -> Vec<Self> {
        self.alternatives_except(&mut Vec::new())
    }

    fn alternatives_except(self, seen: &mut Vec<Self>) -> Vec<Self> {
        if ["anyOf", "oneOf", "allOf"].iter().all(|key| self.get(key).is_none()) {
            return vec![self];
        }
        if seen.len() == MAX_UNIONS || seen.iter().any(|one| one.is_same(self)) {
            return Vec::new();
        }
        seen.push(self);
        for key in ["anyOf", "oneOf"] {
            let found: Vec<_> = self.list(key).map(|node| self.at(node)).collect();
            // Alternatives that only add requirements do not define types.
            if !found.is_empty() && found.iter().any(|one| !one.types().is_empty() || one.choices().is_some()) {
                return found.into_iter().flat_map(|one| one.alternatives_except(seen)).collect();
            }
        }
        if let [only] = &*self.list("allOf").map(|node| self.at(node)).collect::<Vec<_>>()
            && self.types().is_empty()
        {
            return only.alternatives_except(seen);
        }
        vec![self]
    }

    /// Returns the possible values, if they are enumerated.
    pub(crate) fn choices(self) -> Option<Vec<Choice<'a>>> {
        self.choices_except(&mut Vec::new())
    }

    fn choices_except(self, seen: &mut Vec<Self>) -> Option<Vec<Choice<'a>>> {
        if let Some(value) = self.get("const") {
            return Some(vec![Choice { value, title: self.text("title").or(self.text("description")) }]);
        }
        if let Some(values) = self.get("enum").and_then(Value::as_array) {
            let titles: Vec<_> = self.list("enumNames").map(Value::as_str).collect();
            let choice = |(at, value)| Choice { value, title: titles.get(at).copied().flatten() };
            return Some(values.iter().enumerate().map(choice).collect());
        }
        if seen.len() == MAX_UNIONS || seen.iter().any(|one| one.is_same(self)) {
            return None;
        }
        seen.push(self);
        let mut consts = |key| {
            let found: Vec<_> = self.list(key).map(|node| self.at(node)).collect();
            let choices: Option<Vec<_>> = found.iter().map(|one| one.choices_except(seen)).collect();
            choices.filter(|choices| !choices.is_empty()).map(|choices| choices.concat())
        };
        consts("oneOf").or_else(|| consts("anyOf"))
    }

    /// Returns the properties, in the order in which the server declares them.
    pub(crate) fn properties(self) -> Vec<(&'a str, Self)> {
        let all = self.with_all_of();
        let named = |part: &Self| part.get("properties").and_then(Value::as_object);
        all.iter().filter_map(named).flatten().map(|(name, node)| (name.as_str(), self.at(node))).collect()
    }

    /// Returns the objects with known properties among the alternatives of this schema, or of the items of an array.
    pub(crate) fn objects(self) -> Vec<Self> {
        self.objects_at(0)
    }

    fn objects_at(self, depth: usize) -> Vec<Self> {
        let objects = |one: Self| {
            if !one.properties().is_empty() {
                vec![one]
            } else if one.types().contains(&"array") && depth < MAX_DEPTH {
                one.items().objects_at(depth + 1)
            } else {
                Vec::new()
            }
        };
        self.alternatives().into_iter().flat_map(objects).collect()
    }

    /// Returns whether this is the same part of the same document.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.node.zip(other.node).is_some_and(|(one, other)| std::ptr::eq(one, other))
    }

    pub(crate) fn property(self, name: &str) -> Option<Self> {
        self.properties().into_iter().find(|(each, _)| *each == name).map(|(_, schema)| schema)
    }

    pub(crate) fn required(self) -> Vec<&'a str> {
        self.with_all_of().into_iter().flat_map(|part| part.list("required")).filter_map(Value::as_str).collect()
    }

    /// Returns the schema of additional properties, if the schema mentions and allows them.
    pub(crate) fn additional_properties(self) -> Option<Self> {
        match self.get("additionalProperties")? {
            Value::Bool(false) => None,
            node => Some(self.at(node)),
        }
    }

    pub(crate) fn items(self) -> Self {
        self.get("items").map_or(Self { node: None, ..self }, |node| self.at(node))
    }

    pub(crate) fn default(self) -> Option<&'a Value> {
        self.get("default")
    }

    pub(crate) fn title(self) -> Option<&'a str> {
        self.text("title")
    }

    /// Returns the first line of the description.
    pub(crate) fn description(self) -> Option<&'a str> {
        self.text("description").and_then(|text| text.lines().next()).filter(|line| !line.is_empty())
    }

    pub(crate) fn format(self) -> Option<&'a str> {
        self.text("format")
    }

    /// Returns whether the value is a Base64 string.
    pub(crate) fn is_base64(self) -> bool {
        self.text("contentEncoding") == Some("base64") || self.format() == Some("byte")
    }

    pub(crate) fn number(self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    /// Returns whether a value matches the schema. All values match a schema that does not compile.
    pub(crate) fn admits(self, value: &Value) -> bool {
        self.node.is_none_or(|node| violation(node, self.root, value).is_none())
    }

    /// Returns whether a value is within the schema's limits on numbers and on the lengths of texts and lists. A limit that
    /// is invalid limits nothing.
    pub(crate) fn is_within_limits(self, value: &Value) -> bool {
        let mut limits = LIMITS.iter().filter_map(|key| Some(((*key).to_owned(), self.get(key)?.clone())));
        limits.all(|limit| violation(&Map::from_iter([limit]), &Map::new(), value).is_none())
    }

    /// Describes what was expected in place of a value: `expected integer, 1 to 100`.
    pub(crate) fn expected(self) -> String {
        format!("expected {}", self.describe())
    }

    /// Describes the expected values: `integer, 1 to 100`.
    pub(crate) fn describe(self) -> String {
        self.describe_at(0)
    }

    fn describe_at(self, depth: usize) -> String {
        if let Some(choices) = self.choices() {
            let names: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.name())).collect();
            return match &*names {
                [only] => only.clone(),
                _ => format!("one of {}", names.join(", ")),
            };
        }
        let alternatives = self.alternatives();
        if alternatives.len() > 1 && depth < MAX_DEPTH {
            let mut descriptions: Vec<String> = Vec::new();
            for one in alternatives.iter().filter(|one| one.types() != ["null"]) {
                let description = one.describe_at(depth + 1);
                if !descriptions.contains(&description) {
                    descriptions.push(description);
                }
            }
            return descriptions.join(" or ");
        }
        let schema = alternatives.first().copied().unwrap_or(self);
        let types: Vec<&str> = schema.types().into_iter().filter(|name| *name != "null").collect();
        let name = match &*types {
            [] => "any value".to_owned(),
            ["array"] if depth < MAX_DEPTH => match schema.items().describe_at(depth + 1) {
                item if item.contains(", ") => format!("array of ({item})"),
                item => format!("array of {item}"),
            },
            several => several.join(" or "),
        };
        std::iter::once(name).chain(schema.limits()).collect::<Vec<_>>().join(", ")
    }

    fn limits(self) -> impl Iterator<Item = String> {
        let from = self
            .number("exclusiveMinimum")
            .map(|number| format!("above {number}"))
            .or_else(|| self.number("minimum").map(|number| number.to_string()));
        let to = self
            .number("exclusiveMaximum")
            .map(|number| format!("below {number}"))
            .or_else(|| self.number("maximum").map(|number| number.to_string()));
        let value = match (from, to) {
            (Some(from), Some(to)) => Some(format!("{from} to {to}")),
            (Some(from), None) if from.starts_with("above") => Some(from),
            (Some(from), None) => Some(format!("at least {from}")),
            (None, Some(to)) if to.starts_with("below") => Some(to),
            (None, Some(to)) => Some(format!("at most {to}")),
            (None, None) => None,
        };
        let length = describe_count(self.number("minLength"), self.number("maxLength"), "character");
        let items = describe_count(self.number("minItems"), self.number("maxItems"), "item");
        let pattern = self.text("pattern").map(|pattern| format!("like `{pattern}`"));
        // The formats of Rust's integers add nothing to the limits.
        let is_informative =
            |format: &&str| !format.trim_start_matches('u').starts_with("int") && !["float", "double"].contains(format);
        let format = self.format().filter(is_informative).map(str::to_owned);
        [format, value, length, items, pattern].into_iter().flatten()
    }
}

/// One of several possible values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) value: &'a Value,
    pub(crate) title: Option<&'a str>,
}

impl Choice<'_> {
    /// Returns the value as users type it.
    pub(crate) fn name(&self) -> String {
        display_value(self.value)
    }
}

/// Formats a value as users type it on a command line: strings without quotes.
pub(crate) fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn describe_count(from: Option<f64>, to: Option<f64>, thing: &str) -> Option<String> {
    let things = |count: f64| if count == 1.0 { thing.to_owned() } else { format!("{thing}s") };
    match (from.filter(|from| *from > 0.0), to) {
        (Some(from), Some(to)) if from == to => Some(format!("{to} {}", things(to))),
        (Some(from), Some(to)) => Some(format!("{from} to {to} {}", things(to))),
        (Some(from), None) => Some(format!("at least {from} {}", things(from))),
        (None, Some(to)) => Some(format!("at most {to} {}", things(to))),
        (None, None) => None,
    }
}

/// Compiles a schema without resolving anything outside it.
///
/// # Errors
///
/// Returns why the schema is invalid.
pub(crate) fn compile(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    let options = jsonschema::options();
    let options = if schema["$schema"].is_string() { options } else { options.with_draft(Draft::Draft202012) };
    options.should_validate_formats(true).build(schema)
}

/// Returns how a value violates a part of the schema `root`, or `None` if it does not or the part does not compile.
pub(crate) fn violation(part: &Map<String, Value>, root: &Map<String, Value>, value: &Value) -> Option<String> {
    let mut part = part.clone();
    for definitions in ["$defs", "definitions"] {
        part.extend(root.get(definitions).map(|found| (definitions.to_owned(), found.clone())));
    }
    compile(&part.into()).ok()?.validate(value).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::Schema;

    #[test]
    fn schemas_are_described() {
        let definitions = json!({"Tag": {"type": "string", "maxLength": 40}, "Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}}});
        for (schema, words) in [
            (json!({"type": "string"}), "string"),
            (json!({}), "any value"),
            (json!({"type": "integer", "minimum": 1, "maximum": 100, "format": "uint32"}), "integer, 1 to 100"),
            (json!({"type": "number", "exclusiveMinimum": 0}), "number, above 0"),
            (json!({"type": "number", "minimum": 0, "format": "double"}), "number, at least 0"),
            (json!({"type": "string", "minLength": 0, "maxLength": 3}), "string, at most 3 characters"),
            (
                json!({"type": "string", "format": "email", "minLength": 1, "maxLength": 40}),
                "string, email, 1 to 40 characters",
            ),
            (json!({"type": ["integer", "null"]}), "integer"),
            (json!({"anyOf": [{"$ref": "#/$defs/Tag"}, {"type": "null"}]}), "string, at most 40 characters"),
            (
                json!({"type": "array", "items": {"type": "integer"}, "minItems": 1}),
                "array of integer, at least 1 item",
            ),
            (json!({"enum": ["a", "b", 3]}), "one of `a`, `b`, `3`"),
            (json!({"oneOf": [{"const": "a"}, {"const": "b"}]}), "one of `a`, `b`"),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "integer or string"),
            (json!({"allOf": [{"$ref": "#/$defs/Tag"}], "default": "x"}), "string, at most 40 characters"),
            (json!({"oneOf": [{"enum": ["a"]}, {"enum": ["a", "b"]}]}), "one of `a`, `a`, `b`"),
        ] {
            let Value::Object(root) = json!({"$defs": definitions, "properties": {"it": schema}}) else {
                unreachable!()
            };
            let schema = Schema::new(&root).property("it").expect("the property exists");
            assert_eq!(schema.describe(), words);
        }
    }

    #[test]
    fn choices_have_titles() {
        for (schema, titles) in [
            (json!({"const": 1, "title": "One", "description": "The first."}), &[Some("One")][..]),
            (json!({"oneOf": [{"const": 1, "description": "The first."}, {"const": 2}]}), &[Some("The first."), None]),
            (json!({"enum": [1, 2], "enumNames": ["One"]}), &[Some("One"), None]),
        ] {
            let root = schema.as_object().expect("an object");
            let choices = Schema::new(root).choices().expect("choices");
            assert_eq!(choices.iter().map(|choice| choice.title).collect::<Vec<_>>(), titles, "{schema}");
        }
    }

    #[test]
    fn recursive_schemas_are_described() {
        let nested = |keyword: &str| {
            let definition = |index: u32| {
                let next = json!({"$ref": format!("#/$defs/{keyword}{}", index + 1)});
                (format!("{keyword}{index}"), json!({keyword: [next, {"type": "string"}]}))
            };
            (0..20_000).map(definition).collect::<Map<_, _>>()
        };
        let Value::Object(mut root) = json!({
            "$defs": {
                "A": {"$ref": "#/$defs/A"},
                "List": {"type": "array", "items": {"$ref": "#/$defs/List"}},
                "Union": {"anyOf": [{"$ref": "#/$defs/Union"}, {"type": "string"}]},
                "Choice": {"oneOf": [{"$ref": "#/$defs/Choice"}, {"const": "a"}]},
                "All": {"allOf": [{"$ref": "#/$defs/All"}]},
            },
            "properties": {
                "a": {"$ref": "#/$defs/A"},
                "list": {"$ref": "#/$defs/List"},
                "union": {"$ref": "#/$defs/Union"},
                "choice": {"$ref": "#/$defs/Choice"},
                "all": {"$ref": "#/$defs/All"},
                "nested_any": {"$ref": "#/$defs/anyOf0"},
                "nested_one": {"$ref": "#/$defs/oneOf0"},
                "nested_all": {"$ref": "#/$defs/allOf0"},
            },
        }) else {
            unreachable!()
        };
        for keyword in ["anyOf", "oneOf", "allOf"] {
            root["$defs"].as_object_mut().expect("definitions").extend(nested(keyword));
        }
        for (_, schema) in Schema::new(&root).properties() {
            assert!(schema.describe().len() < 1000);
        }
    }

    #[test]
    fn properties_are_in_declared_order() {
        let Value::Object(root) = json!({
            "properties": {"title": {}, "alpha": {}, "body": {}},
            "required": ["body", "title"],
        }) else {
            unreachable!()
        };
        let names: Vec<_> = Schema::new(&root).properties().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["title", "alpha", "body"]);
    }
}

//! JSON Schema, as far as a command line needs it: what a value may be, and how that is said in a few words.

use serde_json::{Map, Value};

/// References that are followed before they are taken for a circle.
const DEPTH: usize = 16;

/// A schema, and the document that its references point into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'a> {
    root: &'a Map<String, Value>,
    node: Node<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Node<'a> {
    Object(&'a Map<String, Value>),
    /// `true`, or something that is no schema: everything fits.
    Anything,
}

impl<'a> Schema<'a> {
    pub(crate) fn new(root: &'a Map<String, Value>) -> Self {
        Self { root, node: Node::Object(root) }
    }

    fn at(self, node: &'a Value) -> Self {
        let mut node = node;
        for _ in 0..DEPTH {
            match node.get("$ref").and_then(Value::as_str).and_then(|reference| self.referred(reference)) {
                Some(referred) => node = referred,
                None => break,
            }
        }
        match node {
            Value::Object(node) => Self { node: Node::Object(node), ..self },
            _ => Self { node: Node::Anything, ..self },
        }
    }

    fn referred(self, reference: &str) -> Option<&'a Value> {
        let mut parts = reference.strip_prefix("#/")?.split('/');
        let part = |part: &str| part.replace("~1", "/").replace("~0", "~");
        let first = self.root.get(&part(parts.next()?))?;
        parts.try_fold(first, |node, name| node.get(part(name)))
    }

    fn get(self, key: &str) -> Option<&'a Value> {
        match self.node {
            Node::Object(node) => node.get(key),
            Node::Anything => None,
        }
    }

    fn text(self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    fn list(self, key: &str) -> impl Iterator<Item = &'a Value> {
        self.get(key).and_then(Value::as_array).into_iter().flatten()
    }

    /// This schema and those that hold beside it.
    fn all(self) -> Vec<Self> {
        let beside = self.list("allOf").map(|node| self.at(node));
        std::iter::once(self).chain(beside).collect()
    }

    /// The types by name; none where every type fits.
    pub(crate) fn types(self) -> Vec<&'a str> {
        match self.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ if self.get("properties").is_some() => vec!["object"],
            _ => Vec::new(),
        }
    }

    /// The schemas of a union, in order; itself if it is none.
    pub(crate) fn alternatives(self) -> Vec<Self> {
        for key in ["anyOf", "oneOf"] {
            let found: Vec<_> = self.list(key).map(|node| self.at(node)).collect();
            // Alternatives that only say what else is required are no types of their own.
            if !found.is_empty() && found.iter().any(|one| !one.types().is_empty() || one.choices().is_some()) {
                return found.into_iter().flat_map(Self::alternatives).collect();
            }
        }
        if let [only] = &*self.list("allOf").map(|node| self.at(node)).collect::<Vec<_>>()
            && self.types().is_empty()
        {
            return only.alternatives();
        }
        vec![self]
    }

    /// The values to choose from, with their titles.
    pub(crate) fn choices(self) -> Option<Vec<Choice<'a>>> {
        if let Some(value) = self.get("const") {
            return Some(vec![Choice { value, title: self.text("title").or(self.text("description")) }]);
        }
        if let Some(values) = self.get("enum").and_then(Value::as_array) {
            let titles: Vec<_> = self.list("enumNames").map(Value::as_str).collect();
            let choice = |(at, value)| Choice { value, title: titles.get(at).copied().flatten() };
            return Some(values.iter().enumerate().map(choice).collect());
        }
        let consts = |key| {
            let found: Vec<_> = self.list(key).map(|node| self.at(node)).collect();
            let choices: Option<Vec<_>> = found.iter().map(|one| one.choices()).collect();
            choices.filter(|choices| !choices.is_empty()).map(|choices| choices.concat())
        };
        consts("oneOf").or_else(|| consts("anyOf"))
    }

    /// The properties: the required ones in the order in which they are required, then the others.
    pub(crate) fn properties(self) -> Vec<(&'a str, Self)> {
        let all = self.all();
        let named = |part: &Self| part.get("properties").and_then(Value::as_object);
        let mut properties: Vec<(&str, Self)> =
            all.iter().filter_map(named).flatten().map(|(name, node)| (name.as_str(), self.at(node))).collect();
        let required = self.required();
        let place = |name: &str| required.iter().position(|each| *each == name).unwrap_or(usize::MAX);
        properties.sort_by_key(|(name, _)| place(name));
        properties
    }

    pub(crate) fn property(self, name: &str) -> Option<Self> {
        self.properties().into_iter().find(|(each, _)| *each == name).map(|(_, schema)| schema)
    }

    pub(crate) fn required(self) -> Vec<&'a str> {
        self.all().into_iter().flat_map(|part| part.list("required")).filter_map(Value::as_str).collect()
    }

    /// What other properties must be, if the schema says that there may be some.
    pub(crate) fn others(self) -> Option<Self> {
        match self.get("additionalProperties")? {
            Value::Bool(false) => None,
            node => Some(self.at(node)),
        }
    }

    pub(crate) fn items(self) -> Self {
        self.get("items").map_or(Self { node: Node::Anything, ..self }, |node| self.at(node))
    }

    pub(crate) fn default(self) -> Option<&'a Value> {
        self.get("default")
    }

    pub(crate) fn title(self) -> Option<&'a str> {
        self.text("title")
    }

    /// The first line of the description.
    pub(crate) fn description(self) -> Option<&'a str> {
        self.text("description").and_then(|text| text.lines().next()).filter(|line| !line.is_empty())
    }

    pub(crate) fn format(self) -> Option<&'a str> {
        self.text("format")
    }

    /// Whether a string holds bytes in Base64.
    pub(crate) fn is_base64(self) -> bool {
        self.text("contentEncoding") == Some("base64") || self.format() == Some("byte")
    }

    pub(crate) fn number(self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    /// What a value is, in words: `integer, 1 to 100`.
    pub(crate) fn in_words(self) -> String {
        self.words(0)
    }

    fn words(self, depth: usize) -> String {
        if let Some(choices) = self.choices() {
            let names: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.name())).collect();
            return match &*names {
                [only] => only.clone(),
                _ => format!("one of {}", names.join(", ")),
            };
        }
        let alternatives = self.alternatives();
        if alternatives.len() > 1 && depth < DEPTH {
            let mut words: Vec<String> = Vec::new();
            for one in alternatives.iter().filter(|one| one.types() != ["null"]) {
                let said = one.words(depth + 1);
                if !words.contains(&said) {
                    words.push(said);
                }
            }
            return words.join(" or ");
        }
        let schema = alternatives.first().copied().unwrap_or(self);
        let types: Vec<&str> = schema.types().into_iter().filter(|name| *name != "null").collect();
        let name = match &*types {
            [] => "any value".to_owned(),
            ["array"] if depth < DEPTH => match schema.items().words(depth + 1) {
                item if item.contains(", ") => format!("array of ({item})"),
                item => format!("array of {item}"),
            },
            several => several.join(" or "),
        };
        std::iter::once(name).chain(schema.limits()).collect::<Vec<_>>().join(", ")
    }

    fn limits(self) -> impl Iterator<Item = String> {
        let from = self
            .number("minimum")
            .map(plain)
            .or_else(|| Some(format!("above {}", plain(self.number("exclusiveMinimum")?))));
        let to = self
            .number("maximum")
            .map(plain)
            .or_else(|| Some(format!("below {}", plain(self.number("exclusiveMaximum")?))));
        let value = match (from, to) {
            (Some(from), Some(to)) => Some(format!("{from} to {to}")),
            (Some(from), None) if from.starts_with("above") => Some(from),
            (Some(from), None) => Some(format!("at least {from}")),
            (None, Some(to)) if to.starts_with("below") => Some(to),
            (None, Some(to)) => Some(format!("at most {to}")),
            (None, None) => None,
        };
        let length = counted(self.number("minLength"), self.number("maxLength"), "character");
        let items = counted(self.number("minItems"), self.number("maxItems"), "item");
        let pattern = self.text("pattern").map(|pattern| format!("like `{pattern}`"));
        // The formats of Rust's integers say nothing that the limits do not.
        let spoken =
            |format: &&str| !format.trim_start_matches('u').starts_with("int") && !["float", "double"].contains(format);
        let format = self.format().filter(spoken).map(str::to_owned);
        [format, value, length, items, pattern].into_iter().flatten()
    }
}

/// A value to choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) value: &'a Value,
    pub(crate) title: Option<&'a str>,
}

impl Choice<'_> {
    /// The value as it is typed.
    pub(crate) fn name(&self) -> String {
        typed(self.value)
    }
}

/// A value as it is typed on a command line: strings without quotes.
pub(crate) fn typed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn counted(from: Option<f64>, to: Option<f64>, thing: &str) -> Option<String> {
    let things = |count: f64| if count == 1.0 { thing.to_owned() } else { format!("{thing}s") };
    match (from.filter(|from| *from > 0.0), to) {
        (Some(from), Some(to)) if from == to => Some(format!("{} {}", plain(to), things(to))),
        (Some(from), Some(to)) => Some(format!("{} to {} {}", plain(from), plain(to), things(to))),
        (Some(from), None) => Some(format!("at least {} {}", plain(from), things(from))),
        (None, Some(to)) => Some(format!("at most {} {}", plain(to), things(to))),
        (None, None) => None,
    }
}

/// A number without a fraction that says nothing.
pub(crate) fn plain(number: f64) -> String {
    format!("{number}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Schema;

    #[test]
    fn a_schema_is_said_in_words() {
        let definitions = json!({"Tag": {"type": "string", "maxLength": 40}, "Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}}});
        for (schema, words) in [
            (json!({"type": "string"}), "string"),
            (json!({}), "any value"),
            (json!({"type": "integer", "minimum": 1, "maximum": 100, "format": "uint32"}), "integer, 1 to 100"),
            (json!({"type": "number", "exclusiveMinimum": 0}), "number, above 0"),
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
        ] {
            let Value::Object(root) = json!({"$defs": definitions, "properties": {"it": schema}}) else {
                unreachable!()
            };
            let schema = Schema::new(&root).property("it").expect("it is there");
            assert_eq!(schema.in_words(), words);
        }
    }

    #[test]
    fn a_circle_comes_to_an_end() {
        let Value::Object(root) = json!({
            "$defs": {"A": {"$ref": "#/$defs/A"}, "List": {"type": "array", "items": {"$ref": "#/$defs/List"}}},
            "properties": {"a": {"$ref": "#/$defs/A"}, "list": {"$ref": "#/$defs/List"}},
        }) else {
            unreachable!()
        };
        for (_, schema) in Schema::new(&root).properties() {
            assert!(schema.in_words().len() < 1000);
        }
    }

    #[test]
    fn required_properties_come_first() {
        let Value::Object(root) = json!({
            "properties": {"alpha": {}, "title": {}, "body": {}},
            "required": ["title", "body"],
        }) else {
            unreachable!()
        };
        let names: Vec<_> = Schema::new(&root).properties().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["title", "body", "alpha"]);
    }
}

//! Converts schemas of OpenAPI 3.0 and 3.1 to schemas that are enforced, and that clients with limited support understand.
//!
//! References are inlined. A reference to a schema that contains it, and what is nested too deeply, becomes a schema that
//! accepts any object or any value: the service checks it.

use mcp_schema::Checker;
use serde_json::{Map, Value, json};

use crate::document::{DocumentError, Documents, Node};

/// The maximum number of schemas in the input of a tool. Deeper levels are left out until they fit.
const MAX_INPUT: usize = 200;
/// The maximum number of schemas in the output of a tool.
const MAX_OUTPUT: usize = 50;
/// The same bound where no more levels can be left out.
const MAX_FLAT: usize = 1000;
/// The maximum number of nested properties and items.
const MAX_DEPTH: usize = 8;
/// The maximum number of characters in the description of an argument, or of a member.
pub(crate) const MAX_DESCRIPTION: usize = 500;
/// The maximum number of characters in the description of a member of a result.
const MAX_OUTPUT_DESCRIPTION: usize = 100;

/// Keywords of schemas that contain further ones, apart from the items of an array.
const NESTED: [&str; 5] = ["properties", "additionalProperties", "allOf", "anyOf", "oneOf"];
/// Keywords that only inputs keep: services send values that their descriptions exclude.
const RULES: [&str; 13] = [
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Input,
    Output,
}

impl Direction {
    fn shorten(self, text: &str) -> String {
        shorten(text, if self == Self::Input { MAX_DESCRIPTION } else { MAX_OUTPUT_DESCRIPTION })
    }
}

/// Converts a schema.
///
/// # Errors
///
/// Returns an error about the part of the document that cannot be converted.
pub(crate) fn convert(documents: &Documents, schema: &Node<'_>, direction: Direction) -> Result<Value, DocumentError> {
    let most = if direction == Direction::Input { MAX_INPUT } else { MAX_OUTPUT };
    let mut depth = MAX_DEPTH;
    loop {
        let left = if depth == 0 { MAX_FLAT } else { most };
        let mut converter = Converter { documents, direction, depth, left, active: Vec::new() };
        let converted = converter.schema(schema, 0)?;
        if converter.left > 0 || depth == 0 {
            return Ok(converted);
        }
        depth -= 1;
    }
}

struct Converter<'a> {
    documents: &'a Documents,
    direction: Direction,
    depth: usize,
    left: usize,
    /// The targets of the references that are being converted.
    active: Vec<*const Value>,
}

impl<'a> Converter<'a> {
    fn schema(&mut self, node: &Node<'a>, depth: usize) -> Result<Value, DocumentError> {
        self.left = self.left.saturating_sub(1);
        let members = match node.value {
            Value::Bool(_) => return Ok(node.value.clone()),
            Value::Object(members) => members,
            _ => return Err(node.error("a schema must be an object")),
        };
        if let Some(target) = self.documents.target(node)? {
            let address = std::ptr::from_ref(target.value);
            if self.active.contains(&address) {
                return Ok(target.value.as_object().map_or(json!({}), |members| cut(members, self.direction)));
            }
            self.active.push(address);
            let converted = self.schema(&target, depth);
            self.active.pop();
            let mut converted = converted?;
            if let (Value::Object(converted), Some(text)) = (&mut converted, node.text("description")) {
                converted.insert("description".to_owned(), self.direction.shorten(text).into());
            }
            if node.flag("nullable") {
                accept_null(&mut converted);
            }
            return Ok(converted);
        }
        let is_nested = NESTED.iter().any(|keyword| members.contains_key(*keyword));
        if is_nested && (self.left == 0 || depth > self.depth) {
            return Ok(cut(members, self.direction));
        }
        self.members(node, members, depth)
    }

    fn members(
        &mut self,
        node: &Node<'a>,
        members: &'a Map<String, Value>,
        depth: usize,
    ) -> Result<Value, DocumentError> {
        let is_input = self.direction == Direction::Input;
        let mut schema = Map::new();
        if let Some(kind) = kind(node)? {
            schema.insert("type".to_owned(), kind);
        }
        if let Some(text) = node.text("description").filter(|text| !text.trim().is_empty()) {
            schema.insert("description".to_owned(), self.direction.shorten(text).into());
        }
        for keyword in RULES.iter().filter(|_| is_input) {
            if let Some(value) = members.get(*keyword) {
                schema.insert((*keyword).to_owned(), value.clone());
            }
        }
        if is_input {
            self.rules(node, &mut schema);
        }
        if let Some(properties) = node.get("properties") {
            schema.insert("properties".to_owned(), self.properties(&properties, depth)?.into());
        }
        if is_input && let Some(Value::Array(names)) = members.get("required") {
            let own = members.get("properties").and_then(Value::as_object);
            let kept = schema.get("properties").and_then(Value::as_object);
            let is_left_out = |name: &str| {
                own.is_some_and(|own| own.contains_key(name)) && !kept.is_some_and(|kept| kept.contains_key(name))
            };
            let names = names.iter().filter(|name| name.as_str().is_some_and(|name| !is_left_out(name)));
            schema.insert("required".to_owned(), names.cloned().collect());
        }
        // The items after the first ones, whose schemas are left out.
        if let Some(items) = node.get("items").filter(|_| !members.contains_key("prefixItems")) {
            schema.insert("items".to_owned(), self.schema(&items, depth + 1)?);
        }
        // The members that no pattern matches, and patterns are left out.
        if let Some(more) = node.get("additionalProperties").filter(|_| !members.contains_key("patternProperties")) {
            match more.value {
                Value::Bool(false) if is_input => drop(schema.insert("additionalProperties".to_owned(), false.into())),
                Value::Bool(_) => {}
                _ => drop(schema.insert("additionalProperties".to_owned(), self.schema(&more, depth + 1)?)),
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(list) = node.get(keyword) {
                let branches = self.branches(node, &list, depth)?;
                let branches = match <[Value; 1]>::try_from(branches) {
                    Ok([Value::Object(only)]) => {
                        let outer = std::mem::take(&mut schema);
                        schema = merge(vec![outer, only]);
                        continue;
                    }
                    Ok([only]) => vec![only],
                    Err(branches) => branches,
                };
                if !branches.is_empty() {
                    schema.insert("anyOf".to_owned(), branches.into());
                }
            }
        }
        if let Some(list) = node.get("allOf") {
            let mut parts = vec![schema];
            for part in list.items() {
                if let Value::Object(part) = self.schema(&part, depth)? {
                    parts.push(part);
                }
            }
            schema = merge(parts);
        }
        let mut schema = Value::Object(schema);
        if node.flag("nullable") {
            accept_null(&mut schema);
        }
        Ok(schema)
    }

    fn properties(&mut self, properties: &Node<'a>, depth: usize) -> Result<Map<String, Value>, DocumentError> {
        let left_out = if self.direction == Direction::Input { "readOnly" } else { "writeOnly" };
        let mut converted = Map::new();
        for (name, property) in properties.members() {
            if property.flag(left_out) || self.documents.resolve(property.clone())?.flag(left_out) {
                continue;
            }
            converted.insert(name.to_owned(), self.schema(&property, depth + 1)?);
        }
        Ok(converted)
    }

    /// Converts the keywords that need more than a copy.
    fn rules(&self, node: &Node<'a>, schema: &mut Map<String, Value>) {
        // Bounds of OpenAPI 3.0.
        for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if let Some(Value::Bool(is_exclusive)) = schema.get(exclusive) {
                let is_exclusive = *is_exclusive;
                schema.shift_remove(exclusive);
                if let Some(value) = schema.shift_remove(bound) {
                    schema.insert(if is_exclusive { exclusive } else { bound }.to_owned(), value);
                }
            }
        }
        // `enum: [1.0, yes]` of a string in YAML.
        if schema.get("type").is_some_and(|kind| kind == "string")
            && let Some(Value::Array(values)) = schema.get_mut("enum")
        {
            for value in values.iter_mut().filter(|value| value.is_number() || value.is_boolean()) {
                *value = value.to_string().into();
            }
        }
        let is_text = schema.get("type").is_none_or(|kind| kind == "string");
        let format = node.text("format");
        let is_file = is_text
            && (format == Some("binary")
                || (node.value.get("contentMediaType").is_some() && node.value.get("contentEncoding").is_none()));
        if is_file || (is_text && (format == Some("byte") || node.text("contentEncoding") == Some("base64"))) {
            schema.insert("type".to_owned(), "string".into());
            schema.insert("contentEncoding".to_owned(), "base64".into());
            if is_file {
                let media = node.text("contentMediaType").unwrap_or("application/octet-stream");
                schema.insert("contentMediaType".to_owned(), media.into());
            }
            let text = schema.get("description").and_then(Value::as_str).map(|text| format!("{text} "));
            schema.insert("description".to_owned(), format!("{}(in base64)", text.unwrap_or_default()).into());
        } else if is_text && let Some(format) = format {
            schema.insert("format".to_owned(), format.into());
        }
        if let Some(pattern) = node.text("pattern") {
            schema.insert("pattern".to_owned(), pattern.into());
        }
        if node.flag("uniqueItems") {
            schema.insert("uniqueItems".to_owned(), true.into());
        }
        // Rules that the checker does not understand are left to the service.
        for keyword in ["pattern", "format", "multipleOf", "minimum", "maximum", "minLength", "maxLength"] {
            if let Some(value) = schema.get(keyword)
                && Checker::compile(&json!({ keyword: value })).is_err()
            {
                schema.shift_remove(keyword);
            }
        }
        if let Some(default) = node.value.get("default").filter(|default| !default.is_null()) {
            let accepts = Checker::compile(&Value::Object(schema.clone()))
                .is_ok_and(|checker| checker.accepts(&default.to_string()));
            if accepts {
                schema.insert("default".to_owned(), default.clone());
            }
        }
    }

    /// Converts the branches of `oneOf` and `anyOf`. A discriminator is added to each branch that it selects.
    fn branches(&mut self, node: &Node<'a>, list: &Node<'a>, depth: usize) -> Result<Vec<Value>, DocumentError> {
        let discriminator = node.get("discriminator").filter(|_| self.direction == Direction::Input);
        let property = discriminator.as_ref().and_then(|discriminator| discriminator.text("propertyName"));
        let mut branches = Vec::new();
        for branch in list.items() {
            let mut converted = self.schema(&branch, depth)?;
            if let (Some(property), Some(reference), Value::Object(members)) =
                (property, branch.text("$ref"), &mut converted)
            {
                let name = reference.rsplit(['/', '#']).next().unwrap_or_default();
                let mapping = discriminator.as_ref().and_then(|discriminator| discriminator.get("mapping"));
                let mapped = mapping.iter().flat_map(Node::members);
                let mapped = mapped.filter(|(_, target)| {
                    target.value.as_str().is_some_and(|target| target == reference || target == name)
                });
                let mut values: Vec<&str> = mapped.map(|(value, _)| value).collect();
                if values.is_empty() {
                    values.push(name);
                }
                select_by(members, property, &values);
            }
            if !branches.contains(&converted) {
                branches.push(converted);
            }
        }
        Ok(branches)
    }
}

/// Adds the values of a discriminator to the schema of an object.
fn select_by(schema: &mut Map<String, Value>, property: &str, values: &[&str]) {
    if schema.get("type").is_some_and(|kind| kind != "object") || schema.contains_key("anyOf") {
        return;
    }
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    let mut tag = json!({"type": "string", "enum": values});
    if let Some(text) = properties.get(property).and_then(|old| old.get("description")) {
        tag["description"] = text.clone();
    }
    properties.insert(property.to_owned(), tag);
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut()
        && !required.iter().any(|name| name == property)
    {
        required.push(property.into());
    }
}

/// Returns the `type`, which may include `null`.
fn kind(node: &Node<'_>) -> Result<Option<Value>, DocumentError> {
    let Some(kind) = node.get("type") else { return Ok(None) };
    let names: Vec<&Value> = match kind.value {
        Value::Array(names) => names.iter().collect(),
        name => vec![name],
    };
    let known = |name: &&Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match names.iter().find(|name| !known(name)) {
        Some(name) => Err(kind.error(format!("unknown type {name}, expected one of {}", TYPES.join(", ")))),
        None if names.is_empty() => Ok(None),
        None if names.len() == 1 => Ok(Some(names[0].clone())),
        None => Ok(Some(kind.value.clone())),
    }
}

/// Returns a schema that accepts all values of the kind.
fn cut(schema: &Map<String, Value>, direction: Direction) -> Value {
    let mut rest = Map::new();
    let is_object = schema.contains_key("properties");
    match schema.get("type").and_then(Value::as_str) {
        Some(kind) if TYPES.contains(&kind) && schema.get("nullable").is_none() => {
            rest.insert("type".to_owned(), kind.into());
        }
        None if is_object && schema.get("type").is_none() => drop(rest.insert("type".to_owned(), "object".into())),
        _ => {}
    }
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        rest.insert("description".to_owned(), direction.shorten(text).into());
    }
    if rest.get("type").is_some_and(|kind| kind == "array") {
        rest.insert("items".to_owned(), json!({}));
    }
    rest.into()
}

fn accept_null(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(Value::Array(branches)) = members.get_mut("anyOf") {
        let null = json!({"type": "null"});
        if !branches.contains(&null) {
            branches.push(null);
        }
    }
    match members.get_mut("type") {
        Some(Value::String(kind)) if kind != "null" => {
            let kind = std::mem::take(kind);
            members.insert("type".to_owned(), json!([kind, "null"]));
        }
        Some(Value::Array(kinds)) if !kinds.iter().any(|kind| kind == "null") => kinds.push("null".into()),
        _ => {}
    }
}

/// Merges the parts of an `allOf`. The first part has precedence. What cannot be merged stays in `allOf`.
fn merge(parts: Vec<Map<String, Value>>) -> Map<String, Value> {
    let mut merged = Map::new();
    let mut rest = Vec::new();
    for part in parts {
        for (keyword, value) in part {
            let Some(own) = merged.get_mut(&keyword) else {
                merged.insert(keyword, value);
                continue;
            };
            match (&*keyword, own, value) {
                ("properties", Value::Object(own), Value::Object(properties)) => {
                    for (name, property) in properties {
                        match own.get_mut(&name) {
                            Some(Value::Object(first)) if property.is_object() => {
                                let Value::Object(second) = property else { continue };
                                *first = merge(vec![std::mem::take(first), second]);
                            }
                            Some(_) => {}
                            None => drop(own.insert(name, property)),
                        }
                    }
                }
                ("required", Value::Array(own), Value::Array(names)) => {
                    for name in names {
                        if !own.contains(&name) {
                            own.push(name);
                        }
                    }
                }
                ("allOf", Value::Array(own), Value::Array(more)) => own.extend(more),
                ("description" | "default" | "additionalProperties" | "contentMediaType", _, _) => {}
                (_, own, value) if *own == value => {}
                (_, _, value) => rest.push(json!({ keyword: value })),
            }
        }
    }
    if !rest.is_empty() {
        match merged.get_mut("allOf") {
            Some(Value::Array(own)) => own.extend(rest),
            _ => drop(merged.insert("allOf".to_owned(), rest.into())),
        }
    }
    merged
}

/// Cuts a text after a number of characters, at the end of a word.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let head = &text[..end];
            format!("{}…", head.rsplit_once(char::is_whitespace).map_or(head, |(head, _)| head).trim_end())
        }
    }
}

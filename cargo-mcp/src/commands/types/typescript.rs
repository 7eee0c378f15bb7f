//! JSON Schema as TypeScript types.
//!
//! The types accept what a script can get right at compile time: members, optional members, literals, unions, arrays and
//! tuples. Ranges, patterns and conditions have no TypeScript type and are checked by the server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Value};

/// The declarations of the inputs and outputs of tools.
#[derive(Default)]
pub(super) struct Declarations {
    /// The members of the interface `Tools`.
    members: Vec<String>,
    types: Vec<String>,
    /// The names of all types, including the names of the bridge.
    names: BTreeSet<String>,
}

/// A schema with the names of the types that its references mean.
struct Document {
    prefix: String,
    names: BTreeMap<String, String>,
    /// The references that are not declared yet.
    pending: Vec<String>,
}

/// The names of the bridge.
const RESERVED: [&str; 7] = ["App", "Content", "Context", "DisplayMode", "Result", "Tools", "Value"];

impl Declarations {
    /// Adds the types of a tool of `tools/list`.
    pub(super) fn add_tool(&mut self, tool: &Value) {
        let name = tool["name"].as_str().unwrap_or_default();
        let input = self.add_schema(name, "Input", &tool["inputSchema"]);
        let output = match tool.get("outputSchema") {
            Some(schema) => self.add_schema(name, "Output", schema),
            None => "unknown".to_owned(),
        };
        let docs = docs(tool, "    ");
        self.members.push(format!("{docs}    {}: {{ input: {input}; output: {output} }};\n", Value::from(name)));
    }

    /// Declares the type of a schema, and the types that it refers to. Returns its name.
    fn add_schema(&mut self, tool: &str, kind: &str, schema: &Value) -> String {
        let prefix = format!("{}{kind}", pascal_case(tool));
        let mut document = Document { prefix, names: BTreeMap::new(), pending: Vec::new() };
        let root = document.reference("#", &mut self.names);
        while let Some(reference) = document.pending.pop() {
            let name = document.names[&reference].clone();
            let pointer = percent_encoding::percent_decode_str(&reference[1..]).decode_utf8_lossy().into_owned();
            let text = match schema.pointer(&pointer) {
                Some(referenced) => document.typescript(referenced, "  ", &mut self.names),
                None => "unknown".to_owned(),
            };
            self.types.push(format!("  type {name} = {text};\n"));
        }
        root
    }
}

impl fmt::Display for Declarations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "declare namespace mcp {{\n  /** The tools of the server. */\n  interface Tools {{")?;
        write!(
            f,
            "{}  }}\n{}{}}}\n",
            self.members.concat(),
            if self.types.is_empty() { "" } else { "\n" },
            self.types.concat()
        )
    }
}

impl Document {
    /// Returns the name of the type that a reference within the schema means.
    fn reference(&mut self, reference: &str, taken: &mut BTreeSet<String>) -> String {
        if let Some(name) = self.names.get(reference) {
            return name.clone();
        }
        let last = reference.rsplit('/').next().filter(|last| *last != "#").unwrap_or_default();
        let base = format!("{}{}", self.prefix, pascal_case(last));
        let candidates = (1..).map(|number| if number == 1 { base.clone() } else { format!("{base}{number}") });
        let free = |name: &String| !RESERVED.contains(&name.as_str()) && !taken.contains(name);
        let name = candidates.into_iter().find(free).unwrap_or_default();
        taken.insert(name.clone());
        self.names.insert(reference.to_owned(), name.clone());
        self.pending.push(reference.to_owned());
        name
    }

    fn typescript(&mut self, schema: &Value, indent: &str, taken: &mut BTreeSet<String>) -> String {
        let Some(members) = schema.as_object() else {
            return if schema == &Value::Bool(false) { "never" } else { "unknown" }.to_owned();
        };
        // All of these hold together.
        let mut all = Vec::new();
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let is_local = reference == "#" || reference.starts_with("#/");
            all.push(if is_local { self.reference(reference, taken) } else { "unknown".to_owned() });
        }
        if let Some(constant) = members.get("const") {
            all.push(literal(constant));
        } else if let Some(values) = members.get("enum").and_then(Value::as_array) {
            all.push(union(values.iter().map(literal).collect()));
        } else {
            all.extend(self.by_type(members, indent, taken));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(schemas) = members.get(keyword).and_then(Value::as_array) {
                all.push(union(schemas.iter().map(|schema| self.typescript(schema, indent, taken)).collect()));
            }
        }
        for schema in members.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            all.push(self.typescript(schema, indent, taken));
        }
        all.retain(|part| part != "unknown");
        match &*all {
            [] => "unknown".to_owned(),
            [only] => only.clone(),
            _ => all.iter().map(|part| grouped(part)).collect::<Vec<_>>().join(" & "),
        }
    }

    /// Returns the type that `type` and the keywords of this type describe.
    fn by_type(&mut self, members: &Map<String, Value>, indent: &str, taken: &mut BTreeSet<String>) -> Option<String> {
        let kinds: Vec<&str> = match members.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ if members.contains_key("properties") => vec!["object"],
            _ if members.contains_key("items") || members.contains_key("prefixItems") => vec!["array"],
            _ => return None,
        };
        let types = kinds.into_iter().map(|kind| match kind {
            "object" => self.object(members, indent, taken),
            "array" => self.array(members, indent, taken),
            "integer" | "number" => "number".to_owned(),
            "string" | "boolean" | "null" => kind.to_owned(),
            _ => "unknown".to_owned(),
        });
        Some(union(types.collect()))
    }

    fn object(&mut self, members: &Map<String, Value>, indent: &str, taken: &mut BTreeSet<String>) -> String {
        let inner = format!("{indent}  ");
        let required: Vec<&str> =
            members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut text = String::new();
        for (name, schema) in members.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let optional = if required.contains(&name.as_str()) { "" } else { "?" };
            let value = self.typescript(schema, &inner, taken);
            text += &format!("{}{inner}{}{optional}: {value};\n", docs(schema, &inner), property(name));
        }
        let additional = match members.get("additionalProperties") {
            // Without `properties`, any object is meant. Otherwise, a script should use only the declared ones.
            None | Some(Value::Bool(true)) if !members.contains_key("properties") => Some("unknown".to_owned()),
            None | Some(Value::Bool(_)) => None,
            Some(schema) if text.is_empty() => Some(self.typescript(schema, &inner, taken)),
            // The type of other members must include the types of the declared ones.
            Some(_) => Some("unknown".to_owned()),
        };
        match additional {
            Some(value) => text += &format!("{inner}[name: string]: {value};\n"),
            None if text.is_empty() => return "Record<string, never>".to_owned(),
            None => {}
        }
        format!("{{\n{text}{indent}}}")
    }

    fn array(&mut self, members: &Map<String, Value>, indent: &str, taken: &mut BTreeSet<String>) -> String {
        let items = match members.get("items") {
            Some(Value::Bool(false)) => None,
            Some(schema) => Some(grouped(&self.typescript(schema, indent, taken))),
            None => Some("unknown".to_owned()),
        };
        let Some(first) = members.get("prefixItems").and_then(Value::as_array) else {
            return items.map_or_else(|| "[]".to_owned(), |items| format!("{items}[]"));
        };
        let least = members.get("minItems").and_then(Value::as_u64).unwrap_or_default();
        let first = first.iter().zip(1..).map(|(schema, number)| {
            let optional = if number > least { "?" } else { "" };
            format!("{}{optional}", grouped(&self.typescript(schema, indent, taken)))
        });
        let parts: Vec<String> = first.chain(items.map(|items| format!("...{items}[]"))).collect();
        format!("[{}]", parts.join(", "))
    }
}

fn union(mut types: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    types.retain(|part| seen.insert(part.clone()));
    match &*types {
        [] => "never".to_owned(),
        parts if parts.iter().any(|part| part == "unknown") => "unknown".to_owned(),
        parts => parts.join(" | "),
    }
}

/// Encloses a union or an intersection in parentheses.
fn grouped(text: &str) -> String {
    if text.contains(" | ") || text.contains(" & ") { format!("({text})") } else { text.to_owned() }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{}: {}", property(name), literal(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join("; "))
        }
        primitive => primitive.to_string(),
    }
}

/// Returns a name as a member of a type, in quotes unless it is an identifier.
fn property(name: &str) -> String {
    let is_identifier = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_identifier { name.to_owned() } else { Value::from(name).to_string() }
}

/// Returns the description as a comment.
fn docs(value: &Value, indent: &str) -> String {
    let Some(text) = value["description"].as_str().filter(|text| !text.trim().is_empty()) else {
        return String::new();
    };
    let text = text.trim().replace("*/", "*\\/");
    match text.lines().collect::<Vec<_>>().as_slice() {
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let lines: Vec<String> =
                lines.iter().map(|line| format!("{indent} * {line}").trim_end().to_owned()).collect();
            format!("{indent}/**\n{}\n{indent} */\n", lines.join("\n"))
        }
    }
}

/// Converts a name to the name of a type.
fn pascal_case(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let text: String = words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect();
    if text.starts_with(|first: char| first.is_ascii_digit()) { format!("_{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Declarations;

    /// Returns the types of a tool `add_note` with an input schema.
    fn input(schema: Value) -> String {
        let mut declarations = Declarations::default();
        declarations.add_tool(&json!({"name": "add_note", "inputSchema": schema}));
        declarations.types.concat()
    }

    /// Checks the type of a property `a` that is required.
    #[track_caller]
    fn check(schema: Value, expected: &str) {
        let input = input(json!({"type": "object", "properties": {"a": schema}, "required": ["a"]}));
        assert_eq!(input, format!("  type AddNoteInput = {{\n    a: {expected};\n  }};\n"));
    }

    #[test]
    fn schemas_become_types() {
        for (schema, expected) in [
            (json!({"type": "string", "minLength": 1}), "string"),
            (json!({"type": "integer"}), "number"),
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"type": "array", "items": {"type": "boolean"}}), "boolean[]"),
            (json!({"type": "array", "items": {"type": ["string", "null"]}}), "(string | null)[]"),
            (json!({"type": "array", "items": {"allOf": [{"type": "string"}, {"const": "x"}]}}), "(string & \"x\")[]"),
            (json!({"type": "array"}), "unknown[]"),
            (
                json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "minItems": 1, "items": false}),
                "[string, number?]",
            ),
            (json!({"type": "array", "prefixItems": [{"type": "string"}], "minItems": 1}), "[string, ...unknown[]]"),
            (json!({"enum": ["x\"y", 1, null, true]}), r#""x\"y" | 1 | null | true"#),
            (json!({"const": "x"}), "\"x\""),
            (json!({"const": {"k": [1]}}), "{ k: [1] }"),
            (json!({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "string"}]}), "string | number"),
            (json!({"oneOf": [{"type": "string"}, true]}), "unknown"),
            (
                json!({"allOf": [{"type": ["string", "null"]}, {"enum": ["x", "y"]}]}),
                "(string | null) & (\"x\" | \"y\")",
            ),
            (json!({"type": "object"}), "{\n      [name: string]: unknown;\n    }"),
            (
                json!({"type": "object", "additionalProperties": {"type": "number"}}),
                "{\n      [name: string]: number;\n    }",
            ),
            (json!({"type": "object", "additionalProperties": false}), "Record<string, never>"),
            (json!({"type": "object", "properties": {}}), "Record<string, never>"),
            (
                json!({"properties": {"not-a-name": {"type": "string", "description": "Ends */ here."}}}),
                "{\n      /** Ends *\\/ here. */\n      \"not-a-name\"?: string;\n    }",
            ),
            // The type of other members includes those of the declared ones.
            (
                json!({"type": "object", "properties": {"2b": {"type": "string"}}, "additionalProperties": {"type": "number"}}),
                "{\n      \"2b\"?: string;\n      [name: string]: unknown;\n    }",
            ),
            (json!({"type": "array", "items": false}), "[]"),
            (json!({"$ref": "https://example.com/a.json"}), "unknown"),
            (json!(true), "unknown"),
            (json!(false), "never"),
        ] {
            check(schema, expected);
        }
    }

    #[test]
    fn references_become_named_types() {
        let types = input(json!({
            "type": "object",
            "properties": {"lost": {"$ref": "#/$defs/x"}, "next": {"$ref": "#"}, "tree": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        }));
        assert_eq!(
            types,
            "  type AddNoteInput = {\n    lost?: AddNoteInputX;\n    next?: AddNoteInput;\n    \
             tree?: AddNoteInputNode;\n  };\n  type AddNoteInputNode = {\n    \
             children?: AddNoteInputNode[];\n  };\n  type AddNoteInputX = unknown;\n"
        );
    }

    #[test]
    fn references_are_decoded() {
        let types = input(json!({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "string"}}}));
        assert!(types.ends_with(" = string;\n"), "{types}");
    }

    #[test]
    fn names_are_unique() {
        let mut declarations = Declarations::default();
        for name in ["add_note", "add-note", "2_notes"] {
            declarations.add_tool(&json!({"name": name, "description": "One.\n\nTwo.", "inputSchema": {}}));
        }
        assert_eq!(
            declarations.members.concat(),
            [
                "\"add_note\": { input: AddNoteInput;",
                "\"add-note\": { input: AddNoteInput2;",
                "\"2_notes\": { input: _2NotesInput;"
            ]
            .map(|member| format!(
                "    /**\n     * One.\n     *\n     * Two.\n     */\n    {member} output: unknown }};\n"
            ))
            .concat()
        );
        assert_eq!(
            declarations.types.concat(),
            ["AddNoteInput", "AddNoteInput2", "_2NotesInput"]
                .map(|name| format!("  type {name} = unknown;\n"))
                .concat()
        );
    }
}

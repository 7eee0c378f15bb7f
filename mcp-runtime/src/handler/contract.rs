//! The arguments that a function accepts, their schema, and the conversion of arguments that arrive as strings.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use serde_json::{Value, json};

use super::{
    entry::{ArgumentDefault, ArgumentEntry, CommonEntry, Entry, Rule},
    schema::{self, Checker, HEADER, Property, SchemaError, Violation},
};
use crate::{
    jsonrpc::{raw, write},
    revision::encode::member,
    trace_context::is_token,
};

/// The arguments that a function accepts, with their schema, which is generated when it is first needed.
#[derive(Debug)]
pub(crate) struct Contract {
    pub(crate) arguments: Cow<'static, [ArgumentEntry]>,
    /// Whether the arguments are checked, because decoding into their types may accept what the schema refuses.
    pub(crate) is_checked: bool,
    /// The function, for messages. `None` for the flags of a program.
    entry: Option<Entry>,
    input: OnceLock<Box<InputSchema>>,
}

impl Contract {
    /// Creates the contract of a function.
    pub(crate) fn new(entry: &Entry) -> Self {
        let CommonEntry { arguments, schema, .. } = entry.common();
        let is_checked = schema.is_some() || are_checked(arguments);
        Self { arguments: arguments.clone(), is_checked, entry: Some(entry.clone()), input: OnceLock::new() }
    }

    /// Creates the contract of the flags of a program.
    pub(crate) fn of_flags(flags: &'static [ArgumentEntry]) -> Self {
        Self { arguments: flags.into(), is_checked: are_checked(flags), entry: None, input: OnceLock::new() }
    }

    /// Generates the schema, and compiles it if arguments are checked. Without this, both happen when the schema is first
    /// needed.
    ///
    /// # Errors
    ///
    /// Fails if a default, an example or a bound is not valid JSON, or if the schema is invalid.
    pub(crate) fn compile(&self) -> Result<(), SchemaError> {
        let input = self.generate()?;
        if self.is_checked {
            let _ = input.checker.set(Some(Checker::of_arguments(&input.value)?));
        }
        let _ = self.input.set(Box::new(input));
        Ok(())
    }

    /// Generates the schema of the arguments, unless it was given. Only tools have headers.
    fn generate(&self) -> Result<InputSchema, SchemaError> {
        let mut value =
            generate(&self.arguments, self.entry.as_ref().and_then(|entry| entry.common().schema.as_ref()))?;
        let headers = if let Some(Entry::Tool(_)) = self.entry { headers(&value)? } else { Vec::new() };
        for header in &headers {
            limit(header.path.iter().fold(&mut value, |schema, name| &mut schema["properties"][name]));
        }
        let choices = self.arguments.iter().map(|argument| choices(&value, &argument.name).into()).collect();
        Ok(InputSchema { value, checker: OnceLock::new(), choices, headers })
    }

    /// Generates the schema, or one that no object matches if it is invalid.
    fn generate_or_refuse(&self) -> InputSchema {
        let generated = catch_unwind(AssertUnwindSafe(|| self.generate()));
        let generated = generated.unwrap_or_else(|_| Err(SchemaError::new("generating it panics")));
        generated.unwrap_or_else(|error| {
            self.log_invalid(&error);
            let value = json!({ "type": "object", "properties": {}, "not": {} });
            let choices = self.arguments.iter().map(|_| Arc::default()).collect();
            InputSchema { value, checker: OnceLock::from(None), choices, headers: Vec::new() }
        })
    }

    fn log_invalid(&self, error: &SchemaError) {
        let function = self.entry.as_ref().map(|entry| entry.common().describe()).unwrap_or_default();
        tracing::error!(function, %error, "the schema of a function is invalid, so its calls are refused");
    }

    fn input(&self) -> &InputSchema {
        get_or_compute::<Box<_>>(&self.input, || Box::new(self.generate_or_refuse()))
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.input().value
    }

    /// Passes the schema to `read`. Does not keep a schema that is generated for it, since a listed function may never be
    /// called, unless it is invalid.
    pub(crate) fn with_schema<T>(&self, read: impl FnOnce(&Value) -> T) -> T {
        if let Some(input) = self.input.get() {
            return read(&input.value);
        }
        let input = self.generate_or_refuse();
        if input.is_invalid() { read(&self.input.get_or_init(|| Box::new(input)).value) } else { read(&input.value) }
    }

    /// Returns the permitted values of each argument. Empty if its schema does not list them.
    pub(crate) fn choices(&self) -> &[Arc<[String]>] {
        &self.input().choices
    }

    /// Returns the arguments of a tool that HTTP clients repeat in headers.
    pub(crate) fn headers(&self) -> &[MirroredArgument] {
        &self.input().headers
    }

    /// Returns whether the check of the arguments may take so long that it must not run on a thread that serves
    /// connections.
    pub(crate) fn is_slow_to_check(&self, arguments: &str) -> bool {
        self.is_checked && self.checker().is_some_and(|checker| checker.is_slow(arguments))
    }

    /// Returns the violations of the arguments. There are none if the schema is invalid.
    pub(crate) fn check(&self, arguments: &str) -> Vec<Violation> {
        let checker = self.checker().filter(|checker| !checker.accepts(arguments));
        checker.map(|checker| checker.violations(arguments)).unwrap_or_default()
    }

    /// Returns whether the arguments, which may have been checked in advance, match the schema. Decoding has enforced a
    /// schema that is not checked, unless the schema is known to be invalid.
    pub(super) fn accepts(&self, arguments: &str, violations: Option<&[Violation]>) -> bool {
        match violations {
            _ if self.input.get().is_some_and(|input| input.is_invalid()) => false,
            Some(violations) => violations.is_empty(),
            None => !self.is_checked || self.checker().is_some_and(|checker| checker.accepts(arguments)),
        }
    }

    /// Returns the checker of the arguments, or `None` if the schema is invalid.
    pub(super) fn checker(&self) -> Option<&Checker> {
        let input = self.input();
        let compile = || Checker::of_arguments(&input.value).inspect_err(|error| self.log_invalid(error)).ok();
        input.checker.get_or_init(compile).as_ref()
    }
}

fn are_checked(arguments: &[ArgumentEntry]) -> bool {
    let is_checked =
        |argument: &ArgumentEntry| !argument.ty.enforces_schema || argument.rules.iter().any(Rule::is_constraint);
    arguments.iter().any(is_checked)
}

/// Returns the value of a cell, which `compute` creates the first time.
///
/// Unlike [`OnceLock::get_or_init`], runs `compute` without a lock, since it may run the author's code. Threads that need
/// the value at the same time each run it, and one result is kept.
pub(crate) fn get_or_compute<T>(cell: &OnceLock<T>, compute: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(value) => value,
        None => {
            let value = compute();
            cell.get_or_init(|| value)
        }
    }
}

/// The schema of arguments, and what follows from it.
#[derive(Debug)]
struct InputSchema {
    value: Value,
    /// Compiled for the first call whose arguments are checked. `None` if the schema is invalid.
    checker: OnceLock<Option<Checker>>,
    /// The permitted values of each argument. Empty if its schema does not list them.
    choices: Vec<Arc<[String]>>,
    /// The arguments that HTTP clients repeat in headers.
    headers: Vec<MirroredArgument>,
}

impl InputSchema {
    /// Returns whether the schema is known to be invalid.
    fn is_invalid(&self) -> bool {
        matches!(self.checker.get(), Some(None))
    }
}

/// An argument that HTTP clients repeat in a header.
#[derive(Debug)]
pub(crate) struct MirroredArgument {
    /// The part of the header's name after `Mcp-Param-`.
    pub(crate) name: String,
    /// The chain of properties that leads to the argument.
    pub(crate) path: Vec<String>,
}

fn generate(arguments: &[ArgumentEntry], schema: Option<&Value>) -> Result<Value, SchemaError> {
    let mut generator = schema::generator();
    if let Some(schema) = schema {
        if !schema::is_object(schema) {
            return Err(SchemaError::new("its `type` is not `object`"));
        }
        return schema::whole_input(schema.clone(), generator);
    }
    if let [argument] = arguments
        && argument.flattened
    {
        let schema = (argument.ty.schema)(&mut generator).to_value();
        return schema::whole_input(schema, generator);
    }
    let mut properties = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let default = argument.default.map(ArgumentDefault::value).transpose();
        let default =
            default.map_err(|error| SchemaError::new(format!("the default of `{}`: {error}", argument.name)))?;
        properties.push(Property {
            name: &argument.name,
            description: &argument.description,
            schema: (argument.ty.schema)(&mut generator).to_value(),
            required: default.is_none() && !(argument.ty.optional)(),
            default,
            keywords: argument.rules,
        });
    }
    schema::input(properties, generator)
}

/// Returns the permitted values of an argument. Empty if its schema does not list them.
fn choices(schema: &Value, name: &str) -> Vec<String> {
    let property = &schema["properties"][name];
    if property["type"] == "boolean" {
        return vec!["false".to_owned(), "true".to_owned()];
    }
    let values = property["enum"].as_array().into_iter().flatten();
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// Returns the arguments that HTTP clients repeat in headers.
///
/// # Errors
///
/// Fails if an `x-mcp-header` breaks a rule of the specification.
///
/// See [x-mcp-header](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header).
pub(crate) fn headers(schema: &Value) -> Result<Vec<MirroredArgument>, SchemaError> {
    let mut found = Vec::new();
    find_headers(schema, &mut Vec::new(), &mut found)?;
    if count_headers(schema) > found.len() {
        return Err(SchemaError::new("an `x-mcp-header` is not reachable through `properties` alone"));
    }
    let mut names: Vec<String> = found.iter().map(|header| header.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SchemaError::new(format!("two arguments use the header `{}`", pair[0]))),
        None => Ok(found),
    }
}

fn find_headers(schema: &Value, path: &mut Vec<String>, found: &mut Vec<MirroredArgument>) -> Result<(), SchemaError> {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get(HEADER) {
            let (header, argument) = (header.as_str().unwrap_or_default(), path.join("."));
            if !is_token(header) {
                return Err(SchemaError::new(format!("the header {header:?} of `{argument}` is not an HTTP token")));
            }
            if !matches!(property["type"].as_str(), Some("string" | "integer" | "boolean")) {
                let problem = "has a header, but is not a string, integer or boolean";
                return Err(SchemaError::new(format!("`{argument}` {problem}")));
            }
            found.push(MirroredArgument { name: header.to_owned(), path: path.clone() });
        }
        find_headers(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// Limits an argument that headers mirror to the integers that are exact as `f64`, unless its own bounds are tighter.
fn limit(argument: &mut Value) {
    const LARGEST: i64 = (1 << 53) - 1;

    for (inclusive, exclusive, sign) in [("minimum", "exclusiveMinimum", -1), ("maximum", "exclusiveMaximum", 1)] {
        let bound = |keyword: &str| argument[keyword].as_f64().map(|bound| bound * f64::from(sign));
        let is_tighter = |keyword: &str| bound(keyword).is_some_and(|bound| bound <= LARGEST as f64);
        if argument["type"] == "integer" && !is_tighter(inclusive) && !is_tighter(exclusive) {
            argument[inclusive] = (i64::from(sign) * LARGEST).into();
        }
    }
}

/// Counts the header annotations anywhere in a schema.
fn count_headers(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => {
            usize::from(members.get(HEADER).is_some_and(Value::is_string))
                + members.values().map(count_headers).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_headers).sum(),
        _ => 0,
    }
}

/// Converts strings to the JSON object that the schema describes: `"5"` becomes `5` if the argument is a number.
///
/// A string that is not valid JSON stays a string, and violations show it unchanged.
pub(crate) fn from_strings<'a>(
    contract: &Contract,
    strings: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> String {
    let mut out = vec![b'{'];
    for (name, text) in strings {
        let property = contract.schema().get("properties").and_then(|properties| properties.get(&*name));
        // Forms send an empty string for a field that was left empty.
        if text.is_empty() && !accepts_strings(property) && !is_required(contract, &name) {
            continue;
        }
        write_string_as(member(&mut out, &name), property, &text);
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

/// Converts a string to the JSON that the schema describes.
pub(crate) fn json_of_string(schema: Option<&Value>, text: &str) -> String {
    let mut out = Vec::new();
    write_string_as(&mut out, schema, text);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_string_as(out: &mut Vec<u8>, schema: Option<&Value>, text: &str) {
    if !accepts_strings(schema) && is_other_json(text) {
        out.extend_from_slice(text.trim().as_bytes());
    } else {
        write::string(out, text);
    }
}

fn is_required(contract: &Contract, name: &str) -> bool {
    contract.schema()["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// Returns whether a schema accepts strings, judging by its `type`, `enum`, `anyOf` and `oneOf` keywords.
fn accepts_strings(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => match schema.get("enum") {
            Some(Value::Array(values)) => values.iter().any(Value::is_string),
            _ => ["anyOf", "oneOf"]
                .iter()
                .find_map(|key| schema.get(key)?.as_array())
                .is_none_or(|branches| branches.iter().any(|branch| accepts_strings(Some(branch)))),
        },
    }
}

/// Returns whether the text is valid JSON other than a string.
fn is_other_json(text: &str) -> bool {
    raw::kind(text) != raw::Kind::String && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use schemars::{JsonSchema, Schema, SchemaGenerator};
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::{
        Context, Revision, Server,
        handler::entry::{ArgumentDefault, ArgumentType, OutputType, ToolEntry},
    };

    #[derive(Deserialize)]
    struct Panics;

    impl JsonSchema for Panics {
        fn schema_name() -> Cow<'static, str> {
            "Panics".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            panic!("no schema")
        }
    }

    const fn argument(ty: ArgumentType, rules: &'static [Rule], default: Option<ArgumentDefault>) -> ArgumentEntry {
        ArgumentEntry {
            name: Cow::Borrowed("a"),
            title: None,
            description: Cow::Borrowed(""),
            ty,
            default,
            rules,
            complete: None,
            env: None,
            flattened: false,
        }
    }

    #[test]
    fn schemas_that_are_invalid_when_they_are_needed_refuse_all_calls() {
        const TEXT: ArgumentType = ArgumentType::of::<String>(true);
        const BOOL: ArgumentType = ArgumentType::of::<bool>(true);
        const LIST: ArgumentType = ArgumentType::of::<Vec<u8>>(false);
        static VALID: &[ArgumentEntry] = &[argument(TEXT, &[Rule::MinLength(1)], None)];
        static PATTERN: &[ArgumentEntry] = &[argument(TEXT, &[Rule::Pattern("(")], None)];
        static INAPPLICABLE: &[ArgumentEntry] = &[argument(BOOL, &[Rule::MinLength(1)], None)];
        static DEFAULT: &[ArgumentEntry] = &[argument(LIST, &[], Some(ArgumentDefault::Json("1")))];
        static PANIC: &[ArgumentEntry] = &[argument(ArgumentType::of::<Panics>(false), &[], None)];
        for (arguments, is_valid) in
            [(VALID, true), (PATTERN, false), (INAPPLICABLE, false), (DEFAULT, false), (PANIC, false)]
        {
            let compiled = thread::spawn(|| Contract::of_flags(arguments).compile()).join();
            assert_eq!(compiled.is_ok_and(|compiled| compiled.is_ok()), is_valid, "{arguments:?}");
            let contract = Contract::of_flags(arguments);
            assert_eq!(contract.accepts(r#"{"a":"x"}"#, None), is_valid, "{arguments:?}");
            assert_eq!(contract.schema()["type"], "object", "{arguments:?}");
        }
    }

    /// Builds a server without checks, as a release build does.
    #[tokio::test]
    async fn tools_with_invalid_schemas_are_listed_and_refuse_calls() {
        const TEXT: ArgumentType = ArgumentType::of::<String>(true);
        const PANIC: ArgumentDefault = ArgumentDefault::Expression(|| panic!("no default"));
        static VALID: &[ArgumentEntry] = &[argument(TEXT, &[], None)];
        static PATTERN: &[ArgumentEntry] = &[argument(TEXT, &[Rule::Pattern("(")], None)];
        static DEFAULT: &[ArgumentEntry] = &[argument(TEXT, &[], Some(PANIC))];
        static HEADER: &[ArgumentEntry] = &[argument(TEXT, &[Rule::Extension(schema::HEADER, "a b")], None)];
        let none = OutputType::Generated(|_| None);
        let panics = OutputType::Generated(|_| panic!("no output schema"));
        // An unsupported keyword is found when arguments are first checked.
        for (arguments, output, is_listed, is_valid) in [
            (VALID, none.clone(), true, true),
            (VALID, panics, true, true),
            (PATTERN, none.clone(), true, false),
            (DEFAULT, none.clone(), false, false),
            (HEADER, none, false, false),
        ] {
            let mut tool = ToolEntry::new("tool", Value::Null, async |_: Value, _: Context| "ran");
            (tool.common.schema, tool.common.arguments, tool.output) = (None, arguments.into(), output);
            let server = Server::empty("contract", "1.0.0").with_entry(tool).build_with(false).unwrap();
            for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
                let mut client = server.test_client(revision);
                let tools = client.tools().await.unwrap();
                assert!(tools[0].0.get("outputSchema").is_none(), "{arguments:?}");
                assert_eq!(tools[0].0["inputSchema"].get("not").is_none(), is_listed, "{arguments:?}");
                let called = client.call("tool", json!({"a": "x"})).await.unwrap();
                let expected = if is_valid { "ran" } else { "`tool` failed; see the server log" };
                assert!(called.text().starts_with(expected), "{arguments:?}: {}", called.text());
            }
        }
    }

    #[test]
    fn a_string_stays_a_string_if_the_schema_accepts_it() {
        for (schema, text, expected) in [
            (json!({"type": "integer"}), " 5 ", "5"),
            (json!({"type": "integer"}), "five", r#""five""#),
            (json!({"type": "integer"}), r#""5""#, r#""\"5\"""#),
            (json!({"type": "string"}), "5", r#""5""#),
            (json!({"type": ["integer", "null"]}), "null", "null"),
            (json!({"type": ["integer", "string"]}), "5", r#""5""#),
            (json!({"enum": [1, 2]}), "2", "2"),
            (json!({"enum": [1, "2"]}), "2", r#""2""#),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "5", "5"),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "5", r#""5""#),
            (json!({"oneOf": [{"type": "integer"}, {"type": "null"}]}), "5", "5"),
            (json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}), "5", r#""5""#),
            (json!({}), "5", r#""5""#),
        ] {
            assert_eq!(json_of_string(Some(&schema), text), expected, "{schema} {text}");
        }
    }
}

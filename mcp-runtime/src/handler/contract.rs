//! The arguments that a function accepts, and their schema.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use super::{
    entry::{ArgumentEntry, CommonEntry, Entry, Rule},
    input_schema::{InputSchema, MirroredArgument},
    schema::{Checker, SchemaError, Violation},
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
            input.compile()?;
        }
        let _ = self.input.set(Box::new(input));
        Ok(())
    }

    fn generate(&self) -> Result<InputSchema, SchemaError> {
        let schema = self.entry.as_ref().and_then(|entry| entry.common().schema.as_ref());
        InputSchema::generate(&self.arguments, schema, matches!(self.entry, Some(Entry::Tool(_))))
    }

    /// Generates the schema, or one that refuses all arguments if it is invalid.
    fn generate_or_refuse(&self) -> InputSchema {
        let generated = catch_unwind(AssertUnwindSafe(|| self.generate()));
        let generated = generated.unwrap_or_else(|_| Err(SchemaError::new("generating it panics")));
        generated.unwrap_or_else(|error| {
            self.log_invalid(&error);
            InputSchema::refusing(&self.arguments)
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
        self.input().checker(|error| self.log_invalid(error))
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
        static HEADER: &[ArgumentEntry] = &[argument(TEXT, &[Rule::Header("a b")], None)];
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
}

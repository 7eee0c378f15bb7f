use std::sync::OnceLock;

use serde_json::Value;

use super::{
    entry::argument::{ArgumentEntry, OutputType},
    schema::{self, Checker, SchemaError, Violation},
};

/// The arguments that a function accepts and the result that it returns, with their schemas.
#[derive(Debug)]
pub(crate) struct Contract {
    pub(crate) arguments: &'static [ArgumentEntry],
    pub(crate) schema: Value,
    /// Whether the arguments are checked, because decoding into their types may accept what the schema refuses.
    pub(crate) is_checked: bool,
    checker: OnceLock<Checker>,
    output: Option<OutputType>,
    output_schema: OnceLock<Option<OutputSchema>>,
    pub(crate) mime_type: Option<&'static str>,
}

/// The schema of a structured result.
#[derive(Debug)]
pub(crate) struct OutputSchema {
    pub(crate) schema: Value,
    /// Whether results may be values other than objects, which some dialects require to be wrapped in an object.
    pub(crate) wraps: bool,
}

impl Contract {
    /// Creates a contract. Compiles the schema if arguments are checked; otherwise it is compiled for the first invalid
    /// call.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema is invalid.
    pub(crate) fn new(
        arguments: &'static [ArgumentEntry],
        schema: Value,
        is_checked: bool,
    ) -> Result<Self, SchemaError> {
        let checker = if is_checked { OnceLock::from(Checker::of_arguments(&schema)?) } else { OnceLock::new() };
        let output_schema = OnceLock::new();
        Ok(Self { arguments, schema, is_checked, checker, output: None, output_schema, mime_type: None })
    }

    /// Sets the return type.
    pub(crate) fn with_output(mut self, output: OutputType) -> Self {
        self.output = Some(output);
        self
    }

    /// Sets the media type of a resource.
    pub(crate) fn with_mime_type(mut self, mime_type: Option<&'static str>) -> Self {
        self.mime_type = mime_type;
        self
    }

    /// Returns the schema of the result if the function returns structured results. It is generated on first use.
    pub(crate) fn output_schema(&self) -> Option<&OutputSchema> {
        self.output_schema
            .get_or_init(|| {
                let mut generator = schema::output_generator();
                let schema = (self.output?.schema)(&mut generator)?;
                let schema = schema::output(schema.to_value(), generator);
                Some(OutputSchema { wraps: !schema::is_object(&schema), schema })
            })
            .as_ref()
    }

    /// Returns whether the check of the arguments may take so long that it must not run on a thread that serves
    /// connections.
    pub(crate) fn is_slow_to_check(&self, arguments: &str) -> bool {
        self.is_checked && self.checker().is_slow(arguments)
    }

    /// Returns the violations of the arguments.
    pub(crate) fn check(&self, arguments: &str) -> Vec<Violation> {
        let checker = self.checker();
        if checker.accepts(arguments) { Vec::new() } else { checker.violations(arguments) }
    }

    pub(super) fn checker(&self) -> &Checker {
        self.checker.get_or_init(|| {
            Checker::of_arguments(&self.schema).unwrap_or_else(|error| {
                tracing::error!(%error, "the schema of a function cannot be compiled");
                Checker::default()
            })
        })
    }
}

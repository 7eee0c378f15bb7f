//! An argument: its type, its default, and the rules of its schema.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use crate::{
    handler::{
        Argument, Dependency,
        argument::is_optional,
        entry::Rule,
        output::ToolOutput,
        server_fn::{ServerFnFuture, ServerFnInput},
    },
    stdx::debug,
};

/// One argument.
#[derive(Debug, Clone)]
pub struct ArgumentEntry {
    /// The name in the schema.
    pub name: Cow<'static, str>,
    /// The display name of a prompt's argument.
    pub title: Option<Cow<'static, str>>,
    /// The doc comment; empty if there is none.
    pub description: Cow<'static, str>,
    /// The type.
    pub ty: ArgumentType,
    /// The value of a missing argument.
    pub default: Option<ArgumentDefault>,
    /// Constraints beyond the constraints of the type.
    pub rules: &'static [Rule],
    /// The function that completes the argument.
    pub complete: Option<ServerFnEntry>,
    /// The environment variable that provides a missing argument on a command line.
    pub env: Option<&'static str>,
    /// Whether the parameter receives all arguments of its tool.
    pub flattened: bool,
}

/// The schema of an argument's type.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentType {
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) optional: fn() -> bool,
    /// Whether decoding into the type enforces its schema.
    pub(crate) enforces_schema: bool,
}

impl ArgumentType {
    /// Describes the type `T`. `enforces_schema` is the constant of its [`Decoding`](crate::__private::Decoding).
    pub const fn of<T: Argument>(enforces_schema: bool) -> Self {
        Self { schema: SchemaGenerator::subschema_for::<T>, optional: is_optional::<T>, enforces_schema }
    }
}

/// The schema of a tool's return type, if its results are structured.
#[derive(Debug, Clone)]
pub enum OutputType {
    /// The schema is generated from a type.
    Generated(fn(&mut SchemaGenerator) -> Option<Schema>),
    /// A program created the schema.
    Given(Value),
}

impl OutputType {
    /// Describes the type `T`.
    pub const fn of<T: ToolOutput>() -> Self {
        Self::Generated(T::schema)
    }
}

/// A function that lists resources or completes an argument.
#[derive(Clone, Copy)]
pub struct ServerFnEntry {
    /// The name in the source code.
    pub function: &'static str,
    /// Appends the parameters of the function to the list.
    pub dependencies: fn(&mut Vec<Dependency>),
    /// Calls the function.
    pub call: fn(ServerFnInput) -> ServerFnFuture,
}

debug!(ServerFnEntry, self, function: self.function);

/// Serializes the value of a default expression for the schema.
///
/// # Errors
///
/// Returns the error of the type's `Serialize` implementation.
pub fn default_json<T: DefaultValue>(value: T) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::to_value(value)
}

/// A type whose values can be written to the schema as a default.
#[diagnostic::on_unimplemented(
    message = "a default of type `{Self}` cannot be written to the schema",
    label = "this type does not implement `serde::Serialize`",
    note = "for a type of your own, add `#[derive(serde::Serialize)]`",
    note = "a literal needs no implementation: `#[arg(default = \"…\")]` is read as JSON"
)]
pub trait DefaultValue: Serialize {}

#[diagnostic::do_not_recommend]
impl<T: Serialize> DefaultValue for T {}

/// The default of an argument or of a form field.
#[derive(Debug, Clone, Copy)]
pub enum ArgumentDefault {
    /// A literal, as JSON.
    Json(&'static str),
    /// An expression, evaluated and serialized.
    Expression(fn() -> Result<serde_json::Value, serde_json::Error>),
}

impl ArgumentDefault {
    /// Evaluates the default.
    ///
    /// # Errors
    ///
    /// Returns an error if a literal is not JSON, or if the value of an expression cannot be serialized.
    pub(crate) fn value(self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Json(json) => serde_json::from_str(json),
            Self::Expression(evaluate) => evaluate(),
        }
    }
}

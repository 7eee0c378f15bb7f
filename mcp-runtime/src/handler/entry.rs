//! What a macro says of one function: static data and function pointers, no logic.

use std::{any::TypeId, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    Argument, Finished, Input, Outcome, OwnedEnv, Refusal, Reply, Running, complete::Producing, output::ToolOutput,
};
use crate::model::{Icon, Role};

/// One part of a URI template, as a constant.
pub type Part = mcp_uri_template::Part<&'static str, &'static [&'static str]>;

/// One annotated function.
#[derive(Debug, Clone, Copy)]
pub enum Entry {
    /// A `#[tool]`.
    Tool(&'static ToolEntry),
    /// A `#[resource]`.
    Resource(&'static ResourceEntry),
    /// A `#[prompt]`.
    Prompt(&'static PromptEntry),
}

impl Entry {
    /// What every kind has.
    pub(crate) fn common(&self) -> &'static Common {
        match self {
            Self::Tool(entry) => &entry.common,
            Self::Resource(entry) => &entry.common,
            Self::Prompt(entry) => &entry.common,
        }
    }

    pub(crate) fn kind(&self) -> EntryKind {
        match self {
            Self::Tool(_) => EntryKind::Tool,
            Self::Resource(_) => EntryKind::Resource,
            Self::Prompt(_) => EntryKind::Prompt,
        }
    }

    pub(crate) fn info(&self) -> EntryInfo<'static> {
        self.common().info(self.kind())
    }
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum EntryKind {
    /// A `#[tool]`.
    Tool,
    /// A `#[resource]`, static or templated.
    Resource,
    /// A `#[prompt]`.
    Prompt,
}

/// One annotated function or one skill, for whoever decides what is offered: [`Server::only`](crate::Server::only),
/// [`Server::visible_to`](crate::Server::visible_to), [`Handle::set_enabled`](crate::Handle::set_enabled).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EntryInfo<'a> {
    /// What it is.
    pub kind: EntryKind,
    /// The name on the wire; of a resource, not its URI.
    pub name: &'a str,
    /// The `tags(…)` of the annotation.
    pub tags: &'a [&'a str],
    /// The crate that the function stands in, named as in its `Cargo.toml`.
    pub krate: &'a str,
    /// The module that the function stands in, as `module_path!()` names it.
    pub module: &'a str,
}

impl EntryInfo<'_> {
    /// Says whether the function has a tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.contains(&tag)
    }
}

inventory::collect!(Entry);

/// A type that names annotated functions: the item that a macro puts beside a function, or the type of a `#[tools]`
/// block.
///
/// [`Server::with`](crate::Server::with) takes it, where nothing is to be collected by itself.
pub trait Collect {
    /// Lists the functions.
    #[doc(hidden)]
    fn entries() -> &'static [Entry];
}

/// Makes the URI of an annotated resource from the variables of its template, percent-encoded as RFC 6570 says.
///
/// It is what a `list` function needs, and a link in a tool's result.
///
/// ```
/// use mcp_runtime::{resource, resource_uri};
///
/// /// A file.
/// #[resource("docs:///{+path}")]
/// fn document(path: String) -> String {
///     path
/// }
///
/// assert_eq!(resource_uri::<document>(&[("path", "notes/to do.md")]), "docs:///notes/to%20do.md");
/// ```
///
/// # Panics
///
/// Panics if the type does not stand for a resource.
pub fn resource_uri<R: Collect>(variables: &[(&str, &str)]) -> String {
    match R::entries() {
        [Entry::Resource(ResourceEntry { template: Some(parts), .. })] => mcp_uri_template::expand(parts, variables),
        [Entry::Resource(entry)] => entry.uri.to_owned(),
        _ => panic!("`{}` does not stand for one resource", std::any::type_name::<R>()),
    }
}

/// Where a function stands in its source.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// `file!()`
    pub file: &'static str,
    /// `line!()`
    pub line: u32,
    /// `env!("CARGO_PKG_NAME")` of the crate that it stands in.
    pub package: &'static str,
    /// `module_path!()`
    pub module: &'static str,
    /// The function's name, with its type's where it is a method.
    pub function: &'static str,
}

/// What the three kinds have in common.
#[derive(Debug)]
pub struct Common {
    /// The name on the wire.
    pub name: &'static str,
    /// The name for people.
    pub title: Option<&'static str>,
    /// The doc comment; empty where there is none.
    pub description: &'static str,
    /// Pictures.
    pub icons: &'static [Icon],
    /// Labels for [`Server::only`](crate::Server::only).
    pub tags: &'static [&'static str],
    /// OAuth scopes that a caller needs.
    pub scopes: &'static [&'static str],
    /// Keys and values (as JSON) for `_meta`.
    pub meta: &'static [(&'static str, &'static str)],
    /// How long a call may take, where it is not the server's default.
    pub timeout: Option<Duration>,
    /// Whether the function blocks, and with it those that list or complete for it, so that they get threads of their own.
    pub blocking: bool,
    /// Where the function stands.
    pub source: Source,
    /// What the caller gives.
    pub arguments: &'static [ArgumentEntry],
    /// What the server gives.
    pub needs: &'static [Need],
    /// The call.
    pub run: Run,
}

impl Common {
    pub(crate) fn info(&self, kind: EntryKind) -> EntryInfo<'static> {
        let Self { name, tags, source, .. } = self;
        EntryInfo { kind, name, tags, krate: source.package, module: source.module }
    }
}

/// A `#[tool]`.
#[derive(Debug)]
pub struct ToolEntry {
    /// What every kind has.
    pub common: Common,
    /// Hints about what the tool does.
    pub hints: Hints,
    /// What the return type says of its structure.
    pub output: OutputType,
    /// Whether a call may be a task.
    pub task: TaskSupport,
}

/// Whether a call of a tool may be a task, which its client asks for again and again while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSupport {
    /// It never is.
    Forbidden,
    /// It is one for a client that can have one.
    Optional,
    /// It is one, or refused.
    Required,
    /// It becomes one when the function says so, for a client that can have one.
    Deferred,
}

/// Hints about what a tool does; none where the author did not say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It reaches out into the world.
    pub open_world: Option<bool>,
}

/// A `#[resource]`, static or templated.
#[derive(Debug)]
pub struct ResourceEntry {
    /// What every kind has.
    pub common: Common,
    /// The URI, or the template as the author wrote it.
    pub uri: &'static str,
    /// The parsed template; none for a static URI.
    pub template: Option<&'static [Part]>,
    /// The media type.
    pub mime_type: Option<&'static str>,
    /// The size in bytes.
    pub size: Option<u64>,
    /// Who it is for.
    pub audience: &'static [Role],
    /// How important it is, from 0 to 1.
    pub priority: Option<f64>,
    /// Lists what the template covers.
    pub list: Option<ServerFnEntry>,
}

/// A `#[prompt]`.
#[derive(Debug)]
pub struct PromptEntry {
    /// What every kind has.
    pub common: Common,
}

/// One argument.
#[derive(Debug)]
pub struct ArgumentEntry {
    /// The name on the wire.
    pub name: &'static str,
    /// The name for people, of a prompt's argument.
    pub title: Option<&'static str>,
    /// The doc comment; empty where there is none.
    pub description: &'static str,
    /// Its type.
    pub of: ArgumentType,
    /// What stands in for it when it is missing.
    pub default: Option<Default>,
    /// Constraints beyond the type.
    pub rules: &'static [Rule],
    /// Completes it.
    pub complete: Option<ServerFnEntry>,
    /// The environment variable that stands in for it, on a command line.
    pub env: Option<&'static str>,
    /// Whether it is all arguments of its tool at once.
    pub flattened: bool,
}

/// The default of an argument, as the schema shows it.
#[derive(Debug, Clone, Copy)]
pub enum Default {
    /// A literal, as JSON.
    Json(&'static str),
    /// An expression, serialised.
    Value(fn() -> Result<serde_json::Value, serde_json::Error>),
}

/// What the schema needs of an argument's type.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentType {
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) optional: fn() -> bool,
}

impl ArgumentType {
    /// Takes what is needed of a type.
    pub const fn of<T: Argument>() -> Self {
        Self { schema: schema_of::<T>, optional: super::slot::is_optional::<T> }
    }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What a tool's return type says of its structure.
#[derive(Debug, Clone, Copy)]
pub struct OutputType {
    pub(crate) schema: fn(&mut SchemaGenerator) -> Option<Schema>,
}

impl OutputType {
    /// Takes what is needed of a return type.
    pub const fn of<T: ToolOutput>() -> Self {
        Self { schema: T::schema }
    }
}

/// A constraint on an argument, a keyword of its schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// `minimum`
    Minimum(Bound),
    /// `maximum`
    Maximum(Bound),
    /// `exclusiveMinimum`
    ExclusiveMinimum(Bound),
    /// `exclusiveMaximum`
    ExclusiveMaximum(Bound),
    /// `minLength`, `minItems` or `minProperties`
    MinLength(u64),
    /// `maxLength`, `maxItems` or `maxProperties`
    MaxLength(u64),
    /// `pattern`
    Pattern(&'static str),
    /// `format`
    Format(&'static str),
    /// `examples`, each as JSON
    Examples(&'static [&'static str]),
    /// `x-mcp-header`
    Header(&'static str),
}

/// The bound of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// A whole number.
    Integer(i128),
    /// Any other.
    Float(f64),
}

/// Says what a default that is an expression comes to, for the schema.
pub fn shown<T: Shown>(value: T) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::to_value(value)
}

/// A type whose values a schema can show.
#[diagnostic::on_unimplemented(
    message = "a default of type `{Self}` cannot be shown in the schema",
    label = "this type is not `serde::Serialize`",
    note = "for a type of your own add `#[derive(serde::Serialize)]`",
    note = "a literal needs nothing: `#[arg(default = \"…\")]` is read as JSON"
)]
pub trait Shown: serde::Serialize {}

#[diagnostic::do_not_recommend]
impl<T: serde::Serialize> Shown for T {}

/// A type that many calls can take by reference at once.
#[diagnostic::on_unimplemented(
    message = "`&{Self}` cannot be given to a function: calls share it, and run on several threads",
    label = "this type is not `Send + Sync`",
    note = "what the server gives by reference is `Send + Sync + 'static`: use `Arc` for `Rc`, `Mutex` or an atomic for `RefCell` or `Cell`",
    note = "what the caller gives is taken by value: `{Self}`"
)]
pub trait State: Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: ?Sized + Send + Sync + 'static> State for T {}

/// Says that a parameter of an annotated function wants a reference to `T`.
pub const fn need<T: ?Sized + State>(parameter: &'static str) -> Need {
    Need::of::<T>(parameter)
}

/// A value that a function takes by reference.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The parameter.
    pub parameter: &'static str,
    pub(crate) type_id: fn() -> TypeId,
    pub(crate) type_name: fn() -> &'static str,
}

impl Need {
    /// Says that a parameter wants a reference to `T`.
    pub const fn of<T: ?Sized + 'static>(parameter: &'static str) -> Self {
        Self { parameter, type_id: TypeId::of::<T>, type_name: std::any::type_name::<T> }
    }
}

/// How a function is called.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// At once, where the request stands.
    Sync(for<'a, 'b, 'c> fn(Input<'a>, &'b mut Reply<'c>) -> Outcome),
    /// As a future.
    Async(for<'a> fn(Input<'a>) -> Result<Running, Refusal>),
}

/// A function that lists resources or completes an argument, and what it needs.
#[derive(Clone, Copy)]
pub struct ServerFnEntry {
    /// Its name in the source.
    pub function: &'static str,
    /// What it takes by reference.
    pub needs: fn(&mut Vec<Need>),
    /// Calls it.
    pub run: fn(OwnedEnv) -> Producing,
}

impl std::fmt::Debug for ServerFnEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.function)
    }
}

/// Boxes the future of an async function's call.
pub fn running(future: impl Future<Output = Finished> + Send + 'static) -> Running {
    Box::pin(future)
}

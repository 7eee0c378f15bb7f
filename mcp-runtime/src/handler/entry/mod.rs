//! The descriptions of tools, resources, prompts and methods: static data that macros generate, and values that programs
//! create.

pub(super) mod argument;
mod value;

use std::{
    any::Any,
    borrow::Cow,
    collections::HashMap,
    future::ready,
    ops::Deref,
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_runtime_uri_template::{Operator, check_meta_key};
pub use mcp_schema::{Bound, Keyword as Rule};
use serde_json::Value;

use super::{
    CallFuture, Context, Dependency, EarlierArguments, Finished, HandlerError, HandlerResult, Input, Reply,
    ServerFnFuture, finish,
};
use crate::{
    auth::Scopes,
    model::{CacheScope, Icon, Role},
    stdx::{Mutex, debug},
};

pub use argument::{
    ArgumentDefault, ArgumentEntry, ArgumentType, DefaultValue, OutputType, ServerFnEntry, default_json,
};

/// A part of a URI template, usable in constants.
pub type Part = mcp_runtime_uri_template::Part<Cow<'static, str>, Cow<'static, [Cow<'static, str>]>>;

/// A tool, resource or prompt, as a macro emits it or a program creates it, or a method, which a program creates.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A tool.
    #[doc(hidden)]
    Tool(EntryRef<ToolEntry>),
    /// A resource.
    #[doc(hidden)]
    Resource(EntryRef<ResourceEntry>),
    /// A prompt.
    #[doc(hidden)]
    Prompt(EntryRef<PromptEntry>),
    /// A method of an extension.
    #[doc(hidden)]
    Method(EntryRef<MethodEntry>),
}

/// A reference to the description of a function. Its address identifies the function.
#[derive(Debug)]
pub enum EntryRef<T: 'static> {
    /// The description is part of the program.
    Static(&'static T),
    /// The description was created at run time.
    Shared(Arc<T>),
}

impl<T> Deref for EntryRef<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Static(entry) => entry,
            Self::Shared(entry) => entry,
        }
    }
}

impl<T> Clone for EntryRef<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Static(entry) => Self::Static(entry),
            Self::Shared(entry) => Self::Shared(Arc::clone(entry)),
        }
    }
}

impl Entry {
    /// Returns the fields that all kinds have in common.
    pub(crate) fn common(&self) -> &CommonEntry {
        match self {
            Self::Tool(entry) => &entry.common,
            Self::Resource(entry) => &entry.common,
            Self::Prompt(entry) => &entry.common,
            Self::Method(entry) => &entry.common,
        }
    }

    pub(crate) fn kind(&self) -> EntryKind {
        match self {
            Self::Tool(_) => EntryKind::Tool,
            Self::Resource(_) => EntryKind::Resource,
            Self::Prompt(_) => EntryKind::Prompt,
            Self::Method(_) => EntryKind::Method,
        }
    }

    pub(crate) fn info(&self) -> EntryInfo<'_> {
        let common = self.common();
        common.info(self.kind(), &common.name)
    }
}

inventory::collect!(Entry);

/// A type that represents annotated functions: the item that a macro generates for a function, or the type of a
/// `#[tools]` block.
///
/// Pass it to [`Server::with`](crate::Server::with) to register functions explicitly instead of collecting all of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an annotated function",
    label = "expected the name of a function with `#[tool]`, `#[resource]` or `#[prompt]`, or a type with a `#[tools]` block"
)]
pub trait Collect {
    /// Returns the functions.
    #[doc(hidden)]
    fn entries() -> &'static [Entry];
}

/// Expands the URI template of an annotated resource. Variables are percent-encoded according to RFC 6570. Their values
/// are text, so a number is passed as `&id.to_string()`.
///
/// Use it in `list` functions and for resource links in the results of tools.
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
/// The type of a [`#[tools]`](macro@crate::tools) block stands for the resource of the block that has these variables:
///
/// ```
/// use mcp_runtime::{resource_uri, tools};
///
/// struct Notes;
///
/// #[tools]
/// impl Notes {
///     /// All notes.
///     #[resource("notes://all")]
///     fn all(&self) -> String {
///         String::new()
///     }
///
///     /// A note.
///     #[resource("notes://note/{id}")]
///     fn note(&self, id: u32) -> String {
///         id.to_string()
///     }
/// }
///
/// assert_eq!(resource_uri::<Notes>(&[("id", "7")]), "notes://note/7");
/// assert_eq!(resource_uri::<Notes>(&[]), "notes://all");
/// ```
///
/// # Panics
///
/// Panics if the type represents no resource, or several without exactly one that has these variables.
pub fn resource_uri<R: Collect>(variables: &[(&str, &str)]) -> String {
    let resources = R::entries().iter().filter_map(|entry| match entry {
        Entry::Resource(entry) => Some(entry),
        Entry::Tool(_) | Entry::Prompt(_) | Entry::Method(_) => None,
    });
    let resources: Vec<_> = resources.collect();
    let mut matching = resources.iter().filter(|entry| entry.has_variables(variables));
    let entry = match (&*resources, matching.next(), matching.next()) {
        ([only], ..) | (_, Some(only), None) => only,
        (_, first, _) => {
            let number = if resources.is_empty() || first.is_none() { "no resource" } else { "several resources" };
            let names: Vec<_> = variables.iter().map(|(name, _)| format!("`{name}`")).collect();
            panic!("`{}` has {number} with the variables [{}]", std::any::type_name::<R>(), names.join(", "));
        }
    };
    match &entry.template {
        Some(parts) => mcp_runtime_uri_template::expand(parts, variables),
        None => entry.uri.clone().into_owned(),
    }
}

/// The location of a function in the source code.
#[derive(Debug, Clone, Copy)]
pub struct SourceLocation {
    /// `file!()`
    pub file: &'static str,
    /// `line!()`
    pub line: u32,
    /// `env!("CARGO_PKG_NAME")` of the crate that defines it.
    pub package: &'static str,
    /// `module_path!()`
    pub module: &'static str,
    /// The name of the function, qualified by the type if it is a method. Empty if a program created the entry.
    pub function: &'static str,
}

/// The fields that all kinds of entries have in common.
#[derive(Debug)]
pub struct CommonEntry {
    /// The name in the protocol.
    pub name: Cow<'static, str>,
    /// The display name.
    pub title: Option<Cow<'static, str>>,
    /// The doc comment; empty if there is none.
    pub description: Cow<'static, str>,
    /// Icons.
    pub icons: Cow<'static, [Icon]>,
    /// Labels for [`Server::only`](crate::Server::only).
    pub tags: Cow<'static, [Cow<'static, str>]>,
    /// The OAuth scopes that a caller must have.
    pub scopes: EntryScopes,
    /// The members of `_meta`: names, and values as JSON.
    pub meta: Cow<'static, [(Cow<'static, str>, Cow<'static, str>)]>,
    /// The maximum duration of a call, if it differs from the server's default.
    pub timeout: Option<Duration>,
    /// Whether the function and its `list` and `complete` functions block, and are therefore run on threads of the
    /// blocking pool.
    pub blocking: bool,
    /// The location of the function.
    pub source: SourceLocation,
    /// The parameters that the caller provides.
    pub arguments: Cow<'static, [ArgumentEntry]>,
    /// The schema of the arguments, unless it follows from the parameters.
    pub schema: Option<Value>,
    /// The parameters that the server provides.
    pub dependencies: &'static [Dependency],
    /// The code that calls the function.
    pub handler: Handler,
    /// The mistakes of the program that created the entry, which are reported when it is registered.
    pub problems: Vec<String>,
}

impl CommonEntry {
    /// Returns the name and the source location, for messages.
    pub(crate) fn describe(&self) -> String {
        let SourceLocation { file, line, package, function, .. } = self.source;
        match function {
            "" => format!("`{}` ({file}:{line})", self.name),
            function => format!("`{function}` ({file}:{line}, crate `{package}`)"),
        }
    }

    /// Describes an entry of this kind that is registered under this name.
    pub(crate) fn info<'a>(&'a self, kind: EntryKind, name: &'a str) -> EntryInfo<'a> {
        let Self { tags, source, .. } = self;
        EntryInfo {
            kind,
            name,
            tags,
            package: source.package,
            module: source.module,
            function: source.function,
            source: Some(source),
        }
    }
}

/// A tool: its description, and the code that it calls.
#[derive(Debug)]
pub struct ToolEntry {
    /// The fields that all kinds have in common.
    #[doc(hidden)]
    pub common: CommonEntry,
    /// The annotations of the tool.
    #[doc(hidden)]
    pub hints: Hints,
    /// The schema of the return type, if its results are structured.
    #[doc(hidden)]
    pub output: OutputType,
    /// Whether calls may be tasks.
    #[doc(hidden)]
    pub task: TaskSupport,
}

/// Whether a call of a tool may be a task, whose result the client fetches later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSupport {
    /// Calls are never tasks.
    Forbidden,
    /// A call is a task if the client requests or accepts one.
    Optional,
    /// A call is a task. In revisions that define tasks, a call is rejected if the client neither requests nor accepts
    /// one.
    Required,
    /// A call becomes a task when the function requests it and the client accepts one, or starts as a task if the
    /// client requests one.
    Deferred,
}

/// The annotations of a tool; `None` if the author did not specify them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints {
    /// The tool does not modify its environment.
    pub read_only: Option<bool>,
    /// The tool may perform destructive updates.
    pub destructive: Option<bool>,
    /// Repeated calls with the same arguments have no additional effect.
    pub idempotent: Option<bool>,
    /// The tool interacts with external entities.
    pub open_world: Option<bool>,
}

/// A resource or resource template: its description, and the code that reads it.
#[derive(Debug)]
pub struct ResourceEntry {
    /// The fields that all kinds have in common.
    #[doc(hidden)]
    pub common: CommonEntry,
    /// The URI, or the URI template as written.
    #[doc(hidden)]
    pub uri: Cow<'static, str>,
    /// The parsed template; `None` for a static URI.
    #[doc(hidden)]
    pub template: Option<Cow<'static, [Part]>>,
    /// The media type.
    #[doc(hidden)]
    pub mime_type: Option<Cow<'static, str>>,
    /// The size in bytes.
    #[doc(hidden)]
    pub size: Option<u64>,
    /// The intended audience.
    #[doc(hidden)]
    pub audience: &'static [Role],
    /// The importance, from 0 to 1.
    #[doc(hidden)]
    pub priority: Option<f64>,
    /// The time of the last change, as an ISO 8601 date and time or date.
    #[doc(hidden)]
    pub last_modified: Option<&'static str>,
    /// How long and by whom the contents may be cached. `None` if they must not be cached.
    #[doc(hidden)]
    pub cache: Option<(Duration, CacheScope)>,
    /// The function that lists the resources that match the template.
    #[doc(hidden)]
    pub list: Option<ServerFnEntry>,
}

impl ResourceEntry {
    /// Returns whether the URI has all these variables and no other, except for variables of a query, which are
    /// optional.
    fn has_variables(&self, given: &[(&str, &str)]) -> bool {
        let mut known = Vec::new();
        for part in self.template.as_deref().unwrap_or_default() {
            let Part::Expression { operator, variables } = part else { continue };
            let is_optional = is_query(*operator);
            known.extend(variables.iter().map(|name| (&**name, is_optional)));
        }
        let is_given = |name: &str| given.iter().any(|(other, _)| *other == name);
        known.iter().all(|(name, is_optional)| *is_optional || is_given(name))
            && given.iter().all(|(name, _)| known.iter().any(|(other, _)| other == name))
    }
}

/// Returns whether the variables of an expression belong to the query of a URI, in which they are optional.
fn is_query(operator: Operator) -> bool {
    matches!(operator, Operator::Query | Operator::QueryContinuation)
}

/// A prompt: its description, and the code that it calls.
#[derive(Debug)]
pub struct PromptEntry {
    /// The fields that all kinds have in common.
    #[doc(hidden)]
    pub common: CommonEntry,
}

/// A method of an extension: its description, and the code that it calls.
#[derive(Debug)]
pub struct MethodEntry {
    pub(crate) common: CommonEntry,
}

/// Returns whether a method belongs to an extension, so that no revision of the protocol can define it: its name is a key of
/// `_meta` with a domain.
pub(crate) fn is_extension_method(method: &str) -> bool {
    let has_domain = method.split_once('/').is_some_and(|(domain, name)| domain.contains('.') && !name.is_empty());
    has_domain && check_meta_key(method).is_ok()
}

/// The scopes of an entry.
#[derive(Debug)]
pub enum EntryScopes {
    /// Groups of alternatives, one of each of which is required.
    Groups(&'static [&'static [&'static str]]),
    /// Scopes that a program created.
    Scopes(Scopes),
}

impl EntryScopes {
    pub(crate) fn get(&self) -> Scopes {
        match self {
            Self::Groups(groups) => Scopes::of_groups(groups),
            Self::Scopes(scopes) => scopes.clone(),
        }
    }
}

/// A closure that decodes the arguments and returns the future of a call.
pub(crate) type CallFn = dyn Fn(Input<'_>, Context) -> Result<CallFuture, HandlerError> + Send + Sync;

/// A closure that completes the value of an argument: its name, the value, and the earlier arguments.
pub(crate) type CompleteFn = dyn Fn(&str, &str, EarlierArguments, Context) -> ServerFnFuture + Send + Sync;

/// A closure that learns of the URIs that clients subscribe to. Its result is dropped when the subscription ends.
pub(crate) type SubscribedFn = dyn Fn(&str) -> Box<dyn Any + Send + Sync> + Send + Sync;

/// The closures of an entry that a program created.
#[derive(Clone)]
pub struct Closures {
    pub(crate) call: Arc<CallFn>,
    pub(crate) complete: Option<Arc<CompleteFn>>,
    /// Is called when a client subscribes to a URI of a resource.
    pub(crate) subscribed: Option<Arc<SubscribedFn>>,
    /// Whether the entry is left out if it is invalid.
    pub(crate) is_optional: bool,
}

debug!(Closures, self);
debug!(Handler, self);

/// How a function is called.
#[derive(Clone)]
pub enum Handler {
    /// A function that is called while the request is dispatched.
    Sync(for<'a, 'b, 'c> fn(Input<'a>, &'b mut Reply<'c>) -> HandlerResult),
    /// A function that runs as a future.
    Async(for<'a> fn(Input<'a>, Context) -> Result<CallFuture, HandlerError>),
    /// Closures of a program, one of which returns a future.
    Closure(Closures),
}

impl Handler {
    /// Decodes the arguments and creates the future of a call. A synchronous function is called at once.
    ///
    /// # Errors
    ///
    /// Returns every violation of the schema.
    pub(crate) fn start(&self, input: Input<'_>, context: Context) -> Result<CallFuture, HandlerError> {
        match self {
            Self::Sync(function) => Ok(Box::pin(ready(finish(&context, |reply| function(input, reply))))),
            Self::Async(function) => function(input, context),
            Self::Closure(closures) => (closures.call)(input, context),
        }
    }

    /// Returns the closures, if a program created the entry.
    pub(crate) fn closures(&self) -> Option<&Closures> {
        if let Self::Closure(closures) = self { Some(closures) } else { None }
    }
}

/// Boxes the future of an async function's call.
pub fn boxed(future: impl Future<Output = Finished> + Send + 'static) -> CallFuture {
    Box::pin(future)
}

/// The entries of a mounted server.
#[derive(Default)]
pub(crate) struct EntryGroup(Mutex<HashMap<usize, Member>>);

struct Member {
    entry: Option<Weak<dyn Any + Send + Sync>>,
    /// The name in the mounted server, once it is known.
    name: Option<Arc<str>>,
}

impl EntryGroup {
    /// Adds entries, and removes entries that do not exist any more. The weak references keep the addresses from being used again.
    pub(crate) fn add(&self, entries: &[Entry]) {
        fn weak<T: Send + Sync + 'static>(entry: &EntryRef<T>) -> Option<Weak<dyn Any + Send + Sync>> {
            let EntryRef::Shared(entry) = entry else { return None };
            Some(Arc::downgrade(entry) as _)
        }
        let mut members = self.0.lock();
        members.retain(|_, member| member.entry.as_ref().is_none_or(|entry| entry.strong_count() > 0));
        for entry in entries {
            let weak = match entry {
                Entry::Tool(entry) => weak(entry),
                Entry::Resource(entry) => weak(entry),
                Entry::Prompt(entry) => weak(entry),
                Entry::Method(entry) => weak(entry),
            };
            if let Some(address) = entry.info().address() {
                members.entry(address).or_insert(Member { entry: weak, name: None });
            }
        }
    }

    /// Records the name of an entry in the mounted server. Returns `false` if the entry belongs to another server.
    pub(crate) fn record_name(&self, info: &EntryInfo<'_>) -> bool {
        let mut members = self.0.lock();
        let member = info.address().and_then(|address| members.get_mut(&address));
        member.map(|member| member.name = Some(info.name.into())).is_some()
    }

    /// Applies a function to an entry with the name that it has in the mounted server. Returns `None` if the entry belongs to
    /// another server.
    pub(crate) fn map<T>(&self, info: &EntryInfo<'_>, map: impl FnOnce(&EntryInfo<'_>) -> T) -> Option<T> {
        let address = info.address()?;
        let name = self.0.lock().get(&address)?.name.clone();
        // The name of a method does not change.
        Some(map(&EntryInfo { name: name.as_deref().unwrap_or(info.name), ..*info }))
    }

    pub(crate) fn contains(&self, info: &EntryInfo<'_>) -> bool {
        info.address().is_some_and(|address| self.0.lock().contains_key(&address))
    }
}

/// The kind of an entry.
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
    /// A method of an extension, which is not listed.
    Method,
}

impl EntryKind {
    /// The number of kinds.
    pub(crate) const COUNT: usize = Self::Method as usize + 1;
}

/// An annotated function or a skill, by which functions are selected: for
/// [`Server::only`](crate::Server::only), [`prefix`](crate::Server::prefix), [`rename`](crate::Server::rename),
/// [`layer_for`](crate::Server::layer_for), [`visible_to`](crate::Server::visible_to) and
/// [`Handle::set_enabled`](crate::Handle::set_enabled).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EntryInfo<'a> {
    /// The kind.
    pub kind: EntryKind,
    /// The name in the protocol. For a resource, this is its name, not its URI. [`Server::only`](crate::Server::only)
    /// sees the name in the annotation, [`rename`](crate::Server::rename) and [`prefix`](crate::Server::prefix) the
    /// name that earlier rules gave the function, and everything else the final name.
    pub name: &'a str,
    /// The `tags(…)` of the annotation.
    pub tags: &'a [Cow<'static, str>],
    /// The crate that defines the function, as named in its `Cargo.toml`.
    pub package: &'a str,
    /// The module that defines the function, as `module_path!()` names it.
    pub module: &'a str,
    /// The function, qualified by its type if it is a method: `add` or `Notes::add`. Empty for a skill and for an entry
    /// that the program created.
    pub function: &'a str,
    /// The source of a function, which identifies it.
    source: Option<&'a SourceLocation>,
}

impl<'a> EntryInfo<'a> {
    /// Returns the address of the description of a function, which distinguishes it from other functions.
    pub(crate) fn address(&self) -> Option<usize> {
        self.source.map(|source| std::ptr::from_ref(source).addr())
    }

    pub(crate) fn of_skill(name: &'a str, path: &'a str, tags: &'a [Cow<'static, str>]) -> Self {
        Self { kind: EntryKind::Resource, name, tags, package: "", module: path, function: "", source: None }
    }

    /// Returns whether the function has a tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }

    /// Returns whether `C` registers the function: a function by its name, or the functions of a `#[tools]` block by
    /// the name of its type.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tools};
    /// struct Notes;
    ///
    /// #[tools]
    /// impl Notes {
    ///     /// Add a note.
    ///     #[tool]
    ///     fn add(text: &str) {}
    ///
    ///     /// Delete all notes.
    ///     #[tool]
    ///     fn clear() {}
    /// }
    ///
    /// let server = Server::empty("notes", "1.0.0")
    ///     .with::<Notes>()
    ///     .only(|entry| entry.function != "Notes::clear")
    ///     .prefix(|entry| entry.is::<Notes>(), "notes_");
    /// assert!(server.check().is_ok());
    /// ```
    pub fn is<C: Collect>(&self) -> bool {
        self.source.is_some_and(|source| C::entries().iter().any(|entry| std::ptr::eq(&entry.common().source, source)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{Context, handler::entry::ToolEntry};

    #[test]
    fn a_group_forgets_entries_that_do_not_exist_any_more() {
        let group = EntryGroup::default();
        for _ in 0..3 {
            let run = async |_: Map<String, Value>, _: Context| "a";
            group.add(&[ToolEntry::new("a", json!({"type": "object"}), run).into()]);
            assert_eq!(group.0.lock().len(), 1);
        }
    }
}

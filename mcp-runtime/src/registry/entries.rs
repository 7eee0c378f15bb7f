//! The registered entries.

use std::{
    any::TypeId,
    fmt,
    panic::Location,
    sync::{Arc, OnceLock},
};

use crate::{
    auth::Scopes,
    handler::{
        Context, Contract, Dependency, Encoding, SchemaProfile,
        entry::{CommonEntry, EntryInfo, EntryKind, PromptEntry, ResourceEntry, ServerFnEntry, ToolEntry},
    },
    revision::Revision,
};

/// The common part of every registered entry: the annotated function and the contract with its callers.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) kind: EntryKind,
    /// The name in the protocol.
    pub(crate) name: &'static str,
    pub(crate) common: &'static CommonEntry,
    pub(crate) contract: Arc<Contract>,
    pub(crate) uses_context: bool,
    /// The scopes that a caller needs. `None` if it needs none.
    pub(crate) scopes: Option<Arc<Scopes>>,
    /// The permitted values of each argument. Empty if its schema does not list them.
    choices: Vec<Arc<[String]>>,
    /// The list element in each revision, encoded on first use. Registries that share the entry also share the element.
    encoded: [OnceLock<Box<[u8]>>; Revision::ALL.len()],
}

/// A registered tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) entry: &'static ToolEntry,
    pub(crate) function: Function,
    /// The form in which its schemas are listed.
    pub(crate) schemas: SchemaProfile,
    /// The arguments that HTTP clients repeat in headers.
    pub(crate) headers: Vec<MirroredArgument>,
}

/// An argument that HTTP clients repeat in a header.
#[derive(Debug)]
pub(crate) struct MirroredArgument {
    /// The part of the header's name after `Mcp-Param-`.
    pub(crate) name: String,
    /// The chain of properties that leads to the argument.
    pub(crate) path: Vec<String>,
}

/// A registered prompt.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) entry: &'static PromptEntry,
    pub(crate) function: Function,
}

/// A registered resource or resource template.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) entry: &'static ResourceEntry,
    pub(crate) function: Function,
}

/// The source of the completions of an argument.
#[derive(Clone)]
pub(crate) enum CompletionSource {
    /// A function, and whether it takes the context.
    Function(&'static ServerFnEntry, bool),
    /// The permitted values.
    Values(Arc<[String]>),
}

impl Function {
    pub(super) fn new(
        kind: EntryKind,
        name: &'static str,
        common: &'static CommonEntry,
        contract: Contract,
        choices: Vec<Arc<[String]>>,
        scopes: &ScopeRules,
    ) -> Self {
        let uses_context = uses_context(common.dependencies);
        let encoded = std::array::from_fn(|_| OnceLock::new());
        let mut info = common.info(kind);
        info.name = name;
        let scopes = scopes.of(common, &info);
        Self { kind, name, common, contract: Arc::new(contract), uses_context, scopes, choices, encoded }
    }

    /// Returns the information that is passed to visibility rules, to the predicates of layers and to
    /// [`Handle::set_enabled`](crate::Handle::set_enabled).
    pub(crate) fn info(&self) -> EntryInfo<'static> {
        let mut info = self.common.info(self.kind);
        info.name = self.name;
        info
    }

    /// Returns the source of an argument's completions, or `None` if the function has no such argument.
    pub(crate) fn completion_source(&self, name: &str) -> Option<CompletionSource> {
        let index = self.contract.arguments.iter().position(|argument| argument.name == name)?;
        Some(match &self.contract.arguments[index].complete {
            Some(function) => CompletionSource::Function(function, takes_context(function)),
            None => CompletionSource::Values(Arc::clone(&self.choices[index])),
        })
    }

    /// Returns `true` if some argument can be completed.
    pub(super) fn completes(&self) -> bool {
        self.contract.arguments.iter().any(|argument| argument.complete.is_some())
            || self.choices.iter().any(|choices| !choices.is_empty())
    }

    /// Writes the list element. Calls `write` to encode it the first time.
    pub(super) fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding, write: impl FnOnce(&mut Vec<u8>)) {
        let encoded = self.encoded[encoding.dialect.revision() as usize].get_or_init(|| {
            let mut encoded = Vec::new();
            write(&mut encoded);
            encoded.into()
        });
        out.extend_from_slice(encoded);
    }
}

/// A registered entry of any kind.
pub(super) trait Registered {
    /// Returns the key by which entries of the kind are sorted and found: a name, a URI or a URI template.
    fn key(&self) -> &'static str;

    /// Returns the common part of the entry.
    fn function(&self) -> &Function;

    /// Writes the list element.
    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding);

    /// Returns the function that lists the resources of a template.
    fn list_fn(&self) -> Option<&'static ServerFnEntry> {
        None
    }

    /// Returns `true` if the entry's function, or a function that lists or completes for it, takes a reference to a
    /// type.
    fn takes(&self, wanted: TypeId) -> bool {
        let common = self.function().common;
        let mut dependencies = common.dependencies.to_vec();
        let completing = common.arguments.iter().filter_map(|argument| argument.complete.as_ref());
        self.list_fn().into_iter().chain(completing).for_each(|function| (function.dependencies)(&mut dependencies));
        dependencies.iter().any(|dependency| (dependency.type_id)() == wanted)
    }
}

/// Returns `true` if a server function takes the context.
pub(super) fn takes_context(function: &ServerFnEntry) -> bool {
    let mut dependencies = Vec::new();
    (function.dependencies)(&mut dependencies);
    uses_context(&dependencies)
}

fn uses_context(dependencies: &[Dependency]) -> bool {
    dependencies.iter().any(|dependency| (dependency.type_id)() == TypeId::of::<Context>())
}

/// The author's rules that add scopes to functions. Clones share the rules.
#[derive(Clone, Default)]
pub(crate) struct ScopeRules(Vec<ScopeRule>);

#[derive(Clone)]
struct ScopeRule {
    applies: Arc<dyn Fn(&EntryInfo<'_>) -> bool + Send + Sync>,
    scopes: Scopes,
    location: &'static Location<'static>,
}

impl ScopeRules {
    /// Adds a rule.
    pub(crate) fn push(
        &mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        scopes: Scopes,
        location: &'static Location<'static>,
    ) {
        self.0.push(ScopeRule { applies: Arc::new(applies), scopes, location });
    }

    /// Returns the scopes that a function requires, or `None` if it requires none.
    fn of(&self, common: &'static CommonEntry, info: &EntryInfo<'_>) -> Option<Arc<Scopes>> {
        let rules = self.0.iter().filter(|rule| (rule.applies)(info));
        let scopes = rules.fold(Scopes::of_entry(common.scopes), |all, rule| all.and(rule.scopes.clone()));
        (!scopes.is_empty()).then(|| Arc::new(scopes))
    }

    /// Returns the problems with the rules themselves.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|ScopeRule { scopes, location, .. }| {
            Some(format!(
                "`Server::require_scopes_for` ({}:{}): {}",
                location.file(),
                location.line(),
                scopes.problem()?
            ))
        })
    }
}

impl fmt::Debug for ScopeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|rule| &rule.scopes)).finish()
    }
}

//! The registered entries.

use std::{any::TypeId, fmt, panic::Location, sync::Arc};

use crate::{
    auth::Scopes,
    handler::{
        Encoding, Function, SchemaProfile,
        entry::{CommonEntry, EntryInfo, PromptEntry, ResourceEntry, ServerFnEntry, ToolEntry},
    },
};

/// A registered tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) entry: &'static ToolEntry,
    pub(crate) function: Arc<Function>,
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
    pub(crate) function: Arc<Function>,
}

/// A registered resource or resource template.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) entry: &'static ResourceEntry,
    pub(crate) function: Arc<Function>,
}

/// A registered entry of any kind.
pub(super) trait Registered {
    /// Returns the key by which entries of the kind are sorted and found: a name, a URI or a URI template.
    fn key(&self) -> &'static str;

    /// Returns the common part of the entry.
    fn function(&self) -> &Arc<Function>;

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
    pub(super) fn of(&self, common: &'static CommonEntry, info: &EntryInfo<'_>) -> Option<Scopes> {
        let rules = self.0.iter().filter(|rule| (rule.applies)(info));
        let scopes = rules.fold(Scopes::of_entry(common.scopes), |all, rule| all.and(rule.scopes.clone()));
        (!scopes.is_empty()).then_some(scopes)
    }

    /// Returns the problems with the rules themselves.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|ScopeRule { scopes, location, .. }| {
            Some(format!("`Server::scopes_for` ({}:{}): {}", location.file(), location.line(), scopes.problem()?))
        })
    }
}

impl fmt::Debug for ScopeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|rule| &rule.scopes)).finish()
    }
}

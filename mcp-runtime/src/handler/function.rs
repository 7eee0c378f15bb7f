//! A registered function.

use std::{
    any::TypeId,
    sync::{Arc, OnceLock},
};

use super::{
    Context, Contract, Dependency, Encoding,
    entry::{CommonEntry, EntryInfo, EntryKind, Hints, ServerFnEntry},
};
use crate::{auth::Scopes, revision::Revision};

/// The common part of every registered entry: the annotated function and the contract with its callers.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) kind: EntryKind,
    /// The name in the protocol.
    pub(crate) name: &'static str,
    pub(crate) common: &'static CommonEntry,
    /// The annotations of a tool.
    pub(crate) hints: Hints,
    pub(crate) contract: Contract,
    pub(crate) uses_context: bool,
    /// The scopes that a caller needs. `None` if it needs none.
    pub(crate) scopes: Option<Scopes>,
    /// The permitted values of each argument. Empty if its schema does not list them.
    pub(crate) choices: Vec<Arc<[String]>>,
    /// The list element in each revision, encoded on first use. Registries that share the entry also share the element.
    pub(crate) encoded: [OnceLock<Box<[u8]>>; Revision::ALL.len()],
}

/// The source of the completions of an argument.
#[derive(Clone)]
pub(crate) enum CompletionSource {
    /// A function, and whether it takes the context.
    Function(&'static ServerFnEntry, bool),
    /// The permitted values.
    Values(Arc<[String]>),
}

impl CompletionSource {
    /// Returns whether completing takes the context.
    pub(crate) fn takes_context(&self) -> bool {
        matches!(self, Self::Function(_, true))
    }
}

impl Function {
    /// Returns the information that is passed to visibility rules, to the predicates of layers and to
    /// [`Handle::set_enabled`](crate::Handle::set_enabled).
    pub(crate) fn info(&self) -> EntryInfo<'static> {
        self.common.info(self.kind, self.name)
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
    pub(crate) fn completes(&self) -> bool {
        self.contract.arguments.iter().any(|argument| argument.complete.is_some())
            || self.choices.iter().any(|choices| !choices.is_empty())
    }

    /// Writes the list element. Calls `write` to encode it the first time.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding, write: impl FnOnce(&mut Vec<u8>)) {
        let encoded = self.encoded[encoding.dialect.revision() as usize].get_or_init(|| {
            let mut encoded = Vec::new();
            write(&mut encoded);
            encoded.into()
        });
        out.extend_from_slice(encoded);
    }
}

/// Returns `true` if a server function takes the context.
pub(crate) fn takes_context(function: &ServerFnEntry) -> bool {
    let mut dependencies = Vec::new();
    (function.dependencies)(&mut dependencies);
    uses_context(&dependencies)
}

/// Returns `true` if the context is one of the parameters that the server provides.
pub(crate) fn uses_context(dependencies: &[Dependency]) -> bool {
    dependencies.iter().any(|dependency| (dependency.type_id)() == TypeId::of::<Context>())
}

use syn::{Path, Type};

use super::{Owner, Prompt, Resource, Tool};
use crate::{errors::Errors, syntax::Method};

/// The annotated methods of a type.
pub(crate) struct Tools {
    pub(crate) of: Type,
    pub(crate) entries: Vec<Entry>,
    pub(crate) krate: Option<Path>,
}

/// One of them.
pub(crate) enum Entry {
    Tool(Tool),
    Resource(Resource),
    Prompt(Prompt),
}

impl Tools {
    pub(crate) fn check(of: Type, methods: Vec<Method>, krate: Option<Path>, errors: &mut Errors) -> Self {
        let owner = Owner::Type(Box::new(of.clone()));
        let check = |method| match method {
            Method::Tool(tool) => Entry::Tool(Tool::check(*tool, &owner, errors).0),
            Method::Resource(resource) => Entry::Resource(Resource::check(*resource, &owner, errors).0),
            Method::Prompt(prompt) => Entry::Prompt(Prompt::check(*prompt, &owner, errors).0),
        };
        Self { of, entries: methods.into_iter().map(check).collect(), krate }
    }
}

/// Refuses what cannot be collected as a whole; true if the block can be.
pub(crate) fn check_block(block: &syn::ItemImpl, errors: &mut Errors) -> bool {
    if let Some((of, _)) = &block.trait_ {
        let help = "put the functions into an `impl` block of the type itself";
        errors.help(of, "`#[tools]` goes on an `impl` block of a type, not of a trait", help);
        return false;
    }
    if block.generics.params.is_empty() {
        return true;
    }
    let message = "`#[tools]` cannot collect from a generic type: a request names no types";
    errors.help(&block.generics.params, message, "write the block for one type, such as `impl Notes<Sqlite>`");
    false
}

//! `#[tools]`

use syn::{Path, Type};

use super::{EnclosingType, Prompt, Resource, Tool, common::checked_scopes, resource::reject_public};
use crate::{
    errors::Errors,
    syntax::{Method, ScopeSyntax},
};

/// The annotated methods of a type.
pub(crate) struct Tools {
    pub(crate) ty: Type,
    pub(crate) entries: Vec<Entry>,
    pub(crate) crate_path: Option<Path>,
}

/// An annotated method.
pub(crate) enum Entry {
    Tool(Tool),
    Resource(Box<Resource>),
    Prompt(Prompt),
}

impl Tools {
    pub(crate) fn check(
        ty: Type,
        methods: Vec<Method>,
        scopes: &[ScopeSyntax],
        crate_path: Option<Path>,
        errors: &mut Errors,
    ) -> Self {
        let enclosing_type = EnclosingType::Impl(Box::new(ty.clone()));
        let check = |method| match method {
            Method::Tool(tool) => Entry::Tool(Tool::check(*tool, &enclosing_type, errors).0),
            Method::Resource(resource) => {
                // Scopes of its own are checked with the resource.
                let has_only_common = !scopes.is_empty() && resource.common.scopes.is_empty();
                if let Some((true, span)) = resource.public.filter(|_| has_only_common) {
                    reject_public(span, errors);
                }
                Entry::Resource(Box::new(Resource::check(*resource, &enclosing_type, errors).0))
            }
            Method::Prompt(prompt) => Entry::Prompt(Prompt::check(*prompt, &enclosing_type, errors).0),
        };
        let mut entries: Vec<_> = methods.into_iter().map(check).collect();
        let scopes = checked_scopes(scopes, errors);
        entries.iter_mut().for_each(|entry| entry.add_scopes(&scopes));
        Self { ty, entries, crate_path }
    }
}

impl Entry {
    /// Adds the scopes of the block to the scopes of the method.
    fn add_scopes(&mut self, scopes: &[Vec<String>]) {
        let common = match self {
            Self::Tool(tool) => &mut tool.common,
            Self::Resource(resource) => &mut resource.common,
            Self::Prompt(prompt) => &mut prompt.common,
        };
        let own = std::mem::take(&mut common.scopes);
        common.scopes = scopes.to_vec();
        common.scopes.extend(own.into_iter().filter(|group| !scopes.contains(group)));
    }
}

/// Checks that the methods of a block can be collected.
pub(crate) fn check_block(block: &syn::ItemImpl, errors: &mut Errors) -> bool {
    if let Some((path, _)) = &block.trait_ {
        let help = "move the functions to an inherent `impl` block";
        errors.help(path, "`#[tools]` cannot be applied to the `impl` block of a trait", help);
        return false;
    }
    if block.generics.params.is_empty() {
        return true;
    }
    let message = "`#[tools]` cannot be applied to a generic `impl` block: a request cannot specify types";
    errors.help(&block.generics.params, message, "use a concrete type, such as `impl Notes<Sqlite>`");
    false
}

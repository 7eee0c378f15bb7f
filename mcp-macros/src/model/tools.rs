//! `#[tools]`

use syn::{Path, Type};

use super::{Common, EnclosingType, Kind, Resource, Tool, common::checked_scopes, resource::reject_public};
use crate::{
    errors::Errors,
    syntax::{Function, Method, PromptSyntax, ScopeSyntax},
};

/// The annotated methods of a type.
pub(crate) struct Tools {
    pub(crate) ty: Type,
    pub(crate) entries: Vec<Entry>,
    pub(crate) crate_path: Option<Path>,
}

/// An annotated function or method.
pub(crate) enum Entry {
    Tool(Tool),
    Resource(Box<Resource>),
    Prompt(Common),
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
        let check = |method| {
            // Scopes of its own are checked with the resource.
            if let Method::Resource(resource) = &method
                && let (Some((true, span)), true) = (resource.public, resource.common.scopes.is_empty())
                && !scopes.is_empty()
            {
                reject_public(span, errors);
            }
            Entry::check(method, &enclosing_type, errors).0
        };
        let mut entries: Vec<_> = methods.into_iter().map(check).collect();
        let scopes = checked_scopes(scopes, errors);
        entries.iter_mut().for_each(|entry| entry.add_scopes(&scopes));
        Self { ty, entries, crate_path }
    }
}

impl Entry {
    /// Checks an annotated function and returns it with its tokens.
    pub(crate) fn check(given: Method, enclosing_type: &EnclosingType, errors: &mut Errors) -> (Self, Function) {
        match given {
            Method::Tool(tool) => {
                let (tool, function) = Tool::check(*tool, enclosing_type, errors);
                (Self::Tool(tool), function)
            }
            Method::Resource(resource) => {
                let (resource, function) = Resource::check(*resource, enclosing_type, errors);
                (Self::Resource(Box::new(resource)), function)
            }
            Method::Prompt(prompt) => {
                let PromptSyntax { mut function, common } = *prompt;
                let common = Common::check(Kind::Prompt, enclosing_type, common, &mut function, errors);
                (Self::Prompt(common), function)
            }
        }
    }

    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Tool(tool) => &tool.common,
            Self::Resource(resource) => &resource.common,
            Self::Prompt(common) => common,
        }
    }

    /// Adds the scopes of the block to the scopes of the method.
    fn add_scopes(&mut self, scopes: &[Vec<String>]) {
        let common = match self {
            Self::Tool(tool) => &mut tool.common,
            Self::Resource(resource) => &mut resource.common,
            Self::Prompt(common) => common,
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

//! `#[tools] impl Type { … }`

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{ImplItem, ItemImpl, Meta, Path};

use super::{
    Function, PromptSyntax, ResourceSyntax, ScopeSyntax, ToolSyntax, common,
    function::{RawFunction, kind_of},
    options::{OptionSpec, Options},
};
use crate::errors::Errors;

/// A parsed `impl` block without the attributes of the macros, and its annotated methods.
pub(crate) struct ToolsSyntax {
    pub(crate) block: ItemImpl,
    pub(crate) methods: Vec<Method>,
    /// The scopes that all methods require.
    pub(crate) scopes: Vec<ScopeSyntax>,
    pub(crate) crate_path: Option<Path>,
}

/// An annotated method.
pub(crate) enum Method {
    Tool(Box<ToolSyntax>),
    Resource(Box<ResourceSyntax>),
    Prompt(Box<PromptSyntax>),
}

impl Method {
    fn function(&self) -> &Function {
        match self {
            Self::Tool(tool) => &tool.function,
            Self::Resource(resource) => &resource.function,
            Self::Prompt(prompt) => &prompt.function,
        }
    }
}

impl ToolsSyntax {
    pub(crate) fn read(given: TokenStream, mut block: ItemImpl, errors: &mut Errors) -> Self {
        static OTHERS: [OptionSpec; 8] = common::OTHERS;
        let mut options = Options::new("tools", OTHERS.iter().filter(|known| is_of_block(known.name)));
        options.read(given, errors);
        let (scopes, crate_path) = (options.list("scopes", errors), options.path("crate", errors));
        let mut methods = Vec::new();
        for item in &mut block.items {
            let ImplItem::Fn(method) = item else { continue };
            if !method.attrs.iter().any(|attribute| kind_of(attribute).is_some()) {
                continue;
            }
            let mut raw = RawFunction::from(method.clone());
            let kinds = raw.take_kinds();
            let method = read(raw, &kinds, errors);
            *item = ImplItem::Verbatim(method.function().to_token_stream());
            methods.push(method);
        }
        if methods.is_empty() && errors.is_empty() {
            errors.help(
                block.impl_token,
                "this `impl` block has no annotated methods",
                "annotate methods with `#[tool]`, `#[resource]` or `#[prompt]`",
            );
        }
        Self { block, methods, scopes, crate_path }
    }
}

/// Returns whether an option applies to a whole block.
fn is_of_block(option: &str) -> bool {
    matches!(option, "scopes" | "crate")
}

fn read(raw: RawFunction, kinds: &[syn::Attribute], errors: &mut Errors) -> Method {
    let (attribute, others) = kinds.split_first().expect("an annotated method has an attribute");
    others.iter().for_each(|other| reject_second_kind(other, errors));
    let given = match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let function = Function::new(raw, errors);
    match kind_of(attribute) {
        Some("resource") => Method::Resource(Box::new(ResourceSyntax::read(given, function, errors))),
        Some("prompt") => Method::Prompt(Box::new(PromptSyntax::read(given, function, errors))),
        _ => Method::Tool(Box::new(ToolSyntax::read(given, function, errors))),
    }
}

/// Rejects a second attribute of the macros.
pub(super) fn reject_second_kind(attribute: &syn::Attribute, errors: &mut Errors) {
    errors.help(
        attribute.path(),
        "a function can be only one of `tool`, `resource` and `prompt`",
        "write a second function that calls the first",
    );
}

impl Function {
    /// Parses a function outside of an `impl` block.
    pub(crate) fn read(attribute: &str, item: TokenStream, errors: &mut Errors) -> Option<Self> {
        let mut raw: RawFunction = match syn::parse2(item.clone()) {
            Ok(raw) => raw,
            Err(error) => {
                match syn::parse2(item) {
                    Ok(syn::Item::Fn(_)) | Err(_) => errors.push(error),
                    Ok(syn::Item::Impl(_)) => {
                        let message = format!("`{attribute}` can only be applied to a function");
                        let help = "annotate the `impl` block with `#[tools]`, and its methods with";
                        errors.at(Span::call_site(), format_args!("{message}\nhelp: {help} `{attribute}`"));
                    }
                    Ok(_) => {
                        errors.at(Span::call_site(), format_args!("`{attribute}` can only be applied to a function"))
                    }
                }
                return None;
            }
        };
        raw.take_kinds().iter().for_each(|other| reject_second_kind(other, errors));
        Some(Self::new(raw, errors))
    }
}

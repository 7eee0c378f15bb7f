//! `#[tools] impl Type { … }`

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{ImplItem, ItemImpl, Meta, Path};

use super::{
    Function, PromptSyntax, ResourceSyntax, ToolSyntax,
    function::{Unread, kind_of},
    server::only_crate,
};
use crate::errors::Errors;

/// An impl block as written, and its annotated methods, which stand in `block` without our attributes.
pub(crate) struct ToolsSyntax {
    pub(crate) block: ItemImpl,
    pub(crate) methods: Vec<Method>,
    pub(crate) krate: Option<Path>,
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
        let krate = only_crate("tools", given, errors);
        let mut methods = Vec::new();
        for item in &mut block.items {
            let ImplItem::Fn(method) = item else { continue };
            if !method.attrs.iter().any(|attribute| kind_of(attribute).is_some()) {
                continue;
            }
            let mut unread = Unread::from(method.clone());
            let kinds = unread.take_kinds();
            let method = read(unread, &kinds, errors);
            *item = ImplItem::Verbatim(method.function().to_token_stream());
            methods.push(method);
        }
        if methods.is_empty() && errors.is_empty() {
            errors.help(
                block.impl_token,
                "there is nothing to collect in this `impl` block",
                "annotate methods with `#[tool]`, `#[resource]` or `#[prompt]`",
            );
        }
        Self { block, methods, krate }
    }
}

fn read(unread: Unread, kinds: &[syn::Attribute], errors: &mut Errors) -> Method {
    let (attribute, others) = kinds.split_first().expect("an annotated method has an attribute");
    others.iter().for_each(|other| one_kind(other, errors));
    let given = match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let function = Function::new(unread, errors);
    match kind_of(attribute) {
        Some("resource") => Method::Resource(Box::new(ResourceSyntax::read(given, function, errors))),
        Some("prompt") => Method::Prompt(Box::new(PromptSyntax::read(given, function, errors))),
        _ => Method::Tool(Box::new(ToolSyntax::read(given, function, errors))),
    }
}

/// Refuses a second attribute of ours.
pub(super) fn one_kind(attribute: &syn::Attribute, errors: &mut Errors) {
    errors.help(
        attribute.path(),
        "a function is one of `tool`, `resource` and `prompt`, not several",
        "write a second function that calls the first",
    );
}

impl Function {
    /// Reads a function that stands by itself, not in an impl block.
    pub(crate) fn read(attribute: &str, item: TokenStream, errors: &mut Errors) -> Option<Self> {
        let mut unread: Unread = match syn::parse2(item.clone()) {
            Ok(unread) => unread,
            Err(error) => {
                match syn::parse2(item) {
                    Ok(syn::Item::Fn(_)) | Err(_) => errors.push(error),
                    Ok(_) => errors.at(Span::call_site(), format_args!("`{attribute}` goes on a function")),
                }
                return None;
            }
        };
        unread.take_kinds().iter().for_each(|other| one_kind(other, errors));
        Some(Self::new(unread, errors))
    }
}

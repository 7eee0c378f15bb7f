//! A function, taken apart: what stays in the source, and what is the macro's.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, ImplItemFn, Pat, Receiver, Signature, Type, Visibility,
    parse::{Parse, ParseStream},
};

use super::{ArgumentSyntax, Docs};
use crate::errors::Errors;

/// A function without the attributes that are ours.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    body: TokenStream,
    pub(crate) docs: Docs,
    pub(crate) receiver: Option<Receiver>,
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter, and what is said about it.
pub(crate) struct Parameter {
    pub(crate) pattern: Pat,
    pub(crate) of: Type,
    pub(crate) docs: Docs,
    /// The attribute, if there is one.
    pub(crate) attribute: Option<Attribute>,
    pub(crate) options: ArgumentSyntax,
    /// A condition, which cannot be known here.
    pub(crate) condition: Option<Attribute>,
}

impl Function {
    /// Reads a function and takes our attributes off its parameters.
    pub(super) fn new(unread: Unread, errors: &mut Errors) -> Self {
        let Unread { attributes, visibility, mut signature, body } = unread;
        let mut receiver = None;
        let mut parameters = Vec::new();
        for input in &mut signature.inputs {
            match input {
                FnArg::Receiver(this) => {
                    this.attrs.retain(|attribute| !is_ours(attribute));
                    receiver = Some(this.clone());
                }
                FnArg::Typed(parameter) => {
                    let attributes = std::mem::take(&mut parameter.attrs);
                    let (ours, others): (Vec<_>, Vec<_>) = attributes.into_iter().partition(is_ours);
                    let (docs, arg): (Vec<_>, Vec<_>) =
                        ours.into_iter().partition(|attribute| attribute.path().is_ident("doc"));
                    parameters.push(Parameter {
                        pattern: (*parameter.pat).clone(),
                        of: (*parameter.ty).clone(),
                        docs: Docs::read(&docs),
                        options: ArgumentSyntax::read(&arg, errors),
                        attribute: arg.into_iter().next(),
                        condition: others.iter().find(|other| is_condition(other)).cloned(),
                    });
                    parameter.attrs = others;
                }
            }
        }
        Self { docs: Docs::read(&attributes), attributes, visibility, signature, body, receiver, parameters }
    }

    /// The `#[cfg]`s that decide whether the function is there at all.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|attribute| is_condition(attribute))
    }

    /// Says whether it is only declared, as in a trait.
    pub(crate) fn is_bodiless(&self) -> bool {
        matches!(self.body.clone().into_iter().next(), Some(TokenTree::Punct(_)) | None)
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attributes, visibility, signature, body, .. } = self;
        tokens.extend(quote!(#(#attributes)* #visibility #signature #body));
    }
}

/// A function whose parameters still bear our attributes.
pub(crate) struct Unread {
    pub(super) attributes: Vec<Attribute>,
    pub(super) visibility: Visibility,
    pub(super) signature: Signature,
    pub(super) body: TokenStream,
}

impl Unread {
    /// Takes the attributes off that make a function a tool, a resource or a prompt.
    pub(super) fn take_kinds(&mut self) -> Vec<Attribute> {
        let is_kind = |attribute: &Attribute| kind_of(attribute).is_some();
        let (kinds, others) = std::mem::take(&mut self.attributes).into_iter().partition(is_kind);
        self.attributes = others;
        kinds
    }
}

impl Parse for Unread {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Ok(Self {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            body: input.parse()?,
        })
    }
}

impl From<ImplItemFn> for Unread {
    fn from(method: ImplItemFn) -> Self {
        Self {
            attributes: method.attrs,
            visibility: method.vis,
            signature: method.sig,
            body: method.block.into_token_stream(),
        }
    }
}

/// The name of the attribute, if it is one that makes a function an entry.
pub(super) fn kind_of(attribute: &Attribute) -> Option<&'static str> {
    let last = &attribute.path().segments.last()?.ident;
    ["tool", "resource", "prompt"].into_iter().find(|kind| last == kind && attribute.path().segments.len() <= 2)
}

fn is_ours(attribute: &Attribute) -> bool {
    attribute.path().is_ident("arg") || attribute.path().is_ident("doc")
}

fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

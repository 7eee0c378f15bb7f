//! Functions without the attributes of the macros, and their parameters with the options of `#[arg(…)]`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Expr, ExprLit, FnArg, ImplItemFn, Item, Lit, LitStr, Meta, MetaNameValue, Pat, Path, Receiver,
    Signature, Type, Visibility,
    parse::{Parse, ParseStream},
};

use super::{
    Docs, Kind,
    options::{OptionSpec, Options, spec},
};
use crate::errors::Errors;

/// The keywords of items inside of which `Self` may have a meaning of its own.
const NESTED_ITEMS: [&str; 6] = ["impl", "trait", "struct", "enum", "union", "macro_rules"];

/// A function without the attributes of the macros.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    body: TokenStream,
    pub(crate) docs: Docs,
    pub(crate) receiver: Option<Receiver>,
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter and its options.
pub(crate) struct Parameter {
    pub(crate) pattern: Pat,
    pub(crate) ty: Type,
    pub(crate) docs: Docs,
    /// The `#[arg(…)]` attribute.
    pub(crate) attribute: Option<Attribute>,
    pub(crate) options: ArgumentSyntax,
    /// A `#[cfg]`, which is not supported.
    pub(crate) condition: Option<Attribute>,
}

impl Function {
    /// Parses a function outside of an `impl` block.
    pub(crate) fn read(kind: Kind, item: TokenStream, errors: &mut Errors) -> Option<Self> {
        let attribute = kind.attribute();
        let mut raw: RawFunction = match syn::parse2(item.clone()) {
            Ok(raw) => raw,
            Err(error) => {
                match syn::parse2(item) {
                    Ok(Item::Fn(_)) | Err(_) => errors.push(error),
                    Ok(Item::Impl(_)) => {
                        let message = format!("`{attribute}` can only be applied to a function");
                        let help = "annotate the `impl` block with `#[tools]`, and its methods with";
                        errors.help_at(Span::call_site(), message, format_args!("{help} `{attribute}`"));
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

    /// Parses a function and removes the attributes of the macros from its parameters.
    pub(super) fn new(raw: RawFunction, errors: &mut Errors) -> Self {
        let RawFunction { mut attributes, visibility, mut signature, body } = raw;
        for misplaced in attributes.extract_if(.., |attribute| attribute.path().is_ident("arg")) {
            let help = "write it before the parameter: `fn add(#[arg(range = 1..=9)] count: u8)`";
            errors.help(misplaced.path(), "`#[arg(…)]` belongs to a parameter, not to the function", help);
        }
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
                        ty: (*parameter.ty).clone(),
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

    /// Returns the `#[cfg]`s of the function.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|attribute| is_condition(attribute))
    }

    /// Returns the note of `#[deprecated]`, as a paragraph for the description.
    pub(crate) fn deprecation(&self) -> Option<String> {
        let attribute = self.attributes.iter().find(|attribute| attribute.path().is_ident("deprecated"))?;
        let (mut since, mut note) = (String::new(), String::new());
        // rustc reports an attribute that is malformed.
        match &attribute.meta {
            Meta::NameValue(MetaNameValue { value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. }) => {
                note = format!(": {}", text.value());
            }
            _ => {
                let _ = attribute.parse_nested_meta(|option| {
                    let text: LitStr = option.value()?.parse()?;
                    if option.path.is_ident("since") {
                        since = format!(" since {}", text.value());
                    } else {
                        note = format!(": {}", text.value());
                    }
                    Ok(())
                });
            }
        }
        Some(format!("Deprecated{since}{note}"))
    }

    /// Returns the first `Self`, which refers to the type of an `impl` block around the function.
    pub(crate) fn enclosing_self(&self) -> Option<Ident> {
        enclosing_self(self.signature.to_token_stream()).or_else(|| enclosing_self(self.body.clone()))
    }

    /// Gives a function without a body this body and return type.
    #[cfg(feature = "ui")]
    pub(crate) fn define(&mut self, output: syn::ReturnType, body: TokenStream) {
        (self.signature.output, self.body) = (output, body);
    }

    /// Returns whether the function is only declared, as in a trait.
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

/// A function with the attributes of the macros.
pub(crate) struct RawFunction {
    pub(super) attributes: Vec<Attribute>,
    pub(super) visibility: Visibility,
    pub(super) signature: Signature,
    pub(super) body: TokenStream,
}

impl RawFunction {
    /// Removes and returns the attributes `tool`, `resource` and `prompt`.
    pub(super) fn take_kinds(&mut self) -> Vec<Attribute> {
        self.attributes.extract_if(.., |attribute| kind_of(attribute).is_some()).collect()
    }
}

impl Parse for RawFunction {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Ok(Self {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            body: input.parse()?,
        })
    }
}

impl From<ImplItemFn> for RawFunction {
    fn from(method: ImplItemFn) -> Self {
        Self {
            attributes: method.attrs,
            visibility: method.vis,
            signature: method.sig,
            body: method.block.into_token_stream(),
        }
    }
}

/// Returns the first `Self`, except in the input of macros and after the beginning of a nested item.
fn enclosing_self(tokens: TokenStream) -> Option<Ident> {
    let mut is_macro = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(ident) if ident == "Self" => return Some(ident.clone()),
            TokenTree::Ident(ident) if NESTED_ITEMS.iter().any(|keyword| ident == keyword) => return None,
            TokenTree::Group(group) if !is_macro => {
                let found = enclosing_self(group.stream());
                if found.is_some() {
                    return found;
                }
            }
            _ => {}
        }
        is_macro = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '!');
    }
    None
}

/// Returns the kind of function that an attribute defines, if that is one of the kinds of methods.
pub(super) fn kind_of(attribute: &Attribute) -> Option<Kind> {
    let segments = &attribute.path().segments;
    let last = segments.last().filter(|_| segments.len() <= 2)?;
    let kinds = [("tool", Kind::Tool), ("resource", Kind::Resource), ("prompt", Kind::Prompt)];
    kinds.into_iter().find_map(|(name, kind)| (last.ident == name).then_some(kind))
}

/// Rejects a second attribute of the macros.
pub(super) fn reject_second_kind(attribute: &Attribute, errors: &mut Errors) {
    errors.help(
        attribute.path(),
        "a function can be only one of `tool`, `resource` and `prompt`",
        "write a second function that calls the first",
    );
}

fn is_ours(attribute: &Attribute) -> bool {
    attribute.path().is_ident("arg") || attribute.path().is_ident("doc")
}

fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

pub(super) static ARGUMENT: [OptionSpec; 13] = [
    spec("default", "default` or `default = 10"),
    spec("range", "range = 1..=100"),
    spec("length", "length = 1..=80"),
    spec("pattern", r#"pattern = "^[a-z]+$""#),
    spec("format", r#"format = "date-time""#),
    spec("examples", r#"examples("one", "two", …)"#),
    spec("rename", r#"rename = "aName""#),
    spec("title", r#"title = "For people""#),
    spec("description", r#"description = "For the model""#),
    spec("header", r#"header = "Region""#),
    spec("complete", "complete = path::to::function"),
    spec("env", r#"env = "VARIABLE""#),
    spec("flatten", "flatten` or `flatten = true"),
];

/// The parsed options of a parameter.
pub(crate) struct ArgumentSyntax {
    /// The optional value and the position of the option.
    pub(crate) default: Option<(Option<Expr>, Span)>,
    pub(crate) range: Option<Expr>,
    pub(crate) length: Option<Expr>,
    pub(crate) pattern: Option<LitStr>,
    pub(crate) format: Option<LitStr>,
    pub(crate) examples: Vec<Expr>,
    pub(crate) rename: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) description: Option<Expr>,
    pub(crate) header: Option<LitStr>,
    pub(crate) complete: Option<Path>,
    pub(crate) env: Option<LitStr>,
    pub(crate) flatten: Option<(bool, Span)>,
}

impl ArgumentSyntax {
    fn read(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut options = Options::new("arg", &ARGUMENT);
        options.read_attributes(attributes, errors);
        Self::of(&mut options, errors)
    }

    /// Reads the options of a parameter or of a field, which supports only some of them.
    pub(super) fn of(options: &mut Options, errors: &mut Errors) -> Self {
        Self {
            default: options.optional_value("default", errors),
            range: options.value("range", errors),
            length: options.value("length", errors),
            pattern: options.text("pattern", errors),
            format: options.text("format", errors),
            examples: options.list("examples", errors),
            rename: options.text("rename", errors),
            title: options.text("title", errors),
            description: options.text_or_macro("description", errors),
            header: options.text("header", errors),
            complete: options.path("complete", errors),
            env: options.text("env", errors),
            flatten: options.boolean("flatten", errors),
        }
    }
}

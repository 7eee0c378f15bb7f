//! `#[derive(Elicit)]`

use proc_macro2::{Ident, Span, TokenStream};
use syn::{
    Attribute, Fields, Generics, Item, ItemEnum, ItemStruct, LitStr, Meta, Path, Type, punctuated::Punctuated, token,
};

use super::{
    ArgumentSyntax, Docs, common,
    options::{OptionSpec, Options, spec},
};
use crate::errors::Errors;

pub(super) static FIELD: [OptionSpec; 7] = [
    spec("default", "default` or `default = 10"),
    spec("range", "range = 1..=100"),
    spec("length", "length = 1..=80"),
    spec("format", r#"format = "date-time""#),
    spec("rename", r#"rename = "aName""#),
    spec("title", r#"title = "For people""#),
    spec("description", r#"description = "What to enter""#),
];

pub(super) static VARIANT: [OptionSpec; 2] =
    [spec("rename", r#"rename = "aName""#), spec("title", r#"title = "For people""#)];

pub(super) static ENUM: [OptionSpec; 1] = [spec("legacy_names", "legacy_names` or `legacy_names = true")];

/// The parsed item of `#[derive(Elicit)]`.
pub(crate) struct ElicitSyntax {
    pub(crate) name: Ident,
    pub(crate) generics: Generics,
    pub(crate) item: ItemSyntax,
    pub(crate) crate_path: Option<Path>,
}

/// The kind of item.
pub(crate) enum ItemSyntax {
    Struct(Vec<FieldSyntax>),
    Enum { legacy_names: Option<(bool, Span)>, variants: Vec<VariantSyntax> },
}

/// A field and its options.
pub(crate) struct FieldSyntax {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) docs: Docs,
    pub(crate) options: ArgumentSyntax,
}

/// A variant and its options.
pub(crate) struct VariantSyntax {
    pub(crate) name: Ident,
    pub(crate) fields: Fields,
    pub(crate) rename: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
}

impl ElicitSyntax {
    pub(crate) fn read(item: TokenStream, errors: &mut Errors) -> Option<Self> {
        match errors.keep(syn::parse2(item))? {
            Item::Struct(item) => Some(Self::of_struct(item, errors)),
            Item::Enum(item) => Some(Self::of_enum(item, errors)),
            _ => {
                errors.at(Span::call_site(), "`#[derive(Elicit)]` can only be applied to a struct or an enum");
                None
            }
        }
    }

    fn of_struct(item: ItemStruct, errors: &mut Errors) -> Self {
        let mut options = read(&item.attrs, &[], errors);
        let fields = match item.fields {
            Fields::Named(fields) => fields.named,
            Fields::Unit => Punctuated::new(),
            Fields::Unnamed(fields) => {
                errors.help(
                    fields,
                    "the fields of a form must be named",
                    format_args!("write `struct {} {{ name: Type, … }}`", item.ident),
                );
                Punctuated::<_, token::Comma>::new()
            }
        };
        let field = |field: syn::Field| Some(FieldSyntax::read(field.ident?, field.ty, &field.attrs, errors));
        let item_syntax = ItemSyntax::Struct(fields.into_iter().filter_map(field).collect());
        let crate_path = options.path("crate", errors);
        Self { name: item.ident, generics: item.generics, item: item_syntax, crate_path }
    }

    fn of_enum(item: ItemEnum, errors: &mut Errors) -> Self {
        let mut options = read(&item.attrs, &ENUM, errors);
        let legacy_names = options.boolean("legacy_names", errors);
        let crate_path = options.path("crate", errors);
        let variants = item.variants.into_iter().map(|variant| VariantSyntax::read(variant, errors)).collect();
        let item_syntax = ItemSyntax::Enum { legacy_names, variants };
        Self { name: item.ident, generics: item.generics, item: item_syntax, crate_path }
    }
}

impl FieldSyntax {
    fn read(name: Ident, ty: Type, attributes: &[Attribute], errors: &mut Errors) -> Self {
        reject_arg(attributes, errors);
        let mut options = Options::new("elicit", &FIELD);
        read_into(&mut options, attributes, errors);
        let options = ArgumentSyntax::of(&mut options, errors);
        Self { name, ty, docs: Docs::read(attributes), options }
    }
}

impl VariantSyntax {
    fn read(variant: syn::Variant, errors: &mut Errors) -> Self {
        let mut options = Options::new("elicit", &VARIANT);
        read_into(&mut options, &variant.attrs, errors);
        let (rename, title) = (options.text("rename", errors), options.text("title", errors));
        Self { name: variant.ident, fields: variant.fields, rename, title }
    }
}

/// Parses the options of the item itself.
fn read(attributes: &[Attribute], known: &'static [OptionSpec], errors: &mut Errors) -> Options {
    let of_all = common::OTHERS.iter().filter(|known| known.name == "crate");
    let mut options = Options::new("elicit", known.iter().chain(of_all));
    read_into(&mut options, attributes, errors);
    options
}

/// Rejects `#[arg(…)]` with options of forms. With other options, the attribute belongs to another derive macro, such
/// as a macro of clap.
fn reject_arg(attributes: &[Attribute], errors: &mut Errors) {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("arg")) {
        let options = attribute.parse_args_with(Punctuated::<Meta, token::Comma>::parse_terminated);
        let is_option = |meta: &Meta| FIELD.iter().any(|known| meta.path().is_ident(known.name));
        if options.is_ok_and(|options| options.iter().all(is_option)) {
            let message = "`#[arg(…)]` is for the parameters of functions, not for the fields of a form";
            errors.help(attribute.path(), message, "write `#[elicit(…)]`");
        }
    }
}

fn read_into(options: &mut Options, attributes: &[Attribute], errors: &mut Errors) {
    options.read_attributes(attributes.iter().filter(|attribute| attribute.path().is_ident("elicit")), errors);
}

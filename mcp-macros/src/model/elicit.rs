//! Forms and the choices of their fields.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{LitStr, ext::IdentExt, spanned::Spanned};

use super::{
    Bound, EnclosingType, Kind, Rule,
    argument::{Default, default_of},
    rules::Rules,
    types::TypeClass,
};
use crate::{
    errors::Errors,
    syntax::{Docs, ElicitSyntax, FieldSyntax, ItemSyntax, VariantSyntax},
};

/// The checked item of a derive.
pub(crate) enum Elicit {
    Form {
        name: Ident,
        fields: Vec<Field>,
    },
    Choices(Choices),
    /// The item as a whole is invalid.
    Invalid,
}

/// A field of a form.
pub(crate) struct Field {
    pub(crate) ident: Ident,
    /// The name in requests.
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Docs,
    pub(crate) ty: TokenStream,
    pub(crate) default: Option<Default>,
    pub(crate) rules: Vec<Rule>,
}

/// The variants of an enum.
pub(crate) struct Choices {
    pub(crate) name: Ident,
    pub(crate) legacy_names: bool,
    /// Each variant with its value in requests and its title.
    pub(crate) variants: Vec<(Ident, String, Option<String>)>,
}

impl Elicit {
    pub(crate) fn check(given: ElicitSyntax, errors: &mut Errors) -> Self {
        let ElicitSyntax { name, generics, item, .. } = given;
        if !generics.params.is_empty() {
            errors.on(&generics, "a form cannot be generic");
            return Self::Invalid;
        }
        match item {
            ItemSyntax::Struct(fields) => {
                let mut names = Names::default();
                let fields = fields.into_iter().map(|field| Field::check(field, &mut names, errors)).collect();
                Self::Form { name, fields }
            }
            ItemSyntax::Enum { legacy_names, variants } => {
                if variants.is_empty() {
                    errors.on(&name, "an enum without variants offers no choices");
                }
                if let Some((true, span)) = legacy_names
                    && variants.iter().all(|variant| variant.title.is_none())
                {
                    errors.at(span, "`legacy_names` has no effect, because no variant has a `title`");
                }
                let mut names = Names::default();
                let variants = variants.into_iter().map(|one| variant(one, &mut names, errors)).collect();
                let legacy_names = legacy_names.is_some_and(|(legacy, _)| legacy);
                Self::Choices(Choices { name, legacy_names, variants })
            }
        }
    }
}

impl Field {
    fn check(given: FieldSyntax, names: &mut Names, errors: &mut Errors) -> Self {
        let FieldSyntax { name: ident, ty, docs, options: mut given } = given;
        let name = names.unique("field", &ident, given.rename.take().as_ref(), errors);
        let title = given.title.take().map(|title| title.value());
        let description = given.description.take().map_or(docs, Docs::of);
        let default = given.default.take();
        let range = given.range.clone();
        let type_class = TypeClass::of(&ty);
        let rules = Rules::check(Kind::Form, given, type_class, &ty, errors);
        let ty = ty.to_token_stream();
        let default = default
            .map(|(value, span)| default_of(value, span, &ty, false, type_class, &rules, &EnclosingType::None, errors));
        let rules = rules.into_list();
        let is_open = |rule: &Rule| match rule {
            Rule::ExclusiveMaximum(bound) => type_class == TypeClass::Float || matches!(bound, Bound::Float(_)),
            _ => false,
        };
        if rules.iter().any(is_open) {
            errors.help(
                range,
                "a floating-point field of a form cannot have an exclusive upper bound",
                "write `..=` for an inclusive upper bound",
            );
        }
        Self { ident, name, title, description, ty, default, rules }
    }
}

fn variant(given: VariantSyntax, names: &mut Names, errors: &mut Errors) -> (Ident, String, Option<String>) {
    if !given.fields.is_empty() || !matches!(given.fields, syn::Fields::Unit) {
        errors.help(
            &given.fields,
            format_args!("the choice `{}` cannot have fields", given.name),
            "add a field to the form instead, or use a second form",
        );
    }
    let value = names.unique("choice", &given.name, given.rename.as_ref(), errors);
    (given.name, value, given.title.map(|title| title.value()))
}

/// The names used so far.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn unique(&mut self, what: &str, ident: &Ident, rename: Option<&LitStr>, errors: &mut Errors) -> String {
        let name = rename.map_or_else(|| ident.unraw().to_string(), LitStr::value);
        let span = rename.map_or(ident.span(), Spanned::span);
        if name.is_empty() {
            errors.at(span, format_args!("the name of a {what} cannot be empty"));
        } else if self.0.contains(&name) {
            errors.at(span, format_args!("duplicate {what} `{name}`"));
        }
        self.0.push(name.clone());
        name
    }
}

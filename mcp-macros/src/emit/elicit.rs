use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::spanned::Spanned;

use super::{
    argument::{default, rule},
    docs, here, option, slice,
};
use crate::model::{Choices, Default, Elicit, Field};

/// Emits a form or choices.
pub(crate) fn elicit(elicit: &Elicit, private: &TokenStream) -> TokenStream {
    match elicit {
        Elicit::Form { name, fields } => form(name, fields, private),
        Elicit::Choices(choices) => self::choices(choices, private),
        Elicit::Invalid => TokenStream::new(),
    }
}

/// Emits an empty implementation for an item with errors, so that uses of the type cause no further errors.
pub(crate) fn elicit_stub(elicit: &Elicit, private: &TokenStream) -> TokenStream {
    match elicit {
        Elicit::Form { name, .. } => {
            let failed = quote_spanned!(here()=> ::core::unreachable!());
            elicit_impl(name, &[], &failed, private)
        }
        Elicit::Choices(Choices { name, .. }) => {
            let none = quote_spanned!(here()=> ::core::option::Option::None);
            choice_impl(name, false, &[], &none, &quote_spanned!(here()=> 0), private)
        }
        Elicit::Invalid => TokenStream::new(),
    }
}

/// Emits the implementation of `Elicit` for a form.
///
/// ```text
/// impl Elicit for Confirm {
///     const FIELDS: &'static [FormField] = &[
///         FormField::new("reason", None, "Why.", &field_type::<String>(), None, &[Rule::MaxLength(80)]),
///     ];
///
///     fn read(content: &FormContent) -> Result<Self, InvalidAnswer> {
///         Ok(Self { reason: content.field(&field_type::<String>(), 0)? })
///     }
/// }
///
/// const _: () = check_field(&field_type::<String>(), &[Rule::MaxLength(80)], None);
/// ```
fn form(name: &Ident, fields: &[Field], private: &TokenStream) -> TokenStream {
    let here = here();
    let entries: Vec<_> = fields.iter().map(|one| entry(one, private)).collect();
    let values = fields.iter().enumerate().map(|(index, Field { ident, ty, .. })| {
        let index = Literal::usize_unsuffixed(index);
        quote_spanned!(here=> #ident: content.field(&#private::field_type::<#ty>(), #index)?)
    });
    let value = quote_spanned! {here=>
        {
            let _ = content;
            ::core::result::Result::Ok(Self { #(#values),* })
        }
    };
    let item = elicit_impl(name, &entries, &value, private);
    let checks = fields.iter().filter_map(|field| check(field, private));
    quote_spanned!(here=> #item #(#checks)*)
}

fn elicit_impl(name: &Ident, entries: &[TokenStream], value: &TokenStream, private: &TokenStream) -> TokenStream {
    quote_spanned! {here()=>
        #[automatically_derived]
        impl #private::Elicit for #name {
            const FIELDS: &'static [#private::FormField] = &[#(#entries),*];

            #[allow(deprecated, unused_variables)]
            fn read(content: &#private::FormContent) -> ::core::result::Result<Self, #private::InvalidAnswer> {
                #value
            }
        }
    }
}

fn entry(field: &Field, private: &TokenStream) -> TokenStream {
    let Field { name, ty, .. } = field;
    let title = option(field.title.as_ref());
    let description = docs(&field.description);
    let json = |value| quote_spanned!(here()=> #private::field_default_json(&#private::field_type::<#ty>(), &#value));
    let default = option(field.default.as_ref().map(|value| default(value, ty, json, private)));
    let rules = slice(field.rules.iter().map(|one| rule(one, private)));
    quote_spanned! {here()=>
        #private::FormField::new(#name, #title, #description, &#private::field_type::<#ty>(), #default, #rules)
    }
}

/// Emits an assertion that the options of a field are applicable to its type, with errors reported on the type.
fn check(field: &Field, private: &TokenStream) -> Option<TokenStream> {
    let json = match &field.default {
        Some(Default::Json(json)) => Some(json),
        _ => None,
    };
    if json.is_none() && field.rules.is_empty() {
        return None;
    }
    let ty = &field.ty;
    let json = option(json);
    let rules = slice(field.rules.iter().map(|one| rule(one, private)));
    let span = ty.span().resolved_at(here());
    let respanned = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    let private: TokenStream = private.clone().into_iter().map(respanned).collect();
    Some(quote_spanned!(span=> const _: () = #private::check_field(&#private::field_type::<#ty>(), #rules, #json);))
}

/// Emits the implementation of `ElicitChoice` for an enum.
///
/// ```text
/// impl ElicitChoice for Style {
///     const CHOICES: &'static ChoiceSet =
///         &ChoiceSet { legacy_names: false, all: &[Choice { value: "Formal", title: None }] };
///
///     fn from_index(index: usize) -> Option<Self> {
///         match index {
///             0 => Some(Self::Formal),
///             _ => None,
///         }
///     }
///
///     fn index(&self) -> usize {
///         match self {
///             Self::Formal => 0,
///         }
///     }
/// }
/// ```
fn choices(choices: &Choices, private: &TokenStream) -> TokenStream {
    let here = here();
    let Choices { name, legacy_names, variants } = choices;
    let indices: Vec<_> = (0..variants.len()).map(Literal::usize_unsuffixed).collect();
    let idents: Vec<_> = variants.iter().map(|(ident, ..)| ident).collect();
    let all: Vec<_> = variants
        .iter()
        .map(|(_, value, title)| {
            let title = option(title.as_ref());
            quote_spanned!(here=> #private::Choice { value: #value, title: #title })
        })
        .collect();
    let from_index = quote_spanned! {here=>
        match index {
            #(#indices => ::core::option::Option::Some(Self::#idents),)*
            _ => ::core::option::Option::None,
        }
    };
    let index = quote_spanned! {here=>
        match self {
            #(Self::#idents => #indices,)*
        }
    };
    choice_impl(name, *legacy_names, &all, &from_index, &index, private)
}

fn choice_impl(
    name: &Ident,
    legacy_names: bool,
    all: &[TokenStream],
    from_index: &TokenStream,
    index: &TokenStream,
    private: &TokenStream,
) -> TokenStream {
    quote_spanned! {here()=>
        #[automatically_derived]
        impl #private::ElicitChoice for #name {
            const CHOICES: &'static #private::ChoiceSet =
                &#private::ChoiceSet { legacy_names: #legacy_names, all: &[#(#all),*] };

            #[allow(deprecated, unused_variables)]
            fn from_index(index: usize) -> ::core::option::Option<Self> {
                #from_index
            }

            #[allow(deprecated)]
            fn index(&self) -> usize {
                #index
            }
        }
    }
}

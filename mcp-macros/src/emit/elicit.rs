use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::spanned::Spanned;

use super::{
    argument::{of_type, rule},
    docs::docs,
    here, option, slice,
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

/// Emits a stub for an item with errors, so that uses of the type cause no further errors.
pub(crate) fn elicit_stub(elicit: &Elicit, private: &TokenStream) -> TokenStream {
    match elicit {
        Elicit::Form { name, .. } => {
            let failed = quote_spanned!(here()=> ::core::result::Result::Err(::std::string::String::new()));
            elicit_impl(name, &[], &failed, private)
        }
        Elicit::Choices(Choices { name, .. }) => {
            let none = quote_spanned!(here()=> ::core::option::Option::None);
            choice_impl(name, false, &[], &none, &quote_spanned!(here()=> 0), private)
        }
        Elicit::Invalid => TokenStream::new(),
    }
}

/// ```text
/// impl Elicit for Confirm {
///     const FORM: &'static [FormField] = &[
///         FormField::new("reason", None, "Why.", &field_type::<String>(), None, &[Rule::MaxLength(80)]),
///     ];
///
///     fn read(filled: &Filled) -> Result<Self, String> {
///         Ok(Self { reason: filled.field(&field_type::<String>(), 0)? })
///     }
/// }
///
/// const _: () = fits(&field_type::<String>(), &[Rule::MaxLength(80)], None);
/// ```
fn form(name: &Ident, fields: &[Field], private: &TokenStream) -> TokenStream {
    let here = here();
    let entries: Vec<_> = fields.iter().map(|one| entry(one, private)).collect();
    let values = fields.iter().enumerate().map(|(index, Field { ident, of, .. })| {
        let index = Literal::usize_unsuffixed(index);
        quote_spanned!(here=> #ident: filled.field(&#private::field_type::<#of>(), #index)?)
    });
    let value = quote_spanned! {here=>
        {
            let _ = filled;
            ::core::result::Result::Ok(Self { #(#values),* })
        }
    };
    let item = elicit_impl(name, &entries, &value, private);
    let fits = fields.iter().filter_map(|field| fits(field, private));
    quote_spanned!(here=> #item #(#fits)*)
}

fn elicit_impl(name: &Ident, entries: &[TokenStream], value: &TokenStream, private: &TokenStream) -> TokenStream {
    quote_spanned! {here()=>
        #[automatically_derived]
        impl #private::Elicit for #name {
            const FORM: &'static [#private::FormField] = &[#(#entries),*];

            #[allow(deprecated, unused_variables)]
            fn read(filled: &#private::Filled) -> ::core::result::Result<Self, ::std::string::String> {
                #value
            }
        }
    }
}

fn entry(field: &Field, private: &TokenStream) -> TokenStream {
    let Field { name, of, .. } = field;
    let title = option(field.title.as_ref());
    let description = docs(&field.description);
    let default = option(field.default.as_ref().map(|value| default(value, of, private)));
    let rules = slice(field.rules.iter().map(|one| rule(one, private)));
    quote_spanned! {here()=>
        #private::FormField::new(#name, #title, #description, &#private::field_type::<#of>(), #default, #rules)
    }
}

fn default(default: &Default, of: &TokenStream, private: &TokenStream) -> TokenStream {
    match default {
        Default::Json(json) => quote_spanned!(here()=> #private::ArgumentDefault::Json(#json)),
        Default::Expression(value) => {
            let value = of_type(value, of);
            let of = quote_spanned!(here()=> #private::field_type::<#of>());
            quote_spanned!(here()=> #private::ArgumentDefault::Expression(|| #private::asked(&#of, &#value)))
        }
    }
}

/// Emits an assertion that the options of a field are applicable to its type, with errors reported on the type.
fn fits(field: &Field, private: &TokenStream) -> Option<TokenStream> {
    let json = match &field.default {
        Some(Default::Json(json)) => Some(json),
        _ => None,
    };
    if json.is_none() && field.rules.is_empty() {
        return None;
    }
    let of = &field.of;
    let json = option(json);
    let rules = slice(field.rules.iter().map(|one| rule(one, private)));
    let place = of.span().resolved_at(here());
    let private: TokenStream = private.clone().into_iter().map(|token| at(token, place)).collect();
    Some(quote_spanned!(place=> const _: () = #private::fits(&#private::field_type::<#of>(), #rules, #json);))
}

fn at(mut token: TokenTree, place: Span) -> TokenTree {
    token.set_span(place);
    token
}

/// ```text
/// impl ElicitChoice for Style {
///     const CHOICES: &'static Choices =
///         &Choices { legacy_names: false, all: &[Choice { value: "Formal", title: None }] };
///
///     fn choose(index: usize) -> Option<Self> {
///         match index {
///             0 => Some(Self::Formal),
///             _ => None,
///         }
///     }
///
///     fn chosen(&self) -> usize {
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
    let choose = quote_spanned! {here=>
        match index {
            #(#indices => ::core::option::Option::Some(Self::#idents),)*
            _ => ::core::option::Option::None,
        }
    };
    let chosen = quote_spanned! {here=>
        match self {
            #(Self::#idents => #indices,)*
        }
    };
    choice_impl(name, *legacy_names, &all, &choose, &chosen, private)
}

fn choice_impl(
    name: &Ident,
    legacy_names: bool,
    all: &[TokenStream],
    choose: &TokenStream,
    chosen: &TokenStream,
    private: &TokenStream,
) -> TokenStream {
    quote_spanned! {here()=>
        #[automatically_derived]
        impl #private::ElicitChoice for #name {
            const CHOICES: &'static #private::Choices =
                &#private::Choices { legacy_names: #legacy_names, all: &[#(#all),*] };

            #[allow(deprecated, unused_variables)]
            fn choose(index: usize) -> ::core::option::Option<Self> {
                #choose
            }

            #[allow(deprecated)]
            fn chosen(&self) -> usize {
                #chosen
            }
        }
    }
}

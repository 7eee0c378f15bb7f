//! The third stage: tokens. Cannot fail.

mod argument;
mod call;
#[cfg(feature = "ask")]
mod elicit;
mod entry;
mod registration;

pub(crate) use call::server;
#[cfg(feature = "ask")]
pub(crate) use elicit::{elicit, elicit_stub};
#[cfg(feature = "ui")]
pub(crate) use entry::page;
pub(crate) use entry::{Entry, entry};
pub(crate) use registration::{marker, tools};

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use crate::syntax::{DocFragment, Docs};

/// Returns the span of generated code. Names with it are hygienic and cause no lints.
fn here() -> Span {
    Span::mixed_site()
}

/// Emits an `Option`.
fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote_spanned!(here()=> ::core::option::Option::Some(#value)),
        None => quote_spanned!(here()=> ::core::option::Option::None),
    }
}

/// Emits a borrowed `Cow`. A struct expression extends the life of what it refers to, unlike a call.
fn cow(borrowed: impl ToTokens) -> TokenStream {
    quote_spanned!(here()=> ::std::borrow::Cow::Borrowed { 0: #borrowed })
}

/// Emits a static slice.
fn slice(items: impl IntoIterator<Item = impl ToTokens>) -> TokenStream {
    let items = items.into_iter();
    quote_spanned!(here()=> &[#(#items),*])
}

/// Emits a description as a single `&'static str`.
fn docs(docs: &Docs) -> TokenStream {
    let fragment = |fragment: &DocFragment| match fragment {
        DocFragment::Text(text) => text.to_token_stream(),
        DocFragment::Macro(text) => text.to_token_stream(),
    };
    match docs.fragments.as_slice() {
        [] => "".to_token_stream(),
        [one] => fragment(one),
        several => {
            let fragments = several.iter().map(fragment);
            quote_spanned!(here()=> ::core::concat!(#(#fragments),*))
        }
    }
}

//! The third stage: tokens. Cannot fail.

mod argument;
mod call;
mod collected;
mod common;
mod docs;
#[cfg(feature = "ask")]
mod elicit;
mod prompt;
mod resource;
mod server;
mod tool;

pub(crate) use collected::{Entry, marker, tools};
#[cfg(feature = "ask")]
pub(crate) use elicit::{elicit, elicit_stub};
pub(crate) use prompt::prompt;
#[cfg(feature = "ui")]
pub(crate) use resource::page;
pub(crate) use resource::resource;
pub(crate) use server::server;
pub(crate) use tool::tool;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

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

//! From what is sound to tokens. Nothing here can fail, and nothing here decides.

mod argument;
mod call;
mod collected;
mod common;
mod docs;
mod elicit;
mod prompt;
mod resource;
mod server;
mod tool;

pub(crate) use collected::{Entry, collected, marker, tools};
pub(crate) use elicit::{elicit, elicit_nothing};
pub(crate) use prompt::prompt;
pub(crate) use resource::resource;
pub(crate) use server::server;
pub(crate) use tool::tool;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

/// The place of what an author did not write: names in it neither clash with his nor draw lints.
fn here() -> Span {
    Span::mixed_site()
}

/// Writes an option.
fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote_spanned!(here()=> ::core::option::Option::Some(#value)),
        None => quote_spanned!(here()=> ::core::option::Option::None),
    }
}

/// Writes a slice of things that live as long as the program.
fn slice(items: impl IntoIterator<Item = impl ToTokens>) -> TokenStream {
    let items = items.into_iter();
    quote_spanned!(here()=> &[#(#items),*])
}

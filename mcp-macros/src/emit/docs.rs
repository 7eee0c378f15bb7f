use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};

use super::here;
use crate::syntax::{DocFragment, Docs};

/// Emits a description as a single `&'static str`.
pub(super) fn docs(docs: &Docs) -> TokenStream {
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

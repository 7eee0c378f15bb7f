use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};

use super::here;
use crate::syntax::{Docs, Piece};

/// Writes a description as one `&'static str`.
pub(super) fn docs(docs: &Docs) -> TokenStream {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.to_token_stream(),
        Piece::Macro(text) => text.to_token_stream(),
    };
    match docs.pieces.as_slice() {
        [] => "".to_token_stream(),
        [one] => piece(one),
        several => {
            let pieces = several.iter().map(piece);
            quote_spanned!(here()=> ::core::concat!(#(#pieces),*))
        }
    }
}

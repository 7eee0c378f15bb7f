//! Tokens as source text.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// Formats tokens like rustfmt, for messages.
pub(super) fn source_text(tokens: impl ToTokens) -> String {
    let mut out = String::new();
    write_tokens(tokens.into_token_stream(), &mut out);
    out
}

fn write_tokens(tokens: TokenStream, out: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                out.push_str(open);
                write_tokens(group.stream(), out);
                out.push_str(close);
            }
            TokenTree::Punct(punct) => {
                let is_path = punct.spacing() == Spacing::Joint || out.ends_with(':');
                out.push(punct.as_char());
                if matches!(punct.as_char(), ',' | ';') || (punct.as_char() == ':' && !is_path) {
                    out.push(' ');
                }
            }
            word => {
                let word = word.to_string();
                if out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    out.push(' ');
                }
                out.push_str(&word);
            }
        }
    }
}

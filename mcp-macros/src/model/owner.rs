use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::Type;

/// Where a function stands: by itself, or in the impl block of a type.
#[derive(Clone)]
pub(crate) enum Owner {
    None,
    Type(Box<Type>),
}

impl Owner {
    /// The path that calls a function.
    pub(crate) fn path_to(&self, function: &Ident) -> TokenStream {
        match self {
            Self::None => function.to_token_stream(),
            Self::Type(owner) => quote_spanned!(function.span().resolved_at(Span::mixed_site())=> <#owner>::#function),
        }
    }

    /// The name of a function for people: `add`, `Notes::add`.
    pub(crate) fn name_of(&self, function: &Ident) -> String {
        match self {
            Self::None => function.to_string(),
            Self::Type(owner) => format!("{}::{function}", owner.to_token_stream().to_string().replace(' ', "")),
        }
    }

    /// Writes the type for `Self`, which means nothing outside the impl block.
    pub(crate) fn concrete(&self, tokens: impl ToTokens) -> TokenStream {
        let tokens = tokens.into_token_stream();
        match self {
            Self::None => tokens,
            Self::Type(owner) => without_self(tokens, owner),
        }
    }
}

fn without_self(tokens: TokenStream, owner: &Type) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut out = TokenStream::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(this) if this == "Self" => {
                let owner = respanned(owner.to_token_stream(), this.span());
                let is_path = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
                out.extend(match is_path {
                    true => quote_spanned!(this.span()=> <#owner>),
                    false => owner,
                });
            }
            TokenTree::Group(group) => out.extend([grouped(&group, without_self(group.stream(), owner))]),
            other => out.extend([other]),
        }
    }
    out
}

fn respanned(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        if let TokenTree::Group(group) = &token {
            token = grouped(group, respanned(group.stream(), span));
        }
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

fn grouped(like: &Group, stream: TokenStream) -> TokenTree {
    let delimiter: Delimiter = like.delimiter();
    let mut group = Group::new(delimiter, stream);
    group.set_span(like.span());
    group.into()
}

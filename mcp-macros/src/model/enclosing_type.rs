//! Types whose `impl` blocks contain functions.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Path, Type};

/// The type whose `impl` block contains a function.
#[derive(Clone)]
pub(crate) enum EnclosingType {
    None,
    Impl(Box<Type>),
}

/// A function of the author that an option names: it lists resources or completes an argument.
pub(crate) struct NamedFunction {
    /// The name for messages: `all_files`, `Notes::titles`.
    pub(crate) name: String,
    /// The path by which the function is called.
    pub(crate) path: TokenStream,
}

impl EnclosingType {
    /// Resolves a path in the options of a function, which may begin with `Self`.
    pub(crate) fn named_function(&self, path: &Path) -> NamedFunction {
        let mut name = path.to_token_stream().to_string().replace(' ', "");
        if let (Self::Impl(enclosing_type), Some(rest)) = (self, name.strip_prefix("Self::")) {
            name = format!("{}::{rest}", enclosing_type.to_token_stream().to_string().replace(' ', ""));
        }
        NamedFunction { name, path: self.concrete(path) }
    }

    /// Returns the path by which a function is called.
    pub(crate) fn path_to(&self, function: &Ident) -> TokenStream {
        match self {
            Self::None => function.to_token_stream(),
            Self::Impl(enclosing_type) => {
                quote_spanned!(function.span().resolved_at(Span::mixed_site())=> <#enclosing_type>::#function)
            }
        }
    }

    /// Returns the display name of a function: `add`, `Notes::add`.
    pub(crate) fn name_of(&self, function: &Ident) -> String {
        match self {
            Self::None => function.to_string(),
            Self::Impl(enclosing_type) => {
                format!("{}::{function}", enclosing_type.to_token_stream().to_string().replace(' ', ""))
            }
        }
    }

    /// Replaces `Self`, which has no meaning outside of the `impl` block, with the type.
    pub(crate) fn concrete(&self, tokens: impl ToTokens) -> TokenStream {
        let tokens = tokens.into_token_stream();
        match self {
            Self::None => tokens,
            Self::Impl(enclosing_type) => without_self(tokens, enclosing_type),
        }
    }
}

fn without_self(tokens: TokenStream, enclosing_type: &Type) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut out = TokenStream::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(this) if this == "Self" => {
                let enclosing_type = respanned(enclosing_type.to_token_stream(), this.span());
                let is_path = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
                out.extend(if is_path { quote_spanned!(this.span()=> <#enclosing_type>) } else { enclosing_type });
            }
            TokenTree::Group(group) => out.extend([grouped(&group, without_self(group.stream(), enclosing_type))]),
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

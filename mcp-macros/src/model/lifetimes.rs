//! Lifetime parameters of functions.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::Type;

use crate::syntax::Function;

/// The lifetime parameters of a function, which have no meaning outside of its signature.
pub(super) struct LifetimeParameters(Vec<Ident>);

impl LifetimeParameters {
    pub(super) fn of(function: &Function) -> Self {
        let parameters = function.signature.generics.lifetimes();
        Self(parameters.map(|parameter| parameter.lifetime.ident.clone()).collect())
    }

    /// Replaces each lifetime parameter with `'_`.
    pub(super) fn elide(&self, ty: Type) -> Type {
        if self.0.is_empty() {
            return ty;
        }
        syn::parse2(self.elided(ty.to_token_stream())).unwrap_or(ty)
    }

    fn elided(&self, tokens: TokenStream) -> TokenStream {
        let mut after_quote = false;
        let replace = |token| match token {
            TokenTree::Ident(name) if std::mem::take(&mut after_quote) && self.0.contains(&name) => {
                TokenTree::Ident(Ident::new("_", name.span()))
            }
            TokenTree::Group(group) => {
                let mut elided = Group::new(group.delimiter(), self.elided(group.stream()));
                elided.set_span(group.span());
                elided.into()
            }
            other => {
                after_quote = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '\'');
                other
            }
        };
        tokens.into_iter().map(replace).collect()
    }
}

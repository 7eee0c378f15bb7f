//! Options that tools, resources and prompts have in common.

use proc_macro2::Span;
use syn::{
    Expr, Ident, LitStr, Path, Token,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

use super::options::{OptionSpec, Options, spec};
use crate::errors::Errors;

pub(super) const NAMES: [OptionSpec; 3] = [
    spec("name", r#"name = "a_name""#),
    spec("title", r#"title = "For people""#),
    spec("description", r#"description = "For the model""#),
];

pub(super) const OTHERS: [OptionSpec; 8] = [
    spec("scopes", r#"scopes("notes:read", …)` or `scopes(any("notes:read", …), …)"#),
    spec("tags", r#"tags("a label", …)"#),
    spec("icon", r#"icon = "https://…""#),
    spec("icons", r#"icons("https://…", …)"#),
    spec("timeout", r#"timeout = "30s""#),
    spec("blocking", "blocking` or `blocking = true"),
    spec("meta", r#"meta("key" = 1, …)"#),
    spec("crate", "crate = path::to::mcp_runtime"),
];

/// The parsed options that tools, resources and prompts have in common.
pub(crate) struct CommonSyntax {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) description: Option<Expr>,
    pub(crate) scopes: Vec<ScopeSyntax>,
    pub(crate) tags: Vec<LitStr>,
    pub(crate) icons: Vec<LitStr>,
    pub(crate) timeout: Option<LitStr>,
    pub(crate) blocking: Option<(bool, Span)>,
    pub(crate) meta: Vec<MetaSyntax>,
    pub(crate) crate_path: Option<Path>,
}

/// `"scope"` or `any("scope", …)`
pub(crate) enum ScopeSyntax {
    One(LitStr),
    Any(Vec<LitStr>),
}

impl Parse for ScopeSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::One(input.parse()?));
        }
        let name: Ident = input.parse()?;
        if name != "any" {
            return Err(syn::Error::new(name.span(), "expected a string or `any(…)`"));
        }
        let alternatives;
        syn::parenthesized!(alternatives in input);
        if alternatives.is_empty() {
            return Err(alternatives.error("expected a string"));
        }
        let alternatives = Punctuated::<LitStr, Token![,]>::parse_terminated(&alternatives)?;
        Ok(Self::Any(alternatives.into_iter().collect()))
    }
}

/// `"key" = literal`
pub(crate) struct MetaSyntax {
    pub(crate) key: LitStr,
    pub(crate) value: Expr,
}

impl Parse for MetaSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self { key, value: input.parse()? })
    }
}

impl CommonSyntax {
    pub(super) fn read(options: &mut Options, errors: &mut Errors) -> Self {
        Self {
            name: options.text("name", errors),
            title: options.text("title", errors),
            description: options.text_or_macro("description", errors),
            scopes: options.list("scopes", errors),
            tags: options.texts("tags", errors),
            icons: options.text("icon", errors).into_iter().chain(options.texts("icons", errors)).collect(),
            timeout: options.text("timeout", errors),
            blocking: options.boolean("blocking", errors),
            meta: options.list("meta", errors),
            crate_path: options.path("crate", errors),
        }
    }
}

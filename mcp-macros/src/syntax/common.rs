//! Options that tools, resources and prompts have in common, and prompts, which have no others.

use proc_macro2::{Span, TokenStream};
use syn::{
    Expr, Ident, LitStr, Path, Token, braced, bracketed, parenthesized,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token,
};

use super::{
    Function,
    options::{OptionSpec, Options, spec},
};
use crate::errors::Errors;

pub(super) const NAMES: [OptionSpec; 3] = [
    spec("name", r#"name = "a_name""#),
    spec("title", r#"title = "For people""#),
    spec("description", r#"description = "For the model""#),
];

pub(super) static OTHERS: [OptionSpec; 8] = [
    spec("scopes", r#"scopes("notes:read", …)` or `scopes(any("notes:read", …), …)"#),
    spec("tags", r#"tags("a label", …)"#),
    spec("icon", r#"icon = "https://…"` or `icon("https://…", theme = dark, …)"#),
    spec("icons", r#"icons("https://…", icon("https://…", theme = dark, …), …)"#),
    spec("timeout", r#"timeout = "30s""#),
    spec("blocking", "blocking` or `blocking = true"),
    spec("meta", r#"meta("key" = {"a": [1, null]}, …)"#),
    spec("crate", "crate = path::to::mcp_runtime"),
];

const ICON: [OptionSpec; 3] = [
    spec("mime", r#"mime = "image/svg+xml""#),
    spec("sizes", r#"sizes("48x48", …)` or `sizes("any")"#),
    spec("theme", "theme = light` or `theme = dark"),
];

/// The parsed options that tools, resources and prompts have in common.
pub(crate) struct CommonSyntax {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) description: Option<Expr>,
    pub(crate) scopes: Vec<ScopeSyntax>,
    pub(crate) tags: Vec<LitStr>,
    pub(crate) icons: Vec<IconSyntax>,
    pub(crate) timeout: Option<LitStr>,
    pub(crate) blocking: Option<(bool, Span)>,
    pub(crate) meta: Vec<MetaSyntax>,
    pub(crate) crate_path: Option<Path>,
}

/// A URI with the options of an icon.
pub(crate) struct IconSyntax {
    pub(crate) uri: LitStr,
    pub(crate) mime: Option<LitStr>,
    pub(crate) sizes: Vec<LitStr>,
    pub(crate) theme: Option<Path>,
}

impl IconSyntax {
    fn read(IconTokens(uri, given): IconTokens, errors: &mut Errors) -> Self {
        let mut options = Options::new("icon", &ICON);
        options.read(given, errors);
        Self {
            uri,
            mime: options.text("mime", errors),
            sizes: options.list("sizes", errors),
            theme: options.path("theme", errors),
        }
    }
}

/// `"uri"` or `"uri", option, …`
struct IconTokens(LitStr, TokenStream);

impl Parse for IconTokens {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let uri = input.parse()?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        Ok(Self(uri, input.parse()?))
    }
}

/// `"uri"` or `icon("uri", option, …)`
struct IconItem(IconTokens);

impl Parse for IconItem {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self(IconTokens(input.parse()?, TokenStream::new())));
        }
        let name: Ident = input.parse()?;
        if name != "icon" {
            return Err(syn::Error::new(name.span(), "expected a string or `icon(…)`"));
        }
        let inner;
        parenthesized!(inner in input);
        Ok(Self(inner.parse()?))
    }
}

/// `"scope"` or `any("scope", …)`
pub(crate) struct ScopeSyntax(pub(crate) Vec<LitStr>);

impl Parse for ScopeSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self(vec![input.parse()?]));
        }
        let name: Ident = input.parse()?;
        if name != "any" {
            return Err(syn::Error::new(name.span(), "expected a string or `any(…)`"));
        }
        let alternatives;
        parenthesized!(alternatives in input);
        if alternatives.is_empty() {
            return Err(alternatives.error("expected a string"));
        }
        let alternatives = Punctuated::<LitStr, Token![,]>::parse_terminated(&alternatives)?;
        Ok(Self(alternatives.into_iter().collect()))
    }
}

/// `"key" = value`
pub(crate) struct MetaSyntax {
    pub(crate) key: LitStr,
    pub(crate) value: JsonSyntax,
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
        let mut icons: Vec<IconTokens> = options.parsed("icon", errors).into_iter().collect();
        icons.extend(options.list::<IconItem>("icons", errors).into_iter().map(|IconItem(icon)| icon));
        Self {
            name: options.text("name", errors),
            title: options.text("title", errors),
            description: options.text_or_macro("description", errors),
            scopes: options.list("scopes", errors),
            tags: options.list("tags", errors),
            icons: icons.into_iter().map(|icon| IconSyntax::read(icon, errors)).collect(),
            timeout: options.text("timeout", errors),
            blocking: options.boolean("blocking", errors),
            meta: options.list("meta", errors),
            crate_path: options.path("crate", errors),
        }
    }
}

/// A JSON value, whose numbers, strings and booleans are Rust literals.
pub(crate) enum JsonSyntax {
    Null,
    Literal(Expr),
    Array(Punctuated<JsonSyntax, Token![,]>),
    Object(Punctuated<JsonMember, Token![,]>),
}

/// `"key": value`
pub(crate) struct JsonMember {
    pub(crate) key: LitStr,
    pub(crate) value: JsonSyntax,
}

impl Parse for JsonSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let inner;
        if input.peek(token::Brace) {
            braced!(inner in input);
            return Ok(Self::Object(Punctuated::parse_terminated(&inner)?));
        }
        if input.peek(token::Bracket) {
            bracketed!(inner in input);
            return Ok(Self::Array(Punctuated::parse_terminated(&inner)?));
        }
        let value = input.parse()?;
        match &value {
            Expr::Path(path) if path.path.is_ident("null") => Ok(Self::Null),
            _ => Ok(Self::Literal(value)),
        }
    }
}

impl Parse for JsonMember {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self { key, value: input.parse()? })
    }
}

pub(super) static PROMPT: [&[OptionSpec]; 2] = [&NAMES, &OTHERS];

/// The parsed options and function of `#[prompt]`.
pub(crate) struct PromptSyntax {
    pub(crate) function: Function,
    pub(crate) common: CommonSyntax,
}

impl PromptSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        let mut options = Options::new("prompt", PROMPT.into_iter().flatten());
        options.read(given, errors);
        Self { function, common: CommonSyntax::read(&mut options, errors) }
    }
}

//! `#[resource("…", …)]`

use proc_macro2::{Span, TokenStream};
use syn::{
    Expr, Ident, LitStr, Path, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream, Parser},
};

use super::{
    CommonSyntax, Function, common,
    options::{OptionSpec, Options, spec},
};
use crate::errors::Errors;

const OWN: [OptionSpec; 9] = [
    spec("mime", r#"mime = "text/plain""#),
    spec("size", "size = 1024"),
    spec("audience", "audience(user, assistant)"),
    spec("priority", "priority = 0.5"),
    spec("last_modified", r#"last_modified = "2025-01-12T15:00:58Z""#),
    spec("ttl", r#"ttl = "5m""#),
    spec("public", "public` or `public = true"),
    spec("list", "list = path::to::function"),
    spec("complete", "complete(variable = path::to::function, …)"),
];

pub(super) static KNOWN: [&[OptionSpec]; 3] = [&common::NAMES, &OWN, &common::OTHERS];

/// The parsed options and function of `#[resource]`.
pub(crate) struct ResourceSyntax {
    pub(crate) function: Function,
    pub(crate) common: CommonSyntax,
    pub(crate) uri: Option<LitStr>,
    pub(crate) mime: Option<LitStr>,
    pub(crate) size: Option<Expr>,
    pub(crate) audience: Vec<Ident>,
    pub(crate) priority: Option<Expr>,
    pub(crate) last_modified: Option<LitStr>,
    pub(crate) ttl: Option<LitStr>,
    pub(crate) public: Option<(bool, Span)>,
    pub(crate) list: Option<Path>,
    pub(crate) complete: Vec<CompleteSyntax>,
}

/// `variable = path::to::function`
pub(crate) struct CompleteSyntax {
    pub(crate) variable: Ident,
    pub(crate) function: Path,
}

impl Parse for CompleteSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let variable = Ident::parse_any(input)?;
        input.parse::<Token![=]>()?;
        Ok(Self { variable, function: input.parse()? })
    }
}

impl ResourceSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        let mut options = Options::new("resource", KNOWN.into_iter().flatten());
        let (uri, rest) = uri_and_rest(given, r#"write `#[resource("notes://all")]`"#, errors);
        options.read(rest, errors);
        Self::of(uri, function, &mut options, errors)
    }

    /// Reads the options of a resource or of a page, which supports only some of them.
    pub(super) fn of(uri: Option<LitStr>, function: Function, options: &mut Options, errors: &mut Errors) -> Self {
        Self {
            function,
            common: CommonSyntax::read(options, errors),
            uri,
            mime: options.text("mime", errors),
            size: options.number("size", errors),
            audience: options.list("audience", errors),
            priority: options.number("priority", errors),
            last_modified: options.text("last_modified", errors),
            ttl: options.text("ttl", errors),
            public: options.boolean("public", errors),
            list: options.path("list", errors),
            complete: options.list("complete", errors),
        }
    }
}

/// Splits the tokens of an attribute into the URI and the options. `help` shows an attribute with a URI.
pub(super) fn uri_and_rest(given: TokenStream, help: &str, errors: &mut Errors) -> (Option<LitStr>, TokenStream) {
    let split = |input: ParseStream<'_>| {
        if input.peek(Ident) && input.peek2(Token![=]) && input.peek3(LitStr) && input.fork().parse::<Ident>()? == "uri"
        {
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            errors.help(name, "the URI of a resource has no name", help);
        }
        let uri: Option<LitStr> = if input.peek(LitStr) { Some(input.parse()?) } else { None };
        if uri.is_some() && input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
        }
        Ok((uri, input.parse()?))
    };
    split.parse2(given).unwrap_or_default()
}

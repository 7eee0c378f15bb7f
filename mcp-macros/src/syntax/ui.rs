//! `#[ui("ui://…", …)]`

use mcp_page::Use;
use proc_macro2::{Ident, Span, TokenStream};
use syn::LitStr;

use super::{
    Function, ResourceSyntax, common,
    options::{OptionSpec, Options, spec},
    resource::uri_and_rest,
};
use crate::errors::Errors;

const OWN: [OptionSpec; 10] = [
    spec("file", r#"file = "board.html""#),
    spec("connect", r#"connect = ["https://api.example.com", …]"#),
    spec("resources", r#"resources = ["https://cdn.example.com", …]"#),
    spec("frames", r#"frames = ["https://www.example.com", …]"#),
    spec("base_uris", r#"base_uris = ["https://cdn.example.com", …]"#),
    spec("permissions", "permissions = [camera, microphone, geolocation, clipboard_write]"),
    spec("domain", r#"domain = "www-example-com.example.net""#),
    spec("prefers_border", "prefers_border` or `prefers_border = false"),
    spec("ttl", r#"ttl = "5m""#),
    spec("public", "public` or `public = true"),
];

pub(super) static KNOWN: [&[OptionSpec]; 3] = [&common::NAMES, &OWN, &common::OTHERS];

/// The parsed options and function of `#[ui]`.
pub(crate) struct PageSyntax {
    /// The page as a resource.
    pub(crate) resource: ResourceSyntax,
    pub(crate) file: Option<LitStr>,
    /// The declared origins, in the order of [`Use::ALL`].
    pub(crate) origins: [Vec<LitStr>; 4],
    pub(crate) permissions: Vec<Ident>,
    pub(crate) domain: Option<LitStr>,
    pub(crate) prefers_border: Option<(bool, Span)>,
}

impl PageSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        let mut options = Options::new("ui", KNOWN.into_iter().flatten());
        let (uri, rest) = uri_and_rest(given, r#"write `#[ui("ui://notes/board")]`"#, errors);
        options.read(rest, errors);
        Self {
            resource: ResourceSyntax::of(uri, function, &mut options, errors),
            file: options.text("file", errors),
            origins: Use::ALL.map(|(_, option, _)| options.array(option, errors)),
            permissions: options.array("permissions", errors),
            domain: options.text("domain", errors),
            prefers_border: options.boolean("prefers_border", errors),
        }
    }
}

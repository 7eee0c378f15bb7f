use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;

use super::{argument::argument, call, cow, docs::docs, here, option, slice};
use crate::model::{Call, Common, Execution, Icon, ParameterSource};

/// Emits the static data that tools, resources and prompts have in common.
///
/// ```text
/// CommonEntry {
///     name: Cow::Borrowed { 0: "search" },
///     title: Some(Cow::Borrowed { 0: "Search notes" }),
///     description: Cow::Borrowed { 0: "Find notes." },
///     icons: Cow::Borrowed { 0: &[] },
///     tags: Cow::Borrowed { 0: &[Cow::Borrowed { 0: "notes" }] },
///     scopes: EntryScopes::Groups(&[&["notes:read"]]),
///     meta: Cow::Borrowed { 0: &[(Cow::Borrowed { 0: "acme/beta" }, Cow::Borrowed { 0: "true" })] },
///     timeout: Some(Duration::from_millis(30000)),
///     blocking: false,
///     source: SourceLocation { … },
///     arguments: Cow::Borrowed { 0: &[ArgumentEntry { … }] },
///     schema: None,
///     dependencies: &[{
///         use AnyState as _;
///         dependency::<Db, _>("db", StateOrData::<Db>::KIND)
///     }],
///     handler: Handler::Async(|input| { … }),
///     problems: Vec::new(),
/// }
/// ```
///
/// `write` names the function that writes the result, and `more_meta` are further members of `_meta`.
pub(super) fn common(
    common: &Common,
    write: &str,
    more_meta: Vec<(&str, TokenStream)>,
    private: &TokenStream,
) -> TokenStream {
    let Common { name, tags, scopes, call, .. } = common;
    let here = here();
    let name = cow(name);
    let title = option(common.title.as_ref().map(cow));
    let description = cow(docs(&common.description));
    let icons = cow(slice(common.icons.iter().map(|one| icon(one, private))));
    let (tags, scopes) = (cow(slice(tags.iter().map(cow))), slice(scopes.iter().map(slice)));
    let member = |key: &str, value: TokenStream| {
        let (key, value) = (cow(key), cow(value));
        quote_spanned!(here=> (#key, #value))
    };
    let own_meta = common.meta.iter().map(|(key, value)| member(key, value.to_token_stream()));
    let meta = cow(slice(own_meta.chain(more_meta.into_iter().map(|(key, value)| member(key, value)))));
    let duration = |milliseconds| quote_spanned!(here=> ::core::time::Duration::from_millis(#milliseconds));
    let timeout = option(common.timeout_milliseconds.map(duration));
    let blocking = call.execution == Execution::Blocking;
    let source = source(call, private);
    let arguments = cow(slice(call.arguments.iter().map(|one| argument(one, private))));
    let dependencies = slice(call.parameters.iter().filter_map(|parameter| dependency(parameter, private)));
    let handler = call::handler(call, write, private);
    quote_spanned! {here=>
        #private::CommonEntry {
            name: #name,
            title: #title,
            description: #description,
            icons: #icons,
            tags: #tags,
            scopes: #private::EntryScopes::Groups(#scopes),
            meta: #meta,
            timeout: #timeout,
            blocking: #blocking,
            source: #source,
            arguments: #arguments,
            schema: ::core::option::Option::None,
            dependencies: #dependencies,
            handler: #handler,
            problems: ::std::vec::Vec::new(),
        }
    }
}

fn icon(icon: &Icon, private: &TokenStream) -> TokenStream {
    let here = here();
    let Icon { uri, mime_type, sizes, theme } = icon;
    let mime_type = option(mime_type.as_ref());
    let sizes = slice(sizes.iter().map(|size| quote_spanned!(here=> #private::Cow::Borrowed(#size))));
    let theme = option(theme.as_ref().map(|theme| {
        let theme = Ident::new(&theme.to_string(), here);
        quote_spanned!(here=> #private::Theme::#theme)
    }));
    quote_spanned!(here=> #private::Icon::of(#uri, #mime_type, #sizes, #theme))
}

fn dependency(parameter: &ParameterSource, private: &TokenStream) -> Option<TokenStream> {
    match parameter {
        ParameterSource::Server(name, ty) => Some(quote_spanned! {here()=>
            {
                use #private::AnyState as _;
                #private::dependency::<#ty, _>(#name, #private::StateOrData::<#ty>::KIND)
            }
        }),
        ParameterSource::Caller(_) => None,
    }
}

fn source(call: &Call, private: &TokenStream) -> TokenStream {
    let here = here();
    let function = call.enclosing_type.name_of(&call.function.unraw());
    let line = line(&call.function);
    quote_spanned! {here=>
        #private::SourceLocation {
            file: ::core::file!(),
            line: #line,
            package: ::core::env!("CARGO_PKG_NAME"),
            module: ::core::module_path!(),
            function: #function,
        }
    }
}

/// Emits the line of the function. `line!()` is the line of the outermost macro, which may contain many functions.
fn line(function: &Ident) -> TokenStream {
    let line = proc_macro::is_available().then(|| u32::try_from(function.span().unwrap().line()).ok()).flatten();
    match line {
        Some(line) => quote_spanned!(here()=> #line),
        None => quote_spanned!(here()=> ::core::line!()),
    }
}

//! The static data of tools, resources and prompts.

use mcp_runtime_uri_template::{Operator, Part};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::{Attribute, ext::IdentExt};

use super::{
    argument::{argument, server_function},
    call, cow, docs, here, option, slice,
};
use crate::model::{
    self, Call, Common, Execution, Icon, ParameterSource, Resource, TaskSupport, Tool, ToolUi, Visibility,
};

/// The static data of one function.
pub(crate) struct Entry {
    /// `Tool`, `Resource` or `Prompt`
    pub(super) kind: &'static str,
    pub(super) value: TokenStream,
    pub(super) conditions: Vec<Attribute>,
}

/// Emits the static data of a function.
pub(crate) fn entry(given: &model::Entry, private: &TokenStream) -> Entry {
    let (kind, value) = match given {
        model::Entry::Tool(given) => ("Tool", tool(given, private)),
        model::Entry::Resource(given) => ("Resource", resource(given, private)),
        model::Entry::Prompt(given) => ("Prompt", prompt(given, private)),
    };
    Entry { kind, value, conditions: given.common().call.conditions.clone() }
}

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
fn common(common: &Common, write: &str, more_meta: Vec<(&str, TokenStream)>, private: &TokenStream) -> TokenStream {
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
    let function = call.enclosing_type.name_of(call.function.unraw());
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

/// Emits the static data of a tool.
///
/// ```text
/// ToolEntry {
///     output: OutputType::of::<Json<Vec<Note>>>(),
///     common: CommonEntry { … },
///     hints: Hints { read_only: Some(true), destructive: None, idempotent: None, open_world: None },
///     task: task_support!(Optional),
/// }
/// ```
fn tool(tool: &Tool, private: &TokenStream) -> TokenStream {
    let here = here();
    let [read_only, destructive, idempotent, open_world] = tool.hints.map(option);
    let output = &tool.common.call.output;
    let ui = tool.ui.iter().flat_map(|ui| ui_members(ui, output, private)).collect();
    let common = common(&tool.common, "write_tool", ui, private);
    // The macro fails without the feature `tasks` of the runtime.
    let supported = |variant| {
        let variant = format_ident!("{variant}", span = here);
        quote_spanned!(here=> #private::task_support!(#variant))
    };
    let task = match tool.task {
        TaskSupport::Forbidden => quote_spanned!(here=> #private::TaskSupport::Forbidden),
        TaskSupport::Optional => supported("Optional"),
        TaskSupport::Required => supported("Required"),
        TaskSupport::Deferred => supported("Deferred"),
    };
    quote_spanned! {here=>
        #private::ToolEntry {
            output: #private::OutputType::of::<#output>(),
            common: #common,
            hints: #private::Hints {
                read_only: #read_only,
                destructive: #destructive,
                idempotent: #idempotent,
                open_world: #open_world,
            },
            task: #task,
        }
    }
}

/// Emits the members of `_meta` that name the page of a tool and who may call it. The runtime concatenates no text: a
/// page provides the JSON of each member.
///
/// ```text
/// ("ui", { shows_content::<Json<Vec<Note>>>(); ui_member!(<board as Page>::LINKS[0usize]) })
/// ("ui/resourceUri", ui_member!(<board as Page>::URI_JSON))
/// ```
fn ui_members(ui: &ToolUi, output: &TokenStream, private: &TokenStream) -> Vec<(&'static str, TokenStream)> {
    let here = here();
    let ToolUi { page, visibility } = ui;
    let (index, json) = match visibility {
        Visibility::All => (0_usize, r#"{"visibility":["model","app"]}"#),
        Visibility::Model => (1, r#"{"visibility":["model"]}"#),
        Visibility::App => (2, r#"{"visibility":["app"]}"#),
    };
    let Some(page) = page else {
        return vec![("ui", quote_spanned!(here=> #private::ui_member!(#json)))];
    };
    // Errors about the page are reported on its name.
    let there = page.segments.last().map_or(here, |last| last.ident.span().resolved_at(here));
    let link = quote_spanned! {there=>
        #private::ui_member!({
            #private::shows_content::<#output>();
            <#page as #private::Page>::LINKS[#index]
        })
    };
    vec![
        ("ui", link),
        ("ui/resourceUri", quote_spanned!(there=> #private::ui_member!(<#page as #private::Page>::URI_JSON))),
    ]
}

/// Emits the static data of a resource.
///
/// ```text
/// ResourceEntry {
///     common: CommonEntry { … },
///     uri: Cow::Borrowed { 0: "file:///{+path}" },
///     template: Some(Cow::Borrowed { 0: &[
///         Part::Literal(Cow::Borrowed { 0: "file:///" }),
///         Part::Expression { operator: Operator::Reserved, variables: Cow::Borrowed { 0: &[…] } },
///     ] }),
///     mime_type: Some(Cow::Borrowed { 0: "text/plain" }),
///     size: None,
///     audience: &[Role::User],
///     priority: Some(0.5),
///     last_modified: None,
///     cache: Some((Duration::from_millis(300000), CacheScope::Private)),
///     list: Some(ServerFnEntry { … }),
/// }
/// ```
fn resource(resource: &Resource, private: &TokenStream) -> TokenStream {
    let here = here();
    let write = if resource.is_page { "write_page" } else { "write_resource" };
    let common = common(&resource.common, write, Vec::new(), private);
    let uri = cow(&resource.uri);
    let parts = |parts: &Vec<Part>| cow(slice(parts.iter().map(|one| part(one, private))));
    let template = option(resource.template.as_ref().map(parts));
    let mime_type = option(resource.mime_type.as_ref().map(cow));
    let size = option(resource.size);
    let audience = slice(resource.audience.iter().map(|role| {
        let role = Ident::new(&role.to_string(), here);
        quote_spanned!(here=> #private::Role::#role)
    }));
    let priority = option(resource.priority);
    let last_modified = option(resource.last_modified.as_ref());
    let cache = option(resource.cache.map(|(milliseconds, is_public)| {
        let scope = Ident::new(if is_public { "Public" } else { "Private" }, here);
        quote_spanned!(here=> (::core::time::Duration::from_millis(#milliseconds), #private::CacheScope::#scope))
    }));
    let list = |path| server_function(path, &Ident::new("list", here).into_token_stream(), private);
    let list = option(resource.list.as_ref().map(list));
    quote_spanned! {here=>
        #private::ResourceEntry {
            common: #common,
            uri: #uri,
            template: #template,
            mime_type: #mime_type,
            size: #size,
            audience: #audience,
            priority: #priority,
            last_modified: #last_modified,
            cache: #cache,
            list: #list,
        }
    }
}

/// Emits what tools need of a page: its URI, and the values of `_meta.ui` that name it, as JSON.
///
/// ```text
/// impl Page for board {
///     const URI_JSON: &str = "\"ui://notes/board\"";
///     const LINKS: &[&str; 3] = &["{\"resourceUri\":\"ui://notes/board\"}", …];
/// }
/// ```
#[cfg(feature = "ui")]
pub(crate) fn page(page: &crate::model::Page, private: &TokenStream) -> TokenStream {
    let call = &page.resource.common.call;
    let (name, conditions, uri) = (&call.function, &call.conditions, &page.uri_json);
    let links = slice(
        ["", r#","visibility":["model"]"#, r#","visibility":["app"]"#]
            .map(|visibility| format!(r#"{{"resourceUri":{uri}{visibility}}}"#)),
    );
    quote_spanned! {here()=>
        #(#conditions)*
        #[automatically_derived]
        impl #private::Page for #name {
            const URI_JSON: &'static str = #uri;
            const LINKS: &'static [&'static str; 3] = #links;
        }
    }
}

fn part(part: &Part, private: &TokenStream) -> TokenStream {
    let here = here();
    match part {
        Part::Literal(text) => {
            let text = cow(text);
            quote_spanned!(here=> #private::Part::Literal(#text))
        }
        Part::Expression { operator, variables } => {
            let operator = Ident::new(name_of(*operator), here);
            let variables = cow(slice(variables.iter().map(cow)));
            quote_spanned! {here=>
                #private::Part::Expression { operator: #private::Operator::#operator, variables: #variables }
            }
        }
    }
}

fn name_of(operator: Operator) -> &'static str {
    match operator {
        Operator::Simple => "Simple",
        Operator::Reserved => "Reserved",
        Operator::Fragment => "Fragment",
        Operator::Label => "Label",
        Operator::Path => "Path",
        Operator::PathParameter => "PathParameter",
        Operator::Query => "Query",
        Operator::QueryContinuation => "QueryContinuation",
    }
}

/// Emits the static data of a prompt.
///
/// ```text
/// PromptEntry { common: CommonEntry { … } }
/// ```
fn prompt(prompt: &Common, private: &TokenStream) -> TokenStream {
    let common = common(prompt, "write_prompt", Vec::new(), private);
    quote_spanned!(here()=> #private::PromptEntry { common: #common })
}

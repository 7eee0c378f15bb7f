use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote_spanned};

use super::{Entry, argument::server_function, common::common, cow, here, option, slice};
use crate::model::Resource;
use mcp_runtime_uri_template::{Operator, Part};

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
pub(crate) fn resource(resource: &Resource, private: &TokenStream) -> Entry {
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
    let value = quote_spanned! {here=>
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
    };
    let call = &resource.common.call;
    Entry { kind: "Resource", value, conditions: call.conditions.clone() }
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

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::{Attribute, Visibility, ext::IdentExt};

use super::{here, prompt, resource, tool};
use crate::model::{self, Tools};

/// The static data of one function.
pub(crate) struct Entry {
    /// `Tool`, `Resource` or `Prompt`
    pub(super) kind: &'static str,
    pub(super) value: TokenStream,
    pub(super) conditions: Vec<Attribute>,
}

/// Emits the type with the name of a function, by which the function is registered.
///
/// ```text
/// #[doc = "…"]
/// #[allow(non_camel_case_types)]
/// #[non_exhaustive]
/// pub struct add {}
/// ```
pub(crate) fn marker(function: &Ident, visibility: &Visibility, conditions: &[Attribute]) -> TokenStream {
    let here = function.span().resolved_at(Span::mixed_site());
    let mut name = function.clone();
    name.set_span(here);
    let doc = format!(" Registers the function `{}`, as in `Server::with::<{0}>()`.", function.unraw());
    quote_spanned! {here=>
        #(#conditions)*
        #[doc = #doc]
        #[allow(non_camel_case_types)]
        #[non_exhaustive]
        #visibility struct #name {}
    }
}

/// Emits the static data of functions and their registration.
///
/// Deprecation warnings are suppressed, because the compiler already reports them in the author's code.
///
/// ```text
/// const _: () = {
///     #[allow(deprecated)]
///     static __MCP_ENTRY_0: ToolEntry = ToolEntry { … };
///     static __MCP_ENTRIES: &[Entry] = &[Entry::Tool(&__MCP_ENTRY_0)];
///
///     impl Collect for add {
///         fn entries() -> &'static [Entry] {
///             __MCP_ENTRIES
///         }
///     }
///
///     inventory::submit! { Entry::Tool(&__MCP_ENTRY_0) }
/// };
/// ```
pub(crate) fn collected(
    ty: impl ToTokens,
    conditions: &[Attribute],
    entries: &[Entry],
    private: &TokenStream,
) -> TokenStream {
    let here = here();
    let mut statics = TokenStream::new();
    let mut references = Vec::new();
    for (index, Entry { kind, value, conditions }) in entries.iter().enumerate() {
        let name = format_ident!("__MCP_ENTRY_{index}", span = here);
        let kind = Ident::new(kind, here);
        let entry_type = format_ident!("{kind}Entry", span = here);
        statics.extend(quote_spanned! {here=>
            #(#conditions)*
            #[allow(deprecated)]
            static #name: #private::#entry_type = #value;
            #(#conditions)*
            #private::inventory::submit! { #private::Entry::#kind(&#name) }
        });
        references.push(quote_spanned!(here=> #(#conditions)* #private::Entry::#kind(&#name)));
    }
    quote_spanned! {here=>
        #(#conditions)*
        const _: () = {
            #statics
            static __MCP_ENTRIES: &[#private::Entry] = &[#(#references),*];

            #[automatically_derived]
            impl #private::Collect for #ty {
                fn entries() -> &'static [#private::Entry] {
                    __MCP_ENTRIES
                }
            }
        };
    }
}

/// Emits the static data of the methods of a type.
pub(crate) fn tools(tools: &Tools, private: &TokenStream) -> TokenStream {
    let entry = |entry: &model::Entry| match entry {
        model::Entry::Tool(entry) => tool(entry, private),
        model::Entry::Resource(entry) => resource(entry, private),
        model::Entry::Prompt(entry) => prompt(entry, private),
    };
    let entries: Vec<Entry> = tools.entries.iter().map(entry).collect();
    collected(&tools.ty, &[], &entries, private)
}

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::{Attribute, Visibility, ext::IdentExt};

use super::{
    entry::{Entry, entry},
    here,
};
use crate::model::Tools;

/// Emits the type with the name of a function, by which the function is registered, with its registration.
///
/// The registration is inside of the type, so that there is only one item beside the function. If the function is in an
/// `impl` block without `#[tools]`, the compiler rejects that item, and nothing else.
///
/// ```text
/// #[doc = "…"]
/// #[allow(non_camel_case_types, clippy::trailing_empty_array)]
/// pub struct add {
///     #[allow(dead_code)]
///     registration: [(); {
///         static __MCP_ENTRY_0: ToolEntry = ToolEntry { … };
///         …
///         0
///     }],
/// }
/// ```
pub(crate) fn marker(
    function: &Ident,
    visibility: &Visibility,
    conditions: &[Attribute],
    entries: &[Entry],
    private: &TokenStream,
) -> TokenStream {
    let here = function.span().resolved_at(Span::mixed_site());
    let mut name = function.clone();
    name.set_span(here);
    let doc = format!(" Registers the function `{}`, as in `Server::with::<{0}>()`.", function.unraw());
    let registration = registration(function, entries, private);
    quote_spanned! {here=>
        #(#conditions)*
        #[doc = #doc]
        #[allow(non_camel_case_types, clippy::trailing_empty_array)]
        #visibility struct #name {
            #[allow(dead_code)]
            registration: [(); {
                #registration
                0
            }],
        }
    }
}

/// Emits the static data of the methods of a type and their registration, or only an empty registration if there are
/// errors.
///
/// ```text
/// const _: () = {
///     static __MCP_ENTRY_0: ToolEntry = ToolEntry { … };
///     …
/// };
/// ```
pub(crate) fn tools(tools: &Tools, are_valid: bool, private: &TokenStream) -> TokenStream {
    let entries: Vec<Entry> = tools.entries.iter().filter(|_| are_valid).map(|one| entry(one, private)).collect();
    let registration = registration(&tools.ty, &entries, private);
    quote_spanned! {here()=>
        const _: () = {
            #registration
        };
    }
}

/// Emits the static data of functions and their registration.
///
/// Deprecation warnings are suppressed, because the compiler already reports them in the author's code.
///
/// ```text
/// #[allow(deprecated)]
/// static __MCP_ENTRY_0: ToolEntry = ToolEntry { … };
/// inventory::submit! { Entry::Tool(EntryRef::Static(&__MCP_ENTRY_0)) }
///
/// static __MCP_ENTRIES: &[Entry] = &[Entry::Tool(EntryRef::Static(&__MCP_ENTRY_0))];
///
/// #[allow(non_local_definitions)]
/// impl Collect for add {
///     fn entries() -> &'static [Entry] {
///         __MCP_ENTRIES
///     }
/// }
/// ```
fn registration(ty: impl ToTokens, entries: &[Entry], private: &TokenStream) -> TokenStream {
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
            #private::inventory::submit! { #private::Entry::#kind(#private::EntryRef::Static(&#name)) }
        });
        references
            .push(quote_spanned!(here=> #(#conditions)* #private::Entry::#kind(#private::EntryRef::Static(&#name))));
    }
    quote_spanned! {here=>
        #statics
        static __MCP_ENTRIES: &[#private::Entry] = &[#(#references),*];

        #[allow(non_local_definitions)]
        #[automatically_derived]
        impl #private::Collect for #ty {
            fn entries() -> &'static [#private::Entry] {
                __MCP_ENTRIES
            }
        }
    }
}

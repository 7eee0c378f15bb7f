//! Runs the three stages of each macro and keeps items with errors.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, ItemImpl};

use crate::{
    emit,
    errors::Errors,
    manifest,
    model::{EnclosingType, Entry, Server, Tools, check_block},
    syntax::{Function, Kind, Method, ServerSyntax, ToolsSyntax},
};
#[cfg(feature = "ask")]
use crate::{model::Elicit, syntax::ElicitSyntax};
#[cfg(feature = "ui")]
use crate::{model::Page, syntax::PageSyntax};

/// Expands `#[tool]`, `#[resource]` or `#[prompt]`.
pub(crate) fn entry(kind: Kind, options: TokenStream, item: TokenStream) -> TokenStream {
    function(kind, item, |function, errors| {
        Entry::check(Method::read(kind, options, function, errors), &EnclosingType::None, errors)
    })
}

#[cfg(feature = "ui")]
pub(crate) fn ui(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut link = TokenStream::new();
    let mut expanded = function(Kind::Page, item, |function, errors| {
        let (page, function) = Page::check(PageSyntax::read(options, function, errors), errors);
        // Tools refer to the page even if it has errors.
        if function.receiver.is_none() {
            link = emit::page(&page, &manifest::private_path(page.resource.common.crate_path.as_ref()));
        }
        (Entry::Resource(Box::new(page.resource)), function)
    });
    expanded.extend(link);
    expanded
}

/// Runs the stages for a function outside of an `impl` block. `check` runs the second one.
fn function(
    kind: Kind,
    item: TokenStream,
    check: impl FnOnce(Function, &mut Errors) -> (Entry, Function),
) -> TokenStream {
    let mut errors = Errors::default();
    let Some(function) = Function::read(kind, item.clone(), &mut errors) else {
        return with_errors(item, errors);
    };
    if function.is_bodiless() && kind != Kind::Page {
        let message = format!("`{}` cannot be applied to a function without a body, as in a trait", kind.attribute());
        let help = "annotate a function, or the methods of an inherent `impl` block with `#[tools]`";
        errors.help(function.signature.fn_token, message, help);
        return with_errors(unused(&function), errors);
    }
    // Without a receiver and without `Self`, a function in an `impl` block looks like any other.
    if let (None, Some(own)) = (&function.receiver, function.enclosing_self()) {
        let message = format!("`{}` in an `impl` block requires `#[tools]` on the block", kind.attribute());
        errors.help(own, message, "add `#[tools]` to the `impl` block");
        return with_errors(unused(&function), errors);
    }
    // `impl` blocks and traits cannot contain other items.
    let is_associated = function.receiver.is_some();
    let (entry, function) = check(function, &mut errors);
    let private = manifest::private_path(entry.common().crate_path.as_ref());
    let conditions: Vec<Attribute> = function.conditions().cloned().collect();
    let marker = |entries: &[emit::Entry]| {
        emit::marker(&function.signature.ident, &function.visibility, &conditions, entries, &private)
    };
    if errors.is_empty() {
        let marker = marker(&[emit::entry(&entry, &private)]);
        return quote!(#function #marker);
    }
    let unused = unused(&function);
    if is_associated {
        return with_errors(unused, errors);
    }
    let marker = marker(&[]);
    with_errors(quote!(#unused #marker), errors)
}

pub(crate) fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            match syn::parse2(item.clone()) {
                Ok(syn::Item::Impl(_)) | Err(_) => errors.push(error),
                Ok(_) => errors.at(Span::call_site(), "`#[tools]` can only be applied to an `impl` block"),
            }
            return with_errors(item, errors);
        }
    };
    let is_collectable = check_block(&block, &mut errors);
    let ToolsSyntax { block, methods, scopes, crate_path } = ToolsSyntax::read(options, block, &mut errors);
    let tools = Tools::check((*block.self_ty).clone(), methods, &scopes, crate_path, &mut errors);
    let private = manifest::private_path(tools.crate_path.as_ref());
    if errors.is_empty() {
        let tools = emit::tools(&tools, true, &private);
        return quote!(#block #tools);
    }
    let tools = is_collectable.then(|| emit::tools(&tools, false, &private));
    with_errors(quote!(#[allow(dead_code)] #block #tools), errors)
}

pub(crate) fn server(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(function) = Function::read(Kind::Server, item.clone(), &mut errors) else {
        return with_errors(item, errors);
    };
    let (server, function) = Server::check(ServerSyntax::read(options, function, &mut errors), &mut errors);
    if errors.is_empty() {
        return emit::server(&server, &function, &manifest::private_path(server.crate_path.as_ref()));
    }
    let (visibility, name, unused) = (&function.visibility, &server.function, unused(&function));
    // A second `main`, or a `main` with parameters, would cause a second error. A method cannot be nested in another function.
    let item = if function.receiver.is_some() {
        unused
    } else if server.beside_main {
        quote!(const _: () = { #unused };)
    } else {
        quote! {
            #[allow(dead_code)]
            #visibility fn #name() -> ::std::process::ExitCode {
                #unused
                ::std::process::ExitCode::SUCCESS
            }
        }
    };
    with_errors(item, errors)
}

#[cfg(feature = "ask")]
pub(crate) fn elicit(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(syntax) = ElicitSyntax::read(item, &mut errors) else { return errors.into_tokens() };
    let private = manifest::private_path(syntax.crate_path.as_ref());
    let elicit = Elicit::check(syntax, &mut errors);
    if errors.is_empty() {
        return emit::elicit(&elicit, &private);
    }
    with_errors(emit::elicit_stub(&elicit, &private), errors)
}

/// Emits a function that nothing calls, because the macro reported errors, and suppresses the warning about it.
fn unused(function: &Function) -> TokenStream {
    quote!(#[allow(dead_code)] #function)
}

fn with_errors(item: TokenStream, errors: Errors) -> TokenStream {
    let errors = errors.into_tokens();
    quote!(#item #errors)
}

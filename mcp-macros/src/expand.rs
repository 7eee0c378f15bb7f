//! Runs the three stages of each macro and keeps items with errors.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, ItemImpl};

use crate::{
    emit,
    errors::Errors,
    manifest,
    model::{EnclosingType, Kind, Prompt, Resource, Server, Tool, Tools, check_block},
    syntax::{Function, PromptSyntax, ResourceSyntax, ServerSyntax, ToolSyntax, ToolsSyntax},
};
#[cfg(feature = "ask")]
use crate::{model::Elicit, syntax::ElicitSyntax};
#[cfg(feature = "ui")]
use crate::{model::Page, syntax::PageSyntax};

pub(crate) fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    function(Kind::Tool, item, |function, errors| {
        let (tool, function) = Tool::check(ToolSyntax::read(options, function, errors), &EnclosingType::None, errors);
        (function, tool.common.crate_path.clone(), move |private: &TokenStream| emit::tool(&tool, private))
    })
}

pub(crate) fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    function(Kind::Resource, item, |function, errors| {
        let (resource, function) =
            Resource::check(ResourceSyntax::read(options, function, errors), &EnclosingType::None, errors);
        (function, resource.common.crate_path.clone(), move |private: &TokenStream| emit::resource(&resource, private))
    })
}

#[cfg(feature = "ui")]
pub(crate) fn ui(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut link = TokenStream::new();
    let mut expanded = function(Kind::Page, item, |function, errors| {
        let (page, function) = Page::check(PageSyntax::read(options, function, errors), errors);
        let crate_path = page.resource.common.crate_path.clone();
        // Tools refer to the page even if it has errors.
        if function.receiver.is_none() {
            link = emit::page(&page, &manifest::private_path(crate_path.as_ref()));
        }
        (function, crate_path, move |private: &TokenStream| emit::resource(&page.resource, private))
    });
    expanded.extend(link);
    expanded
}

pub(crate) fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    function(Kind::Prompt, item, |function, errors| {
        let (prompt, function) =
            Prompt::check(PromptSyntax::read(options, function, errors), &EnclosingType::None, errors);
        (function, prompt.common.crate_path.clone(), move |private: &TokenStream| emit::prompt(&prompt, private))
    })
}

/// Runs the stages for a function outside of an `impl` block. `stages` returns the last stage as a closure, which runs
/// only if there are no errors.
fn function<E: FnOnce(&TokenStream) -> emit::Entry>(
    kind: Kind,
    item: TokenStream,
    stages: impl FnOnce(Function, &mut Errors) -> (Function, Option<syn::Path>, E),
) -> TokenStream {
    let mut errors = Errors::default();
    let Some(function) = Function::read(kind.attribute(), item.clone(), &mut errors) else {
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
    let (function, crate_path, emit) = stages(function, &mut errors);
    let private = manifest::private_path(crate_path.as_ref());
    let conditions: Vec<Attribute> = function.conditions().cloned().collect();
    let marker = |entries: &[emit::Entry]| {
        emit::marker(&function.signature.ident, &function.visibility, &conditions, entries, &private)
    };
    if errors.is_empty() {
        let marker = marker(&[emit(&private)]);
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
    let Some(function) = Function::read(Kind::Server.attribute(), item.clone(), &mut errors) else {
        return with_errors(item, errors);
    };
    let (server, function) = Server::check(ServerSyntax::read(options, function, &mut errors), &mut errors);
    if errors.is_empty() {
        return emit::server(&server, &function, &manifest::private_path(server.crate_path.as_ref()));
    }
    let (visibility, name, unused) = (&function.visibility, &server.function, unused(&function));
    // A second `main`, or a `main` with parameters, would cause a second error.
    let item = if server.beside_main {
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

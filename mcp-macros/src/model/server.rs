use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Path, Type, spanned::Spanned};

use super::{Argument, Given, Kind, Owner, signature};
use crate::{
    errors::Errors,
    syntax::{Function, ServerSyntax},
};

/// The options that every server has.
const OPTIONS: [&str; 9] =
    ["allow-host", "allow-origin", "call", "help", "http", "legacy-sse", "list", "schema", "version"];

/// A `main` that configures a server.
pub(crate) struct Server {
    pub(crate) function: Ident,
    pub(crate) flags: Vec<Argument>,
    pub(crate) output: TokenStream,
    pub(crate) asynchronous: bool,
    /// Where the type of the first parameter stands.
    pub(crate) server_place: Span,
    pub(crate) krate: Option<Path>,
}

impl Server {
    /// Checks a `main`, and gives back the function that it was made of.
    pub(crate) fn check(given: ServerSyntax, errors: &mut Errors) -> (Self, Function) {
        let ServerSyntax { mut function, krate } = given;
        let name = function.signature.ident.clone();
        if name != "main" {
            let message = format!("a `#[server]` function is the `main` of its program, not `{name}`");
            errors.help(&name, message, "call it `main`");
        }
        let server_place = check_server_parameter(&mut function, errors);
        let call = signature::check(Kind::Server, &Owner::None, &mut function, None, errors);
        for given in &call.parameters {
            if let Given::Server(parameter, of) = given {
                let message =
                    format!("`{parameter}` cannot be a flag: flags are taken by value, or as `&str` or `&[T]`");
                errors.on(of, message);
            }
        }
        for flag in call.arguments.iter().filter(|flag| OPTIONS.contains(&&*flag.name.replace('_', "-"))) {
            let message = format!("`--{}` cannot be a flag: every server has an option of this name", flag.name);
            errors.help(&flag.named_by, message, r#"give it another name, with `#[arg(rename = "…")]` if you like"#);
        }
        let server = Self {
            flags: call.arguments,
            output: call.output,
            asynchronous: function.signature.asyncness.is_some(),
            server_place: server_place.unwrap_or_else(|| name.span()),
            function: name,
            krate,
        };
        (server, function)
    }
}

/// Takes the first parameter off: it is the server, whatever its name is.
fn check_server_parameter(function: &mut Function, errors: &mut Errors) -> Option<Span> {
    if function.receiver.is_some() {
        return None;
    }
    if function.parameters.is_empty() {
        let message = "a `#[server]` function takes the server and returns it";
        let ident = function.signature.ident.to_token_stream();
        errors.help(ident, message, "write `fn main(server: Server) -> Server`");
        return None;
    }
    let server = function.parameters.remove(0);
    if let Some(attribute) = server.attribute {
        errors.on(attribute.path(), "the first parameter is the server, not a flag");
    }
    if let Type::Reference(reference) = &server.of {
        errors.help(reference, "the first parameter is the server, taken by value", "write `server: Server`");
    }
    Some(server.of.span())
}

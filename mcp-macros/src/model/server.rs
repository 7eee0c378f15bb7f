//! `#[server]`

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Path, Type, spanned::Spanned};

use super::{Argument, EnclosingType, Kind, ParameterSource, signature, types::source_text};
use crate::{
    errors::Errors,
    syntax::{Function, ServerSyntax},
};

/// The command-line options of every server.
const OPTIONS: [&str; 18] = [
    "allow-host",
    "allow-origin",
    "backend",
    "call",
    "drain-delay",
    "help",
    "http",
    "legacy-sse",
    "list",
    "log-format",
    "schema",
    "socket-mode",
    "state-key",
    "tls-cert",
    "tls-key",
    "token-file",
    "trusted-proxies",
    "version",
];

/// A checked function that configures a server, usually `main`.
pub(crate) struct Server {
    pub(crate) function: Ident,
    pub(crate) flags: Vec<Argument>,
    pub(crate) output: TokenStream,
    pub(crate) asynchronous: bool,
    /// The span of the type of the first parameter.
    pub(crate) server_span: Span,
    /// Whether `main!()` defines another `main`.
    pub(crate) beside_main: bool,
    pub(crate) crate_path: Option<Path>,
}

impl Server {
    /// Checks the function of a server and returns it with its tokens.
    pub(crate) fn check(given: ServerSyntax, errors: &mut Errors) -> (Self, Function) {
        let ServerSyntax { mut function, runtimes, runtime_above, beside_main, crate_path } = given;
        for runtime in runtimes {
            let message = format!("`#[{}]` cannot be combined with `#[server]`", source_text(runtime.path()));
            errors.help(runtime.path(), message, "remove it: `#[server]` starts the runtime");
        }
        if let Some(runtime) = runtime_above {
            let help = format!("remove `{runtime}`: `#[server]` starts the runtime");
            let message = format!("`#[server]` cannot be combined with `{runtime}`");
            errors.help_at(Span::call_site(), message, help);
        }
        let name = function.signature.ident.clone();
        if beside_main {
            let help = "remove `main!()`: `#[server]` serves the annotated functions, too";
            let message = "`#[server]` cannot be combined with `main!()`: a program has one `main`";
            errors.help_at(Span::call_site(), message, help);
        }
        let server_span = check_server_parameter(&mut function, errors);
        let call = signature::check(Kind::Server, &EnclosingType::None, &mut function, None, errors);
        for given in &call.parameters {
            if let ParameterSource::Server(parameter, ty) = given {
                let message =
                    format!("`{parameter}` cannot be a flag: flags are taken by value, as `&str`, or as `&[T]`");
                errors.on(ty, message);
            }
        }
        for flag in call.arguments.iter().filter(|flag| OPTIONS.contains(&&*flag.name.replace('_', "-"))) {
            let message = format!("the flag `--{}` conflicts with an option of every server", flag.name);
            errors.help(&flag.name_tokens, message, r#"rename it, for example with `#[arg(rename = "…")]`"#);
        }
        let server = Self {
            flags: call.arguments,
            output: call.output,
            asynchronous: function.signature.asyncness.is_some(),
            server_span: server_span.unwrap_or_else(|| name.span()),
            function: name,
            beside_main,
            crate_path,
        };
        (server, function)
    }
}

/// Removes the first parameter, which is the server.
fn check_server_parameter(function: &mut Function, errors: &mut Errors) -> Option<Span> {
    if function.receiver.is_some() {
        return None;
    }
    if function.parameters.is_empty() {
        let message = "a `#[server]` function must take the server and return it";
        let ident = function.signature.ident.to_token_stream();
        errors.help(ident, message, "write `fn main(server: Server) -> Server`");
        return None;
    }
    let server = function.parameters.remove(0);
    if let Some(attribute) = server.attribute {
        errors.on(attribute.path(), "`#[arg(…)]` is not applicable to the first parameter, which is the server");
    }
    if let Type::Reference(reference) = &server.ty {
        errors.help(
            reference,
            "the first parameter is the server and must be taken by value",
            "write `server: Server`",
        );
    }
    Some(server.ty.span())
}

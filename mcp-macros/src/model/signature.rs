//! Checks signatures.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, GenericParam, Pat, Receiver, ReceiverKind, ReturnType, Safety, Type, TypeReference, ext::IdentExt,
};

use super::{
    Argument, EnclosingType, Kind,
    argument::{check_alone, reject_borrowed},
    types::{find_token, grouped, source_text, ungrouped},
};
use crate::{
    errors::Errors,
    syntax::{Function, Parameter},
};

/// A checked function and its parameters.
pub(crate) struct Call {
    pub(crate) enclosing_type: EnclosingType,
    pub(crate) function: Ident,
    pub(crate) execution: Execution,
    /// The sources of the values, in the order of the parameters.
    pub(crate) parameters: Vec<ParameterSource>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) output: TokenStream,
    /// The `#[cfg]`s of the function.
    pub(crate) conditions: Vec<Attribute>,
}

/// The way a function is executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    Sync,
    Blocking,
    Async,
}

/// The source of the value of a parameter.
pub(crate) enum ParameterSource {
    /// The caller passes the argument with this index.
    Caller(usize),
    /// The server passes a reference: the name of the parameter and the type.
    Server(String, TokenStream),
}

/// Checks the signature of a function.
pub(super) fn check(
    kind: Kind,
    enclosing_type: &EnclosingType,
    function: &mut Function,
    blocking: Option<(bool, Span)>,
    errors: &mut Errors,
) -> Call {
    check_qualifiers(kind, function, errors);
    check_generics(kind, function, errors);
    let lifetimes = LifetimeParameters::of(function);
    let mut parameters = Vec::new();
    if let Some(receiver) = &function.receiver {
        parameters.extend(check_receiver(kind, enclosing_type, receiver, errors));
    }
    let mut arguments = Vec::new();
    for mut parameter in std::mem::take(&mut function.parameters) {
        parameter.ty = lifetimes.elide(parameter.ty);
        parameters.extend(check_parameter(kind, enclosing_type, parameter, &mut arguments, errors));
    }
    check_conflicts(&arguments, errors);
    check_alone(&arguments, errors);
    Call {
        enclosing_type: enclosing_type.clone(),
        function: function.signature.ident.clone(),
        execution: execution(function, blocking, errors),
        parameters,
        arguments,
        output: output(kind, enclosing_type, function, &lifetimes, errors),
        conditions: function.conditions().cloned().collect(),
    }
}

fn execution(function: &Function, blocking: Option<(bool, Span)>, errors: &mut Errors) -> Execution {
    match (function.signature.asyncness.is_some(), blocking) {
        (true, Some((true, option))) => {
            let message = "`blocking` cannot be combined with `async`";
            errors.help_at(option, message, "remove `blocking`, or `async` from the function");
            Execution::Async
        }
        (true, _) => Execution::Async,
        (false, Some((true, _))) => Execution::Blocking,
        (false, _) => Execution::Sync,
    }
}

fn check_qualifiers(kind: Kind, function: &Function, errors: &mut Errors) {
    let signature = &function.signature;
    let name = kind.subject();
    if let Some(constness) = &signature.constness {
        errors.on(constness, format_args!("{name} cannot be a `const` function"));
    }
    if let Safety::Unsafe(unsafety) = &signature.safety {
        let message = format!("{name} cannot be an `unsafe` function: clients can pass any arguments");
        errors.on(unsafety, message);
    }
    if let Some(abi) = &signature.abi {
        errors.on(abi, format_args!("{name} cannot be an `extern` function"));
    }
    if let Some(variadic) = &signature.variadic {
        errors.on(variadic, format_args!("{name} cannot be variadic"));
    }
}

fn check_generics(kind: Kind, function: &Function, errors: &mut Errors) {
    let name = kind.subject();
    for generic in &function.signature.generics.params {
        let message = format!("{name} cannot be generic: {} cannot specify types", kind.input());
        match generic {
            GenericParam::Type(param) => errors.help(&param.ident, message, "use a concrete type"),
            GenericParam::Const(param) => errors.help(&param.ident, message, "use a concrete value"),
            // The references live as long as the call, so the compiler infers the lifetime.
            GenericParam::Lifetime(_) => {}
        }
    }
}

fn check_receiver(
    kind: Kind,
    enclosing_type: &EnclosingType,
    receiver: &Receiver,
    errors: &mut Errors,
) -> Option<ParameterSource> {
    let EnclosingType::Impl(ty) = enclosing_type else {
        match kind {
            Kind::Server => errors.on(receiver, "a `#[server]` function cannot be a method"),
            Kind::Page => errors.help(receiver, "a page cannot be a method", "take the type as `&Type`"),
            _ => errors.help(
                receiver,
                format_args!("`{}` on a method requires `#[tools]` on its `impl` block", kind.attribute()),
                "add `#[tools]` to the `impl` block",
            ),
        }
        return None;
    };
    match &receiver.kind {
        ReceiverKind::Reference(_, lifetime, None)
            if lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") =>
        {
            Some(ParameterSource::Server("self".to_owned(), ty.to_token_stream()))
        }
        ReceiverKind::Reference(_, Some(lifetime), None) => {
            errors.help(
                lifetime,
                "the receiver of a method lives only as long as the call, not `'static`",
                "take `&self`",
            );
            None
        }
        _ => {
            errors.help(
                receiver,
                format_args!(
                    "{} cannot take `{}`: the value is shared between calls",
                    kind.subject(),
                    source_text(receiver)
                ),
                "take `&self` with interior mutability, such as a `Mutex` or an atomic",
            );
            None
        }
    }
}

fn check_parameter(
    kind: Kind,
    enclosing_type: &EnclosingType,
    parameter: Parameter,
    arguments: &mut Vec<Argument>,
    errors: &mut Errors,
) -> Option<ParameterSource> {
    let Parameter { pattern, ty, docs, attribute, options, condition } = parameter;
    if let Some(condition) = condition {
        errors.on(condition, format_args!("a parameter of {} cannot be conditional", kind.subject()));
        return None;
    }
    if let Some(existential) = find_impl(&ty) {
        errors.help(
            existential,
            format_args!("{} cannot be generic: {} cannot specify types", kind.subject(), kind.input()),
            "use a concrete type",
        );
        return None;
    }
    let reference = match ungrouped(&ty) {
        Type::Reference(reference) => check_reference(kind, reference, errors)?,
        _ => None,
    };
    if let Some(state) = reference {
        if let Some(attribute) = attribute {
            let message = format!("`#[arg(…)]` is not applicable to `{}`, which is server state", source_text(&ty));
            errors.help(attribute.path(), message, "take it by value if it is an argument");
            return None;
        }
        let name = match &pattern {
            Pat::Ident(name) => name.ident.unraw().to_string(),
            other => source_text(other),
        };
        return Some(ParameterSource::Server(name, enclosing_type.concrete(state)));
    }
    let name = argument_name(&pattern, errors)?;
    if !matches!(ungrouped(&ty), Type::Reference(_)) && reject_borrowed(&ty, errors) {
        return None;
    }
    arguments.push(Argument::check(kind, enclosing_type, &name, ungrouped(&ty), docs, options, errors));
    Some(ParameterSource::Caller(arguments.len() - 1))
}

/// Distinguishes state from `&str` and `&[T]`, which are arguments. Returns `Some(None)` for the latter, and `None` for
/// errors.
#[allow(clippy::option_option, reason = "documented above")]
fn check_reference<'a>(kind: Kind, reference: &'a TypeReference, errors: &mut Errors) -> Option<Option<&'a Type>> {
    if let Some(mutability) = &reference.mutability {
        let ty = source_text(&reference.elem);
        let and = &reference.and_token;
        let message = format!(
            "a parameter cannot be `&mut {ty}`: state is shared between calls, and arguments are passed by value"
        );
        let help = match ungrouped(&reference.elem) {
            Type::Slice(_) => format!("use `&{ty}`"),
            Type::Path(path) if path.path.is_ident("str") => format!("use `&{ty}`"),
            _ => format!(
                "use `&{ty}` for what the server provides (state that changes needs a `Mutex` or an atomic), and `{ty}` for an argument"
            ),
        };
        errors.help(quote!(#and #mutability), message, help);
        return None;
    }
    if let Some(lifetime) = reference.lifetime.as_ref().filter(|lifetime| lifetime.ident == "static") {
        let ty = source_text(&reference.elem);
        errors.help(
            lifetime,
            format_args!("a reference parameter of {} lives only as long as the call, not `'static`", kind.subject()),
            format_args!("use `&{ty}`"),
        );
        return None;
    }
    Some(match ungrouped(&reference.elem) {
        Type::Slice(slice) if reject_borrowed(&slice.elem, errors) => return None,
        Type::Slice(_) => None,
        Type::Path(path) if path.path.is_ident("str") => None,
        state => Some(state),
    })
}

fn argument_name(pattern: &Pat, errors: &mut Errors) -> Option<Ident> {
    match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => Some(name.ident.clone()),
        other => {
            let help = match other {
                // As in `State(db): State<Db>` of axum.
                Pat::TupleStruct(_) => "write `name: Type` for an argument, and `name: &Type` for state of the server",
                _ => "name the parameter, and destructure it in the body",
            };
            errors.help(other, "an argument must have a name and cannot be a pattern", help);
            None
        }
    }
}

/// Reports duplicate names and headers of arguments.
fn check_conflicts(arguments: &[Argument], errors: &mut Errors) {
    for (index, argument) in arguments.iter().enumerate() {
        let before = &arguments[..index];
        if before.iter().any(|other| other.name == argument.name) {
            errors.on(&argument.name_tokens, format_args!("duplicate argument `{}`", argument.name));
        }
        let Some(header) = &argument.header else { continue };
        let same = |other: &&Argument| {
            other.header.as_ref().is_some_and(|other| other.value().eq_ignore_ascii_case(&header.value()))
        };
        if let Some(other) = before.iter().find(same) {
            let message = format!("the header `{}` already mirrors the argument `{}`", header.value(), other.name);
            errors.on(header, message);
        }
    }
}

fn output(
    kind: Kind,
    enclosing_type: &EnclosingType,
    function: &Function,
    lifetimes: &LifetimeParameters,
    errors: &mut Errors,
) -> TokenStream {
    match &function.signature.output {
        ReturnType::Default => {
            let here = function.signature.ident.span().resolved_at(Span::mixed_site());
            quote_spanned!(here=> ())
        }
        ReturnType::Type(_, ty) => {
            if let Some(existential) = find_impl(ty) {
                let is_future = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == "Future");
                let message = format!("the return type of {} cannot be `impl Trait`", kind.subject());
                let help = if find_token(ty.to_token_stream(), &is_future).is_some() {
                    "write an `async fn` instead of returning a future"
                } else {
                    "name the type"
                };
                errors.help(existential, message, help);
            }
            enclosing_type.concrete(lifetimes.elide((**ty).clone()))
        }
    }
}

/// Finds the `impl` of `impl Trait`.
fn find_impl(ty: &Type) -> Option<TokenTree> {
    find_token(ty.to_token_stream(), &|token| matches!(token, TokenTree::Ident(ident) if ident == "impl"))
}

/// The lifetime parameters of a function, which have no meaning outside of its signature.
struct LifetimeParameters(Vec<Ident>);

impl LifetimeParameters {
    fn of(function: &Function) -> Self {
        let parameters = function.signature.generics.lifetimes();
        Self(parameters.map(|parameter| parameter.lifetime.ident.clone()).collect())
    }

    /// Replaces each lifetime parameter with `'_`.
    fn elide(&self, ty: Type) -> Type {
        if self.0.is_empty() {
            return ty;
        }
        syn::parse2(self.elided(ty.to_token_stream())).unwrap_or(ty)
    }

    fn elided(&self, tokens: TokenStream) -> TokenStream {
        let mut after_quote = false;
        let replace = |token| match token {
            TokenTree::Ident(name) if std::mem::take(&mut after_quote) && self.0.contains(&name) => {
                TokenTree::Ident(Ident::new("_", name.span()))
            }
            TokenTree::Group(group) => grouped(&group, self.elided(group.stream())),
            other => {
                after_quote = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '\'');
                other
            }
        };
        tokens.into_iter().map(replace).collect()
    }
}

//! From a function's signature to how it is called.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{GenericParam, Pat, Receiver, ReceiverKind, ReturnType, Safety, Type, TypeReference, ext::IdentExt};

use super::{
    Argument, Call, Given, Kind, Manner, Owner, argument::refuse_borrowed, flatten, shape::ungrouped, spelled::spelled,
};
use crate::{
    errors::Errors,
    syntax::{Function, Parameter},
};

/// Checks everything about a function but its options.
pub(super) fn check(
    kind: Kind,
    owner: &Owner,
    function: &mut Function,
    blocking: Option<(bool, Span)>,
    errors: &mut Errors,
) -> Call {
    check_qualifiers(kind, function, errors);
    check_generics(kind, function, errors);
    let mut parameters = Vec::new();
    if let Some(receiver) = &function.receiver {
        parameters.extend(check_receiver(kind, owner, receiver, errors));
    }
    let mut arguments = Vec::new();
    for parameter in std::mem::take(&mut function.parameters) {
        parameters.extend(check_parameter(kind, owner, parameter, &mut arguments, errors));
    }
    check_together(&arguments, errors);
    flatten::check_alone(&arguments, errors);
    Call {
        owner: owner.clone(),
        function: function.signature.ident.clone(),
        manner: manner(function, blocking, errors),
        parameters,
        arguments,
        output: output(kind, owner, function, errors),
        conditions: function.conditions().cloned().collect(),
    }
}

fn manner(function: &Function, blocking: Option<(bool, Span)>, errors: &mut Errors) -> Manner {
    match (function.signature.asyncness.is_some(), blocking) {
        (true, Some((true, option))) => {
            errors.at(
                option,
                "an `async` function does not block\nhelp: remove `blocking`, or `async` from the function",
            );
            Manner::Async
        }
        (true, _) => Manner::Async,
        (false, Some((true, _))) => Manner::Blocking,
        (false, _) => Manner::Sync,
    }
}

fn check_qualifiers(kind: Kind, function: &Function, errors: &mut Errors) {
    let signature = &function.signature;
    let name = kind.subject();
    if let Some(constness) = &signature.constness {
        errors.on(constness, format_args!("{name} cannot be a `const` function"));
    }
    if let Safety::Unsafe(unsafety) = &signature.safety {
        let message = format!("{name} cannot be an `unsafe` function: a client calls it with whatever it likes");
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
        let message = format!("{name} cannot be generic: a request names no types");
        match generic {
            GenericParam::Type(of) => errors.help(&of.ident, message, "write the type that it is called with"),
            GenericParam::Const(of) => errors.help(&of.ident, message, "write the value that it is called with"),
            GenericParam::Lifetime(of) => errors.help(
                &of.lifetime,
                format_args!("{name} cannot name the lifetime `{}`: it lives as long as one call", of.lifetime),
                "leave lifetimes out: write `&T` and `T<'_>`",
            ),
        }
    }
}

fn check_receiver(kind: Kind, owner: &Owner, receiver: &Receiver, errors: &mut Errors) -> Option<Given> {
    let Owner::Type(of) = owner else {
        match kind {
            Kind::Server => errors.on(receiver, "a `#[server]` function is no method"),
            _ => errors.help(
                receiver,
                format_args!("`{}` on a method is collected with its `impl` block", kind.attribute()),
                "put `#[tools]` on the `impl` block",
            ),
        }
        return None;
    };
    match &receiver.kind {
        ReceiverKind::Reference(_, None, None) => Some(Given::Server("self".to_owned(), of.to_token_stream())),
        ReceiverKind::Reference(_, Some(lifetime), None) => {
            errors.help(lifetime, "the receiver of a method lives as long as one call", "take `&self`");
            None
        }
        _ => {
            errors.help(
                receiver,
                format_args!(
                    "{} cannot take `{}`: the value is shared between calls",
                    kind.subject(),
                    spelled(receiver)
                ),
                "take `&self`, and put what changes behind a `Mutex` or an atomic",
            );
            None
        }
    }
}

fn check_parameter(
    kind: Kind,
    owner: &Owner,
    parameter: Parameter,
    arguments: &mut Vec<Argument>,
    errors: &mut Errors,
) -> Option<Given> {
    let Parameter { pattern, of, docs, attribute, options, condition } = parameter;
    if let Some(condition) = condition {
        errors.on(condition, format_args!("a parameter of {} cannot be conditional", kind.subject()));
        return None;
    }
    if let Some(existential) = find_impl(of.to_token_stream()) {
        errors.help(
            existential,
            format_args!("{} cannot be generic: a request names no types", kind.subject()),
            "write the type that it is called with",
        );
        return None;
    }
    let reference = match ungrouped(&of) {
        Type::Reference(reference) => check_reference(kind, reference, errors)?,
        _ => None,
    };
    if let Some(state) = reference {
        if let Some(attribute) = attribute {
            let message = format!(
                "`{}` is given by the server, not by the caller, so there is nothing to say about it",
                spelled(&of)
            );
            errors.help(attribute.path(), message, "take it by value, if it is an argument");
            return None;
        }
        let name = match &pattern {
            Pat::Ident(name) => name.ident.unraw().to_string(),
            other => spelled(other),
        };
        return Some(Given::Server(name, owner.concrete(state)));
    }
    let name = argument_name(&pattern, errors)?;
    if !matches!(ungrouped(&of), Type::Reference(_)) && refuse_borrowed(&of, errors) {
        return None;
    }
    arguments.push(Argument::check(kind, owner, &name, ungrouped(&of), docs, options, errors));
    Some(Given::Caller(arguments.len() - 1))
}

/// Tells state from `&str` and `&[T]`, which are arguments.
#[allow(clippy::option_option, reason = "none is a mistake, some of none an argument")]
fn check_reference<'a>(kind: Kind, reference: &'a TypeReference, errors: &mut Errors) -> Option<Option<&'a Type>> {
    if let Some(mutability) = &reference.mutability {
        let of = spelled(&reference.elem);
        let and = &reference.and_token;
        let message =
            format!("`&mut {of}` cannot be given: state is shared between calls, and an argument is given by value");
        let help = match ungrouped(&reference.elem) {
            Type::Slice(_) => format!("take `&{of}`"),
            Type::Path(path) if path.path.is_ident("str") => format!("take `&{of}`"),
            _ => format!(
                "for state take `&{of}`, and put what changes behind a `Mutex` or an atomic; for an argument take `{of}`"
            ),
        };
        errors.help(quote!(#and #mutability), message, help);
        return None;
    }
    if let Some(lifetime) = reference.lifetime.as_ref().filter(|lifetime| lifetime.ident == "static") {
        let of = spelled(&reference.elem);
        errors.help(
            lifetime,
            format_args!("what {} takes by reference lives as long as one call, not `'static`", kind.subject()),
            format_args!("take `&{of}`"),
        );
        return None;
    }
    Some(match ungrouped(&reference.elem) {
        Type::Slice(slice) if refuse_borrowed(&slice.elem, errors) => return None,
        Type::Slice(_) => None,
        Type::Path(path) if path.path.is_ident("str") => None,
        state => Some(state),
    })
}

fn argument_name(pattern: &Pat, errors: &mut Errors) -> Option<Ident> {
    match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => Some(name.ident.clone()),
        other => {
            errors.help(
                other,
                "an argument is known by its name, so it cannot be a pattern",
                "take it as one value with a name, and take it apart in the body",
            );
            None
        }
    }
}

/// Holds the arguments of a function against each other.
fn check_together(arguments: &[Argument], errors: &mut Errors) {
    for (index, argument) in arguments.iter().enumerate() {
        let before = &arguments[..index];
        if before.iter().any(|other| other.name == argument.name) {
            errors.on(&argument.named_by, format_args!("two arguments have the name `{}`", argument.name));
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

fn output(kind: Kind, owner: &Owner, function: &Function, errors: &mut Errors) -> TokenStream {
    match &function.signature.output {
        ReturnType::Default => {
            let here = function.signature.ident.span().resolved_at(Span::mixed_site());
            quote_spanned!(here=> ())
        }
        ReturnType::Type(_, of) => {
            if let Some(existential) = find_impl(of.to_token_stream()) {
                errors.help(
                    existential,
                    format_args!("the result of {} must have a type with a name", kind.subject()),
                    "for a future write an `async fn`",
                );
            }
            owner.concrete(of)
        }
    }
}

/// Finds the `impl` of `impl Trait`.
fn find_impl(tokens: TokenStream) -> Option<TokenTree> {
    tokens.into_iter().find_map(|token| match &token {
        TokenTree::Ident(ident) if ident == "impl" => Some(token),
        TokenTree::Group(group) => find_impl(group.stream()),
        _ => None,
    })
}

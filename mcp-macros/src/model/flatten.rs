//! Arguments whose fields are the arguments of the tool.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{Type, ext::IdentExt};

use super::{Argument, Kind, source_text::source_text, type_class::TypeClass};
use crate::{
    errors::Errors,
    syntax::{ArgumentSyntax, Docs},
};

/// Returns the position of `flatten` if it is present and valid, and rejects options that have no effect on a flattened
/// argument.
pub(super) fn check(
    kind: Kind,
    name: &Ident,
    ty: &Type,
    docs: &Docs,
    given: &ArgumentSyntax,
    errors: &mut Errors,
) -> Option<Span> {
    let (true, span) = given.flatten? else { return None };
    if kind != Kind::Tool {
        errors.at(span, format_args!("only an argument of a tool can be flattened, not {}", kind.argument()));
        return None;
    }
    if TypeClass::of(ty) != TypeClass::Unknown {
        errors.at(span, format_args!("`flatten` is not applicable to `{}`, only to structs", source_text(ty)));
        return None;
    }
    if !docs.is_empty() {
        let message = format!("the description of the flattened argument `{}` is never shown", name.unraw());
        errors.help(name, message, "describe its fields or the tool instead");
    }
    let no_effect =
        |option: &str| format!("`{option}` has no effect on a flattened argument\nhelp: add it to a field of the type");
    if let Some((_, span)) = given.default {
        errors.at(span, no_effect("default"));
    }
    for (option, tokens) in other_options(given) {
        errors.on(tokens, no_effect(option));
    }
    Some(span)
}

/// Rejects other arguments in addition to a flattened argument.
pub(super) fn check_alone(arguments: &[Argument], errors: &mut Errors) {
    if arguments.len() < 2 {
        return;
    }
    for argument in arguments {
        if let Some(span) = argument.flattened {
            let message = format!("the flattened argument `{}` must be the only argument", argument.name);
            errors.at(span, format_args!("{message}\nhelp: make the other arguments fields of its type"));
        }
    }
}

/// Returns the options other than `flatten` and `default`, each with its tokens.
fn other_options(given: &ArgumentSyntax) -> Vec<(&'static str, &dyn ToTokens)> {
    fn option<T: ToTokens>(given: &Option<T>) -> Option<&dyn ToTokens> {
        given.as_ref().map(|tokens| tokens as &dyn ToTokens)
    }

    [
        ("range", option(&given.range)),
        ("length", option(&given.length)),
        ("pattern", option(&given.pattern)),
        ("format", option(&given.format)),
        ("examples", given.examples.first().map(|example| example as &dyn ToTokens)),
        ("rename", option(&given.rename)),
        ("title", option(&given.title)),
        ("description", option(&given.description)),
        ("header", option(&given.header)),
        ("complete", option(&given.complete)),
        ("env", option(&given.env)),
    ]
    .into_iter()
    .filter_map(|(name, tokens)| Some((name, tokens?)))
    .collect()
}

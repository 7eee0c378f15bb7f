//! An argument whose fields are the arguments of its tool.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{Type, ext::IdentExt};

use super::{Argument, Kind, shape::Shape, spelled::spelled};
use crate::{
    errors::Errors,
    syntax::{ArgumentSyntax, Docs},
};

/// Finds out whether an argument is flattened, and refuses what cannot be said of one that only its fields are left of.
pub(super) fn check(
    kind: Kind,
    name: &Ident,
    of: &Type,
    docs: &Docs,
    given: &ArgumentSyntax,
    errors: &mut Errors,
) -> Option<Span> {
    let (true, place) = given.flatten? else { return None };
    if kind != Kind::Tool {
        errors.at(place, format_args!("only an argument of a tool can be flattened, not {}", kind.argument()));
        return None;
    }
    if Shape::of(of) != Shape::Unknown {
        errors.at(place, format_args!("`flatten` does not fit `{}`, it is for structs", spelled(of)));
        return None;
    }
    if !docs.is_empty() {
        let message =
            format!("nobody would see the description of `{}`, of which only the fields are left", name.unraw());
        errors.help(name, message, "describe the fields, or the tool");
    }
    let refusal = |option: &str| {
        format!("`{option}` cannot be said of an argument of which only the fields are left\nhelp: say it of a field")
    };
    if let Some((_, place)) = given.default {
        errors.at(place, refusal("default"));
    }
    for (option, tokens) in others(given) {
        errors.on(tokens, refusal(option));
    }
    Some(place)
}

/// Refuses arguments beside one that is flattened.
pub(super) fn check_alone(arguments: &[Argument], errors: &mut Errors) {
    if arguments.len() < 2 {
        return;
    }
    for argument in arguments {
        if let Some(place) = argument.flattened {
            let message = format!("`{}` is flattened, so it must be the only argument", argument.name);
            errors.at(place, format_args!("{message}\nhelp: make the others fields of its type"));
        }
    }
}

/// The options that are given beside `flatten` and `default`, each with its tokens.
fn others(given: &ArgumentSyntax) -> Vec<(&'static str, &dyn ToTokens)> {
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

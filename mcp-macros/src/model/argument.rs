//! One argument.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, LitStr, Path, Type, ext::IdentExt, spanned::Spanned};

use super::{
    Kind, Owner, flatten,
    literal::Literal,
    rules::{Rule, Rules},
    shape::{Shape, ungrouped},
    spelled::spelled,
};
use crate::{
    errors::Errors,
    syntax::{ArgumentSyntax, Docs},
};

/// What the caller gives for one parameter.
pub(crate) struct Argument {
    /// The name on the wire.
    pub(crate) name: String,
    /// The tokens that give the name.
    pub(super) named_by: TokenStream,
    pub(crate) title: Option<String>,
    pub(crate) description: Docs,
    /// The type that is decoded: `String` for `&str`.
    pub(crate) of: TokenStream,
    /// Whether the function takes a reference to it.
    pub(crate) borrowed: bool,
    pub(crate) default: Option<Default>,
    pub(crate) rules: Vec<Rule>,
    /// The header that mirrors it, which is one of the rules as well.
    pub(super) header: Option<LitStr>,
    pub(crate) complete: Option<Path>,
    pub(crate) env: Option<String>,
    /// Where it says that its fields are the arguments of the tool.
    pub(crate) flattened: Option<Span>,
}

/// What stands in for an argument that is missing.
pub(crate) enum Default {
    Json(String),
    Expression(TokenStream),
}

impl Argument {
    pub(super) fn check(
        kind: Kind,
        owner: &Owner,
        name: &Ident,
        of: &Type,
        docs: Docs,
        mut given: ArgumentSyntax,
        errors: &mut Errors,
    ) -> Self {
        let shape = Shape::of(of);
        let flattened = flatten::check(kind, name, of, &docs, &given, errors);
        let named_by = given.rename.as_ref().map_or(name.to_token_stream(), ToTokens::to_token_stream);
        let name = given.rename.take().map_or_else(|| name.unraw().to_string(), |rename| rename.value());
        if name.is_empty() {
            errors.on(&named_by, "the name of an argument cannot be empty");
        }
        let complete = given.complete.take().filter(|path| is_completed(kind, path, errors));
        let env = given.env.take().filter(|env| has_environment(kind, env, errors)).map(|env| env.value());
        let title = given.title.take().map(|title| title.value());
        let description = given.description.take().map_or(docs, Docs::of);
        let default = given.default.take();
        let rules = Rules::check(kind, given, shape, of, errors);
        let (of, borrowed) = slot(of, owner);
        let default =
            default.map(|(value, place)| default_of(value, place, &of, borrowed, shape, &rules, owner, errors));
        let header = rules.header.clone();
        let rules = rules.into_list();
        Self { name, named_by, title, description, of, borrowed, default, rules, header, complete, env, flattened }
    }
}

/// The type that an argument is decoded into, and whether the function borrows it.
fn slot(of: &Type, owner: &Owner) -> (TokenStream, bool) {
    match of {
        Type::Reference(reference) => {
            // From its first token to its last, so that a message covers the type as it is written.
            let generated = |span: Span| span.resolved_at(Span::mixed_site());
            let start = generated(reference.and_token.spans[0]);
            match ungrouped(&reference.elem) {
                Type::Slice(slice) => {
                    let item = owner.concrete(&slice.elem);
                    let end = generated(slice.bracket_token.span.close());
                    let close = quote_spanned!(end=> >);
                    (quote_spanned!(start=> ::std::vec::Vec<#item #close), true)
                }
                text => {
                    let string = Ident::new("String", generated(text.span()));
                    (quote_spanned!(start=> ::std::string::#string), true)
                }
            }
        }
        of => (owner.concrete(of), false),
    }
}

#[allow(clippy::too_many_arguments, reason = "a step of one check, not an interface")]
pub(super) fn default_of(
    value: Option<Expr>,
    place: Span,
    of: &TokenStream,
    borrowed: bool,
    shape: Shape,
    rules: &Rules,
    owner: &Owner,
    errors: &mut Errors,
) -> Default {
    let here = place.resolved_at(Span::mixed_site());
    let Some(value) = value else {
        return Default::Expression(quote_spanned!(here=> <#of as ::core::default::Default>::default()));
    };
    if let Some(literal) = Literal::of(&value) {
        rules.hold("default", &literal, shape, &value, errors);
        return Default::Json(literal.json());
    }
    let value = owner.concrete(value);
    Default::Expression(match borrowed {
        true => quote_spanned!(here=> <#of as ::core::convert::From<_>>::from(#value)),
        false => value,
    })
}

fn is_completed(kind: Kind, path: &Path, errors: &mut Errors) -> bool {
    match kind {
        Kind::Resource | Kind::Prompt => true,
        Kind::Tool => {
            errors.help(
                path,
                "an argument of a tool cannot be completed: the protocol completes those of prompts and templates",
                "an enum as the argument's type lists its values in the schema",
            );
            false
        }
        Kind::Server | Kind::Form => {
            errors.on(path, format_args!("{} cannot be completed", kind.argument()));
            false
        }
    }
}

fn has_environment(kind: Kind, env: &LitStr, errors: &mut Errors) -> bool {
    let name = env.value();
    if kind != Kind::Server {
        let message = format!("{} comes from the caller, not from the environment", kind.argument());
        errors.help(env, message, "`env` is for the flags of a `#[server]` function");
        return false;
    }
    if name.is_empty() || name.contains(['=', '\0']) {
        errors.on(env, format_args!("`{name}` is no name of an environment variable"));
        return false;
    }
    true
}

/// Refuses a type that no caller can give by value.
pub(super) fn refuse_borrowed(of: &Type, errors: &mut Errors) -> bool {
    let Some(reference) = first_reference(of.to_token_stream()) else { return false };
    let owned = spelled(of).replace("&'static str", "String").replace("&str", "String");
    let message = format!("`{}` borrows what the caller gives, which does not outlive its decoding", spelled(of));
    match owned.contains('&') {
        true => errors.at(reference, message),
        false => errors.help(of, message, format_args!("take `{owned}`")),
    }
    true
}

fn first_reference(tokens: TokenStream) -> Option<Span> {
    use proc_macro2::TokenTree;
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Punct(punct) if punct.as_char() == '&' => Some(punct.span()),
        TokenTree::Group(group) => first_reference(group.stream()),
        _ => None,
    })
}

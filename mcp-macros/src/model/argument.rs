//! Arguments.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, LitStr, Path, Type, ext::IdentExt, spanned::Spanned};

use super::{
    EnclosingType, Kind, NamedFunction,
    literal::Literal,
    rules::{Rule, Rules},
    types::{TypeClass, find_token, of_prelude, source_text, ungrouped},
};
use crate::{
    errors::Errors,
    syntax::{ArgumentSyntax, Docs},
};

/// A parameter whose value the caller passes.
pub(crate) struct Argument {
    /// The name in requests.
    pub(crate) name: String,
    /// The tokens of the name.
    pub(super) name_tokens: TokenStream,
    pub(crate) title: Option<String>,
    pub(crate) description: Docs,
    /// The type that is decoded: `String` for `&str`.
    pub(crate) ty: TokenStream,
    /// Whether the function borrows the decoded value.
    pub(crate) borrowed: bool,
    pub(crate) default: Option<Default>,
    pub(crate) rules: Vec<Rule>,
    /// The header that mirrors the argument. Also one of the rules.
    pub(super) header: Option<LitStr>,
    pub(crate) complete: Option<NamedFunction>,
    pub(crate) env: Option<String>,
    /// The position of the option `flatten`.
    pub(crate) flattened: Option<Span>,
}

/// The default of an argument.
pub(crate) enum Default {
    Json(String),
    Expression(TokenStream),
}

impl Argument {
    pub(super) fn check(
        kind: Kind,
        enclosing_type: &EnclosingType,
        name: &Ident,
        ty: &Type,
        docs: Docs,
        mut given: ArgumentSyntax,
        errors: &mut Errors,
    ) -> Self {
        let type_class = TypeClass::of(ty);
        let flattened = check_flatten(kind, name, ty, &docs, &given, errors);
        let name_tokens = given.rename.as_ref().map_or(name.to_token_stream(), ToTokens::to_token_stream);
        let name = given.rename.take().map_or_else(|| name.unraw().to_string(), |rename| rename.value());
        if name.is_empty() {
            errors.on(&name_tokens, "the name of an argument cannot be empty");
        }
        let complete = given.complete.take().filter(|path| can_have_completions(kind, path, errors));
        let complete = complete.map(|path| enclosing_type.named_function(&path));
        let env = given.env.take().filter(|env| can_have_env(kind, env, errors)).map(|env| env.value());
        let title = given.title.take().map(|title| title.value());
        let description = given.description.take().map_or(docs, Docs::of);
        let default = given.default.take();
        let rules = Rules::check(kind, given, type_class, ty, errors);
        let (ty, borrowed) = slot(ty, enclosing_type);
        let default = default
            .map(|(value, span)| default_of(value, span, &ty, borrowed, type_class, &rules, enclosing_type, errors));
        let header = rules.header.clone();
        let rules = rules.into_list();
        Self { name, name_tokens, title, description, ty, borrowed, default, rules, header, complete, env, flattened }
    }
}

/// Returns the type that an argument is decoded into, and whether the function borrows it.
fn slot(ty: &Type, enclosing_type: &EnclosingType) -> (TokenStream, bool) {
    match ty {
        Type::Reference(reference) => {
            // Spans from the first token to the last, so that messages underline the whole type.
            let generated = |span: Span| span.resolved_at(Span::mixed_site());
            let start = generated(reference.and_token.spans[0]);
            match ungrouped(&reference.elem) {
                Type::Slice(slice) => {
                    let item = enclosing_type.concrete(&slice.elem);
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
        ty => (enclosing_type.concrete(ty), false),
    }
}

#[allow(clippy::too_many_arguments, reason = "a step of one check")]
pub(super) fn default_of(
    value: Option<Expr>,
    span: Span,
    ty: &TokenStream,
    borrowed: bool,
    type_class: TypeClass,
    rules: &Rules,
    enclosing_type: &EnclosingType,
    errors: &mut Errors,
) -> Default {
    let here = span.resolved_at(Span::mixed_site());
    let Some(value) = value else {
        return Default::Expression(quote_spanned!(here=> <#ty as ::core::default::Default>::default()));
    };
    if let Some(literal) = Literal::of(&value) {
        rules.check_value("default", &literal, type_class, &value, errors);
        return Default::Json(literal.json());
    }
    let value = enclosing_type.concrete(value);
    Default::Expression(if borrowed {
        quote_spanned!(here=> <#ty as ::core::convert::From<_>>::from(#value))
    } else {
        value
    })
}

fn can_have_completions(kind: Kind, path: &Path, errors: &mut Errors) -> bool {
    match kind {
        Kind::Resource | Kind::Page | Kind::Prompt => true,
        Kind::Tool => {
            errors.help(
                path,
                "an argument of a tool cannot have completions: the protocol supports them for prompts and templates only",
                "use an enum as the type of the argument to list its values in the schema",
            );
            false
        }
        Kind::Server | Kind::Form => {
            errors.on(path, format_args!("{} cannot have completions", kind.argument()));
            false
        }
    }
}

fn can_have_env(kind: Kind, env: &LitStr, errors: &mut Errors) -> bool {
    let name = env.value();
    if kind != Kind::Server {
        let message = format!("{} comes from the caller, not from the environment", kind.argument());
        errors.help(env, message, "`env` is for the flags of a `#[server]` function");
        return false;
    }
    if name.is_empty() || name.contains(['=', '\0']) {
        errors.on(
            env,
            format_args!("invalid name `{name}` of an environment variable, expected one without `=` and NUL"),
        );
        return false;
    }
    true
}

/// Rejects a type that borrows from the arguments, as far as its tokens reveal it.
pub(super) fn reject_borrowed(ty: &Type, errors: &mut Errors) -> bool {
    if let Some(provided) = optional_state(ty) {
        let (ty_text, provided) = (source_text(ty), source_text(provided));
        errors.help(
            ty,
            format_args!("`{ty_text}` cannot be a parameter: a value that the server provides is never missing"),
            format_args!("take `&{provided}`; an argument that may be absent is taken by value, as `Option<T>`"),
        );
        return true;
    }
    let message = || format!("`{}` borrows from the arguments, which are dropped after decoding", source_text(ty));
    let is_reference = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '&');
    let Some(reference) = find_token(ty.to_token_stream(), &is_reference) else {
        let borrows = has_lifetime(ty.to_token_stream());
        if borrows {
            errors.help(ty, message(), "use a type that owns its data: without a lifetime, or with `'static`");
        }
        return borrows;
    };
    let owned = source_text(ty).replace("&'static str", "String").replace("&str", "String");
    if owned.contains('&') {
        errors.at(reference.span(), message());
    } else {
        errors.help(ty, message(), format_args!("use `{owned}`"));
    }
    true
}

/// Returns the `T` of `Option<&T>`, unless that is `&str` or a slice.
fn optional_state(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ungrouped(ty) else { return None };
    let ("Option", inner) = of_prelude(path)? else { return None };
    let Type::Reference(reference) = ungrouped(inner) else { return None };
    match ungrouped(&reference.elem) {
        Type::Slice(_) => None,
        Type::Path(path) if path.path.is_ident("str") => None,
        provided => Some(provided),
    }
}

/// Returns whether the tokens contain a lifetime other than `'static`, and other than the lifetime of `Cow<'_, …>`,
/// which is inferred as `'static`.
fn has_lifetime(tokens: TokenStream) -> bool {
    let (mut after_quote, mut of_cow) = (false, false);
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(name) if std::mem::take(&mut after_quote) => name != "static" && !(of_cow && name == "_"),
        TokenTree::Ident(name) => {
            of_cow = name == "Cow";
            false
        }
        TokenTree::Group(group) => has_lifetime(group.stream()),
        other => {
            after_quote = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '\'');
            false
        }
    })
}

/// Returns the position of `flatten` if it is present and valid, and rejects options that have no effect on a flattened
/// argument.
fn check_flatten(
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
    let others: [(&str, &dyn ToTokens); 11] = [
        ("range", &given.range),
        ("length", &given.length),
        ("pattern", &given.pattern),
        ("format", &given.format),
        ("examples", &given.examples.first()),
        ("rename", &given.rename),
        ("title", &given.title),
        ("description", &given.description),
        ("header", &given.header),
        ("complete", &given.complete),
        ("env", &given.env),
    ];
    for (option, tokens) in others.map(|(option, tokens)| (option, tokens.to_token_stream())) {
        if !tokens.is_empty() {
            errors.on(tokens, no_effect(option));
        }
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
            errors.help_at(span, message, "make the other arguments fields of its type");
        }
    }
}

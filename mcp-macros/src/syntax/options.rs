//! Options of attributes: `name`, `name = value`, `name(value, …)`.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, Path, Token, UnOp,
    ext::IdentExt,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
    spanned::Spanned,
    token,
};

use crate::errors::{Errors, one_of};

/// A supported option of an attribute, with an example for messages.
pub(super) struct OptionSpec {
    pub(super) name: &'static str,
    pub(super) example: &'static str,
}

pub(super) const fn spec(name: &'static str, example: &'static str) -> OptionSpec {
    OptionSpec { name, example }
}

/// Names that options have in JSON Schema, in the protocol and in other crates, each with the name of the option here.
const OTHER_NAMES: [(&str, &str); 25] = [
    ("annotations", "read_only"),
    ("read_only_hint", "read_only"),
    ("readOnlyHint", "read_only"),
    ("destructive_hint", "destructive"),
    ("destructiveHint", "destructive"),
    ("idempotent_hint", "idempotent"),
    ("idempotentHint", "idempotent"),
    ("open_world_hint", "open_world"),
    ("openWorldHint", "open_world"),
    ("about", "description"),
    ("desc", "description"),
    ("doc", "description"),
    ("help", "description"),
    ("default_value", "default"),
    ("default_value_t", "default"),
    ("min", "range"),
    ("max", "range"),
    ("minimum", "range"),
    ("maximum", "range"),
    ("min_length", "length"),
    ("max_length", "length"),
    ("min_items", "length"),
    ("max_items", "length"),
    ("regex", "pattern"),
    ("mime_type", "mime"),
];

/// Options of clap's `arg` that need no option here, each with what replaces it.
const NEEDLESS: [(&str, &str); 4] = [
    ("long", "omit it: a flag has the name of its parameter, and `rename = \"…\"` changes it"),
    ("short", "omit it: flags have no short names"),
    ("required", "omit it: an argument is required unless it has a default or its type is an `Option`"),
    ("value_name", "omit it: the name of the value is derived from the name of the flag"),
];

/// The parsed options of an attribute. Reading an option removes it.
pub(super) struct Options {
    attribute: &'static str,
    known: Vec<&'static OptionSpec>,
    given: Vec<GivenOption>,
}

/// A parsed option.
struct GivenOption {
    name: Ident,
    value: OptionValue,
}

/// The value of an option.
enum OptionValue {
    /// `name`
    None,
    /// `name = value`
    Single(Expr),
    /// `name(value, …)`
    List(TokenStream),
}

impl GivenOption {
    /// Returns the tokens of the value, or of the name if there is no value.
    fn tokens(&self) -> TokenStream {
        match &self.value {
            OptionValue::None => self.name.to_token_stream(),
            OptionValue::Single(value) => value.to_token_stream(),
            OptionValue::List(values) if values.is_empty() => self.name.to_token_stream(),
            OptionValue::List(values) => values.clone(),
        }
    }
}

impl Options {
    pub(super) fn new(attribute: &'static str, known: impl IntoIterator<Item = &'static OptionSpec>) -> Self {
        Self { attribute, known: known.into_iter().collect(), given: Vec::new() }
    }

    /// Parses a list of options. Reports and skips invalid options.
    pub(super) fn read(&mut self, tokens: TokenStream, errors: &mut Errors) {
        let list = |input: ParseStream<'_>| {
            while !input.is_empty() {
                match parse_option(input) {
                    Ok(given) => self.add(given, errors),
                    Err(error) => {
                        errors.push(error);
                        skip_to_comma(input)?;
                    }
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        let result = list.parse2(tokens);
        errors.keep(result);
    }

    /// Parses the lists of options in attributes.
    pub(super) fn read_attributes<'a>(
        &mut self,
        attributes: impl IntoIterator<Item = &'a Attribute>,
        errors: &mut Errors,
    ) {
        for attribute in attributes {
            match &attribute.meta {
                Meta::List(list) => self.read(list.tokens.clone(), errors),
                meta => errors.on(meta, format_args!("expected options: `#[{}(name = value, …)]`", self.attribute)),
            }
        }
    }

    fn add(&mut self, given: GivenOption, errors: &mut Errors) {
        let name = given.name.unraw().to_string();
        let known = || self.known.iter().map(|known| known.name);
        if !known().any(|known| known == name) {
            let expected = one_of(known());
            let message = format!("unknown `{}` option `{name}`, expected {expected}", self.attribute);
            let other = OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, known)| *known);
            let needless = NEEDLESS.iter().find(|(other, _)| self.attribute == "arg" && *other == name);
            return match (self.spec(other), needless) {
                (Some(known), _) => errors.help(&given.name, message, format_args!("write `{}`", known.example)),
                (None, Some((_, help))) => errors.help(&given.name, message, help),
                (None, None) => errors.unknown(&given.name, message, &name, known()),
            };
        }
        if self.given.iter().any(|other| other.name.unraw() == name) {
            return errors.on(&given.name, format_args!("duplicate option `{name}`"));
        }
        self.given.push(given);
    }

    pub(super) fn text(&mut self, name: &str, errors: &mut Errors) -> Option<LitStr> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::Single(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => Some(text.clone()),
            _ => None,
        })
    }

    /// Reads a string, a constant, or a macro such as `include_str!("…")`.
    pub(super) fn text_or_macro(&mut self, name: &str, errors: &mut Errors) -> Option<Expr> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::Single(
                value @ (Expr::Macro(_) | Expr::Path(_) | Expr::Lit(ExprLit { lit: Lit::Str(_), .. })),
            ) => Some(value.clone()),
            _ => None,
        })
    }

    /// Reads `name`, `name = true` or `name = false`.
    pub(super) fn boolean(&mut self, name: &str, errors: &mut Errors) -> Option<(bool, Span)> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::None => Some((true, given.name.span())),
            OptionValue::Single(Expr::Lit(ExprLit { lit: Lit::Bool(value), .. })) => {
                Some((value.value, given.name.span()))
            }
            _ => None,
        })
    }

    pub(super) fn value(&mut self, name: &str, errors: &mut Errors) -> Option<Expr> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::Single(value) => Some(value.clone()),
            _ => None,
        })
    }

    /// Reads `name` or `name = value`.
    pub(super) fn optional_value(&mut self, name: &str, errors: &mut Errors) -> Option<(Option<Expr>, Span)> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::None => Some((None, given.name.span())),
            OptionValue::Single(value) => Some((Some(value.clone()), given.name.span())),
            OptionValue::List(_) => None,
        })
    }

    pub(super) fn path(&mut self, name: &str, errors: &mut Errors) -> Option<Path> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::Single(Expr::Path(path)) if path.qself.is_none() => Some(path.path.clone()),
            _ => None,
        })
    }

    /// Reads `name = value` or `name(value)`.
    pub(super) fn parsed<T: Parse>(&mut self, name: &str, errors: &mut Errors) -> Option<T> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::None => None,
            OptionValue::Single(_) | OptionValue::List(_) => syn::parse2(given.tokens()).ok(),
        })
    }

    pub(super) fn number(&mut self, name: &str, errors: &mut Errors) -> Option<Expr> {
        self.take(name, errors, |given| match &given.value {
            OptionValue::Single(value) if is_number(value) => Some(value.clone()),
            _ => None,
        })
    }

    /// Reads `name(value, …)`. Returns an empty list if the option is absent.
    pub(super) fn list<T: Parse>(&mut self, name: &str, errors: &mut Errors) -> Vec<T> {
        let values = self.take(name, errors, |given| {
            let OptionValue::List(values) = &given.value else { return None };
            let values = Punctuated::<T, Token![,]>::parse_terminated.parse2(values.clone()).ok()?;
            (!values.is_empty()).then(|| values.into_iter().collect())
        });
        values.unwrap_or_default()
    }

    /// Reads `name = [value, …]`.
    pub(super) fn array<T: Parse>(&mut self, name: &str, errors: &mut Errors) -> Vec<T> {
        let values = self.take(name, errors, |given| {
            let OptionValue::Single(Expr::Array(array)) = &given.value else { return None };
            let values = array.elems.iter().map(|value| syn::parse2(ungrouped(value.clone()).to_token_stream()));
            values.collect::<syn::Result<Vec<T>>>().ok().filter(|values| !values.is_empty())
        });
        values.unwrap_or_default()
    }

    /// Removes an option and reads its value. Reports an error if `read` returns `None`.
    fn take<T>(&mut self, name: &str, errors: &mut Errors, read: impl FnOnce(&GivenOption) -> Option<T>) -> Option<T> {
        let index = self.given.iter().position(|given| given.name.unraw() == name)?;
        let given = self.given.swap_remove(index);
        let value = read(&given);
        if value.is_none() {
            let example = self.spec(Some(name)).map_or("", |known| known.example);
            errors.on(given.tokens(), format_args!("invalid value for the option `{name}`, expected `{example}`"));
        }
        value
    }

    fn spec(&self, name: Option<&str>) -> Option<&'static OptionSpec> {
        self.known.iter().find(|known| Some(known.name) == name).copied()
    }
}

/// Removes the invisible delimiters around an expression that a `macro_rules!` macro has inserted.
fn ungrouped(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungrouped(*group.expr),
        value => value,
    }
}

/// Returns whether an expression is a number with an optional sign.
fn is_number(value: &Expr) -> bool {
    match value {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_number(&unary.expr),
        _ => false,
    }
}

fn parse_option(input: ParseStream<'_>) -> syn::Result<GivenOption> {
    if !input.peek(Ident::peek_any) {
        let mut message = "expected an option: a name, `name = value` or `name(value, …)`".to_owned();
        if input.peek(LitStr) {
            message.push_str("\nhelp: write a description as a doc comment, or as `description = \"…\"`");
        }
        return Err(input.error(message));
    }
    let name = Ident::parse_any(input)?;
    let value = if input.peek(Token![=]) {
        let equals: Token![=] = input.parse()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(syn::Error::new(equals.span(), format_args!("expected a value after `{name} =`")));
        }
        OptionValue::Single(ungrouped(input.parse()?))
    } else if input.peek(token::Paren) {
        let values;
        syn::parenthesized!(values in input);
        OptionValue::List(values.parse()?)
    } else if input.is_empty() || input.peek(Token![,]) {
        OptionValue::None
    } else {
        let message = format!("expected `,`, `=` or `(` after the option `{name}`");
        return Err(syn::Error::new(input.span(), message));
    };
    if !input.is_empty() && !input.peek(Token![,]) {
        return Err(input.error("expected `,` between two options"));
    }
    Ok(GivenOption { name, value })
}

fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

//! Types as their tokens reveal them: the class of the type of a parameter, the type whose `impl` block contains a
//! function, and the text of a type in messages.

use std::fmt::Display;

use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{GenericArgument, Path, PathArguments, Type, TypePath};

/// The class of a parameter's type, as far as its tokens reveal it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeClass {
    Str,
    Slice,
    Bool,
    Char,
    /// An integer with the least and the greatest value of its type, as far as `i128` can represent them.
    Integer {
        min: i128,
        max: i128,
    },
    Float,
    Unknown,
}

impl TypeClass {
    pub(super) fn of(parameter: &Type) -> Self {
        match ungrouped(parameter) {
            Type::Reference(reference) => match ungrouped(&reference.elem) {
                Type::Slice(_) => Self::Slice,
                Type::Path(path) if path.path.is_ident("str") => Self::Str,
                _ => Self::Unknown,
            },
            Type::Path(path) if path.qself.is_none() => match of_prelude(path) {
                Some(("Box" | "Option", inner)) => Self::of(inner),
                Some(_) => Self::Slice,
                None => path.path.get_ident().map_or(Self::Unknown, |name| Self::named(&name.to_string())),
            },
            _ => Self::Unknown,
        }
    }

    fn named(name: &str) -> Self {
        let unsigned = |max: u64| Self::Integer { min: 0, max: max.into() };
        let signed = |min: i64, max: i64| Self::Integer { min: min.into(), max: max.into() };
        match name {
            "bool" => Self::Bool,
            "char" => Self::Char,
            "String" => Self::Str,
            "u8" => unsigned(u8::MAX.into()),
            "u16" => unsigned(u16::MAX.into()),
            "u32" => unsigned(u32::MAX.into()),
            "u64" | "usize" => unsigned(u64::MAX),
            "u128" => Self::Integer { min: 0, max: i128::MAX },
            "i8" => signed(i8::MIN.into(), i8::MAX.into()),
            "i16" => signed(i16::MIN.into(), i16::MAX.into()),
            "i32" => signed(i32::MIN.into(), i32::MAX.into()),
            "i64" | "isize" => signed(i64::MIN, i64::MAX),
            "i128" => Self::Integer { min: i128::MIN, max: i128::MAX },
            "f32" | "f64" => Self::Float,
            _ => Self::Unknown,
        }
    }

    /// Returns whether an HTTP header can mirror the value: a string, an integer or a boolean.
    ///
    /// See [x-mcp-header](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header).
    pub(super) fn has_header(parameter: &Type) -> bool {
        match ungrouped(parameter) {
            Type::Array(_) | Type::Slice(_) | Type::Tuple(_) => false,
            Type::Path(path) if path.qself.is_none() => match of_prelude(path) {
                Some(("Option" | "Box", inner)) => Self::has_header(inner),
                Some(("Vec", _)) => false,
                _ => !matches!(Self::of(parameter), Self::Float),
            },
            _ => !matches!(Self::of(parameter), Self::Float | Self::Slice),
        }
    }

    pub(super) fn has_range(self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Float | Self::Unknown)
    }

    pub(super) fn has_length(self) -> bool {
        matches!(self, Self::Str | Self::Slice | Self::Unknown)
    }

    pub(super) fn has_pattern(self) -> bool {
        matches!(self, Self::Str | Self::Char | Self::Unknown)
    }

    pub(super) fn has_format(self) -> bool {
        matches!(self, Self::Str | Self::Unknown)
    }
}

/// Returns the name and the parameter of a generic type of the prelude.
pub(super) fn of_prelude(path: &TypePath) -> Option<(&'static str, &Type)> {
    let segment = path.path.segments.first().filter(|_| path.path.segments.len() == 1)?;
    let name = ["Box", "Option", "Vec"].into_iter().find(|name| segment.ident == name)?;
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(inner) => Some((name, inner)),
            _ => None,
        },
        _ => None,
    }
}

/// Strips the invisible groups that `macro_rules` adds around a type.
pub(super) fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        other => other,
    }
}

/// The type whose `impl` block contains a function.
#[derive(Clone)]
pub(crate) enum EnclosingType {
    None,
    Impl(Box<Type>),
}

/// A function of the author that an option names: it lists resources or completes an argument.
pub(crate) struct NamedFunction {
    /// The name for messages: `all_files`, `Notes::titles`.
    pub(crate) name: String,
    /// The path by which the function is called.
    pub(crate) path: TokenStream,
}

impl EnclosingType {
    /// Resolves a path in the options of a function, which may begin with `Self`.
    pub(crate) fn named_function(&self, path: &Path) -> NamedFunction {
        let mut name = without_spaces(path);
        if let (Self::Impl(_), Some(function)) = (self, name.strip_prefix("Self::")) {
            name = self.name_of(function);
        }
        NamedFunction { name, path: self.concrete(path) }
    }

    /// Returns the path by which a function is called.
    pub(crate) fn path_to(&self, function: &Ident) -> TokenStream {
        match self {
            Self::None => function.to_token_stream(),
            Self::Impl(enclosing_type) => {
                quote_spanned!(function.span().resolved_at(Span::mixed_site())=> <#enclosing_type>::#function)
            }
        }
    }

    /// Returns the display name of a function: `add`, `Notes::add`.
    pub(crate) fn name_of(&self, function: impl Display) -> String {
        match self {
            Self::None => function.to_string(),
            Self::Impl(enclosing_type) => format!("{}::{function}", without_spaces(enclosing_type)),
        }
    }

    /// Replaces `Self`, which has no meaning outside of the `impl` block, with the type.
    pub(crate) fn concrete(&self, tokens: impl ToTokens) -> TokenStream {
        let tokens = tokens.into_token_stream();
        match self {
            Self::None => tokens,
            Self::Impl(enclosing_type) => without_self(tokens, enclosing_type),
        }
    }
}

fn without_spaces(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

fn without_self(tokens: TokenStream, enclosing_type: &Type) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut out = TokenStream::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(this) if this == "Self" => {
                let enclosing_type = respanned(enclosing_type.to_token_stream(), this.span());
                let is_path = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
                out.extend(if is_path { quote_spanned!(this.span()=> <#enclosing_type>) } else { enclosing_type });
            }
            TokenTree::Group(group) => out.extend([grouped(&group, without_self(group.stream(), enclosing_type))]),
            other => out.extend([other]),
        }
    }
    out
}

fn respanned(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        if let TokenTree::Group(group) = &token {
            token = grouped(group, respanned(group.stream(), span));
        }
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

/// Returns the first token that matches, at any depth.
pub(super) fn find_token(tokens: TokenStream, matches: &dyn Fn(&TokenTree) -> bool) -> Option<TokenTree> {
    tokens.into_iter().find_map(|token| match &token {
        TokenTree::Group(group) => find_token(group.stream(), matches),
        other => matches(other).then_some(token),
    })
}

/// Replaces the tokens of a group.
pub(super) fn grouped(like: &Group, stream: TokenStream) -> TokenTree {
    let mut group = Group::new(like.delimiter(), stream);
    group.set_span(like.span());
    group.into()
}

/// Formats tokens like rustfmt, for messages.
pub(super) fn source_text(tokens: impl ToTokens) -> String {
    let mut out = String::new();
    write_tokens(tokens.into_token_stream(), &mut out);
    out
}

fn write_tokens(tokens: TokenStream, out: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                out.push_str(open);
                write_tokens(group.stream(), out);
                out.push_str(close);
            }
            TokenTree::Punct(punct) => {
                let is_path = punct.spacing() == Spacing::Joint || out.ends_with(':');
                out.push(punct.as_char());
                if matches!(punct.as_char(), ',' | ';') || (punct.as_char() == ':' && !is_path) {
                    out.push(' ');
                }
            }
            word => {
                let word = word.to_string();
                if out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    out.push(' ');
                }
                out.push_str(&word);
            }
        }
    }
}

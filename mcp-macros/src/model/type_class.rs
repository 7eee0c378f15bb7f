//! Classification of types by their tokens. Recognizes only types of the language and its prelude.

use syn::{GenericArgument, PathArguments, Type, TypePath};

/// The class of a parameter's type, as far as its tokens reveal it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeClass {
    Str,
    Slice,
    Bool,
    Char,
    Integer { signed: bool },
    Float,
    Unknown,
}

impl TypeClass {
    pub(super) fn of(parameter: &Type) -> Self {
        match parameter {
            Type::Reference(reference) => match ungrouped(&reference.elem) {
                Type::Slice(_) => Self::Slice,
                Type::Path(path) if path.path.is_ident("str") => Self::Str,
                _ => Self::Unknown,
            },
            Type::Path(path) if path.qself.is_none() => match path.path.get_ident().map(ToString::to_string).as_deref()
            {
                Some("bool") => Self::Bool,
                Some("char") => Self::Char,
                Some("u8" | "u16" | "u32" | "u64" | "u128" | "usize") => Self::Integer { signed: false },
                Some("i8" | "i16" | "i32" | "i64" | "i128" | "isize") => Self::Integer { signed: true },
                Some("f32" | "f64") => Self::Float,
                _ => Self::Unknown,
            },
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
}

/// Returns the name and the parameter of a generic type of the prelude.
fn of_prelude(path: &TypePath) -> Option<(&'static str, &Type)> {
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

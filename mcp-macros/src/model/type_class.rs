//! Classification of types by their tokens. Recognizes only types of the language and its prelude.

use syn::{GenericArgument, PathArguments, Type, TypePath};

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

//! What can be told of a type by its tokens alone: only what the language itself names.

use syn::Type;

/// What a parameter's type certainly is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    List,
    Truth,
    Letter,
    Integer { signed: bool },
    Float,
    Unknown,
}

impl Shape {
    pub(super) fn of(parameter: &Type) -> Self {
        match parameter {
            Type::Reference(reference) => match ungrouped(&reference.elem) {
                Type::Slice(_) => Self::List,
                Type::Path(path) if path.path.is_ident("str") => Self::Text,
                _ => Self::Unknown,
            },
            Type::Path(path) if path.qself.is_none() => match path.path.get_ident().map(ToString::to_string).as_deref()
            {
                Some("bool") => Self::Truth,
                Some("char") => Self::Letter,
                Some("u8" | "u16" | "u32" | "u64" | "u128" | "usize") => Self::Integer { signed: false },
                Some("i8" | "i16" | "i32" | "i64" | "i128" | "isize") => Self::Integer { signed: true },
                Some("f32" | "f64") => Self::Float,
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    pub(super) fn has_range(self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Float | Self::Unknown)
    }

    pub(super) fn has_length(self) -> bool {
        matches!(self, Self::Text | Self::List | Self::Unknown)
    }

    pub(super) fn has_pattern(self) -> bool {
        matches!(self, Self::Text | Self::Letter | Self::Unknown)
    }
}

/// Looks through the invisible groups that `macro_rules` puts around a type.
pub(super) fn ungrouped(of: &Type) -> &Type {
    match of {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        other => other,
    }
}

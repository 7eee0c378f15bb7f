use super::field::{FieldKind, FieldType};
use crate::handler::entry::rule::{ArgumentDefault, Bound, Rule};

/// One field of a form.
#[derive(Debug)]
pub struct FormField {
    /// The name in the requested schema.
    pub name: &'static str,
    /// The display name.
    pub title: Option<&'static str>,
    /// The doc comment; empty if there is none.
    pub description: &'static str,
    /// The kind of value.
    pub kind: FieldKind,
    /// Whether the field may stay empty.
    pub optional: bool,
    /// The value of a field that stays empty.
    pub default: Option<ArgumentDefault>,
    /// Constraints beyond the type.
    pub rules: &'static [Rule],
}

impl FormField {
    /// Creates a field from its type and attributes.
    pub const fn new<T>(
        name: &'static str,
        title: Option<&'static str>,
        description: &'static str,
        ty: &FieldType<T>,
        default: Option<ArgumentDefault>,
        rules: &'static [Rule],
    ) -> Self {
        Self { name, title, description, kind: ty.kind, optional: ty.optional, default, rules }
    }

    /// Returns whether the user must fill in the field.
    pub(super) fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }
}

/// Checks that the constraints and the default of a field match its type. It is evaluated at compile time.
///
/// # Panics
///
/// Panics if they do not match.
#[track_caller]
pub const fn check_field<T>(ty: &FieldType<T>, rules: &[Rule], default: Option<&str>) {
    let mut index = 0;
    while index < rules.len() {
        check_rule(ty.kind, &rules[index]);
        index += 1;
    }
    if let Some(json) = default {
        check_default(ty.kind, json.as_bytes());
    }
}

#[track_caller]
const fn check_rule(kind: FieldKind, rule: &Rule) {
    match (rule, kind) {
        (Rule::ExclusiveMaximum(_), FieldKind::Number) => {
            panic!("the range of a floating-point field must include its end: use `..=`")
        }
        (Rule::Minimum(bound) | Rule::Maximum(bound), FieldKind::Integer { min, max }) => {
            assert!(is_within(bound, min, max), "`range` exceeds the range of the field's type");
        }
        (Rule::ExclusiveMaximum(bound), FieldKind::Integer { min, max }) => {
            assert!(is_within(bound, min, max + 1), "`range` exceeds the range of the field's type");
        }
        (Rule::Minimum(_) | Rule::Maximum(_), FieldKind::Number)
        | (Rule::MinLength(_) | Rule::MaxLength(_), FieldKind::Text | FieldKind::Multiple(_))
        | (Rule::Format(_), FieldKind::Text) => {}
        (Rule::Minimum(_) | Rule::Maximum(_) | Rule::ExclusiveMinimum(_) | Rule::ExclusiveMaximum(_), _) => {
            panic!("`range` is not valid for the type of the field, expected a number")
        }
        (Rule::MinLength(_) | Rule::MaxLength(_), _) => {
            panic!("`length` is not valid for the type of the field, expected text or a list")
        }
        (Rule::Format(_), _) => panic!("`format` is not valid for the type of the field, expected text"),
        (Rule::Pattern(_) | Rule::Examples(_) | Rule::Header(_), _) => panic!("forms do not support this constraint"),
    }
}

const fn is_within(bound: &Bound, min: i128, max: i128) -> bool {
    match bound {
        Bound::Integer(bound) => min <= *bound && *bound <= max,
        Bound::Float(_) => true,
    }
}

#[track_caller]
const fn check_default(kind: FieldKind, json: &[u8]) {
    let is_number = matches!(json[0], b'-' | b'0'..=b'9');
    match kind {
        FieldKind::Text => assert!(json[0] == b'"', "the `default` of the field is not text"),
        FieldKind::Boolean => assert!(matches!(json[0], b't' | b'f'), "the `default` of the field is not a boolean"),
        FieldKind::Integer { .. } => {
            assert!(is_number && is_integral(json), "the `default` of the field is not an integer")
        }
        FieldKind::Number => assert!(is_number, "the `default` of the field is not a number"),
        FieldKind::Single(_) => assert!(json[0] == b'"', "the `default` of the field is not one of its choices"),
        FieldKind::Multiple(_) => assert!(json[0] == b'[', "the `default` of the field is not a list of its choices"),
    }
    if let FieldKind::Single(choices) = kind {
        let mut index = 0;
        while index < choices.all.len() {
            if is_quoted(json, choices.all[index].value.as_bytes()) {
                return;
            }
            index += 1;
        }
        panic!("the `default` of the field is not one of its choices")
    }
}

const fn is_integral(json: &[u8]) -> bool {
    let mut index = 0;
    while index < json.len() {
        if matches!(json[index], b'.' | b'e' | b'E') {
            return false;
        }
        index += 1;
    }
    true
}

/// Returns whether the JSON is this string. JSON with escapes is assumed to match, because the default is validated
/// again when the form is sent.
const fn is_quoted(json: &[u8], text: &[u8]) -> bool {
    let mut index = 0;
    while index < json.len() {
        if json[index] == b'\\' {
            return true;
        }
        index += 1;
    }
    if json.len() != text.len() + 2 {
        return false;
    }
    let mut index = 0;
    while index < text.len() {
        if json[index + 1] != text[index] {
            return false;
        }
        index += 1;
    }
    true
}

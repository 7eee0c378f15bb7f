use serde_json::{Value, json};

use crate::handler::entry::{ArgumentDefault, Bound, Rule};

/// A type that can be a field of a form.
///
/// It is implemented for text, numbers, `bool`, enums that derive [`Elicit`](derive@crate::Elicit), a `Vec` of such an
/// enum, and an `Option` of any of them.
///
/// See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a form",
    label = "expected text (`String`), a number, `bool`, an enum that derives `Elicit`, a `Vec` of such an enum, or an `Option` of these",
    note = "forms are flat: the protocol does not support nested forms, maps, or lists of anything but choices"
)]
pub trait ElicitField: Sized + Send + 'static {
    /// The kind of value.
    #[doc(hidden)]
    const KIND: FieldKind;

    /// Whether the field may stay empty.
    #[doc(hidden)]
    const OPTIONAL: bool = false;

    /// Converts the value of the field, which is `None` if the field is empty.
    #[doc(hidden)]
    fn from_json(value: Option<&Value>) -> Option<Self>;

    /// Converts a default to the value that the form shows.
    #[doc(hidden)]
    fn to_json(&self) -> Value;
}

/// The kind of value that a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// A boolean.
    Boolean,
    /// An integer, and the range of its type.
    Integer {
        /// The smallest value.
        min: i128,
        /// The largest value.
        max: i128,
    },
    /// A floating-point number.
    Number,
    /// A single choice.
    Single(&'static ChoiceSet),
    /// Any number of choices.
    Multiple(&'static ChoiceSet),
}

/// The properties of a field's type that a form depends on.
#[derive(Debug)]
pub struct FieldType<T> {
    pub(super) kind: FieldKind,
    pub(super) optional: bool,
    pub(super) from_json: fn(Option<&Value>) -> Option<T>,
    to_json: fn(&T) -> Value,
}

/// Describes the type of a field. Generated code requires [`ElicitField`] only here, so an unsupported type causes a
/// single error.
pub const fn field_type<T: ElicitField>() -> FieldType<T> {
    FieldType { kind: T::KIND, optional: T::OPTIONAL, from_json: T::from_json, to_json: T::to_json }
}

/// Converts the value of a default expression.
///
/// # Errors
///
/// Never fails: the return type is required by [`ArgumentDefault::Expression`](crate::__private::ArgumentDefault).
pub fn default_json<T>(ty: &FieldType<T>, value: &T) -> Result<Value, serde_json::Error> {
    Ok((ty.to_json)(value))
}

/// Implements the trait for types of scalars: the kind of field, and the conversion of its value.
macro_rules! fields {
    ($($(#[$meta:meta])* $of:ident: $kind:expr, $value:ident => $from_json:expr;)*) => {
        $($(#[$meta])*
        impl ElicitField for $of {
            const KIND: FieldKind = $kind;

            fn from_json(value: Option<&Value>) -> Option<Self> {
                let $value = value?;
                $from_json
            }

            fn to_json(&self) -> Value {
                json!(self)
            }
        })*
    };
}

fields! {
    String: FieldKind::Text, value => value.as_str().map(Self::from);
    bool: FieldKind::Boolean, value => value.as_bool();
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest number is intended")]
    f32: FieldKind::Number, value => value.as_f64().map(|value| value as Self).filter(|value| value.is_finite());
    f64: FieldKind::Number, value => value.as_f64();
}

macro_rules! integers {
    ($($of:ident)*) => {
        fields! { $(
            $of: FieldKind::Integer { min: $of::MIN as i128, max: $of::MAX as i128 },
            value => Self::try_from(integer(value)?).ok();
        )* }
    };
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

/// Returns an integer, including one written with a zero fraction such as `1.0`.
fn integer(value: &Value) -> Option<i128> {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

    let is_integral = |number: &f64| number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER;
    let exact = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction, and is small enough to be exact")]
    exact.or_else(|| value.as_f64().filter(is_integral).map(|number| number as i128))
}

#[diagnostic::do_not_recommend]
impl<C: ElicitChoice> ElicitField for C {
    const KIND: FieldKind = FieldKind::Single(C::CHOICES);

    fn from_json(value: Option<&Value>) -> Option<Self> {
        let value = value?.as_str()?;
        C::from_index(C::CHOICES.all.iter().position(|choice| choice.value == value)?)
    }

    fn to_json(&self) -> Value {
        C::CHOICES.all.get(self.index()).map_or(Value::Null, |choice| choice.value.into())
    }
}

impl<C: ElicitChoice> ElicitField for Vec<C> {
    const KIND: FieldKind = FieldKind::Multiple(C::CHOICES);

    fn from_json(value: Option<&Value>) -> Option<Self> {
        value?.as_array()?.iter().map(|value| C::from_json(Some(value))).collect()
    }

    fn to_json(&self) -> Value {
        self.iter().map(C::to_json).collect()
    }
}

impl<T: ElicitField> ElicitField for Option<T> {
    const KIND: FieldKind = T::KIND;
    const OPTIONAL: bool = true;

    fn from_json(value: Option<&Value>) -> Option<Self> {
        match value {
            Some(_) => T::from_json(value).map(Some),
            None => Some(None),
        }
    }

    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }
}

/// An enum whose variants the user chooses from: a single one, or several with a `Vec`.
///
/// Implement it with `#[derive(Elicit)]` on an enum without data.
///
/// See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an item of a list in a form",
    label = "expected an enum that derives `Elicit`: lists in forms are lists of choices",
    note = "for an enum of your own without data in its variants, add `#[derive(mcp_runtime::Elicit)]`"
)]
pub trait ElicitChoice: Sized + Send + 'static {
    /// The choices, in the order of the variants.
    #[doc(hidden)]
    const CHOICES: &'static ChoiceSet;

    /// Returns the variant at an index.
    #[doc(hidden)]
    fn from_index(index: usize) -> Option<Self>;

    /// Returns the index of the variant.
    #[doc(hidden)]
    fn index(&self) -> usize;
}

/// The choices of an enum.
#[derive(Debug, PartialEq, Eq)]
pub struct ChoiceSet {
    /// Whether titles are encoded as `enumNames`.
    pub legacy_names: bool,
    /// The variants.
    pub all: &'static [Choice],
}

/// One variant of an enum.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The value in the requested schema.
    pub value: &'static str,
    /// The display name.
    pub title: Option<&'static str>,
}

impl Choice {
    pub(super) fn title(&self) -> &'static str {
        self.title.unwrap_or(self.value)
    }
}

impl ChoiceSet {
    /// Returns whether any choice has a title.
    pub(super) fn is_titled(&self) -> bool {
        self.all.iter().any(|choice| choice.title.is_some())
    }
}

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
        (Rule::Minimum(_) | Rule::Maximum(_) | Rule::ExclusiveMaximum(_), _) => {
            panic!("`range` is not valid for the type of the field, expected a number")
        }
        (Rule::MinLength(_) | Rule::MaxLength(_), _) => {
            panic!("`length` is not valid for the type of the field, expected text or a list")
        }
        (Rule::Format(_), _) => panic!("`format` is not valid for the type of the field, expected text"),
        (Rule::Pattern(_) | Rule::Examples(_) | Rule::Extension(..), _) => {
            panic!("forms do not support this constraint")
        }
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
            let is_integral = !(contains(json, b'.') || contains(json, b'e') || contains(json, b'E'));
            assert!(is_number && is_integral, "the `default` of the field is not an integer")
        }
        FieldKind::Number => assert!(is_number, "the `default` of the field is not a number"),
        FieldKind::Single(choices) => {
            assert!(is_one_of(json, choices), "the `default` of the field is not one of its choices")
        }
        FieldKind::Multiple(_) => assert!(json[0] == b'[', "the `default` of the field is not a list of its choices"),
    }
}

const fn contains(json: &[u8], wanted: u8) -> bool {
    let mut index = 0;
    while index < json.len() {
        if json[index] == wanted {
            return true;
        }
        index += 1;
    }
    false
}

/// Returns whether the JSON is the string of a choice. A string with escapes is assumed to be one, because the default
/// is validated again when the form is sent.
const fn is_one_of(json: &[u8], choices: &ChoiceSet) -> bool {
    let mut index = 0;
    while index < choices.all.len() {
        if json[0] == b'"' && (contains(json, b'\\') || is_quoted(json, choices.all[index].value.as_bytes())) {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_quoted(json: &[u8], text: &[u8]) -> bool {
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

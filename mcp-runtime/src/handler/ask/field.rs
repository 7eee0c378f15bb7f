use serde_json::Value;

use super::choice::{Choices, ElicitChoice};

/// A type that is one field of a form.
///
/// There is nothing to implement: these are text, numbers, `bool`, enums that derive [`Elicit`](derive@crate::Elicit), a `Vec`
/// of such an enum, and an `Option` of any of them.
///
/// See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a form",
    label = "expected text (`String`), a number, `bool`, an enum that derives `Elicit`, a `Vec` of such an enum, or an `Option` of these",
    note = "a form is flat: the protocol has no forms in forms, no maps, and no lists but of choices"
)]
pub trait ElicitField: Sized + Send + 'static {
    /// What a person fills in.
    #[doc(hidden)]
    const KIND: FieldKind;

    /// Whether the field may stay empty.
    #[doc(hidden)]
    const OPTIONAL: bool = false;

    /// Makes the value of what was filled in, or of nothing.
    #[doc(hidden)]
    fn read(value: Option<&Value>) -> Option<Self>;

    /// Makes what would be filled in, to show it as a default.
    #[doc(hidden)]
    fn show(&self) -> Value;
}

/// What a person fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// Yes or no.
    Truth,
    /// A whole number, and what its type can hold.
    Integer {
        /// The least.
        least: i128,
        /// The greatest.
        most: i128,
    },
    /// Any number.
    Number,
    /// One of several choices.
    One(&'static Choices),
    /// Any of several choices.
    Many(&'static Choices),
}

/// The type of a field: all that a form needs of it.
#[derive(Debug)]
pub struct FieldType<T> {
    pub(super) kind: FieldKind,
    pub(super) optional: bool,
    pub(super) read: fn(Option<&Value>) -> Option<T>,
    show: fn(&T) -> Value,
}

/// Takes what a form needs of a type: the one place where a type that does not fit is refused.
pub const fn field_type<T: ElicitField>() -> FieldType<T> {
    FieldType { kind: T::KIND, optional: T::OPTIONAL, read: T::read, show: T::show }
}

/// Says what a default that is an expression comes to.
pub fn asked<T>(of: &FieldType<T>, value: &T) -> Result<Value, serde_json::Error> {
    Ok((of.show)(value))
}

impl ElicitField for String {
    const KIND: FieldKind = FieldKind::Text;

    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_str().map(Self::from)
    }

    fn show(&self) -> Value {
        self.as_str().into()
    }
}

impl ElicitField for bool {
    const KIND: FieldKind = FieldKind::Truth;

    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_bool()
    }

    fn show(&self) -> Value {
        (*self).into()
    }
}

macro_rules! integers {
    ($($of:ident)*) => {
        $(impl ElicitField for $of {
            const KIND: FieldKind = FieldKind::Integer { least: $of::MIN as i128, most: $of::MAX as i128 };

            fn read(value: Option<&Value>) -> Option<Self> {
                Self::try_from(whole(value?)?).ok()
            }

            fn show(&self) -> Value {
                (*self).into()
            }
        })*
    };
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

/// Reads a whole number, also one that is written with a fraction of nothing.
fn whole(value: &Value) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;

    let exact = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction, and is small enough to be exact")]
    let written = || value.as_f64().filter(|it| it.fract() == 0.0 && it.abs() <= EXACT).map(|it| it as i128);
    exact.or_else(written)
}

macro_rules! floats {
    ($($of:ident)*) => {
        $(impl ElicitField for $of {
            const KIND: FieldKind = FieldKind::Number;

            #[allow(clippy::cast_possible_truncation, reason = "the nearest number is what is wanted")]
            fn read(value: Option<&Value>) -> Option<Self> {
                value?.as_f64().map(|value| value as $of).filter(|value| value.is_finite())
            }

            fn show(&self) -> Value {
                (*self).into()
            }
        })*
    };
}

floats!(f32 f64);

#[diagnostic::do_not_recommend]
impl<C: ElicitChoice> ElicitField for C {
    const KIND: FieldKind = FieldKind::One(C::CHOICES);

    fn read(value: Option<&Value>) -> Option<Self> {
        choice(value?)
    }

    fn show(&self) -> Value {
        shown(self)
    }
}

impl<C: ElicitChoice> ElicitField for Vec<C> {
    const KIND: FieldKind = FieldKind::Many(C::CHOICES);

    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_array()?.iter().map(choice).collect()
    }

    fn show(&self) -> Value {
        self.iter().map(shown).collect()
    }
}

impl<T: ElicitField> ElicitField for Option<T> {
    const KIND: FieldKind = T::KIND;
    const OPTIONAL: bool = true;

    fn read(value: Option<&Value>) -> Option<Self> {
        match value {
            Some(_) => T::read(value).map(Some),
            None => Some(None),
        }
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::show)
    }
}

fn choice<C: ElicitChoice>(value: &Value) -> Option<C> {
    C::choose(C::CHOICES.index_of(value.as_str()?)?)
}

fn shown<C: ElicitChoice>(choice: &C) -> Value {
    C::CHOICES.all.get(choice.chosen()).map_or(Value::Null, |choice| choice.value.into())
}

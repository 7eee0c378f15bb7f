use super::{
    field::{FieldKind, FieldType},
    filled::Filled,
};
use crate::handler::entry::rule::{ArgumentDefault, Bound, Rule};

/// A form that a person fills in: a struct that derives [`Elicit`](derive@crate::Elicit).
///
/// See [Form mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#form-mode-elicitation-requests).
///
/// ```
/// use mcp_runtime::{Elicit, Elicitation};
///
/// #[derive(Elicit)]
/// struct Booking {
///     /// Who comes.
///     #[elicit(length = 1..=80)]
///     name: String,
///     #[elicit(range = 1..=12, default = 2)]
///     guests: u8,
///     #[elicit(format = "date")]
///     day: Option<String>,
///     seat: Seat,
///     wishes: Vec<Wish>,
/// }
///
/// #[derive(Elicit)]
/// enum Seat {
///     Inside,
///     #[elicit(title = "On the terrace")]
///     Outside,
/// }
///
/// #[derive(Elicit)]
/// enum Wish {
///     Quiet,
///     HighChair,
/// }
///
/// let question = Elicitation::<Booking>::new("booking", "When do you come?");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no form",
    label = "expected a struct that derives `Elicit`",
    note = "for a struct of your own add `#[derive(mcp_runtime::Elicit)]`",
    note = "an enum, text or a number is one field of a form: give it to a struct"
)]
pub trait Elicit: Sized + Send + 'static {
    /// The fields, in their order.
    #[doc(hidden)]
    const FORM: &'static [FormField];

    /// Makes the value of what was filled in.
    #[doc(hidden)]
    fn read(filled: &Filled) -> Result<Self, String>;
}

/// One field of a form.
#[derive(Debug)]
pub struct FormField {
    /// The name on the wire.
    pub name: &'static str,
    /// The name for people.
    pub title: Option<&'static str>,
    /// The doc comment; empty where there is none.
    pub description: &'static str,
    /// What a person fills in.
    pub kind: FieldKind,
    /// Whether it may stay empty.
    pub optional: bool,
    /// What stands in for it when it stays empty.
    pub default: Option<ArgumentDefault>,
    /// Constraints beyond the type.
    pub rules: &'static [Rule],
}

impl FormField {
    /// Puts a field together.
    pub const fn new<T>(
        name: &'static str,
        title: Option<&'static str>,
        description: &'static str,
        of: &FieldType<T>,
        default: Option<ArgumentDefault>,
        rules: &'static [Rule],
    ) -> Self {
        Self { name, title, description, kind: of.kind, optional: of.optional, default, rules }
    }

    /// Whether a person must fill it in.
    pub(super) fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }
}

/// Makes sure, while the author's crate is being compiled, that what he says of a field makes sense for its type.
///
/// # Panics
///
/// Panics if it does not.
#[track_caller]
pub const fn fits<T>(of: &FieldType<T>, rules: &[Rule], default: Option<&str>) {
    let mut index = 0;
    while index < rules.len() {
        rule_fits(of.kind, &rules[index]);
        index += 1;
    }
    if let Some(json) = default {
        default_fits(of.kind, json.as_bytes());
    }
}

#[track_caller]
const fn rule_fits(kind: FieldKind, rule: &Rule) {
    match (rule, kind) {
        (Rule::ExclusiveMaximum(_), FieldKind::Number) => {
            panic!("a number with a fraction has no range without its end in a form: write `..=`")
        }
        (Rule::Minimum(bound) | Rule::Maximum(bound), FieldKind::Integer { least, most }) => {
            assert!(is_within(bound, least, most), "`range` goes beyond what the type of the field can hold");
        }
        (Rule::ExclusiveMaximum(bound), FieldKind::Integer { least, most }) => {
            assert!(is_within(bound, least, most + 1), "`range` goes beyond what the type of the field can hold");
        }
        (Rule::Minimum(_) | Rule::Maximum(_), FieldKind::Number)
        | (Rule::MinLength(_) | Rule::MaxLength(_), FieldKind::Text | FieldKind::Many(_))
        | (Rule::Format(_), FieldKind::Text) => {}
        (Rule::Minimum(_) | Rule::Maximum(_) | Rule::ExclusiveMinimum(_) | Rule::ExclusiveMaximum(_), _) => {
            panic!("`range` does not fit the type of the field, it is for numbers")
        }
        (Rule::MinLength(_) | Rule::MaxLength(_), _) => {
            panic!("`length` does not fit the type of the field, it is for text and lists")
        }
        (Rule::Format(_), _) => panic!("`format` does not fit the type of the field, it is for text"),
        (Rule::Pattern(_) | Rule::Examples(_) | Rule::Header(_), _) => panic!("a form has no such rule"),
    }
}

const fn is_within(bound: &Bound, least: i128, most: i128) -> bool {
    match bound {
        Bound::Integer(bound) => least <= *bound && *bound <= most,
        Bound::Float(_) => true,
    }
}

#[track_caller]
const fn default_fits(kind: FieldKind, json: &[u8]) {
    let is_number = matches!(json[0], b'-' | b'0'..=b'9');
    match kind {
        FieldKind::Text => assert!(json[0] == b'"', "the `default` of the field is not text"),
        FieldKind::Truth => assert!(matches!(json[0], b't' | b'f'), "the `default` of the field is not a boolean"),
        FieldKind::Integer { .. } => {
            assert!(is_number && is_whole(json), "the `default` of the field is not a whole number")
        }
        FieldKind::Number => assert!(is_number, "the `default` of the field is not a number"),
        FieldKind::One(_) => assert!(json[0] == b'"', "the `default` of the field is not one of its choices"),
        FieldKind::Many(_) => assert!(json[0] == b'[', "the `default` of the field is not a list of its choices"),
    }
    if let FieldKind::One(choices) = kind {
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

const fn is_whole(json: &[u8]) -> bool {
    let mut index = 0;
    while index < json.len() {
        if matches!(json[index], b'.' | b'e' | b'E') {
            return false;
        }
        index += 1;
    }
    true
}

/// Tells whether the JSON is this text. Text with escapes is taken for it, since it is looked at again when it is asked.
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

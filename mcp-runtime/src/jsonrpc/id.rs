use std::borrow::{Borrow, Cow};

use super::raw;

/// The id of a request: the JSON text of a string or an integer.
///
/// The text is preserved, so a response repeats the id as the client wrote it. Only the escapes of strings are
/// normalized, so that equal strings have equal texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id<'a>(Cow<'a, str>);

/// The maximum size of an id or a progress token as JSON, in bytes. The server stores and repeats both.
pub(crate) const MAX_ID_BYTES: usize = 1024;

impl<'a> Id<'a> {
    /// Creates an id from raw JSON. Returns `None` if it is neither a string nor an integer.
    pub(crate) fn from_json(json: &'a str) -> Option<Self> {
        match raw::kind(json) {
            raw::Kind::String if json.contains('\\') => {
                let text = raw::string(json)?;
                let mut canonical = Vec::with_capacity(json.len());
                super::write::string(&mut canonical, &text);
                Some(Self(Cow::Owned(String::from_utf8(canonical).ok()?)))
            }
            raw::Kind::String => Some(Self(Cow::Borrowed(json))),
            raw::Kind::Number if is_integer(json) => Some(Self(Cow::Borrowed(json))),
            _ => None,
        }
    }

    pub(crate) fn as_json(&self) -> &str {
        &self.0
    }

    pub(crate) fn to_owned(&self) -> Id<'static> {
        Id(Cow::Owned(self.0.as_ref().to_owned()))
    }
}

// Lets maps be queried with the text of an id.
impl Borrow<str> for Id<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Returns whether a number is an integer, such as `1` or `1.0`.
fn is_integer(number: &str) -> bool {
    number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        || number.parse::<f64>().is_ok_and(|value| value.is_finite() && value.fract() == 0.0)
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn ids_are_strings_or_integers() {
        for (json, canonical) in [
            ("1", Some("1")),
            ("-7", Some("-7")),
            ("1752345678901", Some("1752345678901")),
            ("123456789012345678901234567890", Some("123456789012345678901234567890")),
            ("1.0", Some("1.0")),
            (r#""a""#, Some(r#""a""#)),
            (r#""\u0061""#, Some(r#""a""#)),
            (r#""""#, Some(r#""""#)),
            ("1.5", None),
            ("null", None),
            ("true", None),
            ("[1]", None),
            ("{}", None),
        ] {
            assert_eq!(Id::from_json(json).as_ref().map(Id::as_json), canonical, "{json}");
        }
    }
}

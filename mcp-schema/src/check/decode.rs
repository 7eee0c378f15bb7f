//! Words the errors of decoding, for values that match the schema but not the type.
//!
//! The messages of serde name Rust types and positions in a text. The sender of a value knows JSON and the names of the
//! arguments, so the position becomes a path, and the type a description of the values that it accepts.

use super::violation::{Path, Violation};
use crate::json::{self, Kind};

/// Describes the error of decoding a value. `name` is the argument, or empty for the whole object.
pub fn decoding_violation(name: &str, json: &str, error: &serde_json::Error) -> Violation {
    let root = Path::Root;
    let path = if name.is_empty() { Path::Root } else { Path::Member(&root, name) };
    locate(&path, 0, json, position(json, error), &|path, value| {
        let text = error.to_string();
        let rule = rule(without_position(&text));
        let rule = match rule {
            Rule::Whole(rule) => rule,
            Rule::Member { name, rule } => {
                let member = json::member(value, &name);
                return Violation::quoting(&Path::Member(path, &name), member, &rule);
            }
        };
        let value = Some(value).filter(|_| !path.is_root());
        Violation::quoting(path, value, &rule)
    })
}

/// Returns the offset in the text at which decoding failed: the end of the rejected value, or its start if it is an
/// array or object in the place of another value.
fn position(json: &str, error: &serde_json::Error) -> usize {
    let before = json.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    before.saturating_add(error.column())
}

/// The depth up to which serde_json decodes. A message of an author's type may end with any position.
const DEPTH: usize = 128;

/// Calls `found` with the innermost value around an offset, and its path.
fn locate<T>(path: &Path<'_>, depth: usize, json: &str, offset: usize, found: &dyn Fn(&Path<'_>, &str) -> T) -> T {
    let inner = |value: &str| {
        let start = value.as_ptr().addr() - json.as_ptr().addr();
        offset.checked_sub(start).filter(|offset| *offset <= value.len())
    };
    match json::kind(json) {
        _ if depth == DEPTH => {}
        Kind::Object => {
            for (name, value) in json::members(json) {
                if let Some(offset) = inner(value) {
                    return locate(&Path::Member(path, &name), depth + 1, value, offset, found);
                }
            }
        }
        Kind::Array => {
            for (index, value) in json::elements(json).enumerate() {
                if let Some(offset) = inner(value) {
                    return locate(&Path::Element(path, index), depth + 1, value, offset, found);
                }
            }
        }
        _ => {}
    }
    found(path, json)
}

/// Removes the position that serde_json appends to its messages.
fn without_position(text: &str) -> &str {
    text.rsplit_once(" at line ").map_or(text, |(message, _)| message)
}

/// A violated rule as a predicate.
#[derive(Debug, PartialEq, Eq)]
enum Rule {
    /// The rule for the value.
    Whole(String),
    /// The rule for a member of the value.
    Member { name: String, rule: String },
}

impl Rule {
    fn whole(rule: impl Into<String>) -> Self {
        Self::Whole(rule.into())
    }

    fn member(name: &str, rule: impl Into<String>) -> Self {
        Self::Member { name: name.to_owned(), rule: rule.into() }
    }
}

/// Turns a message of serde into a rule. Messages of authors' own types are kept.
fn rule(message: &str) -> Rule {
    if let Some(rule) = syntax_rule(message) {
        return Rule::whole(rule);
    }
    // The message of an author's type may end with a message of serde.
    let phrases = PHRASES.iter().filter_map(|(phrase, reword)| Some((message.find(phrase)?, phrase, reword)));
    let Some((at, phrase, reword)) = phrases.min_by_key(|(at, ..)| *at) else {
        return Rule::whole(format!("is not accepted: {message}"));
    };
    let reworded = reword(without_position(&message[at + phrase.len()..]));
    if at == 0 {
        return reworded;
    }
    let rule = match reworded {
        Rule::Whole(rule) => rule,
        Rule::Member { name, rule } => format!("`{name}` {rule}"),
    };
    Rule::whole(format!("is not accepted: {}{rule}", &message[..at]))
}

/// Returns the rule for values that are valid JSON, but exceed the limits of serde_json.
fn syntax_rule(message: &str) -> Option<&'static str> {
    Some(match message {
        "number out of range" | "invalid number" => "is out of range",
        "recursion limit exceeded" => "is nested too deeply",
        "trailing characters" => "is not accepted: more items than expected",
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" | "invalid unicode code point" => {
            "is not valid Unicode"
        }
        "float key must be finite (got NaN or +/-inf)" => "must have only finite numbers as names of members",
        _ => return None,
    })
}

/// A phrase with which serde begins a message, and a function that rewords the rest of it.
type Phrase = (&'static str, fn(&str) -> Rule);

static PHRASES: [Phrase; 9] = [
    ("invalid value: expected key to be a number in quotes", |_| {
        Rule::whole("must have only numbers as names of members")
    }),
    ("invalid type: ", |rest| Rule::whole(must_be(rest))),
    ("invalid value: ", |rest| Rule::whole(must_be(rest))),
    ("invalid length ", |rest| Rule::whole(must_be(rest))),
    ("unknown variant ", |rest| match quoted(rest) {
        (_, Some(expected)) => Rule::whole(format!("must be {expected}")),
        (_, None) => Rule::whole("is not accepted"),
    }),
    ("unknown field ", |rest| match quoted(rest) {
        (name, Some(expected)) => Rule::member(name, format!("is not a member, expected {expected}")),
        (name, None) => Rule::member(name, "is not a member"),
    }),
    ("missing field ", |rest| Rule::whole(format!("needs the member `{}`", quoted(rest).0))),
    ("duplicate field ", |rest| Rule::whole(format!("has the member `{}` twice", quoted(rest).0))),
    ("data did not match any variant of untagged enum ", |_| Rule::whole("has none of the accepted forms")),
];

/// Splits `` `name`, expected … ``.
fn quoted(rest: &str) -> (&str, Option<&str>) {
    let (name, expected) = match rest.rsplit_once(", expected ") {
        Some((name, expected)) => (name, Some(expected)),
        None => (rest.strip_suffix(", there are no fields").unwrap_or(rest), None),
    };
    (name.trim_matches('`'), expected)
}

fn must_be(rest: &str) -> String {
    match rest.rsplit_once(", expected ") {
        Some((_, expected)) => format!("must be {}", describe(expected)),
        None => "is not accepted".to_owned(),
    }
}

/// Describes what serde expects in the terms of JSON.
fn describe(expected: &str) -> String {
    if let Some(range) = integer_range(expected) {
        return range;
    }
    let length = |text: &str| {
        let number = text.split(' ').rev().find_map(|word| word.parse::<usize>().ok());
        number.map_or_else(|| "an array".to_owned(), |number| format!("an array of {number} items"))
    };
    let (first, rest) = expected.split_once(' ').unwrap_or((expected, ""));
    match expected {
        "f32" | "f64" => "a number",
        "a character" => "a single character",
        "a borrowed string" | "path string" | "os string" | "identifier" | "variant identifier"
        | "field identifier" => "a string",
        "a map" | "map" => "an object",
        "a sequence" => "an array",
        "unit" => "null",
        "option" => "a value or null",
        "byte array" | "a borrowed byte array" => "an array of bytes",
        "string or map" => "a string or an object",
        _ => match first {
            "struct" if !rest.contains(" with ") => "an object",
            "internally" | "adjacently" => "an object",
            "unit" => "null",
            "enum" => "a string or an object",
            "struct" | "tuple" => return length(rest),
            "a" | "an" if rest.starts_with("tuple") || rest.starts_with("array of length") => return length(rest),
            _ => expected,
        },
    }
    .to_owned()
}

/// Returns the values of an integer type.
fn integer_range(expected: &str) -> Option<String> {
    let (is_nonzero, name) = match expected.strip_prefix("a nonzero ") {
        Some(name) => (true, name),
        None => (false, expected),
    };
    macro_rules! range {
        ($($type:ident)*) => {
            match name {
                $(stringify!($type) => ($type::MIN.to_string(), $type::MAX.to_string()),)*
                _ => return None,
            }
        };
    }
    let (min, max) = range!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
    Some(match (is_nonzero, min.as_str()) {
        (true, "0") => format!("an integer from 1 to {max}"),
        (true, _) => format!("an integer from {min} to {max} other than 0"),
        (false, _) => format!("an integer from {min} to {max}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of an author's error may repeat what the client has sent.
    #[test]
    fn any_position_may_be_claimed() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for position in ["line 1 column 90000", "line 2 column 18446744073709551615", "line 9 column 9"] {
            let error = serde::de::Error::custom(format!("unknown color at {position}"));
            let violation = decoding_violation("", &deep, &error);
            assert_eq!(violation.rule, "is not accepted: unknown color", "{position}");
        }
    }

    #[test]
    fn the_words_of_serde_become_rules() {
        for (message, expected) in [
            ("invalid type: floating point `1e30`, expected i8", "must be an integer from -128 to 127"),
            ("invalid value: integer `0`, expected a nonzero u8", "must be an integer from 1 to 255"),
            ("invalid value: integer `0`, expected a nonzero i8", "must be an integer from -128 to 127 other than 0"),
            ("invalid value: string \"ab, expected i8\", expected a character", "must be a single character"),
            ("invalid type: null, expected struct Point", "must be an object"),
            ("invalid length 3, expected a tuple of size 2", "must be an array of 2 items"),
            ("invalid length 3, expected struct Point with 2 elements", "must be an array of 2 items"),
            ("invalid length 1, expected tuple struct Pair with 2 elements", "must be an array of 2 items"),
            ("invalid length 1, expected an array of length 4", "must be an array of 4 items"),
            ("invalid type: map, expected tuple struct Pair", "must be an array"),
            ("invalid type: map, expected unit struct Nothing", "must be null"),
            ("invalid type: integer `1`, expected a boolean", "must be a boolean"),
            ("invalid type: integer `1`, expected a day of the week", "must be a day of the week"),
            ("invalid type: null, expected a name or tuple of 2 items", "must be a name or tuple of 2 items"),
            ("invalid type: null, expected a list or array of length 2", "must be a list or array of length 2"),
            ("unknown variant `Blue`, expected one of `Red`, `Green`, `Grey`", "must be one of `Red`, `Green`, `Grey`"),
            ("unknown variant `a, expected b`, expected `Red` or `Blue`", "must be `Red` or `Blue`"),
            ("invalid value: string \"missing field a\", expected a character", "must be a single character"),
            ("unknown variant `x`, there are no variants", "is not accepted"),
            ("missing field `first`", "needs the member `first`"),
            ("duplicate field `first`", "has the member `first` twice"),
            ("data did not match any variant of untagged enum Form", "has none of the accepted forms"),
            ("number out of range", "is out of range"),
            ("the number is odd", "is not accepted: the number is odd"),
            (
                "bad filter: invalid type: null, expected u8 at line 3 column 7",
                "is not accepted: bad filter: must be an integer from 0 to 255",
            ),
        ] {
            assert_eq!(rule(message), Rule::whole(expected), "{message}");
        }
        let expected = Rule::member("last", "is not a member, expected `first`");
        assert_eq!(rule("unknown field `last`, expected `first`"), expected);
        assert_eq!(rule("unknown field `last`, there are no fields"), Rule::member("last", "is not a member"));
    }

    #[test]
    fn violations_name_the_innermost_value() {
        type Numbers = std::collections::BTreeMap<String, Vec<i8>>;

        for (json, expected) in [
            ("{\"a\":[1,2,300]}", "`x.a[2]`: 300 must be an integer from -128 to 127"),
            ("{\n \"a\" : [ ],\n \"b\" : [ 1,\n \"é\" ]\n}", "`x.b[1]`: \"é\" must be an integer from -128 to 127"),
            ("{\"a\":7}", "`x.a`: 7 must be an array"),
            ("[]", "`x`: [] must be an object"),
        ] {
            let error = serde_json::from_str::<Numbers>(json).unwrap_err();
            assert_eq!(decoding_violation("x", json, &error).to_string(), expected, "{json}");
        }
        let json = "{\"a\":7}";
        let error = serde_json::from_str::<Numbers>(json).unwrap_err();
        assert_eq!(decoding_violation("", json, &error).to_string(), "`a`: 7 must be an array");
        let long: serde_json::Error = serde::de::Error::custom("é".repeat(1_000));
        let expected = format!("`x`: 7 is not accepted: {}…", "é".repeat(200 - "is not accepted: ".len()));
        assert_eq!(decoding_violation("x", "7", &long).to_string(), expected);
    }
}

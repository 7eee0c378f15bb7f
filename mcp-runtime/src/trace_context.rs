//! The formats of `traceparent` and `tracestate` ([W3C Trace Context](https://www.w3.org/TR/trace-context-2/)) and of
//! `baggage` ([W3C Baggage](https://www.w3.org/TR/baggage/)).

use std::collections::HashSet;

/// The maximum size of a `traceparent` in bytes, of versions that add fields.
const MAX_TRACEPARENT_BYTES: usize = 256;

/// The maximum size of a `tracestate` in bytes: its members and the commas between them.
const MAX_TRACESTATE_BYTES: usize = MAX_STATES * 514;

/// The maximum number of members of a `tracestate`.
const MAX_STATES: usize = 32;

/// The maximum number of members of a `baggage`.
const MAX_BAGGAGE: usize = 180;

/// The maximum size of a `baggage` in bytes, which every platform propagates.
const MAX_BAGGAGE_BYTES: usize = 8192;

/// Returns whether a `traceparent` can be used. Versions after 00 may add fields.
pub(crate) fn is_traceparent(text: &str) -> bool {
    if text.len() > MAX_TRACEPARENT_BYTES {
        return false;
    }
    let mut fields = text.splitn(5, '-');
    let mut field = |length| fields.next().filter(|field| field.len() == length && field.bytes().all(is_hex));
    let Some(version) = field(2).filter(|version| *version != "ff") else { return false };
    let mut id = |length| field(length).is_some_and(|id| id.bytes().any(|digit| digit != b'0'));
    id(32) && id(16) && field(2).is_some() && (version != "00" || fields.next().is_none())
}

/// Returns whether a `tracestate` is valid. Members may be empty; their keys must be unique.
pub(crate) fn is_tracestate(text: &str) -> bool {
    let mut members = text.split(',').map(trimmed).filter(|member| !member.is_empty());
    let mut keys = HashSet::new();
    text.len() <= MAX_TRACESTATE_BYTES
        && text.split(',').count() <= MAX_STATES
        && members.all(|member| state_key(member).is_some_and(|key| keys.insert(key)))
}

/// Returns whether a `baggage` is valid.
pub(crate) fn is_baggage(text: &str) -> bool {
    text.len() <= MAX_BAGGAGE_BYTES && text.split(',').count() <= MAX_BAGGAGE && text.split(',').all(is_baggage_member)
}

/// Returns the key of a member of a `tracestate`, if it is valid.
fn state_key(member: &str) -> Option<&str> {
    let (key, value) = member.split_once('=')?;
    let starts = key.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
    let is_key = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    let is_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    let fits = key.len() <= 256 && (1..=256).contains(&value.len());
    (starts && fits && key.bytes().all(is_key) && value.bytes().all(is_value)).then_some(key)
}

fn is_baggage_member(member: &str) -> bool {
    let mut parts = member.split(';');
    let is_pair = |(key, value): (&str, &str)| is_token(trimmed(key)) && trimmed(value).bytes().all(is_baggage_octet);
    parts.next().and_then(|member| member.split_once('=')).is_some_and(is_pair)
        && parts.all(|property| property.split_once('=').map_or_else(|| is_token(trimmed(property)), is_pair))
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Returns whether a text is a token of [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_baggage_octet(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn a_traceparent_has_a_version_two_ids_and_flags() {
        for (text, is_valid) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-00"), true),
            (format!("00-{TRACE}-{SPAN}-ff"), true),
            (format!("00-{TRACE}-{SPAN}-1"), false),
            (format!("00-{TRACE}-{SPAN}-001"), false),
            (format!("00-{TRACE}-{SPAN}-0A"), false),
            (format!("00-{TRACE}-{SPAN}-01-"), false),
            (format!("00-{TRACE}-{SPAN}-01-more"), false),
            (format!("00-{TRACE}-{SPAN}-01 "), false),
            (format!(" 00-{TRACE}-{SPAN}-01"), false),
            (format!("00-{TRACE}-{SPAN}"), false),
            (format!("00-{TRACE}"), false),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false),
            (format!("00-{TRACE}-{}-01", SPAN.to_uppercase()), false),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), false),
            (format!("00-{}-{SPAN}-01", &TRACE[1..]), false),
            (format!("00-{TRACE}-{SPAN}0-01"), false),
            (format!("00-{TRACE}-{}g-01", &SPAN[1..]), false),
            // Later versions are read like version 00, and may add fields.
            (format!("01-{TRACE}-{SPAN}-01"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what-is-new"), true),
            (format!("cc-{TRACE}-{SPAN}-01-"), true),
            (format!("cc-{TRACE}-{SPAN}-01-{}", "x".repeat(200)), true),
            (format!("cc-{TRACE}-{SPAN}-01-{}", "x".repeat(201)), false),
            (format!("cc-{TRACE}-{SPAN}-01.more"), false),
            (format!("cc-{TRACE}-{SPAN}"), false),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
            (format!("FE-{TRACE}-{SPAN}-01"), false),
            (format!("0-{TRACE}-{SPAN}-01"), false),
            (format!("{TRACE}-{SPAN}-01"), false),
            (String::new(), false),
            ("é".repeat(55), false),
        ] {
            assert_eq!(is_traceparent(&text), is_valid, "{text:?}");
        }
    }

    #[test]
    fn a_tracestate_is_a_list_of_vendors() {
        let many = |count: usize| (0..count).map(|number| format!("{number}=1")).collect::<Vec<_>>().join(",");
        for (text, is_valid) in [
            ("rojo=00f067aa0ba902b7", true),
            ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true),
            ("rojo=1 ,\tcongo=2", true),
            ("1a-2_b*c/d=x", true),
            ("tenant@system=x", true),
            ("a= b", true),
            ("a=b c", true),
            ("", true),
            (" ", true),
            ("a=1,,b=2,", true),
            (&format!("a=1{}", " ".repeat(32 * 514 - 3)), true),
            (&format!("a=1{}", " ".repeat(32 * 514 - 2)), false),
            (&many(32), true),
            (&many(33), false),
            (&format!("{}=1", "a".repeat(256)), true),
            (&format!("{}=1", "a".repeat(257)), false),
            (&format!("a={}", "1".repeat(256)), true),
            (&format!("a={}", "1".repeat(257)), false),
            ("a", false),
            ("a=", false),
            ("=1", false),
            ("a =1", false),
            ("A=1", false),
            ("_a=1", false),
            ("@a=1", false),
            ("a.b=1", false),
            ("a=1=2", false),
            ("a=1\t2", false),
            ("a=1\n", false),
            ("a=é", false),
            ("a=1;b:2", true),
            ("a=1;b=2", false),
            ("a=1,b", false),
            ("a=1,a=1", false),
            ("a=1,b=1, a=2", false),
            ("a=1,a/b=1", true),
        ] {
            assert_eq!(is_tracestate(text), is_valid, "{text:?}");
        }
    }

    #[test]
    fn a_baggage_is_a_list_of_keys_with_values_and_properties() {
        let many = |count: usize| vec!["a=1"; count].join(",");
        for (text, is_valid) in [
            ("userId=alice", true),
            ("userId=Am%C3%A9lie,serverNode=DF%2028,isProduction=false", true),
            ("key1=value1;property1;property2, key2 = value2, key3=value3; propertyKey=propertyValue", true),
            ("a=", true),
            ("a=1=2==", true),
            ("a=1 ; b ;c = 2", true),
            ("a=1,a=2", true),
            ("A!#$%&'*+-.^_`|~9=1", true),
            (&many(180), true),
            (&many(181), false),
            (&format!("a={}", "1".repeat(8190)), true),
            (&format!("a={}", "1".repeat(8191)), false),
            ("", false),
            (" ", false),
            ("a", false),
            ("=1", false),
            ("a=1,", false),
            ("a=1,,b=2", false),
            ("a=1;", false),
            ("a=1;=2", false),
            ("a=1;b c", false),
            ("a b=1", false),
            ("a(=1", false),
            ("é=1", false),
            ("a=é", false),
            ("a=b c", false),
            ("a=\"b\"", false),
            ("a=b\\", false),
            ("a=b\n", false),
        ] {
            assert_eq!(is_baggage(text), is_valid, "{text:?}");
        }
    }
}

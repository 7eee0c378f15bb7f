use memchr::memchr;

/// Replaces the escapes in the content of a JSON string. Returns `None` if an escape is invalid or a lone surrogate.
///
/// `serde_json` decodes strings with escapes into a buffer that it grows and then copies. This allocates once.
pub(super) fn unescape(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(length) = memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(length);
        out.push_str(plain);
        let (char, length) = decode(escape.as_bytes())?;
        out.push(char);
        rest = &escape[length..];
    }
    out.push_str(rest);
    Some(out)
}

/// Decodes the escape at the start of a text, which is a backslash and the characters after it. Returns its length,
/// too.
fn decode(text: &[u8]) -> Option<(char, usize)> {
    let char = match text.get(1)? {
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode(text),
        _ => return None,
    };
    Some((char, 2))
}

fn decode_unicode(text: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(text)?;
    match char::from_u32(first.into()) {
        Some(char) => Some((char, 6)),
        None => {
            let pair = [first, code_unit(text.get(6..)?)?];
            let char = char::decode_utf16(pair).next()?.ok()?;
            Some((char, 12))
        }
    }
}

/// Decodes the escaped UTF-16 code unit at the start of a text.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | u16::try_from(char::from(digit).to_digit(16)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_are_decoded_as_by_serde_json() {
        for text in [
            "",
            "plain, grüße 🦀",
            r#"\"\\\/\b\f\n\r\t"#,
            r"line\nline\n",
            r"\u0041\u00e9\u20AC\ud83e\udd80 \uD83E\uDD80\u0000",
            r"\ud83e",
            r"\udd80",
            r"\ud83e\ud83e",
            r"\ud83ex\udd80",
            r"\ud83e\n",
            r"\u00",
            r"\u+041",
            r"\u00é",
            r"\x",
            r"\é",
            r"ends with \",
        ] {
            let expected = serde_json::from_str::<String>(&format!("\"{text}\"")).ok();
            assert_eq!(unescape(text), expected, "{text}");
        }
    }
}

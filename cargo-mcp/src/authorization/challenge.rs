//! Challenges in the header `WWW-Authenticate`.
//!
//! See [RFC 9110, section 11.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1).

/// A scheme with its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) scheme: String,
    /// Names in lower case, and values.
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Returns the value of a parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns whether the client may respond with an access token.
    pub(crate) fn accepts_tokens(&self) -> bool {
        ["Bearer", "DPoP"].iter().any(|scheme| self.scheme.eq_ignore_ascii_case(scheme))
    }
}

/// Parses the value of the header. Returns `None` if it is malformed.
pub(crate) fn parse(header: &str) -> Option<Vec<Challenge>> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return Some(challenges);
        }
        let (word, after) = token(rest)?;
        if let Some(after) = after.trim_start().strip_prefix('=') {
            let (value, after) = value(after.trim_start())?;
            let challenge = challenges.last_mut()?;
            let name = word.to_ascii_lowercase();
            if challenge.parameter(&name).is_some() {
                return None;
            }
            challenge.parameters.push((name, value));
            rest = after.trim_start();
            if !rest.is_empty() && !rest.starts_with(',') {
                return None;
            }
        } else {
            challenges.push(Challenge { scheme: word.to_owned(), parameters: Vec::new() });
            rest = without_token68(after);
        }
    }
}

/// Removes the text that some schemes have instead of parameters.
fn without_token68(text: &str) -> &str {
    let end = text.find(',').unwrap_or(text.len());
    let word = text[..end].trim().trim_end_matches('=');
    let is_token68 = word.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/".contains(c));
    if is_token68 { &text[end..] } else { text }
}

/// Splits off a token.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Splits off a token or a quoted string, without its quotes.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return token(text).map(|(value, rest)| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[index + 1..])),
            '\\' => value.push(characters.next()?.1),
            character => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn headers_are_parsed() {
        for (header, expected) in [
            ("", Some("")),
            ("Bearer", Some("Bearer()")),
            ("Bearer realm=x", Some("Bearer(realm=x)")),
            (
                "bearer Scope = \"a b\" , resource_metadata=\"https://a/b\"",
                Some("bearer(scope=a b,resource_metadata=https://a/b)"),
            ),
            ("Bearer a=\"\\\"b\\\\\"", Some("Bearer(a=\"b\\)")),
            ("Negotiate YWJj==, Bearer a=b, Basic realm=\"x, y\"", Some("Negotiate() Bearer(a=b) Basic(realm=x, y)")),
            (", Bearer ,a=b,, c=d,", Some("Bearer(a=b,c=d)")),
            ("Bearer a=b c=d", None),
            ("Bearer a=b, A=c", None),
            ("Bearer a=\"b", None),
            ("Bearer a=\"b\\", None),
            ("Bearer \"a\"", None),
            ("a=b", None),
            ("Bearer a=b, c=ö", None),
        ] {
            let parsed = parse(header).map(|challenges| {
                let one = |challenge: &super::Challenge| {
                    let parameters = challenge.parameters.iter().map(|(name, value)| format!("{name}={value}"));
                    format!("{}({})", challenge.scheme, parameters.collect::<Vec<_>>().join(","))
                };
                challenges.iter().map(one).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(parsed.as_deref(), expected, "{header}");
        }
    }
}

//! "Did you mean …?"

/// Returns the name that is closest to `word`, if at most a third of its characters, and at most four, differ.
///
/// Ignores ASCII case and the difference between `-` and `_`. Words longer than 64 characters have no suggestion, and
/// only the first of many names are considered.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    /// The maximum number of pairs of characters that are compared.
    const PAIRS: usize = 1 << 16;

    if word.is_empty() || word.len() > LONGEST * 4 {
        return None;
    }
    let word = folded(word);
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let mut pairs = PAIRS;
    names
        .into_iter()
        .map(|name| (name, folded(name)))
        .map(|(name, folded)| (name, folded.chars().count(), folded))
        .filter(|(_, count, _)| *count <= LONGEST && count.abs_diff(length) <= count / 2)
        .take_while(|(_, count, _)| {
            pairs = pairs.saturating_sub(count * length);
            pairs > 0
        })
        .map(|(name, count, folded)| (strsim::osa_distance(&word, &folded), count.max(length), name))
        .filter(|&(distance, length, _)| distance <= length.div_ceil(3).min(4) && distance < length)
        .min_by_key(|&(distance, ..)| distance)
        .map(|(.., name)| name)
}

fn folded(name: &str) -> String {
    name.chars().map(|char| if char == '-' { '_' } else { char.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_close_names() {
        let names = ["color", "size", "limit", "read_only", "path", "a", "ids"];
        for (word, expected) in [
            ("colour", Some("color")),
            ("Color", Some("color")),
            ("clor", Some("color")),
            ("isze", Some("size")),
            ("read-only", Some("read_only")),
            ("readonly", Some("read_only")),
            ("limits", Some("limit")),
            ("id", Some("ids")),
            ("apth", Some("path")),
            ("sxe", Some("size")),
            ("A", Some("a")),
            ("b", None),
            ("query", None),
            ("", None),
            ("colossal", None),
            ("ünïcödé", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
        assert_eq!(nearest("formel", ["formal", "casual"]), Some("formal"));
        assert_eq!(nearest(&"x".repeat(1 << 20), names), None);
        assert_eq!(nearest("a", []), None);
        let mut considered = 0;
        let many = std::iter::repeat_n("0123456789", 100_000).inspect(|_| considered += 1);
        assert_eq!((nearest("abcdefghij", many), considered), (None, 656));
    }
}

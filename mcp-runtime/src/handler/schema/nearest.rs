//! "Did you mean …?"

/// Returns the name that `word` was most likely meant to be, if one is close enough to say so.
///
/// Close enough means that at most a third of the characters must be changed, and that letter case and `-` against `_` count
/// for nothing.
pub(crate) fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;

    let word = folded(word);
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    among
        .into_iter()
        .map(|name| (name, folded(name)))
        .filter(|(_, folded)| folded.len() <= LONGEST && folded.len().abs_diff(word.len()) <= folded.len() / 2)
        .map(|(name, folded)| (distance(&word, &folded), folded.len().max(word.len()), name))
        .filter(|&(distance, length, _)| distance <= length.div_ceil(3).min(4) && distance < length)
        .min_by_key(|&(distance, ..)| distance)
        .map(|(.., name)| name)
}

fn folded(name: &str) -> Vec<char> {
    name.chars().map(|char| if char == '-' { '_' } else { char.to_ascii_lowercase() }).collect()
}

/// Counts the characters to insert, delete, replace or swap with their neighbour to get from one word to the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, char) in from.iter().enumerate() {
        let mut next = Vec::with_capacity(last.len());
        next.push(row + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(char != other);
            let mut best = replaced.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *char == to[column - 1] && from[row - 1] == *other {
                let swapped: &Vec<usize> = &before_last;
                best = best.min(swapped[column - 1] + 1);
            }
            next.push(best);
        }
        before_last = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_what_is_close() {
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
    }
}

//! The name that an author probably meant.

/// Finds the candidate that is close enough to what was written.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(written, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(written.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the insertions, removals, replacements and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let candidates = ["name", "title", "read_only", "idempotent", "icon", "icons", "timeout"];
        for (written, expected) in [
            ("idempotant", Some("idempotent")),
            ("readonly", Some("read_only")),
            ("tilte", Some("title")),
            ("nmae", Some("name")),
            ("time_out", Some("timeout")),
            ("icon", Some("icon")),
            ("cache", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, candidates), expected, "{written}");
        }
    }
}

//! "Did you mean …?"

/// Returns the candidate that is closest to `word`, if it differs in at most a third of its characters.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_only_close_names() {
        let candidates = ["name", "title", "read_only", "idempotent", "icon", "icons", "timeout"];
        for (word, expected) in [
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
            assert_eq!(nearest(word, candidates), expected, "{word}");
        }
    }
}

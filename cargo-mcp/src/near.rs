//! "Did you mean": the name that is nearest to one that does not exist.

/// The nearest of some names, if one is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    let near = |name: &str| {
        let name = name.to_lowercase();
        match name.starts_with(&folded) && folded.len() > 2 {
            true => 1.0,
            false => strsim::jaro_winkler(&folded, &name),
        }
    };
    let scored = names.into_iter().map(|name| (near(name), name));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn what_was_meant_is_found() {
        let names = ["search_notes", "add_note", "delete_note"];
        for (word, expected) in [
            ("serach_notes", Some("search_notes")),
            ("search", Some("search_notes")),
            ("Add_Note", Some("add_note")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }
}

//! Suggestions for misspelled names.

use crate::failure::Failure;

/// Only names whose similarity exceeds this value are suggested. Similarities are between 0 and 1.
const THRESHOLD: f64 = 0.8;

/// Returns the name most similar to a misspelled one, if it is similar enough.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let similarity = |name: &str| {
        let name = name.to_lowercase();
        let is_prefix = word.len() > 2 && name.starts_with(&word);
        if is_prefix { 1.0 } else { strsim::jaro_winkler(&word, &name) }
    };
    let scored = names.into_iter().map(|name| (similarity(name), name));
    scored.filter(|(score, _)| *score > THRESHOLD).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Adds help to the failure for an unknown name: the most similar available name, or all names if none is similar.
pub(crate) fn suggest(failure: Failure, word: &str, names: &[&str], kind: &str) -> Failure {
    match nearest(word, names.iter().copied()) {
        Some(near) => failure.help(format_args!("did you mean `{near}`?")),
        None if names.is_empty() => failure.help(format_args!("there are no {kind}")),
        None => failure.help(format_args!("available {kind}: {}", name_list(names))),
    }
}

/// Formats names as a list: `` `a`, `b` ``.
pub(crate) fn name_list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn similar_names_are_suggested() {
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

//! Describes syntax errors in JSON that the user wrote.

/// Returns what is wrong, and where: the byte, and the line unless it is the first.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match error.line() {
        0 | 1 => format!("{what} at byte {}", error.column()),
        line => format!("{what} at byte {} of line {line}", error.column()),
    }
}

use serde_json::Value;

/// The maximum number of characters of an excerpt.
const MAX_CHARS: usize = 100;

/// Returns the beginning of an untrusted value for the log, without control characters.
pub(crate) fn excerpt(value: &Value) -> String {
    match value {
        Value::String(text) => excerpt_of_text(text),
        other => excerpt_of_text(&other.to_string()),
    }
}

/// Returns the beginning of an untrusted text, without control characters.
pub(crate) fn excerpt_of_text(text: &str) -> String {
    let mut excerpt: String = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        excerpt.push('…');
    }
    excerpt
}

use serde_json::Value;

/// The maximum number of characters of an excerpt.
const MAX_CHARS: usize = 100;

/// Returns the beginning of an untrusted value for the log, without control characters.
pub(crate) fn excerpt(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut excerpt: String = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        excerpt.push('…');
    }
    excerpt
}

//! Pages of tools, as the extension MCP Apps describes them.

pub(crate) use mcp_page::{EXTENSION, MEDIA_TYPE};
use serde_json::{Value, json};

use crate::content::decode_base64;

/// Returns the capabilities of a client that shows pages and has no others.
pub(crate) fn capabilities() -> Value {
    json!({"extensions": {EXTENSION: {"mimeTypes": [MEDIA_TYPE]}}})
}

/// Returns the URI of a tool's page from its `_meta`. Some servers still use the deprecated flat key.
pub(crate) fn uri(meta: &Value) -> Option<&str> {
    meta["ui"]["resourceUri"].as_str().or_else(|| meta["ui/resourceUri"].as_str())
}

/// Returns whether pages may call the tool with this `_meta`.
pub(crate) fn may_call(meta: &Value) -> bool {
    meta["ui"]["visibility"].as_array().is_none_or(|visibility| visibility.iter().any(|reader| reader == "app"))
}

/// Returns the document in the contents of a page.
///
/// # Errors
///
/// Returns the reason why the contents are not a page.
pub(crate) fn html(contents: &Value) -> Result<String, String> {
    let mime = contents["mimeType"].as_str().unwrap_or_default();
    if mime.replace(' ', "") != MEDIA_TYPE {
        return Err(format!("has the MIME type `{mime}`, expected `{MEDIA_TYPE}`"));
    }
    match (contents["text"].as_str(), contents["blob"].as_str()) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(blob)) => {
            let bytes = decode_base64(blob).map_err(|failure| failure.message().to_owned())?;
            String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
        }
        (None, None) => Err("has no content".to_owned()),
    }
}

/// Returns the names of the tools that a page calls as `app.call("name"`. Names that are computed are not found.
pub(crate) fn called_tools(html: &str) -> Vec<&str> {
    const CALL: &str = "app.call(";
    let is_in_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
    let calls = html.match_indices(CALL).filter(|(at, _)| !html[..*at].ends_with(is_in_name));
    let names = calls.filter_map(|(at, _)| {
        let rest = html[at + CALL.len()..].trim_start();
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'))?;
        let (name, _) = rest[1..].split_once(quote)?;
        (!name.contains(['\n', '$'])).then_some(name)
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MEDIA_TYPE, called_tools, html, may_call, uri};

    #[test]
    fn pages_are_found() {
        for (meta, expected) in [
            (json!({"ui": {"resourceUri": "ui://new"}, "ui/resourceUri": "ui://old"}), Some("ui://new")),
            (json!({"ui/resourceUri": "ui://old"}), Some("ui://old")),
            (json!(null), None),
        ] {
            assert_eq!(uri(&meta), expected, "{meta}");
        }
        for (meta, expected) in [
            (json!(null), true),
            (json!({"ui": {"visibility": ["model", "app"]}}), true),
            (json!({"ui": {"visibility": ["model"]}}), false),
            (json!({"ui": {"visibility": []}}), false),
        ] {
            assert_eq!(may_call(&meta), expected, "{meta}");
        }
    }

    #[test]
    fn pages_are_decoded() {
        for (contents, expected) in [
            (json!({"mimeType": MEDIA_TYPE, "text": "a"}), Ok("a")),
            (json!({"mimeType": "text/html; profile=mcp-app", "text": "a"}), Ok("a")),
            (json!({"mimeType": MEDIA_TYPE, "blob": "w6Q="}), Ok("\u{e4}")),
            (json!({"mimeType": MEDIA_TYPE, "blob": "5A=="}), Err("is not UTF-8")),
            (json!({"mimeType": MEDIA_TYPE}), Err("has no content")),
            (json!({"text": "a"}), Err("has the MIME type ``, expected `text/html;profile=mcp-app`")),
        ] {
            assert_eq!(html(&contents).as_deref().map_err(String::as_str), expected, "{contents}");
        }
    }

    #[test]
    fn calls_with_literal_names_are_found() {
        for (script, expected) in [
            (r#"await app.call("add_note", { title });"#, vec!["add_note"]),
            ("app.call('a'); app.call( `b` )", vec!["a", "b"]),
            ("app.call(\n    \"a\",\n)", vec!["a"]),
            ("app.call(name); app.call(`add_${kind}`); app.call(", vec![]),
            ("call(\"a\"); app.calls(\"b\"); myapp.call(\"c\"); window.app.call(\"d\")", vec!["d"]),
        ] {
            assert_eq!(called_tools(script), expected, "{script}");
        }
    }
}

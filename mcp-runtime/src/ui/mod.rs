//! The pages of [MCP Apps](https://modelcontextprotocol.io/extensions/apps/overview), the extension
//! `io.modelcontextprotocol/ui`.
//!
//! A page is a resource, whose listed `_meta.ui` is repeated in its contents, from which hosts read it. A tool names its
//! page in its own `_meta`, so nothing here is involved when a tool is called.

use std::borrow::Cow;

pub(crate) use mcp_page::EXTENSION;
use mcp_page::MEDIA_TYPE;
use serde::Deserialize;

use crate::handler::{ErrorOutput, HandlerError, HandlerResult, Reply, ToolOutput, write_html};

/// The element of a page that is replaced with the bridge.
const BRIDGE_TAG: &str = r#"<script src="mcp-runtime:bridge"></script>"#;
/// The script that connects a page to its host.
const BRIDGE: &str = concat!("<script>", include_str!("bridge.js"), "</script>");

/// A function with `#[ui]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a page",
    label = "expected the name of a function with `#[ui]`"
)]
pub trait Page {
    /// The URI, as JSON.
    const URI_JSON: &'static str;
    /// The values of `_meta.ui` of a tool with the page: for the model and the page, only the model, and only the page.
    const LINKS: &'static [&'static str; 3];
}

/// A type that a page may return: text (`String`, `&str`, `Cow<str>`, `Box<str>`), or a `Result` of it.
///
/// The text is an HTML document. In it, `<script src="mcp-runtime:bridge"></script>`, written exactly so, becomes the script
/// that connects the page to its host.
#[diagnostic::on_unimplemented(
    message = "a page cannot return `{Self}`",
    label = "unsupported return type",
    note = "the supported types are text (`String`, `&str`, `Cow<str>`, `Box<str>`), and a `Result` of it"
)]
pub trait PageOutput: Sized {
    /// Returns the document.
    #[doc(hidden)]
    fn html(self) -> Result<String, HandlerError>;
}

macro_rules! texts {
    ($($text:ty),+) => {
        $(impl PageOutput for $text {
            fn html(self) -> Result<String, HandlerError> {
                Ok(self.into())
            }
        })+
    };
}

texts!(String, &str, Cow<'_, str>, Box<str>);

impl<T: PageOutput, E: ErrorOutput> PageOutput for Result<T, E> {
    fn html(self) -> Result<String, HandlerError> {
        self.map_err(HandlerError::from_error)?.html()
    }
}

/// Writes the result of reading a page.
///
/// # Errors
///
/// Returns the error that the function returned.
pub fn write_page<T: PageOutput>(reply: &mut Reply<'_>, value: T) -> HandlerResult {
    Ok(write_html(reply, &with_bridge(&value.html()?)))
}

/// Returns the text of a page as its files are now, if `cargo mcp dev` has started the server. Mistakes are shown as a page.
pub fn dev_page(file: &str, origins: &[&[&str]; 4]) -> Option<String> {
    std::env::var_os(mcp_page::DEV_VARIABLE)?;
    let bundled = mcp_page::bundle(file.as_ref(), &mcp_page::Policy::of(origins));
    Some(bundled.map_or_else(
        |problems| {
            let problems = problems.join("\n");
            tracing::error!("{problems}");
            format!("<!doctype html><pre>{}</pre>", problems.replace('&', "&amp;").replace('<', "&lt;"))
        },
        |bundle| bundle.html,
    ))
}

fn with_bridge(html: &str) -> Cow<'_, str> {
    if html.contains(BRIDGE_TAG) { html.replace(BRIDGE_TAG, BRIDGE).into() } else { html.into() }
}

/// Fails to compile if a tool with a page returns nothing that a client without pages could show.
pub const fn shows_content<T: ToolOutput>() {
    assert!(T::HAS_CONTENT, "a tool with a page must return content, which clients without pages show instead");
}

/// Expands to a member of the `_meta` of a tool.
#[doc(hidden)]
#[macro_export]
macro_rules! __ui_member {
    ($($value:tt)*) => {
        $($value)*
    };
}

/// The `_meta.ui` of a tool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToolUi {
    /// The URI of the page that shows the results.
    pub(crate) resource_uri: Option<String>,
    visibility: Option<Vec<String>>,
}

impl ToolUi {
    /// Reads the `_meta` of a listed tool.
    ///
    /// # Errors
    ///
    /// Fails if the value of `ui` has another form.
    pub(crate) fn of(meta: &[(Cow<'_, str>, Cow<'_, str>)]) -> Result<Self, serde_json::Error> {
        let json = meta.iter().find(|(key, _)| key == "ui").map(|(_, json)| json);
        json.map_or_else(|| Ok(Self::default()), |json| serde_json::from_str(json))
    }

    /// Returns whether only the page calls the tool. A host hides it from the model.
    pub(crate) fn is_app_only(&self) -> bool {
        self.visibility.as_ref().is_some_and(|visibility| visibility.iter().all(|name| name != "model"))
    }
}

/// Returns whether the settings of the extension that a client declared include pages.
///
/// See [Capability negotiation](https://modelcontextprotocol.io/extensions/apps/overview).
pub(crate) fn shows_pages(settings: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Settings {
        mime_types: Vec<String>,
    }

    let settings: Result<Settings, _> = serde_json::from_str(settings);
    settings.is_ok_and(|settings| settings.mime_types.iter().any(|name| name == MEDIA_TYPE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_pages_are_read_again_only_during_development() {
        assert_eq!(dev_page("no-file.html", &[&[]; 4]), None);
    }

    /// The end tag would end the element in which the bridge is sent.
    #[test]
    fn the_bridge_is_one_element() {
        let script = include_str!("bridge.js");
        assert!(!script.to_ascii_lowercase().contains("</script") && !script.contains("<!--"));
        assert_eq!(with_bridge(&format!("<p>{BRIDGE_TAG}</p>")), format!("<p><script>{script}</script></p>"));
        assert!(matches!(with_bridge("<p></p>"), Cow::Borrowed(_)));
    }

    #[test]
    fn only_a_visibility_without_the_model_hides_a_tool_from_it() {
        for (ui, expected) in [
            ("{}", false),
            (r#"{"visibility":["app"]}"#, true),
            (r#"{"visibility":["model"]}"#, false),
            (r#"{"visibility":["app","model"]}"#, false),
        ] {
            let read = ToolUi::of(&[("ui".into(), ui.into())]).unwrap();
            assert_eq!(read.is_app_only(), expected, "{ui}");
        }
    }
}

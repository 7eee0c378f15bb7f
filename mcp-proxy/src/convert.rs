//! Names, URIs, and the values of `rmcp` as values of the runtime.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use mcp_runtime::{
    Content, Resource, ResourceLink,
    ask::{SampleContent, SampleToolResult, SampleToolUse},
    model::{Annotations, Audio, Icon, Image, Role, Text, Theme},
};
use mcp_runtime_uri_template::{check_meta_key, is_icon_size, is_icon_source};
use serde_json::{Map, Value, json};

/// The beginning of the URIs of pages, which hosts expect in front of the prefix.
const PAGES: &str = "ui://";

/// The prefix of the names and URIs of an upstream.
#[derive(Debug, Clone)]
pub(crate) struct Prefix(String);

impl Prefix {
    /// Returns `None` unless the prefix is empty, or valid at the start of names and of URIs: lower-case letters, digits, `-` and
    /// `.`, beginning with a letter.
    pub(crate) fn new(prefix: &str) -> Option<Self> {
        let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let begins = prefix.bytes().next().is_none_or(|byte| byte.is_ascii_lowercase());
        (begins && prefix.len() <= 32 && prefix.bytes().all(is_valid)).then(|| Self(prefix.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn name(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}_{name}", self.0) }
    }

    pub(crate) fn uri(&self, uri: &str) -> String {
        match uri.strip_prefix(PAGES) {
            _ if self.0.is_empty() => uri.to_owned(),
            Some(page) => format!("{PAGES}{}+{page}", self.0),
            None => format!("{}+{uri}", self.0),
        }
    }

    /// Returns the message of a question, which names the upstream: the user trusts this server.
    pub(crate) fn message(&self, message: &str) -> String {
        let message = printable(message);
        if self.0.is_empty() { message } else { format!("{}: {message}", self.0) }
    }

    /// Returns the URI of a link in a result. Clients load web pages themselves.
    fn link(&self, uri: &str) -> String {
        let is_page = uri.starts_with("https://") || uri.starts_with("http://");
        if is_page { uri.to_owned() } else { self.uri(uri) }
    }

    pub(crate) fn upstream_uri(&self, uri: &str) -> String {
        let rest = |uri: &str| Some(uri.strip_prefix(&self.0)?.strip_prefix('+')?.to_owned());
        let page = uri.strip_prefix(PAGES).and_then(rest).map(|page| format!("{PAGES}{page}"));
        page.or_else(|| rest(uri)).unwrap_or_else(|| uri.to_owned())
    }

    /// Reads an element of `content`. Returns `None` for unknown types and invalid elements.
    pub(crate) fn content(&self, block: &Value) -> Option<Content> {
        let mut content: Content = match block["type"].as_str()? {
            "text" => Text::new(block["text"].as_str()?).into(),
            "image" => Image::new(bytes(&block["data"])?, text(block, "mimeType")?).into(),
            "audio" => Audio::new(bytes(&block["data"])?, text(block, "mimeType")?).into(),
            "resource" => self.contents(&block["resource"], true)?.into(),
            "resource_link" => {
                let mut link = ResourceLink::new(self.link(block["uri"].as_str()?), text(block, "name")?);
                link.title = text(block, "title");
                link.description = text(block, "description");
                link.mime_type = text(block, "mimeType").map(Into::into);
                link.size = block["size"].as_u64();
                link.icons = icons(block);
                link.into()
            }
            _ => return None,
        };
        let (annotations, meta) = (annotations(block), meta(block));
        match &mut content {
            Content::Text(value) => (value.annotations, value.meta) = (annotations, meta),
            Content::Image(value) => (value.annotations, value.meta) = (annotations, meta),
            Content::Audio(value) => (value.annotations, value.meta) = (annotations, meta),
            Content::Resource(value) => (value.annotations, value.block_meta) = (annotations, meta),
            Content::ResourceLink(value) => (value.annotations, value.meta) = (annotations, meta),
            _ => {}
        }
        Some(content)
    }

    /// Reads the contents of a resource. `is_linked` is whether they are part of another result.
    pub(crate) fn contents(&self, contents: &Value, is_linked: bool) -> Option<Resource> {
        let uri = contents["uri"].as_str()?;
        let uri = if is_linked { self.link(uri) } else { self.uri(uri) };
        let mut resource = match contents["text"].as_str() {
            Some(text) => Resource::text(uri, text),
            None => Resource::blob(uri, bytes(&contents["blob"])?),
        };
        resource.mime_type = text(contents, "mimeType").map(Into::into);
        resource.meta = meta(contents);
        Some(resource)
    }

    /// Reads the content of a message to a model: one element or several.
    pub(crate) fn sample_contents(&self, content: &Value) -> Option<Vec<SampleContent>> {
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        blocks.iter().map(|block| self.sample_content(block)).collect()
    }

    fn sample_content(&self, block: &Value) -> Option<SampleContent> {
        Some(match block["type"].as_str()? {
            "tool_use" => {
                let input = block["input"].as_object()?.clone();
                let mut tool_use = SampleToolUse::new(text(block, "id")?, text(block, "name")?, input);
                tool_use.meta = meta(block);
                SampleContent::ToolUse(tool_use)
            }
            "tool_result" => {
                let mut result = SampleToolResult::new(text(block, "toolUseId")?, "");
                let content = block["content"].as_array().into_iter().flatten();
                result.content = content.map(|block| self.content(block)).collect::<Option<_>>()?;
                result.structured = block.get("structuredContent").cloned();
                result.is_error = block["isError"] == true;
                result.meta = meta(block);
                SampleContent::ToolResult(result)
            }
            _ => match self.content(block)? {
                Content::Text(value) => SampleContent::Text(value.text),
                Content::Image(value) => SampleContent::Image(value),
                Content::Audio(value) => SampleContent::Audio(value),
                _ => return None,
            },
        })
    }
}

/// Writes an element of a model's message.
pub(crate) fn sample_value(content: &SampleContent) -> Option<Value> {
    Some(match content {
        SampleContent::Text(text) => json!({"type": "text", "text": text}),
        SampleContent::Image(Image { data, mime_type, .. }) => {
            json!({"type": "image", "data": BASE64_STANDARD.encode(data), "mimeType": mime_type})
        }
        SampleContent::Audio(Audio { data, mime_type, .. }) => {
            json!({"type": "audio", "data": BASE64_STANDARD.encode(data), "mimeType": mime_type})
        }
        SampleContent::ToolUse(SampleToolUse { id, name, input, meta, .. }) => {
            let mut block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
            if !meta.is_empty() {
                block["_meta"] = json!(meta);
            }
            block
        }
        _ => return None,
    })
}

/// Removes characters that control a terminal, and characters that a reader does not see: control characters except for line
/// breaks and tabs, overrides of the direction of text, and tags.
pub(crate) fn printable(text: &str) -> String {
    let is_printable = |letter: &char| match letter {
        '\n' | '\t' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}' => false,
        letter => !letter.is_control(),
    };
    text.chars().filter(is_printable).collect()
}

/// Makes the titles and descriptions in a value [`printable`], or all text with `is_text`.
pub(crate) fn make_printable(value: &mut Value, is_text: bool) {
    match value {
        Value::String(text) if is_text => *text = printable(text),
        Value::Array(values) => values.iter_mut().for_each(|value| make_printable(value, is_text)),
        Value::Object(members) => {
            for (name, value) in members {
                make_printable(value, is_text || value.is_string() && matches!(&**name, "title" | "description"));
            }
        }
        _ => {}
    }
}

/// Decodes base64, also of the alphabet for URLs, without padding, or with line breaks, as some encoders write it.
fn bytes(data: &Value) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let letters = data.as_str()?.chars().filter(|letter| !letter.is_ascii_whitespace());
    let standard = letters.map(|letter| match letter {
        '-' => '+',
        '_' => '/',
        letter => letter,
    });
    LENIENT.decode(standard.collect::<String>()).ok()
}

/// Replaces a block of content that the upstream should not have sent, so that the reader learns of it.
pub(crate) fn invalid_content() -> Content {
    "(The upstream has sent content that is invalid.)".into()
}

pub(crate) fn text(object: &Value, name: &str) -> Option<String> {
    object[name].as_str().map(str::to_owned)
}

pub(crate) fn role(role: &Value) -> Option<Role> {
    match role.as_str()? {
        "assistant" => Some(Role::Assistant),
        "user" => Some(Role::User),
        _ => None,
    }
}

/// Reads `_meta`. Members whose keys belong to the protocol are dropped: they describe the connection to the upstream.
pub(crate) fn meta(object: &Value) -> Map<String, Value> {
    let members = object["_meta"].as_object().into_iter().flatten();
    let members = members.filter(|(key, _)| check_meta_key(key).is_ok());
    members.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn annotations(object: &Value) -> Annotations {
    let given = &object["annotations"];
    let mut annotations = Annotations::default();
    annotations.audience = given["audience"].as_array().into_iter().flatten().filter_map(role).collect();
    annotations.priority = given["priority"].as_f64();
    annotations.last_modified = text(given, "lastModified");
    annotations
}

/// Returns a schema in the draft of 2020-12, which the runtime enforces. Many servers list schemas of draft 7.
pub(crate) fn schema(listed: &Value) -> Value {
    let mut schema = listed.clone();
    let is_older = listed["$schema"].as_str().is_some_and(|draft| !draft.contains("2020-12"));
    if let Some(members) = schema.as_object_mut().filter(|_| is_older) {
        members.remove("$schema");
        modernize(members);
    }
    schema
}

fn modernize(schema: &mut Map<String, Value>) {
    if let Some(prefix) = schema.get("items").filter(|items| items.is_array()).cloned() {
        schema.insert("prefixItems".to_owned(), prefix);
        let rest = schema.remove("additionalItems").unwrap_or(Value::Bool(true));
        schema.insert("items".to_owned(), rest);
    }
    // Draft 4: whether the limit itself is excluded.
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if schema.get(exclusive).is_some_and(Value::is_boolean)
            && schema.remove(exclusive) == Some(Value::Bool(true))
            && let Some(value) = schema.remove(limit)
        {
            schema.insert(exclusive.to_owned(), value);
        }
    }
    if let Some(Value::Object(dependencies)) = schema.get("dependencies").cloned() {
        schema.remove("dependencies");
        for (name, value) in dependencies {
            let keyword = if value.is_array() { "dependentRequired" } else { "dependentSchemas" };
            if let Value::Object(all) = schema.entry(keyword).or_insert_with(|| json!({})) {
                all.insert(name, value);
            }
        }
    }
    for (keyword, value) in schema {
        match (&**keyword, value) {
            ("enum" | "const" | "default" | "examples" | "dependentRequired", _) => {}
            (
                "properties" | "patternProperties" | "definitions" | "$defs" | "dependentSchemas",
                Value::Object(schemas),
            ) => {
                schemas.values_mut().filter_map(Value::as_object_mut).for_each(modernize);
            }
            (_, Value::Object(schema)) => modernize(schema),
            (_, Value::Array(schemas)) => schemas.iter_mut().filter_map(Value::as_object_mut).for_each(modernize),
            _ => {}
        }
    }
}

/// Reads the icons that clients may load.
pub(crate) fn icons(object: &Value) -> Vec<Icon> {
    let given = object["icons"].as_array().into_iter().flatten();
    let icons = given.filter_map(|icon| {
        let src = icon["src"].as_str()?;
        let mut safe = is_icon_source(src).then(|| Icon::new(src.to_owned()))?;
        safe.mime_type = text(icon, "mimeType").map(Into::into);
        let sizes = icon["sizes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        safe.sizes = sizes.filter(|size| is_icon_size(size)).map(|size| size.to_owned().into()).collect();
        safe.theme = match icon["theme"].as_str() {
            Some("light") => Some(Theme::Light),
            Some("dark") => Some(Theme::Dark),
            _ => None,
        };
        Some(safe)
    });
    icons.take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_valid_in_names_and_uris() {
        let (longest, too_long) = ("a".repeat(32), "a".repeat(33));
        for (prefix, is_valid) in [
            ("", true),
            ("a", true),
            ("git-2.x", true),
            (&*longest, true),
            (&*too_long, false),
            ("2git", false),
            ("-git", false),
            (".git", false),
            ("gIt", false),
            ("git_2", false),
            ("git+2", false),
            ("g\u{ef}t", false),
        ] {
            assert_eq!(Prefix::new(prefix).is_some(), is_valid, "{prefix:?}");
        }
    }
}

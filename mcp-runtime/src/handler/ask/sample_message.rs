//! Messages to and from the client's model.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{InvalidAnswer, question::parse};
use crate::{
    error::Fault,
    jsonrpc::write::{plain, string},
    model::{Audio, Content, Image, Role, with_meta},
    revision::{
        Feature, Features,
        encode::{self, Object, array},
    },
};

/// A message to or from a model.
///
/// See [Messages](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#messages).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SampleMessage {
    /// The author of the message.
    pub role: Role,
    /// The content.
    pub content: Vec<SampleContent>,
    /// The members of `_meta`. Sent since revision 2025-11-25.
    pub meta: Map<String, Value>,
}

/// A content block of a message to or from a model.
///
/// ```
/// use mcp_runtime::{Image, ask::{SampleContent, SampleRequest}, model::Role};
///
/// let png = vec![/* … */];
/// let request = SampleRequest::new("Compare the picture with the text.")
///     .with_contents(Role::User, [SampleContent::text("A cat."), SampleContent::Image(Image::png(png))]);
/// ```
///
/// See [Messages](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#messages).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SampleContent {
    /// Text.
    Text(String),
    /// An image.
    Image(Image),
    /// Audio. Supported since revision 2025-03-26.
    Audio(Audio),
    /// A tool call by the model. Supported since revision 2025-11-25.
    ToolUse(SampleToolUse),
    /// The result of a tool call. Supported since revision 2025-11-25.
    ToolResult(SampleToolResult),
}

/// A tool call by the model.
///
/// See [Sampling with tools](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#sampling-with-tools).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SampleToolUse {
    /// The id of the call, to which the result refers.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments. They have not been validated.
    pub input: Map<String, Value>,
    /// The members of `_meta`. They are sent back with the conversation, which lets clients use their caches.
    pub meta: Map<String, Value>,
}

impl SampleToolUse {
    /// Creates a tool call, as a model would have made it.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Map<String, Value>) -> Self {
        Self { id: id.into(), name: name.into(), input, meta: Map::new() }
    }
}

/// The result of a tool call by the model.
///
/// ```
/// use mcp_runtime::ask::SampleToolResult;
///
/// let found = SampleToolResult::new("call-1", "12 °C");
/// let failed = SampleToolResult::error("call-2", "the city is unknown");
/// assert!(failed.is_error && !found.is_error);
/// ```
///
/// See [Multi-turn tool loop](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#multi-turn-tool-loop).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SampleToolResult {
    /// The id of the tool call.
    pub tool_use_id: String,
    /// The content for the model.
    pub content: Vec<Content>,
    /// The structured result. Values other than objects are sent since revision 2026-07-28.
    pub structured: Option<Value>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The members of `_meta`.
    pub meta: Map<String, Value>,
}

impl SampleToolResult {
    /// Creates the result of a tool call.
    pub fn new(tool_use_id: impl Into<String>, content: impl Into<Content>) -> Self {
        let content = vec![content.into()];
        Self { tool_use_id: tool_use_id.into(), content, structured: None, is_error: false, meta: Map::new() }
    }

    /// Creates the result of a tool call that failed.
    pub fn error(tool_use_id: impl Into<String>, content: impl Into<Content>) -> Self {
        Self { is_error: true, ..Self::new(tool_use_id, content) }
    }

    with_meta!();
}

/// The response of a model.
///
/// ```
/// use mcp_runtime::{Context, Fault, ask::SampleRequest};
///
/// # #[allow(dead_code)]
/// async fn summarize(ctx: &Context, text: &str) -> Result<String, Fault> {
///     let result = ctx.sample(SampleRequest::new(format!("Summarize: {text}")).max_tokens(200)).await?;
///     let is_complete = result.stop_reason.as_deref() != Some("maxTokens");
///     Ok(if is_complete { result.text() } else { format!("{} …", result.text()) })
/// }
/// ```
///
/// See [Result fields](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#result-fields).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SampleResult {
    /// The author of the message, usually the assistant.
    pub role: Role,
    /// The content.
    pub content: Vec<SampleContent>,
    /// The name of the model.
    pub model: String,
    /// The reason why the model stopped, if known: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or another value.
    pub stop_reason: Option<String>,
    /// The members of `_meta`.
    pub meta: Map<String, Value>,
}

impl SampleResult {
    /// Returns the concatenated text of all content blocks.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(SampleContent::as_text).collect()
    }

    /// Returns the tool calls by the model.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, ask::{SampleRequest, SampleToolResult}};
    /// # async fn run(ctx: &Context, request: SampleRequest) -> Result<String, Fault> {
    /// let reply = ctx.sample(request.clone()).await?;
    /// let results: Vec<_> = reply.tool_uses().map(|call| SampleToolResult::new(&call.id, "12 °C")).collect();
    /// let request = request.answered(reply).with_tool_results(results);
    /// Ok(ctx.sample(request).await?.text())
    /// # }
    /// ```
    pub fn tool_uses(&self) -> impl Iterator<Item = &SampleToolUse> {
        self.content.iter().filter_map(|content| match content {
            SampleContent::ToolUse(tool_use) => Some(tool_use),
            _ => None,
        })
    }

    pub(super) fn read(result: &str) -> Result<Self, InvalidAnswer> {
        let mut result = parse(&SCHEMA, result)?;
        let content = match result["content"].take() {
            Value::Array(all) => {
                let read = |(index, block)| SampleContent::read(&format!("content[{index}]"), block);
                all.into_iter().enumerate().map(read).collect::<Result<_, _>>()?
            }
            block => vec![SampleContent::read("content", block)?],
        };
        Ok(Self {
            role: if result["role"] == "user" { Role::User } else { Role::Assistant },
            content,
            model: text(&mut result, "model"),
            stop_reason: result["stopReason"].as_str().map(str::to_owned),
            meta: members(&mut result, "_meta"),
        })
    }
}

impl SampleContent {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns the text if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns whether the block requires a revision that supports tools in sampling.
    pub(super) fn needs_tools(&self) -> bool {
        matches!(self, Self::ToolUse(_) | Self::ToolResult(_))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, features: Features) {
        match self {
            Self::Text(text) => encode::text(out, text),
            Self::Image(image) => encode::content(out, features, &Content::Image(image.clone())),
            Self::Audio(audio) => encode::content(out, features, &Content::Audio(audio.clone())),
            Self::ToolUse(tool_use) => {
                let mut object = Object::begin(out);
                object.string("type", "tool_use");
                object.string("id", &tool_use.id);
                object.string("name", &tool_use.name);
                plain(object.key("input"), &tool_use.input);
                // That of the client, which is sent back as it is.
                object.value("_meta", Some(&tool_use.meta).filter(|meta| !meta.is_empty()));
                object.end();
            }
            Self::ToolResult(result) => {
                let mut object = Object::begin(out);
                object.string("type", "tool_result");
                object.string("toolUseId", &result.tool_use_id);
                array(object.key("content"), &result.content, |out, block| encode::content(out, features, block));
                let is_sent = |value: &&Value| value.is_object() || features.has(Feature::StructuredAnyValue);
                object.value("structuredContent", result.structured.as_ref().filter(is_sent));
                object.value("isError", result.is_error.then_some(&true));
                encode::meta(&mut object, features, &result.meta);
                object.end();
            }
        }
    }

    fn read(path: &str, mut content: Value) -> Result<Self, InvalidAnswer> {
        Ok(match content["type"].as_str() {
            Some("image") => {
                let mut image = Image::new(bytes(path, &content)?, text(&mut content, "mimeType"));
                image.meta = members(&mut content, "_meta");
                Self::Image(image)
            }
            Some("audio") => {
                let mut audio = Audio::new(bytes(path, &content)?, text(&mut content, "mimeType"));
                audio.meta = members(&mut content, "_meta");
                Self::Audio(audio)
            }
            Some("tool_use") => Self::ToolUse(SampleToolUse {
                id: text(&mut content, "id"),
                name: text(&mut content, "name"),
                input: members(&mut content, "input"),
                meta: members(&mut content, "_meta"),
            }),
            _ => Self::Text(text(&mut content, "text")),
        })
    }
}

macro_rules! from_contents {
    ($($source:ty => $content:ident),+) => {
        $(impl From<$source> for SampleContent {
            fn from(content: $source) -> Self {
                Self::$content(content.into())
            }
        })+
    };
}

from_contents!(
    &str => Text, String => Text, Image => Image, Audio => Audio, SampleToolUse => ToolUse,
    SampleToolResult => ToolResult
);

/// Checks that each tool call is made by the assistant, has an id of its own and its result in the next message, and that a
/// message with results has no other content.
///
/// See [Tool use and result balance](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-use-and-result-balance).
pub(super) fn check_tool_results(messages: &[SampleMessage]) -> Result<(), Fault> {
    let mut unanswered: Vec<&str> = Vec::new();
    for SampleMessage { role, content, .. } in messages {
        let results = content.iter().filter_map(|content| match content {
            SampleContent::ToolResult(result) => Some(&*result.tool_use_id),
            _ => None,
        });
        let mut count = 0;
        for id in results {
            count += 1;
            let Some(index) = unanswered.iter().position(|call| *call == id) else {
                return Err(Fault::internal(format!(
                    "the tool result `{id}` does not match a tool call in the previous message"
                )));
            };
            unanswered.swap_remove(index);
        }
        if count > 0 && (count < content.len() || *role != Role::User) {
            return Err(Fault::internal("tool results must be the only content of a user message"));
        }
        if let [id, ..] = *unanswered {
            return Err(Fault::internal(format!("the tool call `{id}` has no result in the next message")));
        }
        for content in content {
            let SampleContent::ToolUse(SampleToolUse { id, .. }) = content else { continue };
            if *role != Role::Assistant || unanswered.contains(&&**id) {
                let expected = "expected a message of the assistant and an id of its own";
                return Err(Fault::internal(format!("the tool call `{id}` is invalid: {expected}")));
            }
            unanswered.push(id);
        }
    }
    match *unanswered {
        [id, ..] => Err(Fault::internal(format!("the tool call `{id}` has no result in the next message"))),
        [] => Ok(()),
    }
}

/// Writes the messages, split into one per content block if the revision does not support several.
pub(super) fn write_messages(out: &mut Vec<u8>, messages: &[SampleMessage], features: Features) {
    let whole = features.has(Feature::SamplingTools);
    let split = messages.iter().flat_map(|message| {
        let size = if whole { message.content.len().max(1) } else { 1 };
        message.content.chunks(size).map(move |content| (message, content))
    });
    array(out, split, |out, (message, content)| {
        let mut object = Object::begin(out);
        string(object.key("role"), message.role.as_str());
        match content {
            [block] => block.write(object.key("content"), features),
            blocks => array(object.key("content"), blocks, |out, block| block.write(out, features)),
        }
        // Exactly the revisions whose messages have `_meta` support several blocks.
        if whole {
            encode::meta(&mut object, features, &message.meta);
        }
        object.end();
    });
}

/// The schema of responses. A model does not return tool results.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let string = || json!({ "type": "string" });
    let content = |kind: &str, members: &[&str]| {
        let mut properties = Map::new();
        properties.insert("type".to_owned(), json!({ "const": kind }));
        for member in members {
            let value = if *member == "input" { json!({ "type": "object" }) } else { string() };
            properties.insert((*member).to_owned(), value);
        }
        let required: Vec<&str> = ["type"].into_iter().chain(members.iter().copied()).collect();
        json!({ "type": "object", "properties": properties, "required": required })
    };
    let media = ["data", "mimeType"];
    let block = json!({ "oneOf": [
        content("text", &["text"]),
        content("image", &media),
        content("audio", &media),
        content("tool_use", &["id", "name", "input"]),
    ] });
    json!({
        "type": "object",
        "properties": {
            "role": { "enum": ["user", "assistant"] },
            "content": {
                "type": ["object", "array"],
                "if": { "type": "array" },
                "then": { "items": { "$ref": "#/$defs/content" } },
                "else": { "$ref": "#/$defs/content" },
            },
            "model": string(),
            "stopReason": { "type": ["string", "null"] },
        },
        "required": ["role", "content", "model"],
        "$defs": { "content": block },
    })
});

fn text(object: &mut Value, member: &str) -> String {
    match object[member].take() {
        Value::String(text) => text,
        _ => String::new(),
    }
}

/// Removes the members of an object. Returns none if the value is missing or not an object.
fn members(object: &mut Value, member: &str) -> Map<String, Value> {
    object[member].as_object_mut().map(std::mem::take).unwrap_or_default()
}

fn bytes(path: &str, content: &Value) -> Result<Vec<u8>, InvalidAnswer> {
    let data = content["data"].as_str().unwrap_or_default();
    STANDARD.decode(data).map_err(|error| InvalidAnswer::new(format!("`{path}.data` is not valid base64: {error}")))
}

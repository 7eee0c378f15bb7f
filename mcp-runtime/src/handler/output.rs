//! The return types of tools and prompts, which are written directly to the buffer of the response.

use std::{borrow::Cow, ops::Range};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::{ErrorOutput, HandlerError, HandlerResult, Reply, ResultKind};
use crate::{
    error::Fault,
    jsonrpc::write,
    model::{
        Audio, Content, Image, Json, PromptMessage, PromptResult, Resource, ResourceLink, Structured, Text, ToolResult,
        content_types,
    },
    revision::{
        Feature,
        encode::{self, comma},
    },
};

/// A type that a tool may return.
///
/// - Text, numbers, `bool` and `char` become a text block. Images, audio, resources and links become a block of their
///   type, and a `Vec` becomes one block per element.
/// - [`Json<T>`](Json) becomes structured content with a schema, and a text block for clients that do not support it.
///   [`Structured<T>`](Structured) adds further content.
/// - `()` and `None` have no content, except that `None` is `null` if the `Some` value would be structured.
/// - `Err` is an error that the model reads, except for a [`Fault`], which is a protocol error.
///
/// Only this crate implements it. For types of your own, implement `serde::Serialize` and return `Json<T>`, or convert
/// them to [`Content`] or [`ToolResult`].
///
/// ```
/// use mcp_runtime::{Json, Revision, Server, tool};
/// use serde_json::json;
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Division {
///     quotient: i64,
///     remainder: i64,
/// }
///
/// /// Divide two numbers.
/// #[tool(read_only)]
/// fn divide(a: i64, b: i64) -> Result<Json<Division>, &'static str> {
///     let quotient = a.checked_div(b).ok_or("division by zero")?;
///     Ok(Json(Division { quotient, remainder: a - quotient * b }))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = Server::empty("math", "1.0.0").with::<divide>().test_client(Revision::V2025_11_25);
/// let seven = client.call("divide", json!({"a": 7, "b": 2})).await.unwrap();
/// assert_eq!(seven.structured(), Some(&json!({"quotient": 3, "remainder": 1})));
/// // The model reads the error, and may try again.
/// let error = client.call("divide", json!({"a": 7, "b": 0})).await.unwrap();
/// assert!(error.is_error());
/// assert_eq!(error.text(), "division by zero");
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "unsupported return type",
    note = "the supported types are text (`String`, `&str`, a number, `bool`, `char`), `()`, `Json<T>`, `Structured<T>`, `Image`, `Audio`, `Resource`, `ResourceLink`, `Content`, a `Vec` or an `Option` of these, `ToolResult`, and a `Result` of any of them",
    note = "for a structured result, return `mcp_runtime::Json<T>`, where `T` implements `serde::Serialize` and `schemars::JsonSchema`"
)]
pub trait ToolOutput: Sized {
    /// Generates the schema of the result if it is structured.
    #[doc(hidden)]
    fn schema(_: &mut SchemaGenerator) -> Option<Schema> {
        None
    }

    /// Whether some result has content.
    #[doc(hidden)]
    const HAS_CONTENT: bool = true;

    /// Writes the result.
    #[doc(hidden)]
    fn write(self, reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError>;
}

/// A type whose values can be a structured result: any type that implements `serde::Serialize` and
/// `schemars::JsonSchema`.
///
/// It is implemented automatically: `#[derive(serde::Serialize, schemars::JsonSchema)]` is enough. Return the values as
/// [`Json<T>`](Json) or [`Structured<T>`](Structured).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a structured result: it must implement `serde::Serialize` and `schemars::JsonSchema`",
    label = "this type, or a type inside it, does not implement both traits",
    note = "for a type of your own, add `#[derive(serde::Serialize, schemars::JsonSchema)]`",
    note = "`JsonSchema` must be the trait of `schemars` 1.x: `schemars` 0.8 has another trait of this name, so run `cargo add schemars@1`",
    note = "for a type of another crate, enable its feature `serde`, and the feature of `schemars` that has its name and version: `chrono04`, `jiff02`, `uuid1`, `url2`, `semver1`, …"
)]
pub trait JsonOutput: Serialize + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + JsonSchema> JsonOutput for T {}

/// A type that can be converted to a single content block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a content block",
    label = "expected text, a number, `Text`, `Image`, `Audio`, `Resource`, `ResourceLink` or `Content`",
    note = "for a structured list, return `Json<Vec<_>>`"
)]
pub trait ContentItem: Sized {
    /// Converts the value into content.
    #[doc(hidden)]
    fn into_content(self) -> Content;
}

/// The writer of a tool's result: content, structured content, and whether it is an error.
pub struct ToolReply<'r, 'a> {
    reply: &'r mut Reply<'a>,
    /// The first text if the result is an error, for code that reports the error elsewhere.
    error: Option<String>,
    /// Whether the `content` array has been opened.
    open: bool,
    meta: Option<serde_json::Map<String, serde_json::Value>>,
}

impl<'r, 'a> ToolReply<'r, 'a> {
    fn begin(reply: &'r mut Reply<'a>) -> Self {
        reply.out.push(b'{');
        Self { reply, error: None, open: false, meta: None }
    }

    fn open_content(&mut self) {
        if !self.open {
            comma(self.reply.out);
            self.reply.out.extend_from_slice(br#""content":["#);
            self.open = true;
        }
    }

    /// Returns the buffer, to which the caller appends a content block.
    fn block(&mut self) -> &mut Vec<u8> {
        self.open_content();
        comma(self.reply.out);
        self.reply.out
    }

    fn text(&mut self, text: &str) {
        encode::text(self.block(), text);
    }

    fn content(&mut self, content: &Content) {
        let features = self.reply.call.encoding.dialect.features();
        encode::content(self.block(), features, content);
    }

    /// Writes a value as structured content if the dialect supports it, and its JSON text as content.
    fn json(&mut self, value: &impl Serialize) -> Result<(), Fault> {
        if self.reply.structured && self.reply.call.encoding.has(Feature::StructuredContent) {
            let Range { start, end } = self.write_structured(value)?;
            encode::text_with(self.block(), |out| write::append_as_string(out, start, end));
        } else {
            let mut json = Vec::new();
            write::value(&mut json, value).map_err(serialization_failed)?;
            encode::text_with(self.block(), |out| write::utf8(out, &json));
        }
        Ok(())
    }

    /// Writes `structuredContent`. Returns the position of the value, which some dialects wrap in an object.
    fn write_structured(&mut self, value: &impl Serialize) -> Result<Range<usize>, Fault> {
        let Reply { out, call, wraps, .. } = &mut *self.reply;
        let is_wrapped = *wraps && !call.encoding.has(Feature::StructuredAnyValue);
        out.extend_from_slice(br#""structuredContent":"#);
        if is_wrapped {
            out.extend_from_slice(br#"{"result":"#);
        }
        let start = out.len();
        write::value(out, value).map_err(serialization_failed)?;
        let end = out.len();
        if is_wrapped {
            out.push(b'}');
        }
        Ok(start..end)
    }

    fn end(mut self) -> ResultKind {
        self.open_content();
        let out = &mut *self.reply.out;
        out.push(b']');
        if self.error.is_some() {
            out.extend_from_slice(br#","isError":true"#);
        }
        self.reply.call.encoding.end_result(out, self.meta.as_ref());
        self.error.map_or(ResultKind::Complete, ResultKind::ToolError)
    }
}

/// Returns the fault of a tool whose result cannot be written.
fn serialization_failed(error: serde_json::Error) -> Fault {
    Fault::internal(format!("the result cannot be serialized: {error}"))
}

/// Writes the result of a tool.
///
/// # Errors
///
/// Returns the error that the function returned, or a fault if the value cannot be serialized.
pub fn write_tool<T: ToolOutput>(reply: &mut Reply<'_>, value: T) -> HandlerResult {
    let mut reply = ToolReply::begin(reply);
    value.write(&mut reply)?;
    Ok(reply.end())
}

/// Writes a result that consists of an error message for the model.
pub(crate) fn write_tool_error(reply: &mut Reply<'_>, text: &str) {
    let mut tool = ToolReply::begin(reply);
    tool.text(text);
    tool.error = Some(String::new());
    tool.end();
}

impl<T: ToolOutput, E: ErrorOutput> ToolOutput for Result<T, E> {
    const HAS_CONTENT: bool = T::HAS_CONTENT;

    fn schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        T::schema(generator)
    }

    fn write(self, reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
        self.map_err(HandlerError::from_error)?.write(reply)
    }
}

impl<T: ToolOutput> ToolOutput for Option<T> {
    const HAS_CONTENT: bool = T::HAS_CONTENT;

    fn schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        let schema = T::schema(generator)?;
        Some(schemars::json_schema!({ "anyOf": [schema, { "type": "null" }] }))
    }

    fn write(self, reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
        match self {
            Some(value) => value.write(reply),
            None if reply.reply.structured => Ok(reply.json(&())?),
            None => Ok(()),
        }
    }
}

impl<T: JsonOutput> ToolOutput for Json<T> {
    fn schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }

    fn write(self, reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
        Ok(reply.json(&self.0)?)
    }
}

impl<T: JsonOutput> ToolOutput for Structured<T> {
    fn schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        Json::<T>::schema(generator)
    }

    fn write(self, reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
        reply.json(&self.value)?;
        self.content.iter().for_each(|content| reply.content(content));
        reply.meta = Some(self.meta);
        Ok(())
    }
}

impl ToolOutput for ToolResult {
    fn write(self, reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
        let text = self.content.iter().find_map(|content| match content {
            Content::Text(text) => Some(&text.text),
            _ => None,
        });
        if let Some(value) = &self.structured {
            reply.reply.structured = true;
            reply.reply.wraps |= !value.is_object();
            // The JSON of the value is the text of a result that has no other.
            if text.is_none() {
                reply.json(value)?;
            } else if reply.reply.call.encoding.has(Feature::StructuredContent) {
                reply.write_structured(value)?;
            }
        }
        if self.is_error {
            let json = || self.structured.as_ref().map(ToString::to_string);
            reply.error = Some(text.cloned().or_else(json).unwrap_or_default());
        }
        self.content.iter().for_each(|content| reply.content(content));
        reply.meta = Some(self.meta);
        Ok(())
    }
}

impl ToolOutput for () {
    const HAS_CONTENT: bool = false;

    fn write(self, _: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
        Ok(())
    }
}

impl<T: ContentItem> ToolOutput for Vec<T> {
    fn write(self, reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
        self.into_iter().for_each(|item| reply.content(&item.into_content()));
        Ok(())
    }
}

macro_rules! outputs {
    ($($type:ty),+; $this:ident => $content:expr, $reply:ident => $write:expr) => {
        $(impl ToolOutput for $type {
            fn write($this, $reply: &mut ToolReply<'_, '_>) -> Result<(), HandlerError> {
                $write;
                Ok(())
            }
        }

        impl ContentItem for $type {
            fn into_content($this) -> Content {
                $content
            }
        })+
    };
}

outputs!(String, Cow<'_, str>, Box<str>; self => Content::text(self), reply => reply.text(&self));
outputs!(&str; self => Content::text(self), reply => reply.text(self));
outputs!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, char;
    self => Content::text(self.to_string()), reply => reply.text(&self.to_string())
);

macro_rules! content_outputs {
    ($($content:ident),+) => {
        outputs!($($content),+; self => self.into(), reply => reply.content(&self.into()));
    };
}

content_outputs!(Content);
content_types!(content_outputs);

/// A type that a prompt may return.
///
/// Text and other content become a single user message. Only this crate implements it. For types of your own, convert
/// them to [`PromptMessage`] or [`PromptResult`].
///
/// ```
/// use mcp_runtime::{PromptMessage, prompt};
///
/// /// Review code in a language.
/// #[prompt]
/// fn review(language: String) -> Vec<PromptMessage> {
///     vec![
///         PromptMessage::user(format!("Review this {language} code for mistakes.")),
///         PromptMessage::assistant("I will name each mistake with its line. Where is the code?"),
///     ]
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "unsupported return type",
    note = "the supported types are text or other content (a single user message), `PromptMessage`, `Vec<PromptMessage>`, `PromptResult`, and a `Result` of any of them"
)]
pub trait PromptOutput: Sized {
    /// Returns the messages with their description.
    #[doc(hidden)]
    fn into_result(self) -> Result<PromptResult, HandlerError>;
}

/// Writes the result of a prompt.
///
/// # Errors
///
/// Returns the error that the function returned.
pub fn write_prompt<T: PromptOutput>(reply: &mut Reply<'_>, value: T) -> HandlerResult {
    let PromptResult { description, messages, meta } = value.into_result()?;
    let encoding = &reply.call.encoding;
    let mut object = encode::Object::begin(reply.out);
    object.optional("description", description.as_deref());
    encode::array(object.key("messages"), &messages, |out, message| {
        let mut object = encode::Object::begin(out);
        object.string("role", message.role.as_str());
        encode::content(object.key("content"), encoding.dialect.features(), &message.content);
        object.end();
    });
    encoding.end_result(reply.out, Some(&meta));
    Ok(ResultKind::Complete)
}

impl<T: PromptOutput, E: ErrorOutput> PromptOutput for Result<T, E> {
    fn into_result(self) -> Result<PromptResult, HandlerError> {
        self.map_err(HandlerError::from_error)?.into_result()
    }
}

macro_rules! prompts {
    ($($type:ty),+; $this:ident => $result:expr) => {
        $(impl PromptOutput for $type {
            fn into_result($this) -> Result<PromptResult, HandlerError> {
                Ok($result)
            }
        })+
    };
}

prompts!(PromptResult; self => self);
prompts!(PromptMessage; self => PromptResult::new([self]));
prompts!(Vec<PromptMessage>; self => PromptResult::new(self));

macro_rules! content_prompts {
    ($($content:ty),+) => {
        prompts!($($content),+; self => PromptResult::new([PromptMessage::user(self.into_content())]));
    };
}

content_prompts!(String, &str, Cow<'_, str>, Box<str>, Content);
content_types!(content_prompts);

#[cfg(test)]
mod tests {
    use crate::model::content_types;

    #[test]
    fn diagnostics_name_every_type_of_content() {
        macro_rules! names {
            ($($block:ident),+) => { [$(concat!("`", stringify!($block), "`")),+] };
        }
        let source = include_str!("output.rs");
        for start in ["note = \"the supported types are", "label = \"expected text"] {
            let line = source.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
            let missing = content_types!(names).into_iter().find(|name| *name != "`Text`" && !line.contains(name));
            assert_eq!(missing, None, "{line}");
        }
    }
}

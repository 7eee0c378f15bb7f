//! The return types of prompts.

use std::borrow::Cow;

use super::{ContentItem, ErrorOutput, HandlerError, HandlerResult, Reply, ResultKind, comma};
use crate::{
    jsonrpc::write,
    model::{Audio, Content, Image, PromptMessage, PromptResult, Resource, ResourceLink, Text, content_types},
    revision::encode,
};

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
    /// Writes the messages.
    #[doc(hidden)]
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Result<(), HandlerError>;
}

/// The writer of a prompt's result.
pub struct PromptReply<'r, 'a> {
    reply: &'r mut Reply<'a>,
    /// Whether the `messages` array has been opened.
    open: bool,
    meta: Option<serde_json::Map<String, serde_json::Value>>,
}

impl<'r, 'a> PromptReply<'r, 'a> {
    fn begin(reply: &'r mut Reply<'a>) -> Self {
        reply.out.push(b'{');
        Self { reply, open: false, meta: None }
    }

    fn open_messages(&mut self) {
        if !self.open {
            comma(self.reply.out);
            self.reply.out.extend_from_slice(br#""messages":["#);
            self.open = true;
        }
    }

    fn message(&mut self, message: &PromptMessage) {
        self.open_messages();
        comma(self.reply.out);
        let features = self.reply.call.encoding.features;
        let mut object = encode::Object::begin(self.reply.out);
        object.string("role", message.role.as_str());
        encode::content(object.key("content"), features, &message.content);
        object.end();
    }

    fn end(mut self) {
        self.open_messages();
        self.reply.out.push(b']');
        self.reply.call.encoding.end_result(self.reply.out, self.meta.as_ref());
    }
}

/// Writes the result of a prompt.
///
/// # Errors
///
/// Returns the error that the function returned.
pub fn write_prompt<T: PromptOutput>(reply: &mut Reply<'_>, value: T) -> HandlerResult {
    let mut reply = PromptReply::begin(reply);
    value.write(&mut reply)?;
    reply.end();
    Ok(ResultKind::Complete)
}

impl PromptOutput for PromptMessage {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Result<(), HandlerError> {
        reply.message(&self);
        Ok(())
    }
}

impl PromptOutput for Vec<PromptMessage> {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Result<(), HandlerError> {
        self.iter().for_each(|message| reply.message(message));
        Ok(())
    }
}

impl PromptOutput for PromptResult {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Result<(), HandlerError> {
        if let Some(description) = &self.description {
            reply.reply.out.extend_from_slice(br#""description":"#);
            write::string(reply.reply.out, description);
        }
        reply.meta = Some(self.meta);
        self.messages.write(reply)
    }
}

impl<T: PromptOutput, E: ErrorOutput> PromptOutput for Result<T, E> {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Result<(), HandlerError> {
        self.map_err(HandlerError::from_error)?.write(reply)
    }
}

macro_rules! contents {
    ($($content:ty),+) => {
        $(impl PromptOutput for $content {
            fn write(self, reply: &mut PromptReply<'_, '_>) -> Result<(), HandlerError> {
                PromptMessage::user(self.into_content()).write(reply)
            }
        })+
    };
}

contents!(String, &str, Cow<'_, str>, Box<str>, Content);
content_types!(contents);

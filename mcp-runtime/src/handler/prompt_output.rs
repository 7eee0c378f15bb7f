//! What a prompt may return.

use std::{borrow::Cow, fmt::Display};

use super::{Outcome, Refusal, Reply, reply::comma};
use crate::{
    jsonrpc::write,
    model::{Audio, Content, Image, PromptMessage, PromptResult, Resource, ResourceLink, Text},
    revision::encode,
};

/// A type that a prompt may return.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "these are no messages",
    note = "text or other content (one message of the user), `PromptMessage`, `Vec<PromptMessage>`, `PromptResult`, and a `Result` of any of them will do"
)]
pub trait PromptOutput: Sized {
    /// Writes the messages.
    #[doc(hidden)]
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Outcome;
}

/// Writes the messages of one prompt.
#[derive(Debug)]
pub struct PromptReply<'r, 'a> {
    reply: &'r mut Reply<'a>,
    open: bool,
}

impl<'r, 'a> PromptReply<'r, 'a> {
    pub(super) fn begin(reply: &'r mut Reply<'a>) -> Self {
        reply.out.push(b'{');
        Self { reply, open: false }
    }

    fn open(&mut self) {
        if !self.open {
            comma(self.reply.out);
            self.reply.out.extend_from_slice(br#""messages":["#);
            self.open = true;
        }
    }

    fn describe(&mut self, description: &str) {
        comma(self.reply.out);
        self.reply.out.extend_from_slice(br#""description":"#);
        write::string(self.reply.out, description);
    }

    fn message(&mut self, message: &PromptMessage) {
        self.open();
        comma(self.reply.out);
        let features = self.reply.encoding.features;
        let mut object = encode::Object::begin(self.reply.out);
        object.string("role", message.role.as_str());
        encode::content(object.key("content"), features, &message.content);
        object.end();
    }

    pub(super) fn end(mut self) {
        self.open();
        self.reply.out.push(b']');
        self.reply.encoding.end_result(self.reply.out, None);
    }
}

impl PromptOutput for PromptMessage {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Outcome {
        reply.message(&self);
        Ok(())
    }
}

impl PromptOutput for Vec<PromptMessage> {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Outcome {
        self.iter().for_each(|message| reply.message(message));
        Ok(())
    }
}

impl PromptOutput for PromptResult {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Outcome {
        if let Some(description) = &self.description {
            reply.describe(description);
        }
        self.messages.write(reply)
    }
}

impl<T: PromptOutput, E: Display + 'static> PromptOutput for Result<T, E> {
    fn write(self, reply: &mut PromptReply<'_, '_>) -> Outcome {
        self.map_err(Refusal::of_error)?.write(reply)
    }
}

macro_rules! contents {
    ($($content:ty => $into:expr),+ $(,)?) => {
        $(impl PromptOutput for $content {
            fn write(self, reply: &mut PromptReply<'_, '_>) -> Outcome {
                let content: Content = $into(self);
                PromptMessage::user(content).write(reply)
            }
        })+
    };
}

contents!(
    String => Content::text,
    &str => Content::text,
    Cow<'_, str> => Content::text,
    Box<str> => Content::text,
    Content => std::convert::identity,
    Text => Into::into,
    Image => Into::into,
    Audio => Into::into,
    Resource => Into::into,
    ResourceLink => Into::into,
);

//! What a resource may return, and what a function that lists resources may return.

use std::{any::Any, borrow::Cow, fmt::Display, io};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Outcome, Refusal, Reply, reply::comma};
use crate::{
    error::Fault,
    jsonrpc::write,
    model::{Json, Resource, ResourceLink},
    revision::{Feature, encode},
};

/// A type that a resource may return.
#[diagnostic::on_unimplemented(
    message = "a resource cannot return `{Self}`",
    label = "these are no contents of a resource",
    note = "text (`String`, `&str`), bytes (`Vec<u8>`, `&[u8]`), `Json<T>`, `Resource`, `Vec<Resource>`, an `Option` (`None`: there is no such resource), and a `Result` of any of them will do"
)]
pub trait ResourceOutput: Sized {
    /// Writes the contents.
    #[doc(hidden)]
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome;
}

/// Writes the contents of one resource.
#[derive(Debug)]
pub struct ResourceReply<'r, 'a> {
    reply: &'r mut Reply<'a>,
}

impl<'r, 'a> ResourceReply<'r, 'a> {
    pub(super) fn begin(reply: &'r mut Reply<'a>) -> Self {
        reply.out.extend_from_slice(br#"{"contents":["#);
        Self { reply }
    }

    fn contents(&mut self, resource: &Resource) {
        comma(self.reply.out);
        encode::resource_contents(self.reply.out, resource, self.reply.uri, self.reply.mime_type);
    }

    fn text(&mut self, text: &str, mime_type: Option<&str>) {
        comma(self.reply.out);
        let mut object = encode::Object::begin(self.reply.out);
        object.string("uri", self.reply.uri);
        object.optional("mimeType", self.reply.mime_type.or(mime_type));
        object.string("text", text);
        object.end();
    }

    fn missing(&self) -> Refusal {
        Fault::resource_not_found(self.reply.uri).into()
    }

    pub(super) fn end(self) {
        let out = &mut *self.reply.out;
        out.push(b']');
        if self.reply.encoding.has(Feature::CacheHints) {
            out.extend_from_slice(br#","ttlMs":0,"cacheScope":"private""#);
        }
        self.reply.encoding.end_result(out, None);
    }
}

macro_rules! texts {
    ($($text:ty),+) => {
        $(impl ResourceOutput for $text {
            fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
                reply.text(&self, None);
                Ok(())
            }
        })+
    };
}

texts!(String, &str, Cow<'_, str>, Box<str>);

impl ResourceOutput for Vec<u8> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        reply.contents(&Resource::blob("", self));
        Ok(())
    }
}

impl ResourceOutput for &[u8] {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        self.to_vec().write(reply)
    }
}

impl<const N: usize> ResourceOutput for &[u8; N] {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        self.to_vec().write(reply)
    }
}

impl<T: Serialize + JsonSchema> ResourceOutput for Json<T> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        let mut json = Vec::new();
        write::value(&mut json, &self.0)
            .map_err(|error| Fault::internal(format!("the contents cannot be serialised: {error}")))?;
        let text = String::from_utf8(json).map_err(|error| Fault::internal(error.to_string()))?;
        reply.text(&text, Some("application/json"));
        Ok(())
    }
}

impl ResourceOutput for Resource {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        reply.contents(&self);
        Ok(())
    }
}

impl ResourceOutput for Vec<Resource> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        // An empty list would leave open whether the resource exists.
        if self.is_empty() {
            return Err(reply.missing());
        }
        self.iter().for_each(|resource| reply.contents(resource));
        Ok(())
    }
}

impl<T: ResourceOutput> ResourceOutput for Option<T> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        match self {
            Some(value) => value.write(reply),
            None => Err(reply.missing()),
        }
    }
}

impl<T: ResourceOutput, E: Display + 'static> ResourceOutput for Result<T, E> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Outcome {
        match self {
            Ok(value) => value.write(reply),
            Err(error) if is_not_found(&error) => Err(reply.missing()),
            Err(error) => Err(Refusal::of_error(error)),
        }
    }
}

fn is_not_found(error: &dyn Any) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// What a function that lists resources may return.
#[diagnostic::on_unimplemented(
    message = "a list function cannot return `{Self}`",
    label = "expected `Vec<ResourceLink>`, or a `Result` of it"
)]
pub trait ListOutput {
    /// Turns it into a list.
    #[doc(hidden)]
    fn resources(self) -> Result<Vec<ResourceLink>, Refusal>;
}

impl ListOutput for Vec<ResourceLink> {
    fn resources(self) -> Result<Vec<ResourceLink>, Refusal> {
        Ok(self)
    }
}

impl<T: ListOutput, E: Display + 'static> ListOutput for Result<T, E> {
    fn resources(self) -> Result<Vec<ResourceLink>, Refusal> {
        self.map_err(Refusal::of_error)?.resources()
    }
}

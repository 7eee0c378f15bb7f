//! The return types of resources and of functions that list resources.

use std::{any::Any, borrow::Cow, io, time::Duration};

use super::{ErrorOutput, HandlerError, HandlerResult, JsonOutput, Reply, ResultKind, comma};
use crate::{
    error::Fault,
    jsonrpc::write,
    model::{CacheScope, Json, Resource, ResourceLink, ResourceResult},
    revision::encode,
};

/// A type that a resource may return.
///
/// - Text, bytes and [`Json<T>`](Json) are the contents of the requested URI. A [`Resource`] has its own URI.
/// - `None`, an empty `Vec<Resource>`, and an [`io::Error`] of kind `NotFound` mean that the resource does not exist.
///
/// Only this crate implements it. For types of your own, implement `serde::Serialize` and return `Json<T>`, or convert
/// them to [`Resource`] or [`ResourceResult`].
///
/// ```
/// use std::{fs, io};
///
/// use mcp_runtime::{Revision, Server, resource};
///
/// /// A page of the manual. If the file does not exist, the resource is not found.
/// #[resource("manual://{page}", mime = "text/markdown")]
/// fn page(page: u16) -> io::Result<String> {
///     fs::read_to_string(format!("manual/{page}.md"))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = Server::empty("manual", "1.0.0").with::<page>().test_client(Revision::V2025_11_25);
/// let error = client.read("manual://999").await.unwrap_err();
/// assert_eq!(error.code, -32002);
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "a resource cannot return `{Self}`",
    label = "unsupported return type",
    note = "the supported types are text (`String`, `&str`), bytes (`Vec<u8>`, `&[u8]`), `Json<T>`, `Resource`, `Vec<Resource>`, `ResourceResult`, an `Option` of these (`None`: resource not found), and a `Result` of any of them"
)]
pub trait ResourceOutput: Sized {
    /// Writes the contents.
    #[doc(hidden)]
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError>;
}

/// The writer of the result of reading a resource.
pub struct ResourceReply<'r, 'a> {
    reply: &'r mut Reply<'a>,
    meta: Option<serde_json::Map<String, serde_json::Value>>,
}

impl<'r, 'a> ResourceReply<'r, 'a> {
    pub(crate) fn begin(reply: &'r mut Reply<'a>) -> Self {
        reply.out.extend_from_slice(br#"{"contents":["#);
        Self { reply, meta: None }
    }

    fn contents(&mut self, resource: &Resource) {
        let Reply { out, call, .. } = &mut *self.reply;
        comma(out);
        encode::resource_contents(out, call.encoding.dialect.features(), resource, call.uri(), call.mime_type());
    }

    fn text(&mut self, text: &str, mime_type: Option<&str>) {
        let Reply { out, call, .. } = &mut *self.reply;
        comma(out);
        let mut object = encode::Object::begin(out);
        object.string("uri", call.uri());
        object.optional("mimeType", call.mime_type().or(mime_type));
        object.string("text", text);
        object.end();
    }

    /// Writes a page with the `_meta.ui` of its listed resource.
    #[cfg(feature = "ui")]
    pub(crate) fn page(&mut self, html: &str) {
        let Reply { out, call, .. } = &mut *self.reply;
        let mut object = encode::Object::begin(out);
        object.string("uri", call.uri());
        object.optional("mimeType", call.mime_type());
        object.string("text", html);
        let meta = call.function.iter().flat_map(|function| &*function.common().meta);
        if let Some((key, json)) = meta.into_iter().find(|(key, _)| key == "ui")
            && call.encoding.has(crate::revision::Feature::ItemMeta)
        {
            let mut meta = encode::Object::begin(object.key("_meta"));
            meta.raw(key, json.as_bytes());
            meta.end();
        }
        object.end();
    }

    fn not_found(&self) -> HandlerError {
        Fault::resource_not_found(self.reply.call.uri()).into()
    }

    pub(crate) fn end(self) {
        let Reply { out, call, is_conversation, .. } = self.reply;
        out.push(b']');
        // Contents that depend on answers of the client are valid for these answers only.
        let cache = call.cache().filter(|_| !*is_conversation);
        let (ttl, scope) = cache.unwrap_or((Duration::ZERO, CacheScope::Private));
        let scope = if scope == CacheScope::Public { call.encoding.cache_scope() } else { scope };
        call.encoding.cache_hints(out, ttl, scope);
        call.encoding.end_result(out, self.meta.as_ref());
    }
}

/// Writes the result of reading a resource.
///
/// # Errors
///
/// Returns the error that the function returned, or a fault if the resource does not exist or its value cannot be
/// serialized.
pub fn write_resource<T: ResourceOutput>(reply: &mut Reply<'_>, value: T) -> HandlerResult {
    let mut reply = ResourceReply::begin(reply);
    value.write(&mut reply)?;
    reply.end();
    Ok(ResultKind::Complete)
}

macro_rules! texts {
    ($($text:ty),+) => {
        $(impl ResourceOutput for $text {
            fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
                reply.text(&self, None);
                Ok(())
            }
        })+
    };
}

texts!(String, &str, Cow<'_, str>, Box<str>);

impl ResourceOutput for Vec<u8> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        reply.contents(&Resource::blob("", self));
        Ok(())
    }
}

impl ResourceOutput for &[u8] {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        self.to_vec().write(reply)
    }
}

impl<const N: usize> ResourceOutput for &[u8; N] {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        self.to_vec().write(reply)
    }
}

impl<T: JsonOutput> ResourceOutput for Json<T> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        let mut json = Vec::new();
        write::value(&mut json, &self.0)
            .map_err(|error| Fault::internal(format!("the contents cannot be serialized: {error}")))?;
        let text = String::from_utf8(json).map_err(|error| Fault::internal(error.to_string()))?;
        reply.text(&text, Some("application/json"));
        Ok(())
    }
}

impl ResourceOutput for Resource {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        reply.contents(&self);
        Ok(())
    }
}

impl ResourceOutput for Vec<Resource> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        // An empty list would not tell the client whether the resource exists.
        if self.is_empty() {
            return Err(reply.not_found());
        }
        self.iter().for_each(|resource| reply.contents(resource));
        Ok(())
    }
}

impl ResourceOutput for ResourceResult {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        reply.meta = Some(self.meta);
        self.contents.write(reply)
    }
}

impl<T: ResourceOutput> ResourceOutput for Option<T> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        match self {
            Some(value) => value.write(reply),
            None => Err(reply.not_found()),
        }
    }
}

impl<T: ResourceOutput, E: ErrorOutput> ResourceOutput for Result<T, E> {
    fn write(self, reply: &mut ResourceReply<'_, '_>) -> Result<(), HandlerError> {
        match self {
            Ok(value) => value.write(reply),
            Err(error) if is_not_found(&error) => Err(reply.not_found()),
            Err(error) => Err(HandlerError::from_error(error)),
        }
    }
}

fn is_not_found(error: &dyn Any) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A type that the `list` function of a templated resource may return.
#[diagnostic::on_unimplemented(
    message = "a list function cannot return `{Self}`",
    label = "expected `Vec<ResourceLink>`, or a `Result` of it"
)]
pub trait ListOutput {
    /// Converts the value into a list.
    #[doc(hidden)]
    fn resources(self) -> Result<Vec<ResourceLink>, HandlerError>;
}

impl ListOutput for Vec<ResourceLink> {
    fn resources(self) -> Result<Vec<ResourceLink>, HandlerError> {
        Ok(self)
    }
}

impl<T: ListOutput, E: ErrorOutput> ListOutput for Result<T, E> {
    fn resources(self) -> Result<Vec<ResourceLink>, HandlerError> {
        self.map_err(HandlerError::from_error)?.resources()
    }
}

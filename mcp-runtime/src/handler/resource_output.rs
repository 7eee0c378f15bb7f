//! The return types of resources and of functions that list resources.

use std::{any::Any, borrow::Cow, io, time::Duration};

use serde_json::{Map, Value};

use super::{ErrorOutput, HandlerError, HandlerResult, JsonOutput, Reply, ResultKind};
use crate::{
    error::Fault,
    jsonrpc::write,
    model::{CacheScope, Json, Resource, ResourceLink, ResourceResult},
    revision::encode::{self, member},
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
    /// The media type of contents that have none, if the entry declares none.
    #[doc(hidden)]
    const MIME_TYPE: Option<&'static str> = None;

    /// Returns the contents, or `None` if the resource does not exist.
    #[doc(hidden)]
    fn into_result(self) -> Result<Option<ResourceResult>, HandlerError>;
}

/// Writes the result of reading a resource.
///
/// # Errors
///
/// Returns the error that the function returned, or a fault if the resource does not exist or its value cannot be
/// serialized.
pub fn write_resource<T: ResourceOutput>(reply: &mut Reply<'_>, value: T) -> HandlerResult {
    let result = value.into_result()?.ok_or_else(|| Fault::resource_not_found(reply.call.uri()))?;
    let (features, mime_type) = (reply.call.encoding.dialect.features(), reply.call.mime_type().or(T::MIME_TYPE));
    reply.out.push(b'{');
    encode::array(member(reply.out, "contents"), &result.contents, |out, contents| {
        encode::resource_contents(out, features, contents, reply.call.uri(), mime_type);
    });
    Ok(end(reply, Some(&result.meta)))
}

/// Writes a page with the `_meta.ui` of its listed resource.
#[cfg(feature = "ui")]
pub(crate) fn write_html(reply: &mut Reply<'_>, html: &str) -> ResultKind {
    let Reply { out, call, .. } = &mut *reply;
    out.extend_from_slice(br#"{"contents":["#);
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
    out.push(b']');
    end(reply, None)
}

fn end(reply: &mut Reply<'_>, meta: Option<&Map<String, Value>>) -> ResultKind {
    let Reply { out, call, is_conversation, .. } = reply;
    // Contents that depend on answers of the client are valid for these answers only.
    let cache = call.cache().filter(|_| !*is_conversation);
    let (ttl, scope) = cache.unwrap_or((Duration::ZERO, CacheScope::Private));
    let scope = if scope == CacheScope::Public { call.encoding.cache_scope() } else { scope };
    call.encoding.cache_hints(out, ttl, scope);
    call.encoding.end_result(out, meta);
    ResultKind::Complete
}

macro_rules! outputs {
    ($($type:ty),+; $this:ident => $value:expr) => {
        $(impl ResourceOutput for $type {
            fn into_result($this) -> Result<Option<ResourceResult>, HandlerError> {
                $value.into_result()
            }
        })+
    };
}

outputs!(String, &str, Cow<'_, str>, Box<str>; self => Resource::text("", self));
outputs!(Vec<u8>, &[u8]; self => Resource::blob("", self));
outputs!(Resource; self => ResourceResult::new([self]));
outputs!(Vec<Resource>; self => ResourceResult::new(self));

impl<const N: usize> ResourceOutput for &[u8; N] {
    fn into_result(self) -> Result<Option<ResourceResult>, HandlerError> {
        self.to_vec().into_result()
    }
}

impl<T: JsonOutput> ResourceOutput for Json<T> {
    const MIME_TYPE: Option<&'static str> = Some("application/json");

    fn into_result(self) -> Result<Option<ResourceResult>, HandlerError> {
        let mut json = Vec::new();
        write::value(&mut json, &self.0)
            .map_err(|error| Fault::internal(format!("the contents cannot be serialized: {error}")))?;
        String::from_utf8(json).map_err(|error| Fault::internal(error.to_string()))?.into_result()
    }
}

impl ResourceOutput for ResourceResult {
    fn into_result(self) -> Result<Option<Self>, HandlerError> {
        // An empty list would not tell the client whether the resource exists.
        Ok(Some(self).filter(|result| !result.contents.is_empty()))
    }
}

impl<T: ResourceOutput> ResourceOutput for Option<T> {
    const MIME_TYPE: Option<&'static str> = T::MIME_TYPE;

    fn into_result(self) -> Result<Option<ResourceResult>, HandlerError> {
        self.map_or(Ok(None), T::into_result)
    }
}

impl<T: ResourceOutput, E: ErrorOutput> ResourceOutput for Result<T, E> {
    const MIME_TYPE: Option<&'static str> = T::MIME_TYPE;

    fn into_result(self) -> Result<Option<ResourceResult>, HandlerError> {
        match self {
            Ok(value) => value.into_result(),
            Err(error) if is_not_found(&error) => Ok(None),
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

//! Encodes values as JSON. The encoding depends on the features of a revision, never on its name.

use mcp_runtime_uri_template::check_meta_key;
use mcp_schema::{is_date, is_date_time};
use serde::Serialize;
use serde_json::{Map, Value};

use super::table::{Feature, Features};
use crate::{
    counters::Warnings,
    error::excerpt,
    jsonrpc::{
        raw,
        write::{base64, plain, string, verbatim},
    },
    model::{
        Annotations, Audio, Content, Icon, Image, Implementation, Resource, ResourceBody, ResourceLink, Text, Theme,
    },
};

/// A writer for a JSON object, which inserts the commas between members.
pub(crate) struct Object<'a> {
    pub(crate) out: &'a mut Vec<u8>,
}

impl<'a> Object<'a> {
    pub(crate) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out }
    }

    /// Writes the name of a member. The caller appends the value to the returned buffer.
    pub(crate) fn key(&mut self, name: &str) -> &mut Vec<u8> {
        member(self.out, name)
    }

    pub(crate) fn string(&mut self, name: &str, value: &str) {
        string(self.key(name), value);
    }

    pub(crate) fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(name, value);
        }
    }

    /// Writes an optional member whose serialization cannot fail.
    pub(crate) fn value<T: Serialize + ?Sized>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            plain(self.key(name), value);
        }
    }

    /// Writes a member whose value is already encoded.
    pub(crate) fn raw(&mut self, name: &str, json: &[u8]) {
        verbatim(self.key(name), json);
    }

    /// Copies the members of an encoded object, except for the member `except`.
    pub(crate) fn copy_without(&mut self, object: &str, except: &str) {
        for (name, value) in raw::members(object).filter(|(name, _)| name != except) {
            self.raw(&name, value.as_bytes());
        }
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes the name of a member. Its value is written next.
pub(crate) fn member<'a>(out: &'a mut Vec<u8>, name: &str) -> &'a mut Vec<u8> {
    comma(out);
    string(out, name);
    out.push(b':');
    out
}

/// Writes a comma unless the next member or element is the first.
pub(crate) fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{' | b'[' | b',')) {
        out.push(b',');
    }
}

/// Writes a JSON array.
pub(crate) fn array<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for item in items {
        comma(out);
        write(out, item);
    }
    out.push(b']');
}

/// Writes text content without annotations.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    text_with(out, |out| string(out, text));
}

/// Writes text content without annotations, whose text `write` writes as a JSON string.
pub(crate) fn text_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#"{"type":"text","text":"#);
    write(out);
    out.push(b'}');
}

/// Writes content. A kind that the revision lacks is replaced by the closest one that it has: audio by an embedded
/// resource, a resource link by text.
pub(crate) fn content(out: &mut Vec<u8>, features: Features, content: &Content) {
    let mut object = match content {
        Content::Text(value) if value.annotations.is_empty() && value.meta.is_empty() => return text(out, &value.text),
        Content::ResourceLink(link) if !features.has(Feature::ResourceLinks) => return text(out, &link_as_text(link)),
        _ => Object::begin(out),
    };
    let (hints, extra) = match content {
        Content::Text(Text { text, annotations, meta }) => {
            object.string("type", "text");
            object.string("text", text);
            (annotations, meta)
        }
        Content::Image(Image { data, mime_type, annotations, meta }) => {
            media(&mut object, "image", data, mime_type);
            (annotations, meta)
        }
        Content::Audio(Audio { data, mime_type, annotations, meta }) => {
            if features.has(Feature::Audio) {
                media(&mut object, "audio", data, mime_type);
            } else {
                let resource = Resource::blob("attachment:audio", data.clone()).with_mime_type(mime_type.clone());
                embedded_resource(&mut object, features, &resource);
            }
            (annotations, meta)
        }
        Content::Resource(resource) => {
            embedded_resource(&mut object, features, resource);
            (&resource.annotations, &resource.block_meta)
        }
        Content::ResourceLink(link) => {
            object.string("type", "resource_link");
            resource_link(&mut object, features, link);
            return object.end();
        }
    };
    annotations(&mut object, features, hints);
    meta(&mut object, features, extra);
    object.end();
}

/// Writes the members of an image or audio.
fn media(object: &mut Object<'_>, kind: &str, data: &[u8], mime_type: &str) {
    object.string("type", kind);
    base64(object.key("data"), data);
    object.string("mimeType", mime_type);
}

fn embedded_resource(object: &mut Object<'_>, features: Features, resource: &Resource) {
    object.string("type", "resource");
    let mime_type = match &resource.body {
        ResourceBody::Text(_) => "text/plain",
        ResourceBody::Blob(_) => "application/octet-stream",
    };
    resource_contents(object.key("resource"), features, resource, "", Some(mime_type));
}

/// Writes the contents of a resource. `uri` and `mime_type` are the defaults for resources that do not set their own.
pub(crate) fn resource_contents(
    out: &mut Vec<u8>,
    features: Features,
    resource: &Resource,
    uri: &str,
    mime_type: Option<&str>,
) {
    let mut object = Object::begin(out);
    object.string("uri", if resource.uri.is_empty() { uri } else { &resource.uri });
    object.optional("mimeType", resource.mime_type.as_deref().or(mime_type));
    match &resource.body {
        ResourceBody::Text(text) => object.string("text", text),
        ResourceBody::Blob(bytes) => base64(object.key("blob"), bytes),
    }
    meta(&mut object, features, &resource.meta);
    object.end();
}

/// Writes the members that `resources/list` and `resource_link` share.
pub(crate) fn resource_link(object: &mut Object<'_>, features: Features, link: &ResourceLink) {
    object.string("uri", &link.uri);
    object.string("name", display_name(features, &link.name, link.title.as_deref()));
    title(object, features, link.title.as_deref());
    object.optional("description", link.description.as_deref());
    object.optional("mimeType", link.mime_type.as_deref());
    object.value("size", link.size.as_ref());
    annotations(object, features, &link.annotations);
    icons(object, features, &link.icons);
    meta(object, features, &link.meta);
}

/// Returns the `name` of a resource, which clients display in revisions without titles. No request refers to it.
pub(crate) fn display_name<'a>(features: Features, name: &'a str, title: Option<&'a str>) -> &'a str {
    title.filter(|_| !features.has(Feature::Titles)).unwrap_or(name)
}

fn link_as_text(link: &ResourceLink) -> String {
    let name = link.title.as_ref().unwrap_or(&link.name);
    match &link.description {
        Some(description) => format!("{name}: {} ({description})", link.uri),
        None => format!("{name}: {}", link.uri),
    }
}

/// Writes the `_meta` of an entry, a content block or contents, in revisions that have it there. The `_meta` of results
/// and notifications exists in every revision.
pub(crate) fn meta(object: &mut Object<'_>, features: Features, meta: &Map<String, Value>) {
    if !meta.is_empty() && features.has(Feature::ItemMeta) {
        let mut inner = Object::begin(object.key("_meta"));
        of_author(meta).for_each(|(key, value)| plain(inner.key(key), value));
        inner.end();
    }
}

/// Returns the members of `_meta` that an author may set. The fields of values can be set without checks.
pub(crate) fn of_author(meta: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    static DROPPED: Warnings = Warnings::new();

    meta.iter().filter(|(key, _)| {
        let checked = check_meta_key(key);
        if let Err(rule) = checked
            && DROPPED.is_due()
        {
            tracing::error!(key = &*excerpt(key), rule, "a member of `_meta` is not sent");
        }
        checked.is_ok()
    })
}

/// Writes hints for the client. Leaves out values that the schemas do not allow.
pub(crate) fn annotations(object: &mut Object<'_>, features: Features, hints: &Annotations) {
    let is_sent = |time: &&str| features.has(Feature::LastModified) && (is_date_time(time) || is_date(time));
    let last_modified = hints.last_modified.as_deref().filter(is_sent);
    let priority = hints.priority.filter(|priority| (0.0..=1.0).contains(priority));
    if hints.audience.is_empty() && priority.is_none() && last_modified.is_none() {
        return;
    }
    let mut inner = Object::begin(object.key("annotations"));
    if !hints.audience.is_empty() {
        array(inner.key("audience"), &hints.audience, |out, role| string(out, role.as_str()));
    }
    inner.value("priority", priority.as_ref());
    inner.optional("lastModified", last_modified);
    inner.end();
}

pub(crate) fn title(object: &mut Object<'_>, features: Features, title: Option<&str>) {
    object.optional("title", title.filter(|_| features.has(Feature::Titles)));
}

/// Writes the valid icons.
pub(crate) fn icons(object: &mut Object<'_>, features: Features, icons: &[Icon]) {
    let mut icons = icons.iter().filter(|icon| icon.problem("").is_none()).peekable();
    if icons.peek().is_none() || !features.has(Feature::Icons) {
        return;
    }
    array(object.key("icons"), icons, |out, icon| {
        let mut object = Object::begin(out);
        object.string("src", &icon.src);
        object.optional("mimeType", icon.mime_type.as_deref());
        if !icon.sizes.is_empty() {
            array(object.key("sizes"), icon.sizes.iter(), |out, size| string(out, size));
        }
        object.optional("theme", icon.theme.map(|theme| if theme == Theme::Light { "light" } else { "dark" }));
        object.end();
    });
}

/// Writes the identity of the server.
pub(crate) fn implementation(out: &mut Vec<u8>, features: Features, server: &Implementation) {
    let mut object = Object::begin(out);
    object.string("name", &server.name);
    object.string("version", &server.version);
    title(&mut object, features, server.title.as_deref());
    if features.has(Feature::Icons) {
        object.optional("description", server.description.as_deref());
        object.optional("websiteUrl", server.website_url.as_deref());
        icons(&mut object, features, &server.icons);
    }
    object.end();
}

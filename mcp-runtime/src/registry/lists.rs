//! The results of `tools/list` and its like, written once for each dialect.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

use super::{Item, Registry};
use crate::{
    error::Fault,
    handler::{Wire, entry::Common, schema},
    jsonrpc::write,
    model::{Annotations, ResourceLink},
    revision::{
        Feature,
        spell::{self, Object},
    },
};

/// The four lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// Every page of every list of one dialect.
#[derive(Debug)]
pub(crate) struct Lists {
    /// In the order of [`ListKind`].
    pages: [Vec<Page>; 4],
}

#[derive(Debug)]
struct Page {
    /// The cursor that leads here; none to the first one.
    cursor: Option<String>,
    result: Vec<u8>,
}

impl Lists {
    pub(crate) fn write(registry: &Registry, wire: &Wire, page: usize, ttl: Duration) -> Self {
        let pager = Pager { wire, page, ttl };
        let write_resource = |out: &mut Vec<u8>, found: &super::Resource| resource(out, wire, found);
        Self {
            pages: [
                pager.write(
                    "tools",
                    registry.tools(),
                    |tool| tool.entry.common.name,
                    |out, found| tool(out, wire, found),
                ),
                pager.write(
                    "prompts",
                    registry.prompts(),
                    |prompt| prompt.entry.common.name,
                    |out, found| {
                        prompt(out, wire, &found.item);
                    },
                ),
                pager.write("resources", registry.resources(), |found| found.entry.uri, write_resource),
                pager.write("resourceTemplates", registry.templates(), |found| found.entry.uri, write_resource),
            ],
        }
    }

    /// Finds the page that a cursor leads to.
    pub(crate) fn page(&self, kind: ListKind, cursor: Option<&str>) -> Result<&[u8], Fault> {
        let found = self.pages[kind as usize].iter().find(|page| page.cursor.as_deref() == cursor);
        found.map(|page| page.result.as_slice()).ok_or_else(|| unknown_cursor(cursor.unwrap_or_default()))
    }
}

struct Pager<'a> {
    wire: &'a Wire,
    page: usize,
    ttl: Duration,
}

impl Pager<'_> {
    fn write<T>(
        &self,
        member: &str,
        items: &[T],
        key: impl Fn(&T) -> &'static str,
        write: impl Fn(&mut Vec<u8>, &T),
    ) -> Vec<Page> {
        let cursor_after = |item: &T| URL_SAFE_NO_PAD.encode(format!("after:{}", key(item)));
        let mut pages = Vec::new();
        let mut chunks = items.chunks(self.page.max(1)).peekable();
        let mut cursor = None;
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let next = chunks.peek().and(chunk.last()).map(cursor_after);
            let mut result = Vec::new();
            let mut object = Object::begin(&mut result);
            spell::array(object.key(member), chunk, &write);
            object.optional("nextCursor", next.as_deref());
            end_list(&mut result, self.wire, self.ttl);
            pages.push(Page { cursor: cursor.take(), result });
            match next {
                Some(next) => cursor = Some(next),
                None => return pages,
            }
        }
    }
}

fn end_list(out: &mut Vec<u8>, wire: &Wire, ttl: Duration) {
    wire.cache_hints(out, ttl);
    wire.end_result(out, None);
}

/// Reads the cursor of a list whose items are not known beforehand.
pub(crate) fn offset(cursor: &str) -> Result<usize, Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let offset = decoded.as_deref().and_then(|text| text.strip_prefix("from:")?.parse().ok());
    offset.ok_or_else(|| unknown_cursor(cursor))
}

fn unknown_cursor(cursor: &str) -> Fault {
    Fault::InvalidParams(format!("`cursor` is none that this list gave: {cursor:?}"))
}

/// Writes a page of `resources/list` with what functions listed, which nobody knows beforehand.
pub(crate) fn write_resources(
    registry: &Registry,
    listed: &[ResourceLink],
    wire: &Wire,
    start: usize,
    page: usize,
) -> Result<Vec<u8>, Fault> {
    let fixed = registry.resources();
    let total = fixed.len() + listed.len();
    if start > 0 && start >= total {
        return Err(unknown_cursor(&URL_SAFE_NO_PAD.encode(format!("from:{start}"))));
    }
    let end = total.min(start.saturating_add(page.max(1)));
    let next = (end < total).then(|| URL_SAFE_NO_PAD.encode(format!("from:{end}")));
    let mut out = Vec::new();
    let mut object = Object::begin(&mut out);
    spell::array(object.key("resources"), start..end, |out, index| match fixed.get(index) {
        Some(found) => resource(out, wire, found),
        None => {
            let mut object = Object::begin(out);
            spell::resource_link(&mut object, wire.features, &listed[index - fixed.len()]);
            object.end();
        }
    });
    object.optional("nextCursor", next.as_deref());
    end_list(&mut out, wire, Duration::ZERO);
    Ok(out)
}

fn tool(out: &mut Vec<u8>, wire: &Wire, tool: &super::Tool) {
    let common = tool.item.common;
    let mut object = Object::begin(out);
    begin_item(&mut object, wire, common);
    write::plain(object.key("inputSchema"), &tool.item.contract.schema);
    if let Some(result) = tool.item.contract.result().filter(|_| wire.has(Feature::StructuredContent)) {
        let wraps = result.wraps && !wire.has(Feature::StructuredAnyValue);
        match wraps {
            true => write::plain(object.key("outputSchema"), &schema::wrap(result.schema.clone())),
            false => write::plain(object.key("outputSchema"), &result.schema),
        }
    }
    hints(&mut object, wire, tool);
    end_item(&mut object, wire, common);
    object.end();
}

fn hints(object: &mut Object<'_>, wire: &Wire, tool: &super::Tool) {
    if !wire.has(Feature::ToolAnnotations) {
        return;
    }
    // Before tools had a title of their own, it stood among the annotations.
    let title = tool.item.common.title.filter(|_| !wire.has(Feature::Titles));
    let hints = tool.entry.hints;
    let hints = [
        ("destructiveHint", hints.destructive),
        ("idempotentHint", hints.idempotent),
        ("openWorldHint", hints.open_world),
        ("readOnlyHint", hints.read_only),
    ];
    if title.is_none() && hints.iter().all(|(_, hint)| hint.is_none()) {
        return;
    }
    let mut annotations = Object::begin(object.key("annotations"));
    annotations.optional("title", title);
    for (name, hint) in hints {
        if let Some(hint) = hint {
            write::plain(annotations.key(name), &hint);
        }
    }
    annotations.end();
}

fn prompt(out: &mut Vec<u8>, wire: &Wire, item: &Item) {
    let mut object = Object::begin(out);
    begin_item(&mut object, wire, item.common);
    if !item.contract.arguments.is_empty() {
        let required = &item.contract.schema["required"];
        spell::array(object.key("arguments"), item.contract.arguments, |out, argument| {
            let mut object = Object::begin(out);
            object.string("name", argument.name);
            spell::title(&mut object, wire.features, argument.title);
            let description =
                describe_argument(argument.description, &item.contract.schema["properties"][argument.name]);
            object.optional("description", description.as_deref());
            let is_required = required.as_array().is_some_and(|names| names.iter().any(|name| name == argument.name));
            write::plain(object.key("required"), &is_required);
            object.end();
        });
    }
    end_item(&mut object, wire, item.common);
    object.end();
}

/// A prompt's argument has no schema on the wire: what it says beyond the type is told in words.
fn describe_argument(description: &str, schema: &Value) -> Option<String> {
    let mut notes = Vec::new();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect();
        notes.push(format!("one of {}", values.join(", ")));
    }
    for (keyword, words) in [
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
        ("minLength", "shortest length"),
        ("maxLength", "longest length"),
        ("pattern", "matching"),
        ("default", "default"),
    ] {
        if let Some(value) = schema.get(keyword) {
            notes.push(format!("{words} {value}"));
        }
    }
    let description = match description.is_empty() {
        true => schema["description"].as_str().unwrap_or_default(),
        false => description,
    };
    match (description, notes.join(", ")) {
        ("", notes) if notes.is_empty() => None,
        ("", notes) => Some(notes),
        (description, notes) if notes.is_empty() => Some(description.to_owned()),
        (description, notes) => Some(format!("{description} ({notes})")),
    }
}

fn resource(out: &mut Vec<u8>, wire: &Wire, resource: &super::Resource) {
    let (entry, common) = (resource.entry, resource.item.common);
    let mut object = Object::begin(out);
    object.string(if entry.template.is_some() { "uriTemplate" } else { "uri" }, entry.uri);
    begin_item(&mut object, wire, common);
    object.optional("mimeType", entry.mime_type);
    if let Some(size) = entry.size.filter(|_| entry.template.is_none()) {
        write::plain(object.key("size"), &size);
    }
    let hints = Annotations { audience: entry.audience.to_vec(), priority: entry.priority, last_modified: None };
    spell::annotations(&mut object, wire.features, &hints);
    end_item(&mut object, wire, common);
    object.end();
}

fn begin_item(object: &mut Object<'_>, wire: &Wire, common: &Common) {
    object.string("name", common.name);
    spell::title(object, wire.features, common.title);
    object.optional("description", Some(common.description).filter(|description| !description.is_empty()));
}

fn end_item(object: &mut Object<'_>, wire: &Wire, common: &Common) {
    spell::icons(object, wire.features, common.icons);
    if common.meta.is_empty() || !wire.has(Feature::ItemMeta) {
        return;
    }
    let mut meta = Object::begin(object.key("_meta"));
    for (key, json) in common.meta {
        meta.raw(key, json.as_bytes());
    }
    meta.end();
}

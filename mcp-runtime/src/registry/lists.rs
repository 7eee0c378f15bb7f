//! The results of `tools/list` and its like, written once for each dialect.

use std::{ops::Deref, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

use super::{Item, Registry};
use crate::{
    error::Fault,
    handler::{
        Encoding,
        entry::{CommonEntry, EntryInfo, TaskSupport},
        schema,
    },
    jsonrpc::write,
    model::{Annotations, ResourceLink},
    revision::{
        Feature,
        encode::{self, Object},
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
    pub(crate) fn write(registry: &Registry, pager: &Pager<'_>) -> Self {
        Self {
            pages: [
                pager.pages("tools", &registry.tools),
                pager.pages("prompts", &registry.prompts),
                pager.pages("resources", &registry.listed_resources()),
                pager.pages("resourceTemplates", &registry.templates),
            ],
        }
    }

    /// Finds the page that a cursor leads to; none if it is from before a change, or from nowhere.
    pub(crate) fn page(&self, kind: ListKind, cursor: Option<&str>) -> Option<&[u8]> {
        let found = self.pages[kind as usize].iter().find(|page| page.cursor.as_deref() == cursor);
        found.map(|page| page.result.as_slice())
    }
}

/// How lists are written.
#[derive(Debug)]
pub(crate) struct Pager<'a> {
    pub(crate) encoding: &'a Encoding,
    /// The most items of a page.
    pub(crate) page: usize,
    /// How long clients may keep them; none where a result does not say.
    pub(crate) ttl: Option<Duration>,
}

impl Pager<'_> {
    /// Writes one page of a list with what somebody sees of it.
    ///
    /// # Errors
    ///
    /// A cursor that no list gave. One that a list gave leads on behind the item that was the page's last, even if that is
    /// there no longer.
    pub(crate) fn page(
        &self,
        registry: &Registry,
        kind: ListKind,
        cursor: Option<&str>,
        sees: impl Fn(&EntryInfo<'_>) -> bool,
    ) -> Result<Vec<u8>, Fault> {
        match kind {
            ListKind::Tools => self.page_of("tools", &registry.tools, cursor, sees),
            ListKind::Prompts => self.page_of("prompts", &registry.prompts, cursor, sees),
            ListKind::Resources => self.page_of("resources", &registry.listed_resources(), cursor, sees),
            ListKind::Templates => self.page_of("resourceTemplates", &registry.templates, cursor, sees),
        }
    }

    /// Writes one page of items that are sorted by their keys, with what somebody sees of them.
    ///
    /// # Errors
    ///
    /// As [`page`](Self::page).
    pub(crate) fn page_of<P: Deref<Target: Listed>>(
        &self,
        member: &str,
        items: &[P],
        cursor: Option<&str>,
        sees: impl Fn(&EntryInfo<'_>) -> bool,
    ) -> Result<Vec<u8>, Fault> {
        let after = cursor.map(last_key).transpose()?;
        let start = after.map_or(0, |after| items.partition_point(|listed| listed.key() <= after.as_str()));
        let mut seen = items[start..].iter().filter(|listed| listed.is_seen(&sees));
        let page: Vec<_> = seen.by_ref().take(self.page.max(1)).collect();
        let next = seen.next().and(page.last()).map(|last| cursor_after(last.key()));
        Ok(self.write(member, page, next.as_deref()))
    }

    fn pages<P: Deref<Target: Listed>>(&self, member: &str, items: &[P]) -> Vec<Page> {
        let mut pages = Vec::new();
        let mut chunks = items.chunks(self.page.max(1)).peekable();
        let mut cursor = None;
        loop {
            let chunk: &[P] = chunks.next().unwrap_or_default();
            let next = chunks.peek().and(chunk.last()).map(|last| cursor_after(last.key()));
            pages.push(Page { cursor: cursor.take(), result: self.write(member, chunk, next.as_deref()) });
            match next {
                Some(next) => cursor = Some(next),
                None => return pages,
            }
        }
    }

    fn write<'i, P: Deref<Target: Listed> + 'i>(
        &self,
        member: &str,
        items: impl IntoIterator<Item = &'i P>,
        next: Option<&str>,
    ) -> Vec<u8> {
        let mut result = Vec::new();
        let mut object = Object::begin(&mut result);
        encode::array(object.key(member), items, |out, listed| listed.encode(out, self.encoding));
        object.optional("nextCursor", next);
        end_list(&mut result, self.encoding, self.ttl);
        result
    }
}

/// What stands in a list.
pub(crate) trait Listed {
    /// What the list is sorted by.
    fn key(&self) -> &str;

    /// Says whether it is there for somebody.
    fn is_seen(&self, sees: &dyn Fn(&EntryInfo<'_>) -> bool) -> bool;

    /// Writes the JSON that stands in the list.
    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding);
}

impl Item {
    /// Writes the JSON that stands in a list, which is kept.
    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding, write: impl FnOnce(&mut Vec<u8>)) {
        let spelled = self.spelled[encoding.dialect.revision() as usize].get_or_init(|| {
            let mut spelled = Vec::new();
            write(&mut spelled);
            spelled.into()
        });
        out.extend_from_slice(spelled);
    }
}

impl Registry {
    /// What stands in `resources/list`: resources, and the files of skills.
    fn listed_resources(&self) -> Vec<&dyn Listed> {
        let resources = self.resources.iter().map(|found| &**found as &dyn Listed);
        let files = self.skills.files().map(|file| file as &dyn Listed);
        let mut listed: Vec<_> = resources.chain(files).collect();
        listed.sort_by(|left, right| left.key().cmp(right.key()));
        listed
    }
}

impl Listed for super::Tool {
    fn key(&self) -> &str {
        self.entry.common.name
    }

    fn is_seen(&self, sees: &dyn Fn(&EntryInfo<'_>) -> bool) -> bool {
        sees(&self.item.info())
    }

    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        self.item.encode(out, encoding, |out| tool(out, encoding, self));
    }
}

impl Listed for super::Prompt {
    fn key(&self) -> &str {
        self.entry.common.name
    }

    fn is_seen(&self, sees: &dyn Fn(&EntryInfo<'_>) -> bool) -> bool {
        sees(&self.item.info())
    }

    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        self.item.encode(out, encoding, |out| prompt(out, encoding, &self.item));
    }
}

impl Listed for super::Resource {
    fn key(&self) -> &str {
        self.entry.uri
    }

    fn is_seen(&self, sees: &dyn Fn(&EntryInfo<'_>) -> bool) -> bool {
        sees(&self.item.info())
    }

    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        self.item.encode(out, encoding, |out| resource(out, encoding, self));
    }
}

fn cursor_after(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("after:{key}"))
}

/// Reads the key of the item that a cursor leads on from.
fn last_key(cursor: &str) -> Result<String, Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let key = decoded.as_deref().and_then(|text| text.strip_prefix("after:"));
    key.map(str::to_owned).ok_or_else(|| unknown_cursor(cursor))
}

fn end_list(out: &mut Vec<u8>, encoding: &Encoding, ttl: Option<Duration>) {
    if let Some(ttl) = ttl {
        encoding.cache_hints(out, ttl);
    }
    encoding.end_result(out, None);
}

/// Reads the cursor of a list whose items are not known beforehand.
pub(crate) fn offset(cursor: &str) -> Result<usize, Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let offset = decoded.as_deref().and_then(|text| text.strip_prefix("from:")?.parse().ok());
    offset.ok_or_else(|| unknown_cursor(cursor))
}

fn unknown_cursor(cursor: &str) -> Fault {
    Fault::InvalidParams(format!("`cursor` was not returned by this list: {cursor:?}"))
}

/// Writes a page of `resources/list` with what functions listed, which nobody knows beforehand.
pub(crate) fn write_resources(
    registry: &Registry,
    listed: &[ResourceLink],
    encoding: &Encoding,
    start: usize,
    page: usize,
    sees: impl Fn(&EntryInfo<'_>) -> bool,
) -> Result<Vec<u8>, Fault> {
    let mut fixed = registry.listed_resources();
    fixed.retain(|found| found.is_seen(&sees));
    let total = fixed.len() + listed.len();
    if start > 0 && start >= total {
        return Err(unknown_cursor(&URL_SAFE_NO_PAD.encode(format!("from:{start}"))));
    }
    let end = total.min(start.saturating_add(page.max(1)));
    let next = (end < total).then(|| URL_SAFE_NO_PAD.encode(format!("from:{end}")));
    let mut out = Vec::new();
    let mut object = Object::begin(&mut out);
    encode::array(object.key("resources"), start..end, |out, index| match fixed.get(index) {
        Some(found) => found.encode(out, encoding),
        None => {
            let mut object = Object::begin(out);
            encode::resource_link(&mut object, encoding.features, &listed[index - fixed.len()]);
            object.end();
        }
    });
    object.optional("nextCursor", next.as_deref());
    end_list(&mut out, encoding, Some(Duration::ZERO));
    Ok(out)
}

fn tool(out: &mut Vec<u8>, encoding: &Encoding, tool: &super::Tool) {
    let common = tool.item.common;
    let mut object = Object::begin(out);
    begin_item(&mut object, encoding, common);
    write::plain(object.key("inputSchema"), &tool.item.contract.schema);
    if let Some(result) = tool.item.contract.output_schema().filter(|_| encoding.has(Feature::StructuredContent)) {
        let wraps = result.wraps && !encoding.has(Feature::StructuredAnyValue);
        match wraps {
            true => write::plain(object.key("outputSchema"), &schema::wrap(result.schema.clone())),
            false => write::plain(object.key("outputSchema"), &result.schema),
        }
    }
    hints(&mut object, encoding, tool);
    execution(&mut object, encoding, tool.entry.task);
    end_item(&mut object, encoding, common);
    object.end();
}

/// Says whether clients may ask for a task, where that is theirs to say.
fn execution(object: &mut Object<'_>, encoding: &Encoding, task: TaskSupport) {
    let support = match task {
        TaskSupport::Forbidden => return,
        TaskSupport::Optional | TaskSupport::Deferred => "optional",
        TaskSupport::Required => "required",
    };
    if encoding.has(Feature::SessionTasks) {
        let mut execution = Object::begin(object.key("execution"));
        execution.string("taskSupport", support);
        execution.end();
    }
}

fn hints(object: &mut Object<'_>, encoding: &Encoding, tool: &super::Tool) {
    if !encoding.has(Feature::ToolAnnotations) {
        return;
    }
    // Before tools had a title of their own, it stood among the annotations.
    let title = tool.item.common.title.filter(|_| !encoding.has(Feature::Titles));
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

fn prompt(out: &mut Vec<u8>, encoding: &Encoding, item: &Item) {
    let mut object = Object::begin(out);
    begin_item(&mut object, encoding, item.common);
    if !item.contract.arguments.is_empty() {
        let required = &item.contract.schema["required"];
        encode::array(object.key("arguments"), item.contract.arguments, |out, argument| {
            let mut object = Object::begin(out);
            object.string("name", argument.name);
            encode::title(&mut object, encoding.features, argument.title);
            let description =
                describe_argument(argument.description, &item.contract.schema["properties"][argument.name]);
            object.optional("description", description.as_deref());
            let is_required = required.as_array().is_some_and(|names| names.iter().any(|name| name == argument.name));
            write::plain(object.key("required"), &is_required);
            object.end();
        });
    }
    end_item(&mut object, encoding, item.common);
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

fn resource(out: &mut Vec<u8>, encoding: &Encoding, resource: &super::Resource) {
    let (entry, common) = (resource.entry, resource.item.common);
    let mut object = Object::begin(out);
    object.string(if entry.template.is_some() { "uriTemplate" } else { "uri" }, entry.uri);
    begin_item(&mut object, encoding, common);
    object.optional("mimeType", entry.mime_type);
    if let Some(size) = entry.size.filter(|_| entry.template.is_none()) {
        write::plain(object.key("size"), &size);
    }
    let hints = Annotations { audience: entry.audience.to_vec(), priority: entry.priority, last_modified: None };
    encode::annotations(&mut object, encoding.features, &hints);
    end_item(&mut object, encoding, common);
    object.end();
}

fn begin_item(object: &mut Object<'_>, encoding: &Encoding, common: &CommonEntry) {
    object.string("name", common.name);
    encode::title(object, encoding.features, common.title);
    object.optional("description", Some(common.description).filter(|description| !description.is_empty()));
}

fn end_item(object: &mut Object<'_>, encoding: &Encoding, common: &CommonEntry) {
    encode::icons(object, encoding.features, common.icons);
    if common.meta.is_empty() || !encoding.has(Feature::ItemMeta) {
        return;
    }
    let mut meta = Object::begin(object.key("_meta"));
    for (key, json) in common.meta {
        meta.raw(key, json.as_bytes());
    }
    meta.end();
}

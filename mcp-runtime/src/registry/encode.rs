//! Encodes the elements of `tools/list`, `prompts/list`, `resources/list` and `resources/templates/list`.

use serde_json::Value;

use crate::{
    handler::{
        Encoding, Function,
        entry::{CommonEntry, Entry, ResourceEntry, TaskSupport, ToolEntry},
        schema,
    },
    jsonrpc::write,
    model::Annotations,
    revision::{
        Feature,
        encode::{self, Object},
    },
};

/// Writes the element of a list that describes a function.
pub(super) fn encode_function(out: &mut Vec<u8>, encoding: &Encoding, function: &Function) {
    function.encode(out, encoding, |out| match &function.entry {
        Entry::Tool(entry) => tool(out, encoding, function, entry),
        Entry::Prompt(_) => prompt(out, encoding, function),
        Entry::Resource(entry) => resource(out, encoding, function, entry),
        // There is no list of methods.
        Entry::Method(_) => {}
    });
}

fn tool(out: &mut Vec<u8>, encoding: &Encoding, function: &Function, entry: &ToolEntry) {
    let common = &entry.common;
    let mut object = Object::begin(out);
    begin_entry(&mut object, encoding, &function.name, function.common());
    let listed = function.contract.with_schema(|schema| schema::listed(schema, function.schemas));
    write::plain(object.key("inputSchema"), &listed);
    if encoding.has(Feature::StructuredContent) {
        function.with_output_schema(|result| {
            let wraps = result.wraps && !encoding.has(Feature::StructuredAnyValue);
            let listed = schema::listed(&result.schema, function.schemas);
            write::plain(object.key("outputSchema"), &if wraps { schema::wrap(listed) } else { listed });
        });
    }
    hints(&mut object, encoding, entry);
    execution(&mut object, encoding, entry.task);
    end_entry(&mut object, encoding, common);
    object.end();
}

/// Writes the tool's task support, in revisions in which clients request tasks.
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

fn hints(object: &mut Object<'_>, encoding: &Encoding, entry: &ToolEntry) {
    if !encoding.has(Feature::ToolAnnotations) {
        return;
    }
    // Before tools had a `title` member, the title was an annotation.
    let title = entry.common.title.as_deref().filter(|_| !encoding.has(Feature::Titles));
    let hints = entry.hints;
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
        annotations.value(name, hint.as_ref());
    }
    annotations.end();
}

fn prompt(out: &mut Vec<u8>, encoding: &Encoding, function: &Function) {
    let mut object = Object::begin(out);
    begin_entry(&mut object, encoding, &function.name, function.common());
    if !function.contract.arguments.is_empty() {
        let required = &function.contract.schema()["required"];
        encode::array(object.key("arguments"), &*function.contract.arguments, |out, argument| {
            let mut object = Object::begin(out);
            object.string("name", &argument.name);
            encode::title(&mut object, encoding.dialect.features(), argument.title.as_deref());
            let description =
                describe_argument(&argument.description, &function.contract.schema()["properties"][&*argument.name]);
            object.optional("description", description.as_deref());
            let is_required = required.as_array().is_some_and(|names| names.iter().any(|name| name == &*argument.name));
            write::plain(object.key("required"), &is_required);
            object.end();
        });
    }
    end_entry(&mut object, encoding, function.common());
    object.end();
}

/// Returns the description of a prompt's argument, followed by the constraints of its schema in words, because prompts
/// are listed without a schema.
fn describe_argument(description: &str, schema: &Value) -> Option<String> {
    let mut notes = Vec::new();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect();
        notes.push(format!("one of {}", values.join(", ")));
    }
    let is_whole = schema["type"] == "integer" && schema["minimum"] == 0;
    match schema["type"].as_str() {
        Some("integer") if is_whole => notes.push("a whole number".to_owned()),
        Some("integer") => notes.push("an integer".to_owned()),
        Some("number") => notes.push("a number".to_owned()),
        Some("boolean") => notes.push("`true` or `false`".to_owned()),
        _ => {}
    }
    for (keyword, words) in [
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
        ("minLength", "minimum length"),
        ("maxLength", "maximum length"),
        ("pattern", "matching"),
        ("default", "default"),
    ] {
        if let Some(value) = schema.get(keyword).filter(|_| !(is_whole && keyword == "minimum")) {
            notes.push(format!("{words} {value}"));
        }
    }
    let description =
        if description.is_empty() { schema["description"].as_str().unwrap_or_default() } else { description };
    match (description, notes.join(", ")) {
        ("", notes) if notes.is_empty() => None,
        ("", notes) => Some(notes),
        (description, notes) if notes.is_empty() => Some(description.to_owned()),
        (description, notes) => Some(format!("{description} ({notes})")),
    }
}

fn resource(out: &mut Vec<u8>, encoding: &Encoding, function: &Function, entry: &ResourceEntry) {
    let mut object = Object::begin(out);
    object.string(if entry.template.is_some() { "uriTemplate" } else { "uri" }, &entry.uri);
    let name = encode::display_name(encoding.dialect.features(), &function.name, entry.common.title.as_deref());
    begin_entry(&mut object, encoding, name, function.common());
    object.optional("mimeType", entry.mime_type.as_deref());
    object.value("size", entry.size.filter(|_| entry.template.is_none()).as_ref());
    let hints = Annotations {
        audience: entry.audience.to_vec(),
        priority: entry.priority,
        last_modified: entry.last_modified.map(str::to_owned),
    };
    encode::annotations(&mut object, encoding.dialect.features(), &hints);
    end_entry(&mut object, encoding, &entry.common);
    object.end();
}

/// Writes the members with which every element begins.
fn begin_entry(object: &mut Object<'_>, encoding: &Encoding, name: &str, common: &CommonEntry) {
    object.string("name", name);
    encode::title(object, encoding.dialect.features(), common.title.as_deref());
    object.optional("description", Some(&*common.description).filter(|description| !description.is_empty()));
}

/// Writes the members with which every element ends.
fn end_entry(object: &mut Object<'_>, encoding: &Encoding, common: &CommonEntry) {
    encode::icons(object, encoding.dialect.features(), &common.icons);
    if common.meta.is_empty() || !encoding.has(Feature::ItemMeta) {
        return;
    }
    let mut meta = Object::begin(object.key("_meta"));
    for (key, json) in &*common.meta {
        meta.raw(key, json.as_bytes());
    }
    meta.end();
}

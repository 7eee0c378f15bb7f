//! Describes an operation as a tool and as a request, for the half that runs.

use std::collections::HashSet;

use mcp_schema::Checker;
use serde_json::{Map, Value, json};

use crate::{
    document::{DocumentError, Documents, Node},
    schema::{self, Direction, shorten},
    select::{Selected, limited, words},
};

/// The maximum number of characters in the description of a tool. Some model providers refuse longer ones.
const MAX_DESCRIPTION: usize = 1024;
/// Headers that have other sources, or control the connection.
const IGNORED_HEADERS: [&str; 10] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The arguments of a tool, whose names are unique.
#[derive(Default)]
struct Arguments {
    names: HashSet<String>,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Arguments {
    /// Adds an argument, and returns its name, which may differ from the name in the document.
    fn add(&mut self, name: &str, place: &str, schema: Value, is_required: bool) -> String {
        let stem = match words(name) {
            stem if stem.is_empty() => place.to_owned(),
            stem => limited(&stem),
        };
        let mut argument = stem.clone();
        if self.names.contains(&argument) {
            argument = limited(&format!("{stem}_{place}"));
        }
        let mut number = 2;
        while !self.names.insert(argument.clone()) {
            argument = limited(&format!("{stem}_{place}_{number}"));
            number += 1;
        }
        self.properties.insert(argument.clone(), schema);
        self.required.extend(is_required.then(|| argument.clone().into()));
        argument
    }
}

/// Returns the description of an operation, as JSON.
pub(crate) fn convert(documents: &Documents, selected: &Selected<'_>) -> Result<Value, DocumentError> {
    let node = &selected.node;
    let mut arguments = Arguments::default();
    let parameters = parameters(documents, selected, &mut arguments)?;
    let body = match node.get("requestBody") {
        Some(body) => body_of(documents, &documents.resolve(body)?, &mut arguments)?,
        None => Value::Null,
    };
    let Arguments { properties, required, .. } = arguments;
    let mut input = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        input["required"] = required.into();
    }
    let check = |schema: &Value| match Checker::compile(schema) {
        Ok(_) => Ok(()),
        Err(error) => Err(node.error(format!("the schema cannot be enforced: {error}"))),
    };
    check(&input)?;
    let (output, accept) = responses(documents, node)?;
    if let Some(output) = &output {
        check(output)?;
    }
    let tags = node.get("tags");
    let tags: Vec<&str> = tags.iter().flat_map(Node::items).filter_map(|tag| tag.value.as_str()).collect();
    Ok(json!({
        "name": selected.name,
        "id": node.text("operationId"),
        "title": node.text("summary").map(|text| shorten(text, 120)),
        "description": description(selected),
        "method": selected.method.to_uppercase(),
        // Some documents tell operations of one method and path apart by a fragment.
        "path": selected.path.split('#').next(),
        "server": server(documents, selected)?,
        "tags": tags,
        "deprecated": node.flag("deprecated"),
        "input": input,
        "output": output,
        "accept": accept,
        "parameters": parameters,
        "body": body,
        "security": security(documents, node)?,
    }))
}

fn description(selected: &Selected<'_>) -> String {
    let node = &selected.node;
    let texts = [node.text("summary"), node.text("description")];
    let mut texts: Vec<&str> = texts.into_iter().flatten().map(str::trim).filter(|text| !text.is_empty()).collect();
    texts.dedup();
    let deprecated = if node.flag("deprecated") { "\n\nDeprecated." } else { "" };
    let text = if texts.is_empty() {
        format!("{} {}", selected.method.to_uppercase(), selected.path)
    } else {
        shorten(&texts.join("\n\n"), MAX_DESCRIPTION - deprecated.len() - 1)
    };
    text + deprecated
}

fn parameters(
    documents: &Documents,
    selected: &Selected<'_>,
    arguments: &mut Arguments,
) -> Result<Vec<Value>, DocumentError> {
    let mut found: Vec<(&str, &str, Node<'_>)> = Vec::new();
    for list in [&selected.node, &selected.item].into_iter().filter_map(|node| node.get("parameters")) {
        for parameter in list.items() {
            let parameter = documents.resolve(parameter)?;
            let (Some(name), Some(place)) = (parameter.text("name"), parameter.text("in")) else {
                return Err(parameter.error("a parameter must have `name` and `in`"));
            };
            // The parameters of an operation have precedence over the parameters of its path.
            if !found.iter().any(|(other, at, _)| *other == name && *at == place) {
                found.push((name, place, parameter));
            }
        }
    }
    // The name of a path parameter stays as it is.
    found.sort_by_key(|(_, place, _)| *place != "path");
    let mut parameters = Vec::new();
    for (name, place, node) in found {
        let style = match place {
            "path" if !selected.path.contains(&format!("{{{name}}}")) => {
                return Err(node.error(format!("the path `{}` has no `{{{name}}}`", selected.path)));
            }
            "path" | "header" => "simple",
            "query" | "cookie" => "form",
            _ => return Err(node.error(format!("unknown place `{place}`, expected path, query, header or cookie"))),
        };
        let lower = name.to_ascii_lowercase();
        if place == "header" && IGNORED_HEADERS.contains(&&*lower) {
            continue;
        }
        let style = node.text("style").unwrap_or(style);
        let is_known = match place {
            "path" => ["simple", "label", "matrix"].contains(&style),
            "query" => ["form", "spaceDelimited", "pipeDelimited", "deepObject"].contains(&style),
            "header" => style == "simple",
            _ => style == "form",
        };
        if !is_known {
            return Err(node.error(format!("the style `{style}` is not defined for parameters in {place}")));
        }
        let explode = node.value.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        let content = node.get("content").and_then(|content| content.members().next());
        let schema = match &content {
            Some((_, media)) => media.get("schema"),
            None => node.get("schema"),
        };
        let mut schema = match schema {
            Some(schema) => schema::convert(documents, &schema, Direction::Input)?,
            None => json!({}),
        };
        if let (Some(text), Some(schema)) = (node.text("description"), schema.as_object_mut()) {
            schema.insert("description".to_owned(), shorten(text, schema::MAX_DESCRIPTION).into());
        }
        let is_required = place == "path" || node.flag("required");
        let argument = arguments.add(name, place, schema, is_required);
        parameters.push(json!({
            "argument": argument, "name": name, "in": place, "style": style, "explode": explode,
            "json": content.is_some(), "reserved": node.flag("allowReserved"),
        }));
    }
    let mut rest = selected.path;
    while let Some((_, tail)) = rest.split_once('{') {
        let Some((name, after)) = tail.split_once('}') else {
            return Err(selected.node.error(format!("the path `{}` has a `{{` without `}}`", selected.path)));
        };
        if !parameters.iter().any(|parameter| parameter["name"] == name && parameter["in"] == "path") {
            return Err(selected.node.error(format!("the path parameter `{name}` is not declared")));
        }
        rest = after;
    }
    Ok(parameters)
}

/// The media type that is used of several: the first of the best kind.
fn choose<'a>(content: &Node<'a>) -> Option<(&'a str, Node<'a>)> {
    content.members().min_by_key(|(name, _)| match essence(name) {
        name if is_json(name) => 0,
        "application/x-www-form-urlencoded" => 1,
        "multipart/form-data" => 2,
        "*/*" => 3,
        name if name.starts_with("text/") => 4,
        _ => 5,
    })
}

fn essence(media: &str) -> &str {
    media.split(';').next().unwrap_or_default().trim()
}

fn is_json(essence: &str) -> bool {
    essence == "application/json" || essence.ends_with("+json") || essence == "text/json"
}

fn body_of(documents: &Documents, body: &Node<'_>, arguments: &mut Arguments) -> Result<Value, DocumentError> {
    let content = body.get("content").ok_or_else(|| body.error("a request body must have `content`"))?;
    let Some((media, node)) = choose(&content) else { return Ok(Value::Null) };
    let is_required = body.flag("required");
    let mut schema = match node.get("schema") {
        Some(schema) => schema::convert(documents, &schema, Direction::Input)?,
        None => json!({}),
    };
    let name = essence(media);
    let kind = match name {
        "application/x-www-form-urlencoded" => "form",
        "multipart/form-data" => "multipart",
        "*/*" => "json",
        name if is_json(name) => "json",
        name if name.starts_with("text/") || name.ends_with("/xml") || name.ends_with("+xml") => "text",
        _ => "bytes",
    };
    let media = if name.contains('*') { "application/json" } else { media };
    if kind == "bytes" || kind == "text" {
        let format = if kind == "text" { "" } else { " in base64" };
        schema = json!({"type": "string", "description": format!("The body, {name}{format}")});
    }
    if let (Some(text), Some(schema)) = (body.text("description"), schema.as_object_mut())
        && !schema.contains_key("description")
    {
        schema.insert("description".to_owned(), shorten(text, schema::MAX_DESCRIPTION).into());
    }
    let is_form = kind == "form" || kind == "multipart";
    if !is_form && !is_flat(&schema) {
        let argument = arguments.add("body", "body", schema, is_required);
        return Ok(json!({"kind": kind, "media": media, "required": is_required, "argument": argument}));
    }
    let encodings = node.get("encoding");
    let mut fields = Vec::new();
    let required: Vec<Value> = match schema.get("required") {
        Some(Value::Array(required)) => required.clone(),
        _ => Vec::new(),
    };
    let is_whole = !is_flat(&schema);
    let properties = if is_whole { Map::new() } else { members(&mut schema, &required) };
    for (name, schema) in properties {
        let encoding = encodings.as_ref().and_then(|encodings| encodings.get(&name));
        let text = |key: &str| encoding.as_ref().and_then(|encoding| encoding.text(key));
        let style = text("style").unwrap_or("form");
        let explode = encoding.as_ref().and_then(|encoding| encoding.value.get("explode")).and_then(Value::as_bool);
        let file = [Some(&schema), schema.get("items")]
            .into_iter()
            .flatten()
            .find_map(|schema| schema.get("contentMediaType"));
        let media = text("contentType").map(Value::from).or_else(|| file.cloned());
        let is_file = file.is_some();
        let argument = arguments.add(&name, "body", schema, is_required && required.iter().any(|other| *other == name));
        fields.push(json!({
            "argument": argument, "name": name, "style": style, "explode": explode.unwrap_or(style == "form"),
            "file": is_file, "media": media,
        }));
    }
    let argument = is_whole.then(|| arguments.add("body", "body", schema, is_required));
    Ok(json!({"kind": kind, "media": media, "required": is_required, "argument": argument, "fields": fields}))
}

/// Returns whether the members of an object can be arguments of their own.
fn is_flat(schema: &Value) -> bool {
    let known = ["type", "properties", "required", "description"];
    schema.as_object().is_some_and(|schema| {
        schema.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty())
            && schema.get("type").is_none_or(|kind| kind == "object")
            && schema.iter().all(|(keyword, value)| {
                known.contains(&&**keyword) || (keyword == "additionalProperties" && *value == false)
            })
    })
}

/// Takes the properties of an object, with those that are only required.
fn members(schema: &mut Value, required: &[Value]) -> Map<String, Value> {
    let mut properties = match schema["properties"].take() {
        Value::Object(properties) => properties,
        _ => Map::new(),
    };
    for name in required.iter().filter_map(Value::as_str) {
        properties.entry(name).or_insert_with(|| json!({}));
    }
    properties
}

/// Returns the schema of the structured content, and the media types that are accepted.
fn responses(documents: &Documents, operation: &Node<'_>) -> Result<(Option<Value>, String), DocumentError> {
    let mut medias: Vec<&str> = Vec::new();
    let mut outputs = Vec::new();
    let mut is_object = true;
    let responses = operation.get("responses");
    for (status, response) in responses.iter().flat_map(Node::members) {
        if !status.starts_with('2') {
            continue;
        }
        let response = documents.resolve(response)?;
        let content = response.get("content");
        let mut all: Vec<_> = content.iter().flat_map(Node::members).collect();
        all.sort_by_key(|(media, _)| !is_json(essence(media)));
        for (media, node) in &all {
            if !medias.contains(media) {
                medias.push(media);
            }
            is_object &= is_json(essence(media));
            if let Some(schema) = node.get("schema").filter(|_| is_json(essence(media))) {
                outputs.push(schema::convert(documents, &schema, Direction::Output)?);
            }
        }
    }
    outputs.dedup();
    let output = match <[Value; 1]>::try_from(outputs) {
        Ok([output]) if is_object && output.get("type").is_some_and(|kind| kind == "object") => Some(output),
        _ => None,
    };
    let accept = medias.join(", ");
    Ok((output, if accept.is_empty() { "*/*".to_owned() } else { accept }))
}

/// Returns the URL of the server, which may be relative.
fn server(documents: &Documents, selected: &Selected<'_>) -> Result<String, DocumentError> {
    let root = documents.root();
    let lists = [&selected.node, &selected.item, &root].into_iter().filter_map(|node| node.get("servers"));
    let Some(server) = lists.filter_map(|list| list.items().next()).next() else { return Ok("/".to_owned()) };
    let url = server.text("url").ok_or_else(|| server.error("a server must have a `url`"))?;
    let mut filled = url.to_owned();
    let variables = server.get("variables");
    for (name, variable) in variables.iter().flat_map(Node::members) {
        let default = variable.value.get("default");
        let default = default.ok_or_else(|| variable.error("a variable of a server must have a `default`"))?;
        let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        filled = filled.replace(&format!("{{{name}}}"), &default);
    }
    Ok(filled)
}

/// Returns the alternatives of an operation, each with the schemes that it needs.
fn security(documents: &Documents, operation: &Node<'_>) -> Result<Vec<Vec<Value>>, DocumentError> {
    let root = documents.root();
    let Some(requirements) = operation.get("security").or_else(|| root.get("security")) else { return Ok(Vec::new()) };
    let schemes = root.get("components").and_then(|components| components.get("securitySchemes"));
    let mut alternatives = Vec::new();
    for requirement in requirements.items() {
        let mut alternative = Vec::new();
        for (name, node) in requirement.members() {
            let scheme = schemes.as_ref().and_then(|schemes| schemes.get(name));
            let scheme = scheme.ok_or_else(|| node.error(format!("the security scheme `{name}` is not declared")))?;
            let scheme = documents.resolve(scheme)?;
            let kind = scheme.text("type").unwrap_or_default();
            let http = scheme.text("scheme").unwrap_or_default().to_ascii_lowercase();
            let (place, target, prefix) = match kind {
                "apiKey" => match (scheme.text("in"), scheme.text("name")) {
                    (Some(place @ ("query" | "header" | "cookie")), Some(name)) => (place, name, ""),
                    _ => return Err(scheme.error("an API key must have `name` and `in`")),
                },
                "http" if http == "basic" => ("header", "authorization", "Basic "),
                "http" if http != "bearer" => {
                    let scheme = scheme.get("scheme").unwrap_or(scheme);
                    let message = format!("the HTTP scheme `{http}` is not supported, expected basic or bearer");
                    return Err(scheme.error(message));
                }
                "http" | "oauth2" | "openIdConnect" => ("header", "authorization", "Bearer "),
                "mutualTLS" => continue,
                _ => return Err(scheme.error(format!("unknown type `{kind}` of a security scheme"))),
            };
            alternative.push(json!({"scheme": name, "in": place, "name": target, "prefix": prefix}));
        }
        // An alternative that consists of client certificates is not available.
        if !alternative.is_empty() || requirement.members().next().is_none() {
            alternatives.push(alternative);
        }
    }
    Ok(alternatives)
}

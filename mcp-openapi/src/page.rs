//! The next page of a list, as arguments of the tool.

use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::operation::{Description, Place, Style};

/// The number of objects that may contain the member for the next page, as in `links.pages.next`.
const MAX_DEPTH: usize = 2;

/// Returns the arguments for the next page, from a `Link` or the body of a response.
pub(crate) fn next_page(operation: &Description, headers: &HeaderMap, body: Option<&Value>) -> Map<String, Value> {
    let mut page = Page { operation, arguments: Map::new() };
    page.link(headers);
    if let Some(Value::Object(members)) = body {
        page.members(members, 0);
        page.conventions(members);
    }
    page.arguments
}

/// Collects the arguments for the next page. The first source that yields any ends the search.
struct Page<'a> {
    operation: &'a Description,
    arguments: Map<String, Value>,
}

impl Page<'_> {
    fn link(&mut self, headers: &HeaderMap) {
        let links = headers.get_all(header::LINK).iter().filter_map(|links| links.to_str().ok());
        let mut links = links.flat_map(|links| links.split('<').skip(1)).filter_map(|link| link.split_once('>'));
        let is_next = |parameters: &str| {
            parameters.split([';', ',']).any(|parameter| ["rel=next", "rel=\"next\""].contains(&parameter.trim()))
        };
        if let Some((url, _)) = links.find(|(_, parameters)| is_next(parameters)) {
            self.url(url);
        }
    }

    /// Reads members such as `next_cursor`, if the tool has an argument `cursor`, or `next` with a URL.
    fn members(&mut self, members: &Map<String, Value>, depth: usize) {
        for (name, value) in members {
            if !self.arguments.is_empty() {
                return;
            }
            let name = simple(name);
            match (name.strip_prefix("next"), value) {
                (Some(_), Value::Object(next)) => {
                    for (name, value) in next {
                        self.add(|own| own == name, value);
                    }
                    self.url(next.get("href").and_then(Value::as_str).unwrap_or_default());
                }
                (Some(rest), value) => {
                    self.url(value.as_str().unwrap_or_default());
                    if self.arguments.is_empty() {
                        self.add(|own| simple(own) == rest, value);
                    }
                }
                (None, Value::Object(inner)) if depth < MAX_DEPTH => self.members(inner, depth + 1),
                _ => {}
            }
        }
    }

    /// Reads what only some services share: `has_more` with the last item, and `metadata.continue` of Kubernetes.
    fn conventions(&mut self, members: &Map<String, Value>) {
        let more = members.get("has_more").filter(|more| **more == true).and(Some(members));
        let last_item = more.and_then(|members| members.get("data")?.as_array()?.last()?.get("id"));
        let last_id = more.and_then(|members| members.get("last_id"));
        let token = members.get("metadata").and_then(|metadata| metadata.get("continue"));
        for (name, value) in [("starting_after", last_item), ("after", last_id), ("continue", token)] {
            if let Some(value) = value.filter(|_| self.arguments.is_empty()) {
                self.add(|own| own == name, value);
            }
        }
    }

    /// Adds the arguments in the query of a URL. The rest may contain a credential.
    fn url(&mut self, url: &str) {
        let Some((_, query)) = url.split_once('?').filter(|_| self.arguments.is_empty()) else { return };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        for (name, value) in query.split(['&', '#']).filter_map(|pair| pair.split_once('=')) {
            self.add(|own| own == decoded(name), &decoded(value).into());
        }
    }

    /// Adds an argument for a parameter of the query, unless the program sets it.
    fn add(&mut self, is_name: impl Fn(&str) -> bool, value: &Value) {
        let mut credentials = self.operation.security.iter().flatten();
        let mut parameters = self.operation.parameters.iter().filter(|parameter| parameter.place == Place::Query);
        if credentials.any(|credential| credential.place == Place::Query && is_name(&credential.name)) {
            return;
        }
        if let Some(parameter) = parameters.clone().find(|parameter| is_name(&parameter.name)) {
            if let Some(value) = typed(&parameter.schema, value).filter(|_| !parameter.fixed) {
                self.arguments.insert(parameter.argument.clone(), value);
            }
            return;
        }
        // A member of an object, such as `filter[after]`.
        let objects = parameters.by_ref().filter(|parameter| parameter.style == Style::DeepObject && !parameter.fixed);
        for parameter in objects {
            for (member, schema) in parameter.schema["properties"].as_object().into_iter().flatten() {
                if is_name(&format!("{}[{member}]", parameter.name))
                    && let Some(value) = typed(schema, value)
                {
                    let object = self.arguments.entry(&*parameter.argument).or_insert_with(|| json!({}));
                    object[member] = value;
                }
            }
        }
    }
}

/// Returns a name without case and separators.
fn simple(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// Returns a value with the type of an argument, or `None` if it says that there is no next page, or has another type.
fn typed(schema: &Value, value: &Value) -> Option<Value> {
    let accepts = |kind: &str| match &schema["type"] {
        Value::String(own) => own == kind,
        Value::Array(own) => own.iter().any(|own| own == kind),
        _ => kind == "string",
    };
    let has_type = |value: &Value| match value {
        Value::Number(number) => {
            accepts("number") || accepts("integer") && number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        Value::Bool(_) => accepts("boolean"),
        _ => false,
    };
    match value {
        Value::String(text) if text.is_empty() => None,
        Value::String(_) if accepts("string") => Some(value.clone()),
        Value::Number(number) if accepts("string") => Some(number.to_string().into()),
        Value::String(text) => serde_json::from_str(text).ok().filter(has_type),
        Value::Number(_) => Some(value.clone()).filter(has_type),
        _ => None,
    }
}

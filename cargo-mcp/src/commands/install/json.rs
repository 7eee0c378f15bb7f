//! Edits JSON with comments in the syntax tree of `jsonc-parser`, which keeps comments and order.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode},
    errors::ParseError,
    parse_to_ast,
};
use serde_json::{Map, Value};

use super::entry::{DocumentError, Entry, is_secret};

/// Parses JSON with comments and trailing commas. A text without a value counts as an empty object.
///
/// # Errors
///
/// Fails if the text is not JSON or not an object, or if its member `object` is not an object or not unique.
pub(super) fn parse(text: &str, object: &str) -> Result<Value, DocumentError> {
    let root = CstRootNode::parse(text, &options()).map_err(|error| syntax_error(text, &error))?;
    let Some(value) = root.value() else { return Ok(Map::new().into()) };
    let error = |node: CstNode, message: String| DocumentError::at(text, offset(&node), message);
    let Some(members) = value.as_object() else { return Err(error(value, "expected an object".to_owned())) };
    let mut servers =
        members.properties().into_iter().filter(|member| member.decoded_name().as_deref() == Some(object));
    if let Some(server) = servers.next().and_then(|member| member.value())
        && server.as_object().is_none()
    {
        return Err(error(server, format!("`{object}` is not an object")));
    }
    match servers.next() {
        Some(second) => Err(error(second.into(), format!("duplicate `{object}`"))),
        None => Ok(value.to_serde_value().unwrap_or_default()),
    }
}

/// Returns the first syntax that [`parse`] accepts and plain JSON does not allow.
pub(super) fn extended_syntax(text: &str) -> Option<DocumentError> {
    let strict = ParseOptions { allow_comments: false, allow_trailing_commas: false, ..options() };
    parse_to_ast(text, &CollectOptions::default(), &strict).err().map(|error| syntax_error(text, &error))
}

fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn syntax_error(text: &str, error: &ParseError) -> DocumentError {
    let message = error.kind().to_string();
    let mut letters = message.chars();
    let message = letters.next().map(|first| first.to_lowercase().chain(letters).collect::<String>());
    DocumentError::at(text, error.range().start, message.unwrap_or_default())
}

/// Returns the position of a node in the text that it was parsed from.
fn offset(node: &CstNode) -> usize {
    let before: usize = node.previous_siblings().map(|sibling| sibling.to_string().len()).sum();
    before + node.parent().map_or(0, |parent| offset(&CstNode::Container(parent)))
}

/// Inserts, replaces or, without an entry, removes a member of the object called `member`. Returns `None` if the text
/// has no place for it.
pub(super) fn set(text: &str, member: &str, name: &str, entry: Option<&Entry>) -> Option<String> {
    let root = CstRootNode::parse(text, &options()).ok()?;
    let servers = root.object_value_or_create()?.object_value_or_create(member)?;
    match (last(&servers, name), entry) {
        (Some(server), Some(entry)) => server.set_value(object(&entry.0)),
        (Some(server), None) => server.remove(),
        (None, Some(entry)) => drop(servers.append(name, object(&entry.0))),
        (None, None) => {}
    }
    Some(root.to_string())
}

/// Returns a member. The last of several counts, as in other JSON parsers.
fn last(object: &CstObject, name: &str) -> Option<CstObjectProp> {
    object.properties().into_iter().rfind(|member| member.decoded_name().as_deref() == Some(name))
}

fn object(map: &Map<String, Value>) -> CstInputValue {
    CstInputValue::Object(map.iter().map(|(name, value)| (name.clone(), input(value))).collect())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => object(map),
        text => CstInputValue::String(text.as_str().unwrap_or_default().to_owned()),
    }
}

/// Returns the text with `***` in place of possible secrets.
pub(super) fn masked(text: &str) -> String {
    fn mask(node: &CstNode, all: bool) {
        if let Some(object) = node.as_object() {
            for member in object.properties() {
                let (Some(name), Some(value)) = (member.decoded_name(), member.value()) else { continue };
                mask(&value, all || is_secret(&name, value.as_string_lit().is_some()));
            }
        } else if let Some(array) = node.as_array() {
            array.elements().iter().for_each(|value| mask(value, all));
        } else if let Some(text) = node.as_string_lit().filter(|_| all) {
            text.set_raw_value("\"***\"".to_owned());
        }
    }
    let Ok(root) = CstRootNode::parse(text, &options()) else { return String::new() };
    if let Some(value) = root.value() {
        mask(&value, false);
    }
    root.to_string()
}

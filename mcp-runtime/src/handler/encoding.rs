//! How values are encoded for a client, and how arguments that arrive as strings are decoded.

use std::{borrow::Cow, time::Duration};

use serde_json::{Map, Value};

use super::Contract;
use crate::{
    jsonrpc::{raw, write},
    revision::{Dialect, Feature, Features},
};

/// The encoding of results in one revision.
#[derive(Debug)]
pub(crate) struct Encoding {
    pub(crate) dialect: &'static Dialect,
    pub(crate) features: Features,
    /// The members of `_meta` in every result, as JSON; empty if the dialect has none.
    pub(crate) identity: Vec<u8>,
    /// Whether all lists depend on the caller, in which case shared caches must not store them.
    pub(crate) is_private: bool,
}

impl Encoding {
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.features.has(feature)
    }

    /// Writes how long and by whom a result may be cached, if the dialect supports cache hints.
    pub(crate) fn cache_hints(&self, out: &mut Vec<u8>, ttl: Duration) {
        self.write_cache_hints(out, ttl, self.is_private);
    }

    /// Writes how long a result that may depend on the caller may be cached, if the dialect supports cache hints.
    pub(crate) fn private_cache_hints(&self, out: &mut Vec<u8>, ttl: Duration) {
        self.write_cache_hints(out, ttl, true);
    }

    fn write_cache_hints(&self, out: &mut Vec<u8>, ttl: Duration, is_private: bool) {
        if self.has(Feature::CacheHints) {
            let scope = if is_private { "private" } else { "public" };
            out.extend_from_slice(format!(r#","ttlMs":{},"cacheScope":"{scope}""#, ttl.as_millis()).as_bytes());
        }
    }

    /// Completes a result object: writes the members that the dialect adds, then `_meta` and the closing brace.
    pub(crate) fn end_result(&self, out: &mut Vec<u8>, meta: Option<&Map<String, Value>>) {
        self.end_result_as(out, "complete", meta);
    }

    /// Completes a result object with the given `resultType`. See [`end_result`](Self::end_result).
    pub(crate) fn end_result_as(&self, out: &mut Vec<u8>, result_type: &str, meta: Option<&Map<String, Value>>) {
        let meta = meta.filter(|meta| !meta.is_empty()).map(|meta| {
            move |out: &mut Vec<u8>| {
                for (name, value) in meta {
                    member(out, name, b"");
                    write::plain(out, value);
                }
            }
        });
        self.end_result_with(out, result_type, meta);
    }

    /// Completes a result object with the given `resultType` and what `write_meta` adds to `_meta`.
    pub(crate) fn end_result_with(
        &self,
        out: &mut Vec<u8>,
        result_type: &str,
        write_meta: Option<impl FnOnce(&mut Vec<u8>)>,
    ) {
        if self.has(Feature::ResultType) {
            member(out, "resultType", b"");
            write::string(out, result_type);
        }
        for (name, json) in self.dialect.result_members {
            member(out, name, json.as_bytes());
        }
        if write_meta.is_some() || !self.identity.is_empty() {
            member(out, "_meta", b"{");
            out.extend_from_slice(&self.identity);
            if let Some(write_meta) = write_meta {
                write_meta(out);
            }
            out.push(b'}');
        }
        out.push(b'}');
    }
}

/// Writes a member whose value is already encoded.
pub(crate) fn member(out: &mut Vec<u8>, name: &str, json: &[u8]) {
    comma(out);
    write::string(out, name);
    out.push(b':');
    out.extend_from_slice(json);
}

/// Writes a comma unless the next member or element is the first.
pub(crate) fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[' | b',')) {
        out.push(b',');
    }
}

/// Converts strings to the JSON object that the schema describes: `"5"` becomes `5` if the argument is a number.
///
/// A string that is not valid JSON stays a string, and violations show it unchanged.
pub(crate) fn from_strings<'a>(
    contract: &Contract,
    strings: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> String {
    let mut out = vec![b'{'];
    for (name, text) in strings {
        let property = contract.schema.get("properties").and_then(|properties| properties.get(&*name));
        // Forms send an empty string for a field that was left empty.
        if text.is_empty() && !accepts_strings(property) && !is_required(contract, &name) {
            continue;
        }
        comma(&mut out);
        write::string(&mut out, &name);
        out.push(b':');
        write_string_as(&mut out, property, &text);
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

/// Converts a string to the JSON that the schema describes.
pub(crate) fn json_of_string(schema: Option<&Value>, text: &str) -> String {
    let mut out = Vec::new();
    write_string_as(&mut out, schema, text);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_string_as(out: &mut Vec<u8>, schema: Option<&Value>, text: &str) {
    if !accepts_strings(schema) && is_other_json(text) {
        out.extend_from_slice(text.trim().as_bytes());
    } else {
        write::string(out, text);
    }
}

fn is_required(contract: &Contract, name: &str) -> bool {
    contract.schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// Returns whether a schema accepts strings, judging by its `type`, `enum`, `anyOf` and `oneOf` keywords.
fn accepts_strings(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => match schema.get("enum") {
            Some(Value::Array(values)) => values.iter().any(Value::is_string),
            _ => ["anyOf", "oneOf"]
                .iter()
                .find_map(|key| schema.get(key)?.as_array())
                .is_none_or(|branches| branches.iter().any(|branch| accepts_strings(Some(branch)))),
        },
    }
}

/// Returns whether the text is valid JSON other than a string.
fn is_other_json(text: &str) -> bool {
    raw::kind(text) != raw::Kind::String && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

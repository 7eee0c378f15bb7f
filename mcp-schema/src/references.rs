//! References between schemas, all of which are in the same document.

use std::collections::{BTreeMap, HashMap};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::schema::subschemas;

/// The location of the types that a generated schema refers to.
const DEFINITIONS: &str = "#/$defs/";

/// Returns the name of the definition that `reference` points to, or `None` if it points to anything else.
pub(super) fn definition(reference: &str) -> Option<String> {
    let token = reference.strip_prefix(DEFINITIONS)?;
    if token.contains('/') { None } else { decode(token) }
}

/// Replaces the name of the definition that a reference points to, or into, by its new name.
pub(super) fn rename(reference: &mut String, names: &BTreeMap<String, String>) {
    let Some(path) = reference.strip_prefix(DEFINITIONS) else { return };
    let (token, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    if let Some(name) = decode(token).and_then(|name| names.get(&name)) {
        *reference = format!("{DEFINITIONS}{}{rest}", name.replace('%', "%25").replace('~', "~0").replace('/', "~1"));
    }
}

/// Decodes a token of a pointer in a URI fragment: first the percent-encoding, then `~1` and `~0`.
///
/// Returns `None` if the token is not UTF-8.
fn decode(token: &str) -> Option<String> {
    let token = percent_decode_str(token).decode_utf8().ok()?;
    Some(token.replace("~1", "/").replace("~0", "~"))
}

/// Returns the JSON pointer to an object inside a value, which is found by its address.
pub(super) fn locate(root: &Value, object: &Map<String, Value>) -> Option<String> {
    match root {
        Value::Object(members) if std::ptr::eq(members, object) => Some(String::new()),
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let path = locate(value, object)?;
            Some(format!("/{}{path}", name.replace('~', "~0").replace('/', "~1")))
        }),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| Some(format!("/{index}{}", locate(item, object)?)))
        }
        _ => None,
    }
}

/// The index of a resource: the document, or a schema inside it that has an `$id`.
type Resource = usize;

/// The targets of references in a document.
#[derive(Debug)]
pub(super) struct References<'a> {
    /// The resources with their URIs. The first one is the document.
    resources: Vec<(String, &'a Value)>,
    /// The resource of each schema, by its address.
    owners: HashMap<*const Map<String, Value>, Resource>,
    /// The schemas with an anchor, by the resource and the name.
    anchors: HashMap<(Resource, &'a str), &'a Value>,
    /// The number of resources that have a `$dynamicAnchor` of each name.
    dynamic: HashMap<&'a str, usize>,
}

impl<'a> References<'a> {
    /// Collects the targets. Each schema is visited once.
    pub(super) fn of(document: &'a Value) -> Self {
        let (owners, anchors, dynamic) = Default::default();
        let mut found = Self { resources: vec![(String::new(), document)], owners, anchors, dynamic };
        let mut pending = vec![(document, 0)];
        while let Some((schema, outer)) = pending.pop() {
            let Value::Object(members) = schema else { continue };
            let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
            let owner = match text("$id").map(|id| join(&found.resources[outer].0, id)) {
                None => outer,
                Some(uri) if std::ptr::eq(schema, document) => {
                    found.resources[0].0 = uri;
                    0
                }
                Some(uri) => {
                    found.resources.push((uri, schema));
                    found.resources.len() - 1
                }
            };
            found.owners.insert(members, owner);
            for name in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
                found.anchors.insert((owner, name), schema);
            }
            if let Some(name) = text("$dynamicAnchor") {
                *found.dynamic.entry(name).or_default() += 1;
            }
            pending.extend(subschemas(members).map(|inner| (inner, owner)));
        }
        found
    }

    /// Returns whether a `$dynamicRef` that resolves to this target may have another one, which depends on the schemas
    /// through which it is reached.
    pub(super) fn is_dynamic(&self, target: &Value, reference: &str) -> bool {
        let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        let is_anchor = target.get("$dynamicAnchor").is_some_and(|name| name == fragment);
        is_anchor && self.dynamic.get(fragment).is_some_and(|&count| count > 1)
    }

    /// Returns the target of a reference in a schema: a resource, or a JSON pointer or an anchor inside it.
    pub(super) fn resolve(&self, schema: &Map<String, Value>, reference: &str) -> Option<&'a Value> {
        let owner = self.owners.get(&std::ptr::from_ref(schema)).copied().unwrap_or_default();
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = if uri.is_empty() {
            owner
        } else {
            let uri = join(&self.resources[owner].0, uri);
            self.resources.iter().position(|(known, _)| *known == uri)?
        };
        let target = self.resources[resource].1;
        if fragment.is_empty() {
            return Some(target);
        }
        let Some(path) = fragment.strip_prefix('/') else {
            return self.anchors.get(&(resource, fragment)).copied();
        };
        path.split('/').try_fold(target, |target, token| {
            let token = decode(token)?;
            match target {
                Value::Object(map) => map.get(&token),
                Value::Array(list) => list.get(token.parse::<usize>().ok()?),
                _ => None,
            }
        })
    }
}

/// Resolves a reference against a base, as in [RFC 3986, 5.2](https://www.rfc-editor.org/rfc/rfc3986#section-5.2), without
/// the fragment.
fn join(base: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    let scheme = |uri: &str| {
        let (scheme, _) = uri.split_once(':')?;
        let is_valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        is_valid.then_some(scheme.len() + 1)
    };
    if scheme(reference).is_some() {
        return reference.to_owned();
    }
    let after_scheme = scheme(base).unwrap_or_default();
    if reference.starts_with("//") {
        return format!("{}{reference}", &base[..after_scheme]);
    }
    let authority = base[after_scheme..].strip_prefix("//");
    let root = authority.map_or(after_scheme, |rest| after_scheme + 2 + rest.find('/').unwrap_or(rest.len()));
    let path = base[root..].split('?').next().unwrap_or_default();
    let merged = match path.rsplit_once('/') {
        _ if reference.is_empty() => path.to_owned(),
        _ if reference.starts_with('/') => reference.to_owned(),
        Some((directory, _)) => format!("{directory}/{reference}"),
        None if authority.is_some() => format!("/{reference}"),
        None => reference.to_owned(),
    };
    let mut segments: Vec<&str> = Vec::new();
    for segment in merged.split('/') {
        match segment {
            "." => {}
            ".." => drop(segments.pop_if(|last| !last.is_empty())),
            segment => segments.push(segment),
        }
    }
    format!("{}{}", &base[..root], segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_against_the_base() {
        for (base, reference, expected) in [
            ("", "item.json", "item.json"),
            ("", "https://example.com/a#", "https://example.com/a"),
            ("https://example.com/a/b.json", "c.json", "https://example.com/a/c.json"),
            ("https://example.com/a/b.json", "../c.json", "https://example.com/c.json"),
            ("https://example.com/a/b.json", "./c.json#x", "https://example.com/a/c.json"),
            ("https://example.com/a/b.json", "/c.json", "https://example.com/c.json"),
            ("https://example.com/a/b.json?q=/x", "c", "https://example.com/a/c"),
            ("https://example.com", "c", "https://example.com/c"),
            ("https://example.com/a/", "c/", "https://example.com/a/c/"),
            ("https://example.com/a", "//example.org/c", "https://example.org/c"),
            ("https://example.com/a", "b//c", "https://example.com/b//c"),
            ("https://example.com/a", "b/c:d", "https://example.com/b/c:d"),
            ("urn:uuid:1", "urn:uuid:2", "urn:uuid:2"),
            ("https://example.com/a", "", "https://example.com/a"),
        ] {
            assert_eq!(join(base, reference), expected, "{base} {reference}");
        }
    }

    #[test]
    fn references_to_renamed_definitions_lead_to_them() {
        let names = BTreeMap::from([("A b".to_owned(), "a%20~1/b~0".to_owned())]);
        for (reference, expected) in [
            ("#/$defs/A%20b", "#/$defs/a%2520~01~1b~00"),
            ("#/$defs/A b/items", "#/$defs/a%2520~01~1b~00/items"),
            ("#/$defs/A", "#/$defs/A"),
            ("#/properties/A b", "#/properties/A b"),
        ] {
            let mut renamed = reference.to_owned();
            rename(&mut renamed, &names);
            assert_eq!(renamed, expected);
        }
        assert_eq!(definition("#/$defs/a%2520~01~1b~00").as_ref(), names.values().next());
    }

    #[test]
    fn names_of_definitions_are_decoded() {
        for (reference, expected) in [
            ("#/$defs/Note", Some("Note")),
            ("#/$defs/A%20b", Some("A b")),
            ("#/$defs/a~1b~0c", Some("a/b~c")),
            ("#/$defs/%C3%BC", Some("ü")),
            ("#/$defs/100%", Some("100%")),
            ("#/$defs/%FF", None),
            ("#/$defs/Note/properties/a", None),
            ("#/properties/a", None),
            ("#", None),
        ] {
            assert_eq!(definition(reference).as_deref(), expected, "{reference}");
        }
    }
}

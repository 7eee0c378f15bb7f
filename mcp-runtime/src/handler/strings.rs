//! Arguments that arrive as strings: of a prompt, of a URI template, of a command line.

use std::borrow::Cow;

use serde_json::Value;

use super::Contract;
use crate::jsonrpc::{raw, write};

/// Brings strings into the JSON object that the contract's schema describes: `"5"` becomes `5` where a number is asked for.
///
/// What does not fit stays a string, so that the violation shows it as it came.
pub(crate) fn from_strings<'a>(
    contract: &Contract,
    strings: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> String {
    let mut out = vec![b'{'];
    for (name, text) in strings {
        let property = contract.schema.get("properties").and_then(|properties| properties.get(&*name));
        // Forms send an empty string for what was left empty.
        if text.is_empty() && !takes_strings(property) && !is_required(contract, &name) {
            continue;
        }
        super::reply::comma(&mut out);
        write::string(&mut out, &name);
        out.push(b':');
        match !takes_strings(property) && is_other_json(&text) {
            true => out.extend_from_slice(text.trim().as_bytes()),
            false => write::string(&mut out, &text),
        }
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

fn is_required(contract: &Contract, name: &str) -> bool {
    contract.schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// Says whether a schema allows a string, as far as its own keywords tell.
fn takes_strings(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => match schema.get("enum") {
            Some(Value::Array(values)) => values.iter().any(Value::is_string),
            _ => ["anyOf", "oneOf"]
                .iter()
                .find_map(|key| schema.get(key)?.as_array())
                .is_none_or(|branches| branches.iter().any(|branch| takes_strings(Some(branch)))),
        },
    }
}

fn is_other_json(text: &str) -> bool {
    raw::kind(text) != raw::Kind::String && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

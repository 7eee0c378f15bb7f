//! The message reader accepts and rejects what `serde_json` does, and returns the same parts.

#![no_main]

use fuzz::json::{self, Members};
use libfuzzer_sys::{Corpus, fuzz_target};
use mcp_runtime::fuzzing::{Parsed, parse};
use serde_json::value::RawValue;

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else { return Corpus::Reject };
    check(text);
    Corpus::Keep
});

fn check(text: &str) {
    let parsed = parse(text);
    if !json::is_json(text) {
        assert!(matches!(parsed, Parsed::Syntax), "not JSON, but {parsed:?}");
        return;
    }
    if let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(text) {
        let Parsed::Batch(messages) = parsed else { panic!("a batch, but {parsed:?}") };
        assert!(batch.iter().map(|message| message.get()).eq(messages.iter().map(String::as_str)));
        // The messages of a batch are read without being validated again.
        messages.iter().filter(|message| !message.starts_with('[')).for_each(|message| check(message));
        return;
    }
    let Some(members) = Members::read(text) else {
        // An object with a name that is not Unicode is not read as a map.
        assert!(matches!(parsed, Parsed::Invalid(None) | Parsed::Syntax) || text.contains("\\u"), "{parsed:?}");
        return;
    };
    if members.has_duplicate(&NAMES) {
        assert!(matches!(parsed, Parsed::Invalid(_)), "duplicate members, but {parsed:?}");
        return;
    }
    check_object(&members, parsed);
}

fn check_object(members: &Members<'_>, parsed: Parsed) {
    let get = |name| members.get(name);
    let is_version = get("jsonrpc") == Some(r#""2.0""#);
    let id = get("id").and_then(json::id);
    match &parsed {
        Parsed::Syntax | Parsed::Batch(_) => panic!("an object, but {parsed:?}"),
        Parsed::Invalid(found) => {
            assert!(found.is_none() || *found == id, "{found:?} is not {id:?}");
            let is_method = get("method").is_some();
            let is_request = is_method
                && get("method").and_then(json::string).is_some()
                && get("params")
                    .is_none_or(|params| params == "null" || params.starts_with('{') || get("id").is_none());
            let is_response = !is_method && (get("result").is_some() || get("error").is_some());
            let has_valid_id = get("id").is_none_or(|json| id.is_some() && (json.len() <= 1024 || !is_method));
            assert!(!(is_version && has_valid_id && (is_request || is_response)), "a valid message, but {parsed:?}");
        }
        Parsed::Request(found, method, params) => {
            assert!(is_version);
            assert_eq!(Some(found), id.as_ref());
            check_method(members, method, params.as_deref());
        }
        Parsed::Notification(method, params) => {
            assert!(is_version && get("id").is_none());
            check_method(members, method, params.as_deref());
        }
        Parsed::Response(found, body) => {
            assert!(get("method").is_none());
            assert_eq!(*found, id);
            match body {
                Ok(result) => assert_eq!((Some(result.as_str()), None), (get("result"), get("error"))),
                Err(error) => assert_eq!(Some(error.as_str()), get("error")),
            }
        }
    }
}

fn check_method(members: &Members<'_>, method: &str, params: Option<&[(String, String)]>) {
    assert_eq!(members.get("method").and_then(json::string).as_deref(), Some(method));
    // A notification is read without parameters that are not an object.
    let raw = members.get("params").filter(|params| params.starts_with('{'));
    assert_eq!(raw.is_some(), params.is_some());
    let Some((raw, params)) = raw.zip(params) else { return };
    // `serde_json` rejects names that are not Unicode; the reader yields them in escaped form.
    let Some(expected) = Members::read(raw) else { return assert!(raw.contains("\\u")) };
    let params = params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    assert!(expected.0.iter().map(|(name, value)| (name.as_str(), *value)).eq(params), "{expected:?}");
}

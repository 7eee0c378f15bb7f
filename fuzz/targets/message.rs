//! The message reader accepts and rejects what `serde_json` does, and returns the same parts.

#![no_main]

#[allow(dead_code, unused_imports, reason = "the target only reads messages")]
#[path = "../../mcp-runtime/src/jsonrpc/mod.rs"]
mod jsonrpc;

use std::borrow::Cow;

use fuzz::json::{self, Members};
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::value::RawValue;

use self::jsonrpc::{Id, Incoming, Malformed, Message, ResponseBody, Transmission};

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else { return Corpus::Reject };
    check(text);
    Corpus::Keep
});

fn check(text: &str) {
    let parsed = jsonrpc::parse(text);
    if !json::is_json(text) {
        assert!(matches!(parsed, Transmission::One(Err(Malformed::Parse(_)))), "not JSON");
        return;
    }
    if let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(text) {
        let Transmission::Batch(messages) = parsed else { panic!("a batch") };
        let messages: Vec<_> = messages.collect();
        assert!(batch.iter().map(|message| message.get()).eq(messages.iter().copied()));
        // The messages of a batch are read without being validated again.
        messages.iter().filter(|message| !message.starts_with('[')).for_each(|message| check(message));
        return;
    }
    let Transmission::One(parsed) = parsed else { panic!("not a batch") };
    let Some(members) = Members::read(text) else {
        // An object with a name that is not Unicode is not read as a map.
        let is_rejected = matches!(parsed, Err(Malformed::Invalid(None, _) | Malformed::Parse(_)));
        assert!(is_rejected || text.contains("\\u"), "not an object");
        return;
    };
    if members.has_duplicate(&NAMES) {
        assert!(matches!(parsed, Err(Malformed::Invalid(..))), "duplicate members");
        return;
    }
    check_object(&members, parsed);
}

fn check_object(members: &Members<'_>, parsed: Result<Incoming<'_>, Malformed>) {
    let get = |name| members.get(name);
    let is_version = get("jsonrpc") == Some(r#""2.0""#);
    let id = get("id").and_then(json::id);
    match parsed {
        Err(Malformed::Parse(error)) => panic!("an object, but {error}"),
        Err(Malformed::Invalid(found, reason)) => {
            assert!(found.is_none() || found.as_ref().map(Id::as_json) == id.as_deref(), "{found:?} is not {id:?}");
            let is_method = get("method").is_some();
            let is_request = is_method
                && get("method").and_then(json::string).is_some()
                && get("params")
                    .is_none_or(|params| params == "null" || params.starts_with('{') || get("id").is_none());
            let is_response = !is_method && (get("result").is_some() || get("error").is_some());
            let has_valid_id = get("id").is_none_or(|json| id.is_some() && (json.len() <= 1024 || !is_method));
            assert!(!(is_version && has_valid_id && (is_request || is_response)), "a valid message, but {reason}");
        }
        Ok(Incoming::Request(message, found)) => {
            assert!(is_version);
            assert_eq!(Some(found.as_json()), id.as_deref());
            check_message(members, &message);
        }
        Ok(Incoming::Notification(message)) => {
            assert!(is_version && get("id").is_none());
            check_message(members, &message);
        }
        Ok(Incoming::Response(found, body)) => {
            assert!(get("method").is_none());
            assert_eq!(found.as_ref().map(Id::as_json), id.as_deref());
            match body {
                ResponseBody::Result(result) => assert_eq!((Some(result), None), (get("result"), get("error"))),
                ResponseBody::Error(error) => assert_eq!(Some(error), get("error")),
            }
        }
    }
}

fn check_message(members: &Members<'_>, Message { method, params }: &Message<'_>) {
    assert_eq!(members.get("method").and_then(json::string).as_deref(), Some(&**method));
    // A notification is read without parameters that are not an object.
    let raw = members.get("params").filter(|params| params.starts_with('{'));
    assert_eq!(raw.is_some(), params.is_some());
    let Some((raw, params)) = raw.zip(params.as_ref()) else { return };
    // `serde_json` rejects names that are not Unicode; the reader yields them in escaped form.
    let Some(expected) = Members::read(raw) else { return assert!(raw.contains("\\u")) };
    let members = expected.0.iter().map(|(name, value)| (Cow::from(name.as_str()), *value));
    assert!(params.members().eq(members), "{expected:?}");
}

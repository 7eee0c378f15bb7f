//! Arbitrary input in arbitrary chunks: the server never panics, and answers every request exactly once with a message
//! that is valid in its revision.

use std::{cell::RefCell, collections::HashMap};

use mcp_runtime::Revision;
use mcp_tests::{schemas::Official, server};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A line of input.
#[derive(Debug, Clone)]
enum Line {
    /// A well-formed request with valid or invalid parameters.
    Request(usize),
    /// A request with some bytes changed.
    Mutated(usize, Vec<(usize, u8)>),
    /// A truncated request.
    Truncated(usize, usize),
    /// A request with the id of an earlier line.
    DuplicateId(usize, usize),
    /// Arbitrary bytes.
    Noise(Vec<u8>),
    Notification,
    Response,
    /// The cancellation of an earlier request.
    Cancel(usize),
    Batch(Vec<usize>),
}

/// Methods with valid and invalid parameters.
fn requests() -> Vec<(&'static str, Value)> {
    let mut requests = vec![
        ("ping", json!({})),
        ("server/discover", json!({})),
        (
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
        ),
        ("tools/list", json!({})),
        ("tools/list", json!({"cursor": "bad"})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("logging/setLevel", json!({"level": "debug"})),
        ("resources/read", json!({"uri": "test://item/3"})),
        ("resources/read", json!({"uri": "test://static"})),
        ("resources/read", json!({"uri": 3})),
        ("prompts/get", json!({"name": "review", "arguments": {"code": "x", "style": "formal"}})),
        ("prompts/get", json!({"name": "review", "arguments": {"code": 1}})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": "city", "value": ""}}),
        ),
        ("completion/complete", json!({"ref": 1})),
        ("unknown/method", json!({})),
    ];
    for (name, arguments) in [
        ("add", json!({"a": 1, "b": 2})),
        ("add", json!({"a": [], "z": {}})),
        ("echo", json!({"text": "\u{0}\u{2028}\" 🦀"})),
        ("constrained", json!({"style": "formal", "point": {"x": 1, "y": 2}})),
        // Not larger: with one byte changed, `1e99` can become too large for `Value` without being invalid JSON-RPC.
        ("constrained", json!({"style": 1, "count": 1e15, "tags": {}})),
        ("people", json!({})),
        ("contents", json!({})),
        ("whole", json!(null)),
        ("nothing", json!({})),
        ("fails", json!({})),
        ("panics", json!({})),
        ("panics_later", json!({})),
        ("wait", json!({"milliseconds": 1})),
        ("logs", json!({})),
        ("progress", json!({})),
        ("missing", json!({})),
    ] {
        let meta = json!({"progressToken": name, "io.modelcontextprotocol/logLevel": "info"});
        requests.push(("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta})));
    }
    requests
}

fn line() -> impl Strategy<Value = Line> {
    let index = || 0..requests().len();
    prop_oneof![
        6 => index().prop_map(Line::Request),
        3 => (index(), vec((any::<usize>(), any::<u8>()), 1..4)).prop_map(|(index, bytes)| Line::Mutated(index, bytes)),
        1 => (index(), any::<usize>()).prop_map(|(index, at)| Line::Truncated(index, at)),
        1 => (index(), any::<usize>()).prop_map(|(index, which)| Line::DuplicateId(index, which)),
        1 => vec(any::<u8>(), 0..60).prop_map(Line::Noise),
        1 => Just(Line::Notification),
        1 => Just(Line::Response),
        1 => any::<usize>().prop_map(Line::Cancel),
        1 => vec(index(), 0..4).prop_map(Line::Batch),
    ]
}

/// Builds a request with the `_meta` that its revision requires.
fn request(index: usize, id: usize, revision: Revision) -> Value {
    let (method, mut params) = requests().swap_remove(index);
    if revision.is_stateless() {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(revision.as_str());
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    json!({"jsonrpc": "2.0", "id": format!("r{id}"), "method": method, "params": params})
}

/// Returns the number of responses that a line must get, without using the engine's parser.
fn expected_responses(line: &[u8], revision: Revision) -> usize {
    let line = line.trim_ascii();
    if line.is_empty() {
        return 0;
    }
    let Some(value) = std::str::from_utf8(line).ok().and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return 1;
    };
    match value {
        Value::Array(_) if revision != Revision::V2025_03_26 => 1,
        Value::Array(batch) if batch.is_empty() => 1,
        Value::Array(batch) => {
            usize::from(batch.iter().any(|message| expected_responses(message.to_string().as_bytes(), revision) > 0))
        }
        Value::Object(message) => {
            let is_valid_id = message.get("id").is_none_or(|id| {
                id.is_string() || id.is_i64() || id.is_u64() || id.as_f64().is_some_and(|id| id.fract() == 0.0)
            });
            let is_method = message.contains_key("method");
            if !is_valid_id {
                return usize::from(is_method || !message.contains_key("error"));
            }
            let is_valid = message.get("jsonrpc") == Some(&json!("2.0"))
                && match message.get("method") {
                    Some(method) => method.is_string(),
                    None => message.contains_key("result") || message.contains_key("error"),
                }
                && (!is_method || message.get("params").is_none_or(|params| params.is_object() || params.is_null()));
            usize::from(!is_valid || (is_method && message.contains_key("id")))
        }
        _ => 1,
    }
}

/// Returns the ids and methods of the requests that must be answered.
///
/// A mutation can change the id of a line, which may then equal that of another line.
fn requests_in(line: &[u8], revision: Revision) -> Vec<(String, String)> {
    match serde_json::from_slice(line) {
        Ok(Value::Array(batch)) if revision == Revision::V2025_03_26 => {
            batch.iter().flat_map(|message| requests_in(message.to_string().as_bytes(), revision)).collect()
        }
        Ok(Value::Object(message)) if expected_responses(line, revision) == 1 => {
            let id = message.get("id").and_then(Value::as_str);
            let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
            id.map(|id| (id.to_owned(), method.to_owned())).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

thread_local! {
    static OFFICIAL: RefCell<HashMap<Revision, Option<Official>>> = RefCell::new(HashMap::new());
}

fn check(revision: Revision, script: &[Line], pieces: &[usize]) -> Result<(), TestCaseError> {
    let mut input = Vec::new();
    // The methods of all lines with an id.
    let mut methods: HashMap<String, Vec<String>> = HashMap::new();
    // The number of cancellations of each request.
    let mut cancelled: HashMap<String, usize> = HashMap::new();
    let mut expected = 0;
    if !revision.is_stateless() {
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params});
        methods.insert("init".to_owned(), vec!["initialize".to_owned()]);
        input.extend(format!("{initialize}\n").into_bytes());
        expected += 1;
    }
    for (position, generated) in script.iter().enumerate() {
        let mut line = match generated {
            Line::Request(index) => request(*index, position, revision).to_string().into_bytes(),
            // These exist in some revisions only, so a mutation of their version or parameters could make them valid in
            // another revision.
            Line::Mutated(index, _) | Line::Truncated(index, _)
                if ["initialize", "ping"].contains(&requests()[*index].0) =>
            {
                continue;
            }
            Line::Mutated(index, changes) => {
                let mut line = request(*index, position, revision).to_string().into_bytes();
                for (at, byte) in changes {
                    let at = at % line.len();
                    line[at] = *byte;
                }
                line
            }
            Line::Truncated(index, at) => {
                let mut line = request(*index, position, revision).to_string().into_bytes();
                line.truncate(at % line.len());
                line
            }
            Line::DuplicateId(index, which) => {
                request(*index, which % (position + 1), revision).to_string().into_bytes()
            }
            Line::Noise(bytes) => bytes.clone(),
            Line::Notification => br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec(),
            Line::Response => br#"{"jsonrpc":"2.0","id":5,"result":{}}"#.to_vec(),
            Line::Cancel(which) => {
                let id = format!("r{}", which % (position + 1));
                if methods.contains_key(&id) {
                    *cancelled.entry(id.clone()).or_default() += 1;
                }
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                    .to_string()
                    .into_bytes()
            }
            Line::Batch(indexes) => {
                let batch = indexes
                    .iter()
                    .enumerate()
                    .map(|(offset, index)| request(*index, 1000 * (position + 1) + offset, revision));
                Value::Array(batch.collect()).to_string().into_bytes()
            }
        };
        line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        expected += expected_responses(&line, revision);
        for (id, method) in requests_in(&line, revision) {
            methods.entry(id).or_default().push(method);
        }
        input.append(&mut line);
        input.push(b'\n');
    }

    let output = exchange(&input, pieces);
    let mut answered = 0;
    let mut seen: HashMap<String, usize> = HashMap::new();
    for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line)
            .map_err(|error| TestCaseError::fail(format!("{error}: {}", String::from_utf8_lossy(line))))?;
        let responses = message.as_array().cloned().unwrap_or_else(|| vec![message.clone()]);
        if message.get("method").is_none() {
            answered += 1;
        }
        for id in responses
            .iter()
            .filter(|response| response.get("method").is_none())
            .filter_map(|response| response["id"].as_str())
        {
            *seen.entry(id.to_owned()).or_default() += 1;
        }
        let method = match message["id"].as_str().and_then(|id| methods.get(id)).map(Vec::as_slice) {
            Some([method]) => Some(method.as_str()),
            _ => None,
        };
        let problems = OFFICIAL.with_borrow_mut(|official| {
            let official = official.entry(revision).or_insert_with(|| Official::load(revision));
            official.as_mut().map_or(Vec::new(), |official| official.problems(&message, method))
        });
        prop_assert!(problems.is_empty(), "{revision}: {problems:?} in {message}");
    }
    let mut dropped = 0;
    for (id, lines) in &methods {
        let (times, lines) = (seen.get(id).copied().unwrap_or_default(), lines.len());
        // A request that was cancelled in time has no response.
        let cancelled = cancelled.get(id).copied().unwrap_or_default();
        prop_assert!(
            times <= lines && times + cancelled >= lines,
            "{revision}: {id} was sent {lines} times, cancelled {cancelled} times and answered {times} times\ninput:\n{}\noutput:\n{}",
            String::from_utf8_lossy(&input),
            String::from_utf8_lossy(&output)
        );
        dropped += lines - times;
    }
    prop_assert!(
        answered + dropped == expected,
        "{revision}: {answered} responses and {dropped} cancelled, expected {expected}\ninput:\n{}\noutput:\n{}",
        String::from_utf8_lossy(&input),
        String::from_utf8_lossy(&output)
    );
    Ok(())
}

/// Sends the bytes in pieces of these sizes, and returns all output.
fn exchange(input: &[u8], pieces: &[usize]) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(97);
        let (reader, writer) = tokio::io::split(far);
        let (mut from_server, mut to_server) = tokio::io::split(near);
        let mut output = Vec::new();
        let send = async {
            let mut rest = input;
            for size in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, more) = rest.split_at((*size).min(rest.len()));
                to_server.write_all(piece).await.unwrap();
                rest = more;
            }
            to_server.shutdown().await.unwrap();
        };
        let serve = async {
            let mut writer = writer;
            server().serve(reader, &mut writer).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let (_, _, read) = tokio::join!(send, serve, from_server.read_to_end(&mut output));
        read.unwrap();
        output
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_exactly_one_response(
        script in vec(line(), 1..25),
        pieces in vec(1usize..400, 1..8),
        revision in proptest::sample::select(Revision::ALL.to_vec()),
    ) {
        check(revision, &script, &pieces)?;
    }
}

//! Whatever bytes come, in whatever pieces: never a panic, never two answers, never none, never one that its revision
//! does not allow.

use std::{cell::RefCell, collections::HashMap};

use mcp_runtime::Revision;
use mcp_tests::{schemas::Official, server};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A line that is sent.
#[derive(Debug, Clone)]
enum Sent {
    /// A request that is well-formed, whatever its parameters are.
    Request(usize),
    /// The same with some bytes changed.
    Mutated(usize, Vec<(usize, u8)>),
    /// The same, cut off.
    Cut(usize, usize),
    /// The same, with the id of one of the lines before.
    Again(usize, usize),
    /// Anything.
    Noise(Vec<u8>),
    Notification,
    Response,
    /// Takes back one of the requests before.
    Cancel(usize),
    Batch(Vec<usize>),
}

/// Methods and parameters, good and bad.
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
        // No larger: with one byte changed `1e99` can be too large for `Value`, and no error of JSON-RPC.
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

fn sent() -> impl Strategy<Value = Sent> {
    let index = || 0..requests().len();
    prop_oneof![
        6 => index().prop_map(Sent::Request),
        3 => (index(), vec((any::<usize>(), any::<u8>()), 1..4)).prop_map(|(index, bytes)| Sent::Mutated(index, bytes)),
        1 => (index(), any::<usize>()).prop_map(|(index, at)| Sent::Cut(index, at)),
        1 => (index(), any::<usize>()).prop_map(|(index, which)| Sent::Again(index, which)),
        1 => vec(any::<u8>(), 0..60).prop_map(Sent::Noise),
        1 => Just(Sent::Notification),
        1 => Just(Sent::Response),
        1 => any::<usize>().prop_map(Sent::Cancel),
        1 => vec(index(), 0..4).prop_map(Sent::Batch),
    ]
}

/// Writes a request as its revision wants it.
fn request(index: usize, id: usize, revision: Revision) -> Value {
    let (method, mut params) = requests().swap_remove(index);
    if revision.is_stateless() {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(revision.as_str());
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    json!({"jsonrpc": "2.0", "id": format!("r{id}"), "method": method, "params": params})
}

/// How many answers a line must get, found out without the engine's own parser.
fn answers(line: &[u8], revision: Revision) -> usize {
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
            usize::from(batch.iter().any(|message| answers(message.to_string().as_bytes(), revision) > 0))
        }
        Value::Object(message) => {
            let good_id = message.get("id").is_none_or(|id| {
                id.is_string() || id.is_i64() || id.is_u64() || id.as_f64().is_some_and(|id| id.fract() == 0.0)
            });
            let is_method = message.contains_key("method");
            if !good_id {
                return usize::from(is_method || !message.contains_key("error"));
            }
            let good = message.get("jsonrpc") == Some(&json!("2.0"))
                && match message.get("method") {
                    Some(method) => method.is_string(),
                    None => message.contains_key("result") || message.contains_key("error"),
                }
                && (!is_method || message.get("params").is_none_or(|params| params.is_object() || params.is_null()));
            usize::from(!good || (is_method && message.contains_key("id")))
        }
        _ => 1,
    }
}

/// The ids and the methods of what must be answered.
///
/// The changed bytes of a line can be those of its id, and then it may have that of another line.
fn asked(line: &[u8], revision: Revision) -> Vec<(String, String)> {
    match serde_json::from_slice(line) {
        Ok(Value::Array(batch)) if revision == Revision::V2025_03_26 => {
            batch.iter().flat_map(|message| asked(message.to_string().as_bytes(), revision)).collect()
        }
        Ok(Value::Object(message)) if answers(line, revision) == 1 => {
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

fn check(revision: Revision, script: &[Sent], pieces: &[usize]) -> Result<(), TestCaseError> {
    let mut input = Vec::new();
    // Of every id, the methods of the lines that have it.
    let mut methods: HashMap<String, Vec<String>> = HashMap::new();
    // How often a request that was sent was taken back.
    let mut cancelled: HashMap<String, usize> = HashMap::new();
    let mut expected = 0;
    if !revision.is_stateless() {
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params});
        methods.insert("init".to_owned(), vec!["initialize".to_owned()]);
        input.extend(format!("{initialize}\n").into_bytes());
        expected += 1;
    }
    for (position, sent) in script.iter().enumerate() {
        let mut line = match sent {
            Sent::Request(index) => request(*index, position, revision).to_string().into_bytes(),
            // A changed one of these may mean something in another revision than the one that is looked at.
            Sent::Mutated(index, _) | Sent::Cut(index, _) if ["initialize", "ping"].contains(&requests()[*index].0) => {
                continue;
            }
            Sent::Mutated(index, changes) => {
                let mut line = request(*index, position, revision).to_string().into_bytes();
                for (at, byte) in changes {
                    let at = at % line.len();
                    line[at] = *byte;
                }
                line
            }
            Sent::Cut(index, at) => {
                let mut line = request(*index, position, revision).to_string().into_bytes();
                line.truncate(at % line.len());
                line
            }
            Sent::Again(index, which) => request(*index, which % (position + 1), revision).to_string().into_bytes(),
            Sent::Noise(bytes) => bytes.clone(),
            Sent::Notification => br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec(),
            Sent::Response => br#"{"jsonrpc":"2.0","id":5,"result":{}}"#.to_vec(),
            Sent::Cancel(which) => {
                let id = format!("r{}", which % (position + 1));
                if methods.contains_key(&id) {
                    *cancelled.entry(id.clone()).or_default() += 1;
                }
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                    .to_string()
                    .into_bytes()
            }
            Sent::Batch(indexes) => {
                let batch = indexes
                    .iter()
                    .enumerate()
                    .map(|(offset, index)| request(*index, 1000 * (position + 1) + offset, revision));
                Value::Array(batch.collect()).to_string().into_bytes()
            }
        };
        line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        expected += answers(&line, revision);
        for (id, method) in asked(&line, revision) {
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
        // A request that was cancelled in time has no answer.
        let cancelled = cancelled.get(id).copied().unwrap_or_default();
        prop_assert!(
            times <= lines && times + cancelled >= lines,
            "{revision}: {id} was asked {lines} times, cancelled {cancelled} times and answered {times} times, to\n{}\nnamely\n{}",
            String::from_utf8_lossy(&input),
            String::from_utf8_lossy(&output)
        );
        dropped += lines - times;
    }
    prop_assert!(
        answered + dropped == expected,
        "{revision}: {answered} answers and {dropped} cancelled, {expected} expected, to\n{}\nnamely\n{}",
        String::from_utf8_lossy(&input),
        String::from_utf8_lossy(&output)
    );
    Ok(())
}

/// Sends the bytes in pieces of these sizes, and gives everything that came back.
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
    fn every_message_gets_exactly_one_answer(
        script in vec(sent(), 1..25),
        pieces in vec(1usize..400, 1..8),
        revision in proptest::sample::select(Revision::ALL.to_vec()),
    ) {
        check(revision, &script, &pieces)?;
    }
}

//! Arbitrary input in arbitrary chunks: the server never panics, and answers every request exactly once with a message
//! that is valid in its revision.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use mcp_runtime::{Context, Elicit, Fault, Revision, ask::SampleRequest, tool};
use mcp_tests::{messages, schemas::Official, server};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    sync::mpsc,
};

#[derive(Debug, Elicit)]
struct Confirm {
    sure: bool,
}

/// Ask the user twice.
#[tool]
async fn confirms(ctx: &Context) -> Result<String, Fault> {
    let mut sure = Vec::new();
    for (key, message) in [("first", "Sure?"), ("second", "Really?")] {
        sure.push(ctx.elicit::<Confirm>(key, message).await?.accepted().map(|form| form.sure));
    }
    Ok(format!("{sure:?}"))
}

/// Ask the model.
#[tool]
async fn samples(ctx: &Context) -> Result<String, Fault> {
    Ok(ctx.sample(SampleRequest::new("Hello")).await?.text())
}

/// Ask for the roots.
#[tool]
async fn lists_roots(ctx: &Context) -> Result<String, Fault> {
    Ok(format!("{} roots", ctx.roots().await?.len()))
}

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
    /// A response with one of the [`answers`] to a request that the server may have sent.
    Response(u64, usize),
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
        ("confirms", json!({})),
        ("samples", json!({})),
        ("lists_roots", json!({})),
    ] {
        let meta = json!({"progressToken": name, "io.modelcontextprotocol/logLevel": "info"});
        requests.push(("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta})));
    }
    // In 2026-07-28, a repeated call contains answers. Other revisions ignore them.
    for answers in [json!({"first": accept()}), json!({"first": accept(), "second": accept()}), json!({"first": 7})] {
        requests.push(("tools/call", json!({"name": "confirms", "inputResponses": answers})));
    }
    requests
}

fn accept() -> Value {
    json!({"action": "accept", "content": {"sure": true}})
}

/// Valid and invalid outcomes of the server's requests. Each fits at most one kind of request.
fn answers() -> Vec<Value> {
    let text = json!({"type": "text", "text": "Paris"});
    vec![
        json!({"result": accept()}),
        json!({"result": {"role": "assistant", "content": text, "model": "m", "stopReason": "endTurn"}}),
        json!({"result": {"roots": [{"uri": "file:///a"}]}}),
        json!({"result": {"action": "decline"}}),
        json!({"result": {}}),
        json!({"result": 7}),
        json!({"error": {"code": -1, "message": "no"}}),
        json!({"error": "no"}),
    ]
}

fn respond(id: &Value, answer: usize) -> Value {
    let mut response = answers().swap_remove(answer);
    response["jsonrpc"] = json!("2.0");
    response["id"] = id.clone();
    response
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
        1 => (1u64..6, 0..answers().len()).prop_map(|(id, answer)| Line::Response(id, answer)),
        1 => any::<usize>().prop_map(Line::Cancel),
        1 => vec(index(), 0..4).prop_map(Line::Batch),
    ]
}

fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

/// Builds a request with the `_meta` that its revision requires.
fn request(index: usize, id: usize, revision: Revision) -> Value {
    let (method, mut params) = requests().swap_remove(index);
    if revision.is_stateless() {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(revision.as_str());
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities();
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
        Value::Array(_) if !mcp_tests::expected(revision).batches => 1,
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
                && (!message.contains_key("id")
                    || !is_method
                    || message.get("params").is_none_or(|params| params.is_object() || params.is_null()));
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
        Ok(Value::Array(batch)) if mcp_tests::expected(revision).batches => {
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

/// Sends the lines, then answers the requests of the server, each with the next of `answers`. Returns the number of
/// these requests.
fn check(revision: Revision, script: &[Line], pieces: &[usize], answers: &[usize]) -> Result<usize, TestCaseError> {
    let mut input = Vec::new();
    // The methods of all lines with an id.
    let mut methods: HashMap<String, Vec<String>> = HashMap::new();
    // The number of cancellations of each request.
    let mut cancelled: HashMap<String, usize> = HashMap::new();
    let mut expected = 0;
    if !revision.is_stateless() {
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities(), "clientInfo": {"name": "x", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params});
        methods.insert("init".to_owned(), vec!["initialize".to_owned()]);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        input.extend(format!("{initialize}\n{initialized}\n").into_bytes());
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
            Line::Response(id, answer) => respond(&json!(id), *answer).to_string().into_bytes(),
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

    let output = exchange(&input, pieces, answers);
    // A stateless script may open a session, to which mutated requests then belong.
    let is_pure = !revision.is_stateless() || !methods.values().flatten().any(|method| method == "initialize");
    let mut answered = 0;
    let (mut asked, mut withdrawn) = (0, HashSet::new());
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
        let problems = Official::load(revision).map_or(Vec::new(), |official| official.problems(&message, method));
        prop_assert!(problems.is_empty(), "{revision}: {problems:?} in {message}");
        if is_pure {
            let problems = messages::problems(&message, revision, method);
            prop_assert!(problems.is_empty(), "{revision}: {problems:?} in {message}");
        }
        match message["method"].as_str() {
            Some("notifications/cancelled") => {
                let id = message["params"]["requestId"].as_u64();
                let is_own = id.is_some_and(|id| (1..=asked).contains(&id) && withdrawn.insert(id));
                prop_assert!(is_own, "{revision}: {message} names no request of the server");
            }
            Some(_) if message.get("id").is_some() => {
                asked += 1;
                prop_assert_eq!(message["id"].as_u64(), Some(asked), "{}: {}", revision, message);
            }
            _ => {}
        }
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
    Ok(usize::try_from(asked).unwrap())
}

/// Sends the bytes in pieces of these sizes, answers the requests of the server, and returns all output.
fn exchange(input: &[u8], pieces: &[usize], answers: &[usize]) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(97);
        let (reader, writer) = tokio::io::split(far);
        let (from_server, mut to_server) = tokio::io::split(near);
        let (ask, mut asked) = mpsc::unbounded_channel();
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
            let mut answers = answers.iter().cycle();
            // The clock is paused: the time passes only when the server has nothing left to do.
            while let Ok(Some(id)) = tokio::time::timeout(Duration::from_secs(1), asked.recv()).await {
                let response = respond(&id, *answers.next().unwrap());
                to_server.write_all(format!("{response}\n").as_bytes()).await.unwrap();
            }
            to_server.shutdown().await.unwrap();
        };
        let serve = async {
            let mut writer = writer;
            let server = server().with::<confirms>().with::<samples>().with::<lists_roots>();
            server.serve(reader, &mut writer).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let receive = async {
            let (mut output, mut reader) = (Vec::new(), BufReader::new(from_server));
            loop {
                let start = output.len();
                if reader.read_until(b'\n', &mut output).await.unwrap() == 0 {
                    return output;
                }
                let message: Value = serde_json::from_slice(&output[start..]).unwrap_or_default();
                if message.get("method").is_some() && message.get("id").is_some() {
                    ask.send(message["id"].clone()).unwrap();
                }
            }
        };
        let (_, _, output) = tokio::join!(send, serve, receive);
        output
    })
}

/// The server of the property asks its client, where a revision permits it.
#[test]
fn questions_are_asked_and_answered() {
    let calls: Vec<_> = requests()
        .iter()
        .enumerate()
        .filter(|(_, (_, params))| ["confirms", "samples", "lists_roots"].map(Value::from).contains(&params["name"]))
        .map(|(index, _)| Line::Request(index))
        .collect();
    assert_eq!(calls.len(), 6);
    for (revision, expected) in Revision::ALL.into_iter().zip([2, 2, 10, 10, 0]) {
        assert_eq!(check(revision, &calls, &[50], &[0]).unwrap(), expected, "{revision}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_exactly_one_response(
        script in vec(line(), 1..25),
        pieces in vec(1usize..400, 1..8),
        answers in vec(0..answers().len(), 1..4),
        revision in proptest::sample::select(Revision::ALL.to_vec()),
    ) {
        check(revision, &script, &pieces, &answers)?;
    }
}

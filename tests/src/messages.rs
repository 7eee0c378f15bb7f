//! Rules that every message of the server must follow, beyond the official schemas.

use mcp_runtime::Revision;
use serde_json::Value;

/// The requests whose results may ask for input.
const ASKING: [&str; 3] = ["tools/call", "resources/read", "prompts/get"];

/// Returns what is wrong with a message of the server to a client without extensions. `method` is that of the request,
/// if the message is a response.
pub fn problems(message: &Value, revision: Revision, method: Option<&str>) -> Vec<String> {
    if let Value::Array(batch) = message {
        return batch.iter().flat_map(|message| problems(message, revision, None)).collect();
    }
    let mut problems = Vec::new();
    if message["jsonrpc"] != "2.0" {
        problems.push("`jsonrpc` is not \"2.0\"".to_owned());
    }
    let outcomes: Vec<_> =
        ["method", "result", "error"].into_iter().filter(|member| message.get(member).is_some()).collect();
    match outcomes[..] {
        ["method"] if revision.is_stateless() && message.get("id").is_some() => {
            problems.push("the server sends a request".to_owned());
        }
        ["method"] => {}
        ["result"] => problems.extend(result_problem(&message["result"], revision, method)),
        ["error"] => problems.extend(error_problem(&message["error"], revision)),
        _ => problems.push(format!("expected one of `method`, `result` and `error`, found {outcomes:?}")),
    }
    problems
}

fn result_problem(result: &Value, revision: Revision, method: Option<&str>) -> Option<String> {
    if !revision.is_stateless() {
        return (!result.is_object()).then(|| "the result is not an object".to_owned());
    }
    match result["resultType"].as_str() {
        Some("complete") => None,
        Some("input_required") if method.is_none_or(|method| ASKING.contains(&method)) => None,
        other => Some(format!("unexpected result type {other:?} of {method:?}")),
    }
}

/// See [Error codes](https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes).
fn error_problem(error: &Value, revision: Revision) -> Option<String> {
    let Some(code) = error["code"].as_i64() else { return Some("the error code is not an integer".to_owned()) };
    let is_reserved = (-32768..=-32000).contains(&code);
    if is_reserved && !crate::expected(revision).reserved_codes.contains(&code) {
        return Some(format!("the code {code} is reserved and not defined in {revision}"));
    }
    (!error["message"].is_string()).then(|| "the error has no message".to_owned())
}

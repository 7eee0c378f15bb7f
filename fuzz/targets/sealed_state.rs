//! A state of 2026-07-28 that is not what the server sealed, or belongs to another call, never opens.
//!
//! The first byte of an input selects a state to start from, the second a call, and the rest either replaces the state
//! or changes bytes of it.

#![no_main]

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use libfuzzer_sys::{Corpus, fuzz_target};
use mcp_runtime::{BuiltServer, Context, Elicit, Fault, Revision, Server, StateKey, tool};
use serde_json::{Value, json};

/// Whether the calls are those of the fuzzer, which must not obtain the receipt of an earlier call.
static IS_ATTACKED: AtomicBool = AtomicBool::new(false);

/// The answer of the user.
#[derive(Debug, Elicit)]
struct Confirm {
    sure: bool,
}

/// Transfer money.
#[tool]
async fn transfer(ctx: &Context, to: String) -> Result<String, Fault> {
    let receipt = ctx.once("receipt", async { receipt().to_owned() }).await?;
    let first = ctx.elicit::<Confirm>("first", format!("To {to}?")).await?.accepted();
    let second = ctx.elicit::<Confirm>("second", "Really?").await?.accepted();
    let is_sure = first.zip(second).is_some_and(|(first, second)| first.sure && second.sure);
    Ok(format!("{receipt} {is_sure}"))
}

/// Transfer nothing, but ask the same.
#[tool]
async fn pretend(ctx: &Context, to: String) -> Result<String, Fault> {
    transfer(ctx, to).await
}

fn receipt() -> &'static str {
    if IS_ATTACKED.load(Ordering::Relaxed) { "forged" } else { "genuine" }
}

/// A call, and a state with which it continues.
struct Sealed {
    call: usize,
    state: String,
}

const CALLS: [(&str, &str); 3] = [("transfer", "ada"), ("transfer", "eve"), ("pretend", "ada")];

struct Fixture {
    server: BuiltServer,
    sealed: Vec<Sealed>,
}

impl Fixture {
    fn new() -> Self {
        let server = Server::new("bank", "1.0.0").state_keys([StateKey::new([1; 32]), StateKey::new([2; 32])]);
        let server = server.build().unwrap_or_else(|error| panic!("{error}"));
        let mut fixture = Self { server, sealed: Vec::new() };
        for call in 0..CALLS.len() {
            let mut state = None;
            for answers in [json!({}), json!({"first": accept()})] {
                let result = fixture.call(call, &answers, state.as_deref());
                let next = result["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
                fixture.sealed.push(Sealed { call, state: next.clone() });
                state = Some(next);
            }
        }
        IS_ATTACKED.store(true, Ordering::Relaxed);
        fixture
    }

    fn call(&self, call: usize, answers: &Value, state: Option<&str>) -> Value {
        let (name, to) = CALLS[call];
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
        });
        let mut params = json!({"name": name, "arguments": {"to": to}, "inputResponses": answers, "_meta": meta});
        if let Some(state) = state {
            params["requestState"] = state.into();
        }
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut responses = self.server.test_client(Revision::V2026_07_28).send_raw(request.to_string().as_bytes());
        assert_eq!(responses.len(), 1, "{responses:?}");
        responses.remove(0)
    }
}

fn accept() -> Value {
    json!({"action": "accept", "content": {"sure": true}})
}

fuzz_target!(|data: &[u8]| -> Corpus {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    let fixture = FIXTURE.get_or_init(Fixture::new);
    let Some(([base, call], rest)) = data.split_first_chunk() else { return Corpus::Reject };
    let call = usize::from(*call) % CALLS.len();
    let base = fixture.sealed.get(usize::from(*base));
    let state = match base {
        None => String::from_utf8_lossy(rest).into_owned(),
        Some(sealed) => {
            let mut state = sealed.state.clone().into_bytes();
            for change in rest.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % (state.len() + 1);
                match state.get_mut(at) {
                    Some(byte) => *byte = change[2] & 0x7f,
                    None => state.push(change[2] & 0x7f),
                }
            }
            String::from_utf8(state).expect("ASCII")
        }
    };
    let is_genuine = fixture.sealed.iter().any(|sealed| sealed.state == state && sealed.call == call);
    let response = fixture.call(call, &json!({"first": accept(), "second": accept()}), Some(&state));
    let result = &response["result"];
    if is_genuine {
        // The second state knows the first answer, and the first one neither question that has not been asked yet.
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text == "genuine true" || result["resultType"] == "input_required", "{response}");
    } else {
        // A state without answers and values needs no seal: the call starts over, or asks.
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let is_rejected = response["error"]["code"] == -32602;
        assert!(is_rejected || result["resultType"] == "input_required" || text.starts_with("forged"), "{response}");
    }
    Corpus::Keep
});

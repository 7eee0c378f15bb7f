//! Recommendations of the specification that no other test covers. `requirements.md` names these tests.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use mcp_runtime::{Context, Elicit, Fault, Revision, Server, ask::Answer, prompt, testing::TestClient, tool};
use serde_json::{Value, json};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::layers::log::set_default;

#[derive(Debug, Elicit)]
struct Confirm {
    sure: bool,
}

/// Say hello.
#[tool]
fn greet() -> &'static str {
    "hello"
}

/// Ask before doing something.
#[tool]
async fn confirm(ctx: &Context) -> Result<String, Fault> {
    let answer = ctx.elicit::<Confirm>("confirm", "Sure?").await?;
    Ok(match answer {
        Answer::Accept(Confirm { sure }) => format!("sure: {sure}"),
        Answer::Decline | Answer::Cancel => "no".to_owned(),
    })
}

/// Fail.
#[prompt]
fn broken() -> Result<String, fmt::Error> {
    Err(fmt::Error)
}

fn connect(revision: Revision) -> TestClient {
    Server::empty("specification", "1.0.0").with::<greet>().with::<confirm>().with::<broken>().test_client(revision)
}

#[tokio::test]
async fn tool_names_are_case_sensitive() {
    for revision in Revision::ALL {
        let mut client = connect(revision);
        assert_eq!(client.call("greet", json!({})).await.unwrap().text(), "hello", "{revision}");
        for name in ["Greet", "GREET"] {
            assert_eq!(client.call(name, json!({})).await.unwrap_err().code, -32602, "{revision}: {name}");
        }
    }
}

#[tokio::test]
async fn prompts_report_internal_errors() {
    for revision in Revision::ALL {
        let error = connect(revision).prompt("broken", json!({})).await.unwrap_err();
        assert_eq!(error.code, -32603, "{revision}");
    }
}

#[tokio::test]
async fn unexpected_input_responses_are_ignored() {
    let mut client = connect(Revision::V2026_07_28);
    let mut call = async |responses: Value| {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let params = json!({"name": "confirm", "_meta": meta, "inputResponses": responses});
        client.request("tools/call", params).await.unwrap()
    };
    let accepted = json!({"action": "accept", "content": {"sure": true}});
    // An unknown key neither answers the question nor prevents its answer.
    for (responses, result_type) in [
        (json!({"unknown": accepted, "other": 7}), "input_required"),
        (json!({"unknown": 7, "confirm": accepted}), "complete"),
    ] {
        assert_eq!(call(responses.clone()).await["resultType"], result_type, "{responses}");
    }
}

/// The fields of every event, as `name=value`.
#[derive(Debug, Clone, Default)]
struct Fields(Arc<Mutex<Vec<String>>>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.lock().unwrap().push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for Fields {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn the_reason_of_a_cancellation_is_logged() {
    for revision in Revision::ALL {
        let mut client = connect(revision);
        let fields = Fields::default();
        let guard = set_default(fields.clone());
        client.notify("notifications/cancelled", json!({"requestId": 7, "reason": "the user lost patience"}));
        drop(guard);
        let logged = fields.0.lock().unwrap();
        let is_reason = |field: &String| field.starts_with("reason=") && field.contains("the user lost patience");
        assert!(logged.iter().any(is_reason), "{revision}: {logged:?}");
    }
}

//! Layers around functions that send requests to the client.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    Context, Elicit, Fault, Revision, Server,
    ask::Answer,
    layers::{CacheReadOnly, MaskErrors},
    tool,
};
use serde_json::json;

use super::{Events, Runs, Watch};

#[derive(Debug, Elicit)]
struct Name {
    name: String,
}

/// Greet the user.
#[tool(read_only)]
async fn greet(ctx: &Context, runs: &Runs) -> Result<String, Fault> {
    runs.count();
    Ok(match ctx.elicit::<Name>("name", "Who are you?").await? {
        Answer::Accept(form) => format!("hello {}", form.name),
        Answer::Decline | Answer::Cancel => "hello".to_owned(),
    })
}

/// Requests to the client pass through, and results that depend on their answers are not cached.
#[tokio::test]
async fn requests_to_the_client_pass_through() {
    for (revision, seen) in
        [(Revision::V2025_11_25, &["success"][..]), (Revision::V2026_07_28, &["input_required", "success"])]
    {
        let (events, runs) = (Events::default(), Arc::new(Runs::default()));
        let cache = CacheReadOnly::new(Duration::from_secs(60)).per_key(|_| String::new());
        let server = Server::empty("layers", "1.0.0")
            .with::<greet>()
            .with_shared(Arc::clone(&runs))
            .layer(Watch("a", events.clone()))
            .layer(MaskErrors::new())
            .layer(cache);
        let mut names = ["Ada", "Grace"].into_iter();
        let client = server.test_client(revision);
        let mut client = client.answering(move |_| json!({"action": "accept", "content": {"name": names.next()}}));
        for name in ["Ada", "Grace"] {
            assert_eq!(client.call("greet", ()).await.unwrap().text(), format!("hello {name}"));
            let statuses: Vec<_> = events.take().into_iter().filter(|line| line.starts_with("a <")).collect();
            let expected: Vec<_> = seen.iter().map(|status| format!("a < greet {status}")).collect();
            assert_eq!(statuses, expected, "{revision}");
        }
        assert_eq!(runs.total(), 2 * seen.len());
    }
}

/// Greet the user, except when the function runs for the second time.
#[tool(read_only)]
async fn greet_or_not(ctx: &Context, runs: &Runs) -> Result<String, Fault> {
    runs.count();
    if runs.total() == 2 {
        return Ok("nobody".to_owned());
    }
    let name = ctx.elicit::<Name>("name", "Who are you?").await?.accepted();
    Ok(name.map_or_else(String::new, |form| form.name))
}

/// The result of another call does not answer a question's second round, although the arguments are the same.
#[tokio::test]
async fn a_later_round_is_not_answered_from_the_cache() {
    // A client may omit the state. Without answers, the question is asked again.
    for (has_state, has_answers) in [(true, true), (false, true), (true, false)] {
        let cache = CacheReadOnly::new(Duration::from_secs(60)).per_key(|_| String::new());
        let server = Server::empty("layers", "1.0.0").with::<greet_or_not>().with_shared(Arc::<Runs>::default());
        let mut client = server.layer(cache).test_client(Revision::V2026_07_28);
        let mut params = json!({"name": "greet_or_not", "arguments": {}});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
        let first = client.request("tools/call", params.clone()).await.unwrap();
        assert_eq!(first["resultType"], "input_required");
        let other = client.request("tools/call", params.clone()).await.unwrap();
        assert_eq!(other["content"][0]["text"], "nobody");
        if has_state {
            params["requestState"] = first["requestState"].clone();
        }
        if has_answers {
            params["inputResponses"] = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
        }
        let second = client.request("tools/call", params).await.unwrap();
        let expected =
            if has_answers { (json!("complete"), json!("Ada")) } else { (json!("input_required"), json!(null)) };
        let shown = (second["resultType"].clone(), second["content"][0]["text"].clone());
        assert_eq!(shown, expected, "state: {has_state}, answers: {has_answers}");
    }
}

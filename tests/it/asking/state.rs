//! The request state that a client carries between rounds.

use std::time::Duration;

use mcp_runtime::{Revision, Server, StateKey, testing::TestClient};
use serde_json::{Value, json};

use super::server;

/// Runs the first round of `order`. Its state is sealed because it holds a `ctx.once` value.
async fn first_round(client: &mut TestClient) -> Value {
    let result = call(client, "order", json!({}), json!({})).await.unwrap();
    assert_eq!(result["resultType"], "input_required");
    result["requestState"].clone()
}

/// Calls a tool as a client with elicitation, with `extra` parameters in addition to the arguments.
async fn call(client: &mut TestClient, name: &str, arguments: Value, extra: Value) -> Result<Value, i64> {
    let mut params = json!({"name": name, "arguments": arguments,
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}});
    for (member, value) in extra.as_object().unwrap() {
        params[member] = value.clone();
    }
    client.request("tools/call", params).await.map_err(|error| error.code)
}

fn connect(server: Server) -> TestClient {
    server.test_client(Revision::V2026_07_28)
}

fn keyed(key: u8) -> Server {
    server().state_keys([StateKey::new([key; 32])])
}

fn order() -> Value {
    json!({"order": {"action": "accept", "content": {"name": "Ada", "size": "s", "toppings": []}}})
}

#[tokio::test]
async fn a_state_is_valid_for_its_own_request_only() {
    let state = first_round(&mut connect(keyed(1))).await;
    let tampered = json!(format!("{}-TAMPERED", state.as_str().unwrap()));
    let retry = |state: &Value| json!({"requestState": state, "inputResponses": order()});
    for (label, server, tool, arguments, extra, is_valid) in [
        ("same request", keyed(1), "order", json!({}), retry(&state), true),
        (
            "server with a rotated key",
            server().state_keys([StateKey::new([2; 32]), StateKey::new([1; 32])]),
            "order",
            json!({}),
            retry(&state),
            true,
        ),
        ("server with another key", keyed(2), "order", json!({}), retry(&state), false),
        ("server with a generated key", server(), "order", json!({}), retry(&state), false),
        ("server with another name", keyed(1).renamed_from("other"), "order", json!({}), retry(&state), false),
        ("server with a former name that is empty", keyed(1).renamed_from(""), "order", json!({}), retry(&state), true),
        ("other tool", keyed(1), "same_key", json!({}), retry(&state), false),
        ("tool with another question", keyed(1), "delete", json!({"path": "/a"}), retry(&state), false),
        ("tampered with", keyed(1), "order", json!({}), retry(&tampered), false),
        ("not a string", keyed(1), "order", json!({}), json!({"requestState": 7}), false),
        ("unknown format", keyed(1), "order", json!({}), json!({"requestState": "aGVsbG8"}), false),
        ("empty", keyed(1), "order", json!({}), json!({"requestState": ""}), false),
    ] {
        let result = call(&mut connect(server), tool, arguments, extra).await;
        if is_valid {
            assert_eq!(result.expect(label)["resultType"], "input_required", "{label}");
        } else {
            assert_eq!(result, Err(-32602), "{label}");
        }
    }
}

/// Some clients send every member.
#[tokio::test]
async fn a_state_and_answers_of_null_begin_the_first_round() {
    for extra in [json!({"requestState": null}), json!({"inputResponses": null})] {
        let result = call(&mut connect(server()), "order", json!({}), extra.clone()).await;
        assert_eq!(result.unwrap_or_default()["resultType"], "input_required", "{extra}");
    }
}

/// Of three questions, a client answers one or two, or repeats none of its answers.
#[tokio::test]
async fn missing_answers_are_asked_for_again() {
    let answer = |key: &str| match key {
        "name" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "greeting" => json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hi"}}),
        _ => json!({"roots": []}),
    };
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let asked = |result: &Value| {
        let mut keys: Vec<_> = result["inputRequests"].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let mut client = connect(server());
    let first = call(&mut client, "everything", json!({}), json!({"_meta": meta})).await.unwrap();
    let all = asked(&first);
    assert_eq!(all.len(), 3, "{first}");
    for answered in [&all[..0], &all[..1], &all[1..2], &all[2..], &all[..2], &all[1..]] {
        let responses: serde_json::Map<_, _> = answered.iter().map(|key| (key.clone(), answer(key))).collect();
        let extra = json!({"_meta": meta, "inputResponses": responses, "requestState": first.get("requestState")});
        let result = call(&mut client, "everything", json!({}), extra).await.unwrap();
        assert_eq!(result["resultType"], "input_required", "{answered:?}");
        let missing: Vec<_> = all.iter().filter(|key| !answered.contains(key)).cloned().collect();
        assert_eq!(asked(&result), missing, "{answered:?}");
    }
}

#[tokio::test]
async fn a_state_expires() {
    let mut client = connect(keyed(1).state_ttl(Duration::ZERO));
    let state = first_round(&mut client).await;
    let result = call(&mut client, "order", json!({}), json!({"requestState": state, "inputResponses": order()})).await;
    assert_eq!(result, Err(-32602));
}

#[tokio::test]
async fn once_runs_once_per_call() {
    use std::sync::atomic::{AtomicU32, Ordering};

    use mcp_runtime::{Context, Fault, ask::Answer, tool};

    use super::Confirm;

    #[derive(Default)]
    struct Count(AtomicU32);

    /// Count, then ask twice.
    #[tool]
    async fn count(ctx: &Context, count: &Count) -> Result<String, Fault> {
        let number = ctx.once("number", async { count.0.fetch_add(1, Ordering::SeqCst) }).await?;
        let mut answers = Vec::new();
        for question in ["first", "second", "third"] {
            answers.push(matches!(ctx.elicit::<Confirm>(question, question).await?, Answer::Accept(_)));
        }
        Ok(format!("{number} {answers:?}"))
    }

    for revision in mcp_tests::revisions(|expected| expected.elicitation) {
        let server = Server::empty("once", "1.0.0").with::<count>().with_state(Count::default());
        let mut client = server.test_client(revision).answering(|request| match request.message() {
            "second" => json!({"action": "decline"}),
            _ => json!({"action": "accept", "content": {"sure": true}}),
        });
        for number in 0..2 {
            let result = client.call("count", json!({})).await.unwrap();
            assert_eq!(result.text(), format!("{number} [true, false, true]"), "{revision}");
        }
    }
}

/// A payment must not be made twice because its receipt cannot be read back.
#[tokio::test]
async fn a_call_fails_if_its_once_value_cannot_be_read_back() {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use mcp_runtime::{Context, Fault, tool};

    use super::Confirm;

    #[derive(Default)]
    struct Payments(AtomicU32);

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Receipt {
        #[serde(skip_serializing)]
        number: u32,
    }

    /// Pay, then ask.
    #[tool]
    async fn pay(ctx: &Context, payments: &Payments) -> Result<u32, Fault> {
        let paid = async { Receipt { number: payments.0.fetch_add(1, Ordering::SeqCst) } };
        let receipt = ctx.once("receipt", paid).await?;
        let _ = ctx.elicit::<Confirm>("sure", "Sure?").await?;
        Ok(receipt.number)
    }

    let payments = Arc::<Payments>::default();
    let server = Server::empty("once", "1.0.0").with::<pay>().with_shared(Arc::clone(&payments));
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let error = connect(server).answering(move |_| accept.clone()).call("pay", json!({})).await.unwrap_err();
    assert_eq!((error.code, &*error.message), (-32603, "the value of `receipt` cannot be stored"));
    assert_eq!(payments.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn answers_are_accepted_without_state_in_the_first_round() {
    let accept = json!({"action": "accept", "content": {"sure": true}});
    // No state is needed, and the plain state of a server with another key is accepted.
    let extra = json!({"inputResponses": {"confirm": accept, "unknown": {"action": "cancel"}, "other": 7}});
    let result = call(&mut connect(server()), "delete", json!({"path": "/a"}), extra).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "deleted /a");
    let asked = call(&mut connect(server()), "delete", json!({"path": "/a"}), json!({})).await.unwrap();
    let from_other_server = json!({"inputResponses": {"confirm": accept}, "requestState": asked["requestState"]});
    let result = call(&mut connect(server()), "delete", json!({"path": "/a"}), from_other_server).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "deleted /a");
}

#[tokio::test]
async fn an_answer_without_a_state_counts_for_the_first_question_of_its_key() {
    use mcp_runtime::{Context, Fault, ask::Elicitation, tool};

    use super::{Confirm, Name};

    /// Ask two different things under one key at once.
    #[tool]
    async fn at_once(ctx: &Context) -> Result<String, Fault> {
        let mut name = Box::pin(ctx.ask(Elicitation::<Name>::new("same", "Who are you?")));
        let mut sure = Box::pin(ctx.ask(Elicitation::<Confirm>::new("same", "Delete everything?")));
        tokio::select! {
            biased;
            name = &mut name => name.map(|name| format!("{name:?}")),
            sure = &mut sure => sure.map(|sure| format!("{sure:?}")),
        }
    }

    let accept = |content: Value| json!({"action": "accept", "content": content});
    let sure = accept(json!({"sure": true}));
    let asked = |result: Value, key: &str| result["inputRequests"][key]["params"]["message"].clone();

    let extra = json!({"inputResponses": {"confirm": sure}});
    let result = call(&mut connect(server()), "same_key", json!({}), extra).await.unwrap();
    assert_eq!(asked(result, "confirm"), "Second?");

    let mut client = connect(Server::empty("same", "1.0.0").with::<at_once>());
    let extra = json!({"inputResponses": {"same": accept(json!({"name": "Ada"}))}});
    let result = call(&mut client, "at_once", json!({}), extra).await.unwrap();
    assert_eq!(result["content"][0]["text"], r#"Accept(Name { name: "Ada" })"#);
    let result = call(&mut client, "at_once", json!({}), json!({})).await;
    assert_eq!(result.unwrap_err(), -32603);
    // The answer fits only the second question, but counts for the first.
    let extra = json!({"inputResponses": {"same": sure}});
    let result = call(&mut client, "at_once", json!({}), extra).await;
    let text = result.as_ref().map(|result| result["content"][0]["text"].clone()).unwrap_or_default();
    assert_ne!(text, "Accept(Confirm { sure: true })", "{result:?}");
}

#[tokio::test]
async fn an_answer_applies_to_its_own_question_only() {
    let mut client = connect(server());
    let asked = call(&mut client, "delete", json!({"path": "/a"}), json!({})).await.unwrap();
    // The user agreed to delete /a.
    let extra = json!({
        "inputResponses": {"confirm": {"action": "accept", "content": {"sure": true}}},
        "requestState": asked["requestState"],
    });
    let result = call(&mut client, "delete", json!({"path": "/b"}), extra).await.unwrap();
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["confirm"]["params"]["message"], "Delete /b?");
}

#[tokio::test]
async fn invalid_answers_are_asked_for_again() {
    let mut client = connect(server());
    for answer in [
        json!(12345),
        json!(null),
        json!([]),
        json!({}),
        json!({"action": "perhaps"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"sure": "true"}}),
        json!({"action": "accept", "content": [true]}),
    ] {
        let extra = json!({"inputResponses": {"confirm": answer}});
        let result = call(&mut client, "delete", json!({"path": "/a"}), extra).await.unwrap();
        assert_eq!(result["resultType"], "input_required", "{answer}");
    }
    for (responses, is_error) in [(json!(null), false), (json!([]), true), (json!("x"), true), (json!(1), true)] {
        let extra = json!({"inputResponses": responses});
        let result = call(&mut client, "delete", json!({"path": "/a"}), extra).await;
        assert_eq!(result.is_err(), is_error, "{responses}");
    }
}

/// Repeats a call with an answer to the questions of the last round.
async fn answer_with(client: &mut TestClient, arguments: &Value, asked: &Value, responses: Value) -> Value {
    let extra = json!({"inputResponses": responses, "requestState": asked["requestState"]});
    call(client, "twice", arguments.clone(), extra).await.unwrap()
}

/// Ask the same question until there is an answer, but at most twice.
#[mcp_runtime::tool]
async fn twice(ctx: &mcp_runtime::Context, path: String) -> Result<String, mcp_runtime::Fault> {
    let ask = || ctx.elicit::<super::Confirm>("confirm", format!("Delete {path}?"));
    let answer = match ask().await {
        Err(mcp_runtime::Fault::InvalidAnswer { .. }) => ask().await?,
        answer => answer?,
    };
    Ok(format!("{answer:?}"))
}

#[tokio::test]
async fn a_repeated_question_says_why_and_the_call_fails_after_three_invalid_answers() {
    const REASON: &str = "Delete /a?\n\nThe last answer was not accepted: `sure`: \"maybe\" must be a boolean";
    let invalid = json!({"confirm": {"action": "accept", "content": {"sure": "maybe"}}});
    for valid_after in 1..=3 {
        let mut client = connect(server());
        let mut result = call(&mut client, "delete", json!({"path": "/a"}), json!({})).await.unwrap();
        for round in 1..=valid_after {
            let message = &result["inputRequests"]["confirm"]["params"]["message"];
            assert_eq!(*message, if round == 1 { "Delete /a?" } else { REASON }, "round {round}");
            let extra = json!({"inputResponses": invalid, "requestState": result["requestState"]});
            result = call(&mut client, "delete", json!({"path": "/a"}), extra).await.unwrap();
        }
        if valid_after == 3 {
            assert_eq!(result["isError"], true, "{result}");
            let text = "the client's answer to `confirm` is invalid: `sure`: \"maybe\" must be a boolean";
            assert_eq!(result["content"][0]["text"], text);
            continue;
        }
        let accepted = json!({"confirm": {"action": "accept", "content": {"sure": true}}});
        let extra = json!({"inputResponses": accepted, "requestState": result["requestState"]});
        let result = call(&mut client, "delete", json!({"path": "/a"}), extra).await.unwrap();
        assert_eq!(result["content"][0]["text"], "deleted /a");
    }
}

/// A function that asks again after the last attempt does not receive the same invalid answer.
#[tokio::test]
async fn a_question_that_is_asked_again_starts_over() {
    let mut client = connect(mcp_runtime::Server::empty("twice", "1.0.0").with::<twice>());
    let arguments = json!({"path": "/a"});
    let invalid = json!({"confirm": {"action": "perhaps"}});
    let mut result = call(&mut client, "twice", arguments.clone(), json!({})).await.unwrap();
    for asked_before in [0, 1, 2, 0, 1, 2] {
        let message = result["inputRequests"]["confirm"]["params"]["message"].as_str().unwrap();
        assert_eq!(message.contains("not accepted"), asked_before > 0, "{asked_before}: {message}");
        result = answer_with(&mut client, &arguments, &result, invalid.clone()).await;
    }
    // The function remembers nothing between rounds, so it asks again.
    assert_eq!(result["resultType"], "input_required", "{result}");
    let result = answer_with(&mut client, &arguments, &result, json!({"confirm": {"action": "decline"}})).await;
    assert_eq!(result["content"][0]["text"], "Decline");
}

#[tokio::test]
async fn a_state_above_the_size_limit_fails_the_call() {
    use mcp_runtime::{Context, Elicit, Fault, tool};

    #[derive(Elicit)]
    struct Essay {
        #[expect(dead_code, reason = "only its size matters")]
        text: String,
    }

    /// Ask for a long text, then for more.
    #[tool]
    async fn essay(ctx: &Context) -> Result<(), Fault> {
        let _ = ctx.elicit::<Essay>("essay", "Write.").await?;
        let _ = ctx.elicit::<Essay>("more", "Write more.").await?;
        Ok(())
    }

    let mut client = connect(Server::empty("essays", "1.0.0").with::<essay>());
    let text = "x".repeat(2 << 20);
    let extra = json!({"inputResponses": {"essay": {"action": "accept", "content": {"text": text}}}});
    assert_eq!(call(&mut client, "essay", json!({}), extra).await, Err(-32603));
}

#[tokio::test]
async fn a_question_is_asked_while_one_future_still_waits_for_it() {
    use mcp_runtime::{Context, Fault, tool};

    use super::Confirm;

    /// Ask the same question twice at once, and drop one of the futures.
    #[tool]
    async fn twice(ctx: &Context) -> Result<String, Fault> {
        let mut first = Box::pin(ctx.elicit::<Confirm>("sure", "Sure?"));
        let mut second = Box::pin(ctx.elicit::<Confirm>("sure", "Sure?"));
        tokio::select! {
            biased;
            _ = &mut first => {}
            _ = &mut second => {}
            () = std::future::ready(()) => {}
        }
        drop(first);
        second.await.map(|answer| answer.is_accepted().to_string())
    }

    let mut client = connect(Server::empty("twice", "1.0.0").with::<twice>());
    let asked = tokio::time::timeout(Duration::from_secs(10), call(&mut client, "twice", json!({}), json!({}))).await;
    assert_eq!(asked.unwrap().unwrap()["resultType"], "input_required");
}

#[tokio::test]
async fn a_plain_state_is_bound_to_the_arguments() {
    use mcp_runtime::{Context, Fault, tool};

    use super::Confirm;

    /// Pay, with a question that does not name the amount.
    #[tool]
    async fn pay(ctx: &Context, amount: u64) -> Result<String, Fault> {
        let answer = ctx.elicit::<Confirm>("sure", "Sure?").await?;
        Ok(format!("{amount} {}", answer.is_accepted()))
    }

    let mut client = connect(Server::empty("bank", "1.0.0").with::<pay>());
    let asked = call(&mut client, "pay", json!({"amount": 1}), json!({})).await.unwrap();
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let extra = json!({"inputResponses": {"sure": accept}, "requestState": asked["requestState"]});
    for (amount, expected) in [(2, "input_required"), (1, "complete")] {
        let result = call(&mut client, "pay", json!({"amount": amount}), extra.clone()).await.unwrap();
        assert_eq!(result["resultType"], expected, "{amount}");
    }
}

#[tokio::test]
async fn a_sealed_state_is_bound_to_the_arguments() {
    use mcp_runtime::{Context, Fault, tool};

    use super::Confirm;

    /// Pay, with a reference number that keeps its value between rounds.
    #[tool]
    async fn pay(ctx: &Context, amount: u64) -> Result<String, Fault> {
        let number = ctx.once("number", async { 42 }).await?;
        let answer = ctx.elicit::<Confirm>("sure", "Sure?").await?;
        Ok(format!("{number}: {amount} {}", answer.is_accepted()))
    }

    let mut client = connect(Server::empty("bank", "1.0.0").with::<pay>());
    let asked = call(&mut client, "pay", json!({"amount": 1}), json!({})).await.unwrap();
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let extra = json!({"inputResponses": {"sure": accept}, "requestState": asked["requestState"]});
    assert_eq!(call(&mut client, "pay", json!({"amount": 2}), extra.clone()).await, Err(-32602));
    let paid = call(&mut client, "pay", json!({"amount": 1}), extra).await.unwrap();
    assert_eq!(paid["content"][0]["text"], "42: 1 true");
}

#[tokio::test]
async fn repeated_choices_count_once() {
    let mut client = connect(keyed(1));
    let state = first_round(&mut client).await;
    let mut order = order();
    order["order"]["content"]["toppings"] = json!(["basil", "basil", "cheese", "basil"]);
    let extra = json!({"requestState": state, "inputResponses": order});
    let result = call(&mut client, "order", json!({}), extra).await.unwrap();
    let asked = &result["inputRequests"]["confirm"]["params"]["message"];
    assert_eq!(asked, "Order 1 × Small with [Basil, Cheese] for Ada?");
}

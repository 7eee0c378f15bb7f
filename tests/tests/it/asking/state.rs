//! The state that a client carries from round to round.

use std::time::Duration;

use mcp_runtime::{Revision, Server, StateKey, TestClient};
use serde_json::{Value, json};

use super::server;

/// Ends the first round of `order`, whose state holds a value that was made once, so that it is sealed.
async fn first_round(client: &mut TestClient) -> Value {
    let result = call(client, "order", json!({}), json!({})).await.unwrap();
    assert_eq!(result["resultType"], "input_required");
    result["requestState"].clone()
}

/// Calls a tool as a client that can be asked, with whatever stands beside the arguments.
async fn call(client: &mut TestClient, name: &str, arguments: Value, beside: Value) -> Result<Value, i64> {
    let mut params = json!({"name": name, "arguments": arguments,
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}});
    for (member, value) in beside.as_object().unwrap() {
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
async fn a_state_is_refused_by_everybody_but_its_own_request() {
    let state = first_round(&mut connect(keyed(1))).await;
    let tampered = json!(format!("{}-TAMPERED", state.as_str().unwrap()));
    let go_on = |state: &Value| json!({"requestState": state, "inputResponses": order()});
    for (what, server, tool, arguments, beside, is_good) in [
        ("the same request", keyed(1), "order", json!({}), go_on(&state), true),
        (
            "a server with the key as its old one",
            server().state_keys([StateKey::new([2; 32]), StateKey::new([1; 32])]),
            "order",
            json!({}),
            go_on(&state),
            true,
        ),
        ("a server with another key", keyed(2), "order", json!({}), go_on(&state), false),
        ("a server with a key of its own", server(), "order", json!({}), go_on(&state), false),
        ("another tool", keyed(1), "same_key", json!({}), go_on(&state), false),
        ("a tool that asks nothing it knows", keyed(1), "delete", json!({"path": "/a"}), go_on(&state), false),
        ("other arguments", keyed(1), "delete", json!({"path": "/b"}), go_on(&state), false),
        ("tampered with", keyed(1), "order", json!({}), go_on(&tampered), false),
        ("no string", keyed(1), "order", json!({}), json!({"requestState": 7}), false),
        ("not ours", keyed(1), "order", json!({}), json!({"requestState": "aGVsbG8"}), false),
        ("empty", keyed(1), "order", json!({}), json!({"requestState": ""}), false),
    ] {
        let result = call(&mut connect(server), tool, arguments, beside).await;
        match is_good {
            true => assert_eq!(result.expect(what)["resultType"], "input_required", "{what}"),
            false => assert_eq!(result, Err(-32602), "{what}"),
        }
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
async fn what_is_done_once_is_not_done_again() {
    use std::sync::atomic::{AtomicU32, Ordering};

    use mcp_runtime::{Answer, Context, Fault, tool};

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

    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = Server::empty("once", "1.0.0").with::<count>().with_state(Count::default());
        let mut client = server.test_client(revision).answering(|asked| match asked.message() {
            "second" => json!({"action": "decline"}),
            _ => json!({"action": "accept", "content": {"sure": true}}),
        });
        for number in 0..2 {
            let result = client.call("count", json!({})).await.unwrap();
            assert_eq!(result.text(), format!("{number} [true, false, true]"), "{revision}");
        }
    }
}

#[tokio::test]
async fn answers_need_no_state_in_the_first_round() {
    let accept = json!({"action": "accept", "content": {"sure": true}});
    // Neither that of the round nor that of a server which shares no key with this one.
    let beside = json!({"inputResponses": {"confirm": accept, "unknown": {"action": "cancel"}, "other": 7}});
    let result = call(&mut connect(server()), "delete", json!({"path": "/a"}), beside).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "deleted /a");
    let asked = call(&mut connect(server()), "delete", json!({"path": "/a"}), json!({})).await.unwrap();
    let elsewhere = json!({"inputResponses": {"confirm": accept}, "requestState": asked["requestState"]});
    let result = call(&mut connect(server()), "delete", json!({"path": "/a"}), elsewhere).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "deleted /a");
}

#[tokio::test]
async fn an_answer_counts_for_the_question_that_was_asked_only() {
    let mut client = connect(server());
    let asked = call(&mut client, "delete", json!({"path": "/a"}), json!({})).await.unwrap();
    // The user agreed to delete /a.
    let beside = json!({
        "inputResponses": {"confirm": {"action": "accept", "content": {"sure": true}}},
        "requestState": asked["requestState"],
    });
    let result = call(&mut client, "delete", json!({"path": "/b"}), beside).await.unwrap();
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["confirm"]["params"]["message"], "Delete /b?");
}

#[tokio::test]
async fn answers_of_a_wrong_shape_ask_again() {
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
        let beside = json!({"inputResponses": {"confirm": answer}});
        let result = call(&mut client, "delete", json!({"path": "/a"}), beside).await.unwrap();
        assert_eq!(result["resultType"], "input_required", "{answer}");
    }
    for (responses, is_error) in [(json!(null), false), (json!([]), true), (json!("x"), true), (json!(1), true)] {
        let beside = json!({"inputResponses": responses});
        let result = call(&mut client, "delete", json!({"path": "/a"}), beside).await;
        assert_eq!(result.is_err(), is_error, "{responses}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_to_carry_is_said_to_be() {
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
    let text = "x".repeat(10 << 20);
    let beside = json!({"inputResponses": {"essay": {"action": "accept", "content": {"text": text}}}});
    assert_eq!(call(&mut client, "essay", json!({}), beside).await, Err(-32603));
}

#[tokio::test]
async fn a_question_that_one_of_two_gave_up_is_still_asked() {
    use mcp_runtime::{Context, Fault, tool};

    use super::Confirm;

    /// Ask twice at once, and give one of them up.
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
async fn a_first_round_belongs_to_its_own_arguments() {
    use mcp_runtime::{Context, Fault, tool};

    use super::Confirm;

    /// Pay, without saying how much.
    #[tool]
    async fn pay(ctx: &Context, amount: u64) -> Result<String, Fault> {
        let answer = ctx.elicit::<Confirm>("sure", "Sure?").await?;
        Ok(format!("{amount} {}", answer.is_accepted()))
    }

    let mut client = connect(Server::empty("bank", "1.0.0").with::<pay>());
    let asked = call(&mut client, "pay", json!({"amount": 1}), json!({})).await.unwrap();
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let beside = json!({"inputResponses": {"sure": accept}, "requestState": asked["requestState"]});
    for (amount, expected) in [(2, "input_required"), (1, "complete")] {
        let result = call(&mut client, "pay", json!({"amount": amount}), beside.clone()).await.unwrap();
        assert_eq!(result["resultType"], expected, "{amount}");
    }
}

#[tokio::test]
async fn what_is_chosen_twice_counts_once() {
    let mut client = connect(keyed(1));
    let state = first_round(&mut client).await;
    let mut order = order();
    order["order"]["content"]["toppings"] = json!(["basil", "basil", "cheese", "basil"]);
    let beside = json!({"requestState": state, "inputResponses": order});
    let result = call(&mut client, "order", json!({}), beside).await.unwrap();
    let asked = &result["inputRequests"]["confirm"]["params"]["message"];
    assert_eq!(asked, "Order 1 × Small with [Basil, Cheese] for Ada?");
}

//! Being told of tasks by `subscriptions/listen`.

use super::*;

const NEW: Revision = Revision::V2026_07_28;

/// The notifications that came so far, without the acknowledgement.
async fn told(client: &mut Talk, expected: usize) -> Vec<Value> {
    let mut told = Vec::new();
    for _ in 0..2000 {
        told.append(&mut client.client.notifications());
        if told.len() >= expected {
            return told;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("{expected} notifications never come: {told:#?}");
}

#[tokio::test]
async fn a_task_is_told_as_it_is_and_whenever_it_changes() {
    let mut client = Talk::to(server(&Arc::default()), NEW);
    let id = client.begin("confirm_delete", json!({"filename": "a"})).await;
    client.until(&id, "input_required").await;
    let filter = json!({"taskIds": [id, "unknown", id], "toolsListChanged": true});
    let listening = client.send("subscriptions/listen", json!({ "notifications": filter }));
    let came = told(&mut client, 2).await;
    assert_eq!(came[0]["method"], "notifications/subscriptions/acknowledged");
    // The server does not change, and says so.
    assert_eq!(came[0]["params"]["notifications"], json!({"taskIds": [id, "unknown"]}));
    let params = &came[1]["params"];
    assert_eq!((&came[1]["method"], &params["status"]), (&json!("notifications/tasks"), &json!("input_required")));
    assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], listening);
    assert_eq!(params["inputRequests"]["confirm"]["method"], "elicitation/create");
    let answers = json!({"confirm": {"action": "decline"}});
    client.ask("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
    let mut came = Vec::new();
    while came.last().is_none_or(|last: &Value| last["params"]["status"] != "completed") {
        came.append(&mut told(&mut client, 1).await);
    }
    let mut last = came.pop().unwrap()["params"].take();
    let mut got = client.about("tasks/get", &id).await.unwrap();
    for beside in ["_meta", "resultType"] {
        last.as_object_mut().unwrap().remove(beside);
        got.as_object_mut().unwrap().remove(beside);
    }
    assert_eq!(last, got);
}

/// However long a result is, and however much waits for a client that does not read.
#[tokio::test]
async fn every_end_is_told() {
    for lengths in [&[2 << 20][..], &[700 << 10, 700 << 10, 700 << 10]] {
        let gate = Arc::<Gate>::default();
        let mut client = Talk::to(server(&gate), NEW);
        let mut ids = Vec::new();
        for length in lengths {
            ids.push(client.begin("long_text", json!({ "length": length })).await);
        }
        client.send("subscriptions/listen", json!({"notifications": {"taskIds": ids}}));
        told(&mut client, 1 + ids.len()).await;
        lengths.iter().for_each(|_| gate.open());
        sleep(Duration::from_millis(100)).await;
        let ended = told(&mut client, ids.len()).await;
        assert!(ended.iter().all(|told| told["params"]["status"] == "completed"));
        let mut found: Vec<_> = ended.iter().map(|told| text(&told["params"]["result"]).len()).collect();
        found.sort_unstable();
        assert_eq!(found, lengths);
    }
}

#[tokio::test]
async fn nothing_is_told_after_the_end_of_listening() {
    let gate = Arc::default();
    let mut client = Talk::to(server(&gate), NEW);
    let id = client.begin("work", json!({"label": "it"})).await;
    let listening = client.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    told(&mut client, 2).await;
    client.client.notify("notifications/cancelled", json!({"requestId": listening}));
    gate.open();
    client.until(&id, "completed").await;
    assert_eq!(client.client.notifications(), [] as [Value; 0]);
}

#[tokio::test]
async fn filters_are_checked() {
    let many: Vec<_> = (0..129).map(|id| id.to_string()).collect();
    for (declared, ids, code) in [
        (json!({}), json!(["x"]), -32021),
        (json!({"extensions": {EXTENSION: {}}}), json!("x"), -32602),
        (json!({"extensions": {EXTENSION: {}}}), json!([7]), -32602),
        (json!({"extensions": {EXTENSION: {}}}), json!(many), -32602),
    ] {
        let mut client = Talk::plain(server(&Arc::default()));
        client.capabilities = declared;
        let filter = json!({"notifications": {"taskIds": ids}});
        assert_eq!(client.ask("subscriptions/listen", filter).await.unwrap_err().code, code, "{ids}");
    }
}

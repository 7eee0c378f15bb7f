//! Notifications about tasks on `subscriptions/listen`.

use super::*;

const REVISION: Revision = Revision::V2026_07_28;

#[tokio::test]
async fn subscribers_are_notified_of_the_current_state_and_of_every_change() {
    let mut client = ValidatingClient::connect(server(&Arc::default()), REVISION);
    let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
    client.wait_for_status(&id, "input_required").await;
    let filter = json!({"taskIds": [id, "unknown", id], "toolsListChanged": true});
    let listening = client.send("subscriptions/listen", json!({ "notifications": filter }));
    let received = client.wait_for_notifications(2).await;
    assert_eq!(received[0]["method"], "notifications/subscriptions/acknowledged");
    // The list of tools cannot change, so its notification is not acknowledged.
    assert_eq!(received[0]["params"]["notifications"], json!({"taskIds": [id]}));
    let params = &received[1]["params"];
    assert_eq!((&received[1]["method"], &params["status"]), (&json!("notifications/tasks"), &json!("input_required")));
    assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], listening);
    assert_eq!(params["inputRequests"]["confirm"]["method"], "elicitation/create");
    let answers = json!({"confirm": {"action": "decline"}});
    client.request("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
    let mut received = Vec::new();
    while received.last().is_none_or(|last: &Value| last["params"]["status"] != "completed") {
        received.append(&mut client.wait_for_notifications(1).await);
    }
    let mut last = received.pop().unwrap()["params"].take();
    let mut got = client.task_request("tasks/get", &id).await.unwrap();
    for member in ["_meta", "resultType"] {
        last.as_object_mut().unwrap().remove(member);
        got.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(last, got);
}

/// Large results and unread output do not suppress the final notification.
#[tokio::test]
async fn subscribers_are_notified_of_the_end_of_every_task() {
    for lengths in [&[2 << 20][..], &[700 << 10, 700 << 10, 700 << 10]] {
        let gate = Arc::<Gate>::default();
        let mut client = ValidatingClient::connect(server(&gate), REVISION);
        let mut ids = Vec::new();
        for length in lengths {
            ids.push(client.start_task("long_text", json!({ "length": length })).await);
        }
        client.send("subscriptions/listen", json!({"notifications": {"taskIds": ids}}));
        client.wait_for_notifications(1 + ids.len()).await;
        lengths.iter().for_each(|_| gate.open());
        sleep(Duration::from_millis(100)).await;
        let ended = client.wait_for_notifications(ids.len()).await;
        assert!(ended.iter().all(|message| message["params"]["status"] == "completed"));
        let mut found: Vec<_> = ended.iter().map(|message| text(&message["params"]["result"]).len()).collect();
        found.sort_unstable();
        assert_eq!(found, lengths);
    }
}

#[tokio::test]
async fn no_notifications_follow_the_end_of_the_subscription() {
    let gate = Arc::default();
    let mut client = ValidatingClient::connect(server(&gate), REVISION);
    let id = client.start_task("work", json!({"label": "it"})).await;
    let listening = client.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    client.wait_for_notifications(2).await;
    client.client.notify("notifications/cancelled", json!({"requestId": listening}));
    gate.open();
    client.wait_for_status(&id, "completed").await;
    assert_eq!(client.client.notifications(), [] as [Value; 0]);
}

/// A server without tasks ignores the filter, whatever the client has declared.
#[tokio::test]
async fn a_server_without_tasks_acknowledges_none() {
    let server = Server::empty("none", "1").with::<greet>();
    let _announces_changes = server.handle();
    let mut client = ValidatingClient::without_extension(server);
    client.send("subscriptions/listen", json!({"notifications": {"taskIds": ["x"]}}));
    let received = client.wait_for_notifications(1).await;
    assert_eq!(received[0]["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(received[0]["params"]["notifications"], json!({}));
}

#[tokio::test]
async fn invalid_filters_are_rejected() {
    let many: Vec<_> = (0..129).map(|id| id.to_string()).collect();
    for (declared, ids, code) in [
        (json!({}), json!(["x"]), -32021),
        (json!({"extensions": {EXTENSION: {}}}), json!("x"), -32602),
        (json!({"extensions": {EXTENSION: {}}}), json!([7]), -32602),
        (json!({"extensions": {EXTENSION: {}}}), json!(many), -32602),
    ] {
        let mut client = ValidatingClient::without_extension(server(&Arc::default()));
        client.capabilities = declared;
        let filter = json!({"notifications": {"taskIds": ids}});
        let error = client.request("subscriptions/listen", filter).await.unwrap_err();
        assert_eq!(error.code, code, "{ids}");
        let missing = error.data.map(|data| data["requiredCapabilities"]["extensions"][EXTENSION].clone());
        assert_eq!(missing, (code == -32021).then(|| json!({})), "{ids}");
    }
}

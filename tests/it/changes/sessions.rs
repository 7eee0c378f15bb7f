//! Sessions of 2024-11-05 to 2025-11-25: list changes and resource subscriptions.

use super::*;

/// Takes the pending notifications, which must be resource updates, and returns their URIs.
fn uris(client: &mut TestClient) -> Vec<String> {
    let notifications = client.notifications();
    check(client.revision(), &notifications);
    notifications
        .iter()
        .map(|message| {
            assert_eq!(method(message), "notifications/resources/updated");
            assert_eq!(message["params"].as_object().unwrap().len(), 1, "{message}");
            message["params"]["uri"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn notifications_are_encoded_for_sessions() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let built = server().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        client.request("resources/subscribe", json!({"uri": "test://fixed"})).await.unwrap();
        handle.resource_updated("test://fixed");
        handle.set_enabled(|_| false);
        let notifications = client.notifications();
        check(revision, &notifications);
        assert_eq!(
            notifications,
            [
                json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "test://fixed"}}),
                json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
                json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}),
                json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}),
            ]
        );
    }
}

#[tokio::test]
async fn only_subscribers_receive_resource_updates() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let built = server().with::<other>().build().unwrap();
        let handle = built.handle();
        let (mut client, mut bystander) = (built.test_client(revision), built.test_client(revision));
        for uri in ["test://fixed", "test://fixed", "test://item/7"] {
            let answer = client.request("resources/subscribe", json!({ "uri": uri })).await.unwrap();
            assert_eq!(answer, json!({}));
        }
        for uri in ["test://fixed", "test://item/7", "test://item/8", "test://other", "test://item/7", "nonsense"] {
            handle.resource_updated(uri);
        }
        assert_eq!(uris(&mut client), ["test://fixed", "test://item/7"]);
        assert_eq!(uris(&mut bystander), Vec::<String>::new());
        handle.resource_updated("test://fixed");
        assert_eq!(uris(&mut client), ["test://fixed"]);
        // A pending update is discarded when the client unsubscribes.
        handle.resource_updated("test://fixed");
        for uri in ["test://fixed", "test://fixed", "test://never", "test://other"] {
            assert_eq!(code(&mut client, "resources/unsubscribe", json!({ "uri": uri })).await, 0, "{uri}");
        }
        handle.resource_updated("test://fixed");
        handle.resource_updated("test://item/7");
        assert_eq!(uris(&mut client), ["test://item/7"]);
        assert_eq!(code(&mut client, "resources/subscribe", json!({"uri": "test://fixed"})).await, 0);
        handle.resource_updated("test://fixed");
        assert_eq!(uris(&mut client), ["test://fixed"]);
    }
}

#[tokio::test]
async fn invalid_subscriptions_are_rejected() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let built = server().with_disabled::<other>().build().unwrap();
        let _handle = built.handle();
        let mut client = built.test_client(revision);
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            for params in [json!({}), json!({"uri": 7}), json!({"uri": null}), json!({"uri": ["test://fixed"]})] {
                assert_eq!(code(&mut client, method, params.clone()).await, -32602, "{revision} {method} {params}");
            }
        }
        for uri in ["", "test://never", "test://other", "test://item/"] {
            let refused = client.request("resources/subscribe", json!({ "uri": uri })).await.unwrap_err();
            assert_eq!((refused.code, refused.data), (-32002, Some(json!({ "uri": uri }))), "{revision} {uri}");
        }
        // The template of `item` matches any other text.
        for uri in ["test://item/x", "test://item/{id}"] {
            assert_eq!(code(&mut client, "resources/subscribe", json!({ "uri": uri })).await, 0, "{revision} {uri}");
        }
        assert_eq!(code(&mut client, "subscriptions/listen", json!({"notifications": {}})).await, -32601);
    }
}

#[tokio::test]
async fn the_subscriptions_of_a_session_are_limited() {
    let built = server().build().unwrap();
    let _handle = built.handle();
    let mut client = built.test_client(Revision::V2025_11_25);
    for id in 0..1024 {
        client.request("resources/subscribe", json!({"uri": format!("test://item/{id}")})).await.unwrap();
    }
    let one_more = json!({"uri": "test://fixed"});
    let refused = client.request("resources/subscribe", one_more.clone()).await.unwrap_err();
    assert_eq!(refused.code, -32602);
    assert!(refused.message.contains("the limit is 1024 resources"), "{refused}");
    assert_eq!(code(&mut client, "resources/subscribe", json!({"uri": "test://item/1"})).await, 0);
    assert_eq!(code(&mut client, "resources/unsubscribe", json!({"uri": "test://item/1"})).await, 0);
    assert_eq!(code(&mut client, "resources/subscribe", one_more).await, 0);

    // The total size of the URIs is limited as well.
    let mut client = built.test_client(Revision::V2025_11_25);
    let long = |id: u32| json!({"uri": format!("test://item/{id}{}", "0".repeat(60_000))});
    for id in 1..=4 {
        assert_eq!(code(&mut client, "resources/subscribe", long(id)).await, 0);
    }
    assert_eq!(code(&mut client, "resources/subscribe", long(5)).await, -32602);
}

/// The client is notified of changes since `initialize` once it has sent `notifications/initialized`.
#[tokio::test]
async fn no_notification_precedes_initialized() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let server = server();
        let handle = server.handle();
        let mut client = TestClient::uninitialized(server, revision);
        let client_info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client_info});
        client.request("initialize", params).await.unwrap();
        handle.add::<optional>().unwrap();
        handle.remove::<optional>();
        assert_eq!(methods(&mut client), Vec::<String>::new());
        client.notify("notifications/initialized", json!({}));
        assert_eq!(methods(&mut client), ["tools/list_changed"]);
        client.notify("notifications/initialized", json!({}));
        handle.remove::<ask>();
        assert_eq!(methods(&mut client), ["prompts/list_changed"]);
    }
}

#[tokio::test]
async fn clients_without_a_session_are_not_notified() {
    let built = server().build().unwrap();
    let handle = built.handle();
    let mut stateless = built.test_client(Revision::V2026_07_28);
    let mut session = built.test_client(Revision::V2025_11_25);
    handle.remove::<permanent>();
    handle.resource_updated("test://fixed");
    assert_eq!(methods(&mut session), ["tools/list_changed"]);
    assert_eq!(methods(&mut stateless), Vec::<String>::new());
}

/// The server keeps no subscription of a closed session.
#[tokio::test]
async fn closing_a_session_ends_its_subscriptions() {
    let built = server().build().unwrap();
    let _handle = built.handle();
    let is_subscribed = || !format!("{built:?}").contains("lists: [], resources: {}");
    assert!(!is_subscribed());
    let mut client = built.test_client(Revision::V2025_11_25);
    assert_eq!(code(&mut client, "resources/subscribe", json!({"uri": "test://fixed"})).await, 0);
    assert!(is_subscribed());
    drop(client);
    assert!(!is_subscribed());
}

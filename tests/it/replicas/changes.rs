//! Notifications about changes that another process has made.

use std::{collections::HashSet, time::Duration};

use mcp_runtime::{
    Handle, Level, Revision, Server,
    backend::{TopicEvent, Topics},
    prompt, resource,
    testing::TestClient,
    tool,
};
use mcp_tests::backend::Health;
use serde_json::{Value, json};

use super::{Replica, replicas};

/// The topic of the messages to all replicas.
const TOPIC: &str = "mcp/1/replicas";

/// A tool that tests disable.
#[tool]
fn optional() {}

/// A resource that changes.
#[resource("test://item/{id}")]
fn item(id: u32) -> String {
    id.to_string()
}

/// A prompt.
#[prompt]
fn ask() -> String {
    String::new()
}

/// Announces that items have changed.
#[tool]
async fn update(handle: &Handle, count: u32) {
    for id in 0..count {
        handle.resource_updated(format!("test://item/{id}"));
    }
}

fn server() -> Server {
    Server::empty("changes", "1.0.0").with::<optional>().with::<item>().with::<update>()
}

/// A client of one replica that is subscribed to all lists and to one resource.
struct Subscriber {
    client: TestClient,
    /// The notifications of the client, in the order of arrival: the method, or the URI.
    received: Vec<String>,
}

impl Subscriber {
    async fn new(replica: &Replica, revision: Revision) -> Self {
        let mut client = replica.server.test_client(revision);
        if revision.is_stateless() {
            let filter = json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["test://item/1"],
            });
            client.send_request("subscriptions/listen", json!({ "notifications": filter }));
            client.notifications();
        } else {
            client.request("resources/subscribe", json!({"uri": "test://item/1"})).await.unwrap();
        }
        Self { client, received: Vec::new() }
    }

    fn take(&mut self, messages: &[Value]) {
        self.received.extend(messages.iter().map(|message| {
            let method = message["method"].as_str().unwrap();
            message["params"]["uri"].as_str().unwrap_or(method).to_owned()
        }));
    }

    /// Takes what has arrived.
    fn received(&mut self) -> Vec<String> {
        let messages = self.client.notifications();
        self.take(&messages);
        std::mem::take(&mut self.received)
    }

    /// Waits until all of these have arrived, and returns everything that has.
    async fn until(&mut self, expected: &[&str]) -> Vec<String> {
        let waiting = async {
            while !expected.iter().all(|expected| self.received.iter().any(|received| received == expected)) {
                let messages = self.client.next_lines().await;
                self.take(&messages);
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
            panic!("expected {expected:?}, received {:?}", self.received);
        }
        self.received()
    }
}

const TOOLS: &str = "notifications/tools/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const ITEM: &str = "test://item/1";

/// Waits until a replica has subscribed to the messages to itself and to all replicas this many times.
async fn joined(replica: &Replica, times: usize) {
    replica.backend.subscribed(2 * times).await;
}

/// Builds replicas that exchange changes from now on.
async fn connected<const N: usize>() -> [Replica; N] {
    let replicas = replicas(server);
    for replica in &replicas {
        joined(replica, 1).await;
    }
    replicas
}

#[tokio::test(start_paused = true)]
async fn changes_reach_the_clients_of_every_process_once() {
    for revision in Revision::ALL {
        let replicas = connected::<3>().await;
        let mut own = Subscriber::new(&replicas[0], revision).await;
        let mut others = Vec::new();
        for replica in &replicas[1..] {
            others.push(Subscriber::new(replica, revision).await);
        }
        let handles = replicas.each_ref().map(|replica| replica.server.handle());
        handles[0].resource_updated(ITEM);
        handles[0].disable::<optional>();
        handles[0].resource_list_changed();
        assert_eq!(own.received(), [ITEM, TOOLS, RESOURCES], "{revision}: the own process is notified at once");
        for other in &mut others {
            assert_eq!(other.until(&[ITEM, TOOLS, RESOURCES]).await.len(), 3, "{revision}");
        }
        // The announcement of the first replica precedes this one in its own subscription.
        handles[1].disable::<update>();
        assert_eq!(own.until(&[TOOLS]).await, [TOOLS], "{revision}: the own changes are not delivered again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_is_few_messages() {
    for (label, distinct) in [("one resource", 1), ("many resources", 10_000)] {
        let [first, second] = connected::<2>().await;
        let mut messages = first.backend.reliable().subscribe(TOPIC).await.unwrap();
        let mut client = Subscriber::new(&second, Revision::V2026_07_28).await;
        let handle = first.server.handle();
        for change in 0..10_000 {
            handle.resource_updated(format!("test://item/{}", 1 + change % distinct));
            if change % 10 == 0 {
                tokio::task::yield_now().await;
            }
        }
        client.until(&[ITEM]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        first.backend.reliable().publish(TOPIC, b"end".to_vec()).await.unwrap();
        let mut count = 0;
        while let Some(TopicEvent::Message(message)) = messages.next().await
            && *message != *b"end"
        {
            assert!(message.len() < 1 << 20, "{label}");
            count += 1;
        }
        assert!((1..=10).contains(&count), "{label}: {count} messages");
    }
}

/// Interrupts the connection of the process that makes a change, or of the process that is to hear of it.
#[tokio::test(start_paused = true)]
async fn changes_survive_an_interruption() {
    type Interrupt = fn(&Replica);
    let interruptions: [(&str, Interrupt); 3] = [
        ("failing", |replica| replica.backend.set_health(Health::Failing)),
        ("hanging", |replica| replica.backend.set_health(Health::Hanging)),
        ("ended", |replica| {
            replica.backend.set_health(Health::Failing);
            replica.backend.end_subscriptions();
        }),
    ];
    for (label, interrupt) in interruptions {
        for interrupted in 0..2 {
            let replicas = connected::<2>().await;
            let mut own = Subscriber::new(&replicas[0], Revision::V2025_11_25).await;
            let mut other = Subscriber::new(&replicas[1], Revision::V2026_07_28).await;
            interrupt(&replicas[interrupted]);
            replicas[0].server.handle().resource_updated(ITEM);
            assert_eq!(own.received(), [ITEM], "{label} {interrupted}: the own process needs no backend");
            // Longer than a backend may take.
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(other.received(), Vec::<String>::new(), "{label} {interrupted}");
            replicas[interrupted].backend.set_health(Health::Up);
            other.until(&[ITEM]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn everything_may_have_changed_when_messages_were_lost() {
    for (server, expected) in [
        (server as fn() -> Server, HashSet::from([TOOLS, RESOURCES, ITEM])),
        (|| server().with::<ask>(), HashSet::from([TOOLS, RESOURCES, PROMPTS, ITEM])),
    ] {
        for revision in Revision::ALL {
            let [replica] = replicas(server);
            joined(&replica, 1).await;
            let _handle = replica.server.handle();
            let mut client = Subscriber::new(&replica, revision).await;
            replica.backend.end_subscriptions();
            let received = client.until(&[ITEM]).await;
            let received: HashSet<_> = received.iter().map(String::as_str).collect();
            assert_eq!(received, expected, "{revision}: nothing that the server does not declare");
        }
    }
}

/// Announcements of a release with more kinds, and messages that are none.
#[tokio::test(start_paused = true)]
async fn unknown_announcements_are_no_lost_changes() {
    for (message, expected) in [
        (json!({"from": "x", "lists": 255, "resources": []}).to_string(), &[TOOLS, RESOURCES][..]),
        (json!({"from": null, "lists": 0, "resources": [ITEM], "skills": true}).to_string(), &[ITEM]),
        (json!({"from": "x", "lists": 0, "resources": null}).to_string(), &[ITEM]),
        ("?".to_owned(), &[TOOLS, RESOURCES, ITEM]),
    ] {
        let [replica] = connected::<1>().await;
        let mut client = Subscriber::new(&replica, Revision::V2026_07_28).await;
        replica.backend.reliable().publish(TOPIC, format!("changes {message}").into_bytes()).await.unwrap();
        let received = client.until(expected).await;
        assert_eq!(received.len(), expected.len(), "{message} {received:?}");
    }
}

/// The first use of the backend may be an announcement, from a process without clients.
#[test]
fn a_server_that_was_built_outside_of_a_runtime_announces_changes_and_log_messages() {
    type Announce = fn(&Handle);
    let announcements: [(Announce, &str); 3] = [
        (|handle| handle.log(Level::Error, "hello"), "notifications/message"),
        (Handle::resource_list_changed, RESOURCES),
        (|handle| handle.resource_updated(ITEM), ITEM),
    ];
    for (announce, expected) in announcements {
        let handle = std::sync::OnceLock::new();
        let [_first, second] = replicas(|| {
            let server = server();
            // Each of them declares logging.
            let own = server.handle();
            handle.get_or_init(|| own);
            server
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // Makes the second replica join, so that it misses no announcement.
            drop(Subscriber::new(&second, Revision::V2025_11_25).await);
            joined(&second, 1).await;
            let mut other = Subscriber::new(&second, Revision::V2025_11_25).await;
            announce(handle.get().unwrap());
            other.until(&[expected]).await;
        });
    }
}

/// A server that ends has announced what its last calls have changed.
#[tokio::test(start_paused = true)]
async fn the_last_changes_are_announced_before_the_server_ends() {
    use tokio::io::AsyncWriteExt as _;

    let [first, second] = connected::<2>().await;
    let mut client = Subscriber::new(&second, Revision::V2026_07_28).await;
    let mut messages = first.backend.reliable().subscribe(TOPIC).await.unwrap();
    let (mut requests, served) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(served);
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "update", "arguments": {"count": 3}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        }
    });
    // An earlier announcement, after which the next one is delayed.
    first.server.handle().resource_updated("test://item/7");
    assert!(matches!(messages.next().await, Some(TopicEvent::Message(_))));
    let write = async {
        requests.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        requests.shutdown().await.unwrap();
        requests
    };
    let (served, _requests) = tokio::join!(first.server.serve(reader, writer), write);
    served.unwrap();
    drop(first);
    client.until(&[ITEM]).await;
}

/// The exchange starts with the first use in a runtime, and again in the next one.
#[test]
fn a_server_may_be_built_and_changed_outside_of_a_runtime() {
    let [first, second] = replicas(server);
    let handle = first.server.handle();
    handle.resource_updated(ITEM);
    for round in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut other = Subscriber::new(&second, Revision::V2026_07_28).await;
            joined(&second, round + 1).await;
            // A new connection of the first replica.
            let _own = Subscriber::new(&first, Revision::V2026_07_28).await;
            other.until(&[ITEM]).await;
        });
        handle.resource_updated(ITEM);
    }
}

/// A server without a backend, and one whose backend belongs to another server, hear nothing.
#[tokio::test(start_paused = true)]
async fn servers_that_do_not_share_a_backend_do_not_hear_of_each_other() {
    let [first] = connected::<1>().await;
    let [second] = connected::<1>().await;
    let mut client = Subscriber::new(&second, Revision::V2026_07_28).await;
    first.server.handle().resource_updated(ITEM);
    tokio::time::sleep(Duration::from_secs(60)).await;
    second.server.handle().resource_list_changed();
    assert_eq!(client.until(&[RESOURCES]).await, [RESOURCES]);
}

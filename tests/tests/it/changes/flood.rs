//! More changes than anybody reads.

use super::*;

const SUBSCRIBERS: usize = 1_000;
const RESOURCES: usize = 100;
const UPDATES: usize = 100_000;
/// How many updates come before the subscribers that read do so.
const ROUND: usize = 1_000;

/// 100,000 updates of 100 resources, for 1,000 subscribers of which one never reads: the others are told of every resource after
/// its last update, and what waits for the one is a line a resource.
#[tokio::test]
async fn many_updates_are_told_to_many() {
    let built = server().build().unwrap();
    let handle = built.handle();
    // Each watches ten resources, so that each resource has a hundred subscribers.
    let watched =
        |client: usize| (0..10).map(move |index| format!("test://item/{}", (client + index * 10) % RESOURCES));
    let mut clients: Vec<_> = (0..SUBSCRIBERS)
        .map(|index| {
            let mut client = built.test_client(Revision::ALL[index % 5]);
            match client.revision() {
                Revision::V2026_07_28 => {
                    let uris: Vec<_> = watched(index).collect();
                    listen(&mut client, json!({ "resourceSubscriptions": uris }));
                }
                _ => watched(index).for_each(|uri| {
                    client.send_request("resources/subscribe", json!({ "uri": uri }));
                }),
            }
            drop(client.send_raw(b"{}"));
            client
        })
        .collect();
    let uris: Vec<_> = (0..RESOURCES).map(|id| format!("test://item/{id}")).collect();
    let mut told = vec![0; SUBSCRIBERS];
    for update in 0..UPDATES {
        handle.resource_updated(&uris[update % RESOURCES]);
        if (update + 1) % ROUND == 0 {
            for (index, client) in clients.iter_mut().enumerate().skip(1).step_by(97) {
                told[index] += client.notifications().len();
            }
        }
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let last = client.notifications();
        let rounds = UPDATES / ROUND;
        match index {
            // Those that read after every round were told once a resource and round, and have nothing left.
            _ if index > 0 && (index - 1) % 97 == 0 => {
                assert_eq!((told[index], last.len()), (10 * rounds, 0), "{index}");
            }
            // Whoever reads late is told once a resource, however often it changed: that is what waited.
            _ => {
                let mut uris: Vec<_> = last.iter().map(|told| told["params"]["uri"].as_str().unwrap()).collect();
                uris.sort_unstable();
                let mut expected: Vec<_> = watched(index).collect();
                expected.sort();
                assert_eq!(uris, expected, "{index}");
            }
        }
    }
}

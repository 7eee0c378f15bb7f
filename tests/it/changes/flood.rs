//! Changes that occur faster than clients read.

use super::*;

const SUBSCRIBERS: usize = 200;
const RESOURCES: usize = 100;
const UPDATES: usize = 20_000;
/// The number of updates between two reads of a subscriber that does not wait until the end.
const ROUND: usize = 1_000;

/// Most subscribers read only at the end. Each is notified of each of its resources after the last update, and never
/// has more than one pending notification per resource.
#[tokio::test]
async fn updates_of_a_resource_are_coalesced() {
    let built = server().build().unwrap();
    let handle = built.handle();
    // Each client watches ten resources, so each resource has twenty subscribers.
    let watched =
        |client: usize| (0..10).map(move |index| format!("test://item/{}", (client + index * 10) % RESOURCES));
    let mut clients: Vec<_> = (0..SUBSCRIBERS)
        .map(|index| {
            let mut client = built.test_client(Revision::ALL[index % Revision::ALL.len()]);
            if client.revision().is_stateless() {
                let uris: Vec<_> = watched(index).collect();
                listen(&mut client, json!({ "resourceSubscriptions": uris }));
            } else {
                for uri in watched(index) {
                    client.send_request("resources/subscribe", json!({ "uri": uri }));
                }
            }
            drop(client.send_raw(b"{}"));
            client
        })
        .collect();
    let uris: Vec<_> = (0..RESOURCES).map(|id| format!("test://item/{id}")).collect();
    let mut received = vec![0; SUBSCRIBERS];
    for update in 0..UPDATES {
        handle.resource_updated(&uris[update % RESOURCES]);
        if (update + 1) % ROUND == 0 {
            for (index, client) in clients.iter_mut().enumerate().skip(1).step_by(97) {
                received[index] += client.notifications().len();
            }
        }
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let last = client.notifications();
        let rounds = UPDATES / ROUND;
        let reads_each_round = index > 0 && (index - 1) % 97 == 0;
        if reads_each_round {
            // One notification per resource and round.
            assert_eq!((received[index], last.len()), (10 * rounds, 0), "{index}");
        } else {
            // One notification per resource, regardless of the number of updates.
            let mut uris: Vec<_> = last.iter().map(|message| message["params"]["uri"].as_str().unwrap()).collect();
            uris.sort_unstable();
            let mut expected: Vec<_> = watched(index).collect();
            expected.sort();
            assert_eq!(uris, expected, "{index}");
        }
    }
}

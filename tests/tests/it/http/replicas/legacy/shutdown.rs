//! Replicas that are shut down while they hold streams.

use std::time::Duration;

use serde_json::json;

use super::{accepted, call_with, configure, options, post};
use crate::http::{
    legacy::{call, next, open, session},
    replicas::{
        Cluster,
        sessions::{notification, until_method},
    },
    request::initialize,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Clients whose calls are finished reconnect to other replicas, while calls of others continue.
#[tokio::test]
async fn a_drained_replica_ends_each_stream_when_its_calls_are_finished() {
    let mut cluster = Cluster::start_with(2, options, |server| configure(server).shutdown_grace(HOUR)).await;
    let (mut idle, idle_path) = session(cluster.at(0), "2024-11-05").await;
    let (mut waiting, waiting_path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "waits").path(&waiting_path)).await;
    cluster.gate(0).has_begun(1).await;
    let (mut asking, asking_path) = open(cluster.at(0)).await;
    let opening = initialize("2024-11-05")
        .change(|message| message["params"]["capabilities"] = json!({"roots": {}, "sampling": {}}));
    accepted(&cluster, 1, &opening.path(&asking_path)).await;
    next(&mut asking).await;
    accepted(&cluster, 1, &post(&asking_path, &notification("notifications/initialized", &json!({})))).await;
    accepted(&cluster, 1, &post(&asking_path, &call_with(1, "consults", &json!({})))).await;
    let roots = until_method(&mut asking, "roots/list").await;
    cluster.stop(0);
    assert!(idle.messages().await.is_empty());
    assert_eq!(cluster.at(1).send(&call(2, "quick").path(&idle_path)).await.status, 404);
    let refused = cluster.at(1).send(&call(2, "quick").path(&asking_path)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    // A call that has begun still receives the answers of its client.
    let answer = json!({"jsonrpc": "2.0", "id": roots["id"], "result": {"roots": []}});
    accepted(&cluster, 1, &post(&asking_path, &answer)).await;
    let sampling = until_method(&mut asking, "sampling/createMessage").await;
    let result = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": ""}});
    let answer = json!({"jsonrpc": "2.0", "id": sampling["id"], "result": result});
    accepted(&cluster, 1, &post(&asking_path, &answer)).await;
    let finished = asking.messages().await;
    assert_eq!(finished.len(), 1, "{finished:?}");
    assert_eq!(finished[0]["result"]["content"][0]["text"], "0 m");
    cluster.gate(0).open();
    let finished = waiting.messages().await;
    assert_eq!(finished.len(), 1, "{finished:?}");
    assert_eq!(finished[0]["result"]["content"][0]["text"], "waited");
    cluster.stopped(0).await;
    let (mut stream, path) = session(cluster.at(1), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
    assert_eq!(next(&mut stream).await["id"], 1);
}

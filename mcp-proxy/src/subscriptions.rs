//! The changes that an upstream announces on a connection.
// Clients of sessions subscribe with a method of their own.
#![expect(deprecated)]

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        ClientRequest, CustomRequest, ErrorCode, ServerNotification, ServerPeerInfo, ServerResult,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{PeerRequestOptions, Subscription},
};
use serde_json::json;
use tokio::{
    task::AbortHandle,
    time::{sleep, timeout},
};

use crate::{attempts::Attempts, transport::Listener};

/// The subscriptions of a connection.
pub(crate) struct Subscriptions {
    peer: Peer<RoleClient>,
    is_stateless: bool,
    /// The URIs that are subscribed to, with the task that reads the updates of a stateless upstream.
    resources: Mutex<BTreeMap<String, Option<AbortHandle>>>,
    /// Reads the changes of the lists of a stateless upstream.
    lists: Option<AbortHandle>,
}

impl Subscriptions {
    /// Subscribes to changes of the lists of a stateless upstream if `follows_lists`. Each request fails after `limit`.
    pub(crate) fn new<L: Listener>(
        peer: Peer<RoleClient>,
        is_stateless: bool,
        follows_lists: bool,
        limit: Duration,
        listener: &Arc<L>,
    ) -> Self {
        let lists = (is_stateless && follows_lists).then(|| {
            let filter = SubscriptionFilter::builder();
            let filter = filter.tools_list_changed().prompts_list_changed().resources_list_changed().build();
            tokio::spawn(follow_lists(peer.clone(), filter, limit, Arc::clone(listener))).abort_handle()
        });
        Self { peer, is_stateless, resources: Mutex::default(), lists }
    }

    fn resources<R>(&self, run: impl FnOnce(&mut BTreeMap<String, Option<AbortHandle>>) -> R) -> R {
        run(&mut self.resources.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the URIs that are subscribed to. The upstream may have ended some.
    pub(crate) fn uris(&self) -> BTreeSet<String> {
        self.resources(|resources| {
            resources.retain(|_, task| task.as_ref().is_none_or(|task| !task.is_finished()));
            resources.keys().cloned().collect()
        })
    }

    pub(crate) async fn subscribe<L: Listener>(&self, uri: &str, listener: &Arc<L>) -> Result<(), ServiceError> {
        let task = if self.is_stateless {
            let filter = SubscriptionFilter::builder().resource_subscriptions([uri]).build();
            let (subscription, listener) = (self.peer.listen(filter).await?, Arc::clone(listener));
            let task = tokio::spawn(pass_on(subscription, Arc::clone(&listener)));
            let handle = task.abort_handle();
            tokio::spawn(async move {
                let _ = task.await;
                listener.unsubscribed();
            });
            Some(handle)
        } else {
            self.peer.subscribe(SubscribeRequestParams::new(uri)).await?;
            None
        };
        self.resources(|resources| resources.insert(uri.to_owned(), task));
        Ok(())
    }

    pub(crate) async fn unsubscribe(&self, uri: &str) -> Result<(), ServiceError> {
        match self.resources(|resources| resources.remove(uri)).flatten() {
            Some(task) => {
                task.abort();
                Ok(())
            }
            None => self.peer.unsubscribe(UnsubscribeRequestParams::new(uri)).await,
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let resources = std::mem::take(self.resources.get_mut().unwrap_or_else(PoisonError::into_inner));
        resources.into_values().flatten().chain(self.lists.take()).for_each(|task| task.abort());
    }
}

/// Passes on the changes of the lists of a stateless upstream. The stream ends when the upstream restarts, for example.
async fn follow_lists<L: Listener>(
    peer: Peer<RoleClient>,
    filter: SubscriptionFilter,
    limit: Duration,
    listener: Arc<L>,
) {
    let mut attempts = Attempts::default();
    loop {
        sleep(attempts.wait()).await;
        match timeout(limit, peer.listen(filter.clone())).await {
            Ok(Ok(subscription)) => {
                attempts.record(None);
                // Changes of the lists may be lost.
                listener.changed();
                tokio::select! {
                    () = pass_on(subscription, Arc::clone(&listener)) => {}
                    // The upstream may have restarted since its capabilities were read, even before the first subscription.
                    () = async {
                        discover(&peer, limit, &*listener).await;
                        pending().await
                    } => {}
                }
            }
            Ok(Err(error)) if is_unknown_method(&error) => return,
            _ => attempts.record(Some("it cannot be subscribed to")),
        }
    }
}

/// Reads the capabilities of a stateless upstream again, until that succeeds.
async fn discover(peer: &Peer<RoleClient>, limit: Duration, listener: &impl Listener) {
    let mut attempts = Attempts::default();
    loop {
        sleep(attempts.wait()).await;
        // `DiscoverRequest` waits for the responses to all other requests over HTTP, and holds up new ones.
        let request = ClientRequest::CustomRequest(CustomRequest::new("server/discover", Some(json!({}))));
        let found = async {
            // This timeout also cancels the request.
            let options = PeerRequestOptions::with_timeout(limit);
            peer.send_request_with_option(request, options).await?.await_response().await
        };
        let is_done = match found.await {
            Ok(ServerResult::DiscoverResult(found)) => {
                if let Some(info) = peer.peer_info() {
                    let version = info.protocol_version.clone();
                    peer.set_peer_info(ServerPeerInfo::from_discover_result(version, found));
                }
                true
            }
            Ok(_) => false,
            Err(error) => is_unknown_method(&error),
        };
        if is_done {
            return listener.changed();
        }
        attempts.record(Some("its capabilities cannot be read"));
    }
}

fn is_unknown_method(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND)
}

/// Passes on the changes that a stateless upstream announces, until the stream ends.
async fn pass_on<L: Listener>(mut subscription: Subscription, listener: Arc<L>) {
    while let Ok(Some(notification)) = subscription.next().await {
        match notification {
            ServerNotification::ResourceUpdatedNotification(updated) => {
                listener.resource_updated(&updated.params.uri);
            }
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_) => listener.changed(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::ready};

    use rmcp::{
        service::{RxJsonRpcMessage, TxJsonRpcMessage},
        transport::Transport,
    };
    use serde_json::Value;
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;
    use crate::connection::{Connection, newest};

    /// Sends messages to a test, and receives those of the test.
    struct Channels(UnboundedSender<Value>, UnboundedReceiver<Value>);

    impl Transport<RoleClient> for Channels {
        type Error = Infallible;

        fn send(
            &mut self,
            message: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
            let _ = self.0.send(serde_json::to_value(message).unwrap());
            ready(Ok(()))
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            self.1.recv().await.map(|message| serde_json::from_value(message).unwrap())
        }

        async fn close(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    /// Counts the subscriptions that have ended.
    struct Ended(UnboundedSender<()>);

    impl Listener for Ended {
        fn changed(&self) {}
        fn resource_updated(&self, _: &str) {}
        fn unsubscribed(&self) {
            let _ = self.0.send(());
        }
        fn stream_opened(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_to_read_capabilities_have_pauses() {
        let (sent, mut requests) = unbounded_channel();
        let (responses, received) = unbounded_channel();
        let listener = Arc::new(Ended(unbounded_channel().0));
        let server = async {
            let mut times = Vec::new();
            while times.len() < 4 {
                let request: Value = requests.recv().await.unwrap();
                if request["method"] != "server/discover" {
                    continue;
                }
                times.push(tokio::time::Instant::now());
                let (member, value) = if [2, 3].contains(&times.len()) {
                    ("error", json!({"code": -32000, "message": "later"}))
                } else {
                    let result = json!({
                        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0,
                        "cacheScope": "private",
                    });
                    ("result", result)
                };
                responses.send(json!({"jsonrpc": "2.0", "id": request["id"], member: value})).unwrap();
            }
            times.windows(2).skip(1).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
        };
        let discovered = async {
            let transport = Channels(sent, received);
            let connection = Connection::open(transport, &listener, true, newest(), Duration::MAX).await.unwrap();
            discover(&connection.peer, Duration::from_secs(60), &*listener).await;
        };
        let (pauses, ()) = tokio::join!(server, discovered);
        assert!(pauses[0] >= Duration::from_millis(500) && pauses[1] >= Duration::from_secs(1), "{pauses:?}");
    }

    /// Either side may end a subscription at a stateless upstream.
    #[tokio::test(start_paused = true)]
    async fn subscriptions_end() {
        const URI: &str = "item://1";
        for ends_upstream in [true, false] {
            let (sent, mut requests) = unbounded_channel();
            let (responses, received) = unbounded_channel();
            let (ended, mut ends) = unbounded_channel();
            let listener = Arc::new(Ended(ended));
            let respond = |id: &Value, result: Value| {
                responses.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).unwrap();
            };
            let server = async {
                let mut subscription = Value::Null;
                while subscription.is_null() {
                    let request: Value = requests.recv().await.unwrap();
                    match request["method"].as_str().unwrap() {
                        "server/discover" => respond(
                            &request["id"],
                            json!({
                                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
                                "ttlMs": 0, "cacheScope": "private",
                            }),
                        ),
                        "subscriptions/listen" => {
                            let params = json!({
                                "_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]},
                                "notifications": request["params"]["notifications"],
                            });
                            let method = "notifications/subscriptions/acknowledged";
                            responses.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).unwrap();
                            subscription = request["id"].clone();
                        }
                        _ => {}
                    }
                }
                subscription
            };
            let subscribed = async {
                let transport = Channels(sent, received);
                let connection = Connection::open(transport, &listener, true, newest(), Duration::MAX).await.unwrap();
                connection.subscriptions.subscribe(URI, &listener).await.unwrap();
                connection
            };
            let (subscription, connection) = tokio::join!(server, subscribed);
            assert!(connection.subscriptions.uris().contains(URI), "an open subscription");
            if ends_upstream {
                respond(&subscription, json!({"resultType": "complete"}));
            } else {
                connection.subscriptions.unsubscribe(URI).await.unwrap();
                let cancelled = timeout(Duration::from_secs(60), requests.recv()).await.unwrap().unwrap();
                assert_eq!(cancelled["params"]["requestId"], subscription);
            }
            timeout(Duration::from_secs(60), ends.recv()).await.unwrap();
            assert!(connection.subscriptions.uris().is_empty(), "the upstream has ended it: {ends_upstream}");
        }
    }
}

use std::sync::Arc;

use super::{filter::Filter, subscriber::Subscriber, subscription};
use crate::{
    engine::{call::response, outbox::Outbox, request::source::Permit, tasks::watch::TaskWatch},
    error::Fault,
    handler::{Encoding, member},
    jsonrpc::Id,
};

/// An open `subscriptions/listen` request. It stays open until the client cancels it or the server shuts down.
#[derive(Debug)]
pub(crate) struct Listener {
    subscriber: Subscriber,
    outbox: Arc<Outbox>,
    encoding: Arc<Encoding>,
    /// The watch that notifies the client of changes to tasks.
    task_watch: Option<TaskWatch>,
    _permit: Option<Permit>,
}

impl Listener {
    /// Acknowledges the request, and starts to notify the client of the changes that its filter selects.
    pub(crate) fn start(
        subscriber: Subscriber,
        filter: &Filter,
        id: &Id<'_>,
        outbox: &Arc<Outbox>,
        encoding: &Arc<Encoding>,
        permit: Option<Permit>,
    ) -> Self {
        let mut acknowledgement = Vec::new();
        write_acknowledgement(&mut acknowledgement, id, filter);
        // The acknowledgement must precede every notification.
        outbox.open_listener(&acknowledgement);
        subscriber.subscribe(filter.lists, filter.resources.as_deref().unwrap_or_default());
        Self {
            subscriber,
            outbox: Arc::clone(outbox),
            encoding: Arc::clone(encoding),
            task_watch: None,
            _permit: permit,
        }
    }

    /// Also notifies the client of changes to tasks, for as long as the listener exists.
    pub(crate) fn watch_tasks(&mut self, watch: TaskWatch) {
        self.task_watch = Some(watch);
    }

    /// Ends the request without a response.
    pub(crate) fn cancel(self) {
        drop(self.subscriber);
        self.outbox.close_listener(|_| {});
    }

    /// Ends the request with its response, which follows the pending notifications.
    pub(crate) fn end(self, id: &Id<'_>) {
        self.subscriber.unsubscribe_all();
        drop(self.task_watch);
        self.outbox.close_listener(|out| {
            response::write_result(out, id, &result(&self.encoding, id));
            out.push(b'\n');
        });
    }
}

/// Returns the error for a `subscriptions/listen` request beyond a limit on their number.
pub(crate) fn too_many_listeners() -> Fault {
    Fault::overloaded("too many open `subscriptions/listen` requests")
}

fn write_acknowledgement(out: &mut Vec<u8>, id: &Id<'_>, filter: &Filter) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"#);
    subscription::write_subscription_id(out, id.as_json());
    out.extend_from_slice(br#","notifications":"#);
    filter.write(out);
    out.extend_from_slice(b"}}\n");
}

/// Returns the result of a request that the server ends.
///
/// See [Graceful closure](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure).
fn result(encoding: &Encoding, id: &Id<'_>) -> Vec<u8> {
    let mut out = vec![b'{'];
    let id = |out: &mut Vec<u8>| member(out, "io.modelcontextprotocol/subscriptionId", id.as_json().as_bytes());
    encoding.end_result_with(&mut out, "complete", Some(id));
    out
}

use std::sync::Arc;

use super::{filter::Filter, subscriber::Subscriber, subscription};
use crate::{
    engine::{call::response, outbox::Outbox, tasks::watch::TaskWatch},
    handler::{Encoding, comma},
    jsonrpc::Id,
};

/// A request that listens, until it is cancelled or the server ends it.
#[derive(Debug)]
pub(crate) struct Listener {
    subscriber: Subscriber,
    outbox: Arc<Outbox>,
    encoding: Arc<Encoding>,
    /// Tells of tasks.
    pub(crate) watch: Option<TaskWatch>,
}

impl Listener {
    /// Acknowledges the request, and tells from then on what its filter wants.
    pub(crate) fn begin(
        subscriber: Subscriber,
        filter: &Filter,
        id: &Id<'_>,
        outbox: &Arc<Outbox>,
        encoding: &Arc<Encoding>,
    ) -> Self {
        let mut acknowledged = Vec::new();
        acknowledge(&mut acknowledged, id, filter);
        // Before anything is watched, so that nothing is told before it.
        outbox.begin_listen(&acknowledged);
        subscriber.subscribe(filter.lists, filter.resources.as_deref().unwrap_or_default());
        Self { subscriber, outbox: Arc::clone(outbox), encoding: Arc::clone(encoding), watch: None }
    }

    /// Ends it without an answer.
    pub(crate) fn stop(self) {
        drop(self.subscriber);
        self.outbox.end_listen(|_| {});
    }

    /// Ends it with its answer, behind everything that it was to tell.
    pub(crate) fn complete(self, id: &Id<'_>) {
        self.subscriber.unsubscribe_all();
        drop(self.watch);
        self.outbox.end_listen(|out| {
            response::respond(out, id, &completed(&self.encoding, id));
            out.push(b'\n');
        });
    }
}

fn acknowledge(out: &mut Vec<u8>, id: &Id<'_>, filter: &Filter) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"#);
    subscription::write_tag(out, id.as_json());
    out.extend_from_slice(br#","notifications":"#);
    filter.write(out);
    out.extend_from_slice(b"}}\n");
}

/// Writes the result of a subscription that the server ends.
///
/// See [Graceful closure](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure).
fn completed(encoding: &Encoding, id: &Id<'_>) -> Vec<u8> {
    let mut out = br#"{"resultType":"complete","_meta":{"#.to_vec();
    out.extend_from_slice(&encoding.identity);
    comma(&mut out);
    out.extend_from_slice(br#""io.modelcontextprotocol/subscriptionId":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(b"}}");
    out
}

use std::sync::Arc;

use super::{Outbox, PendingNotifications};
use crate::engine::rates::{FlowControl, SessionRates};

impl Outbox {
    /// Creates the outbox of a session with the default rates.
    pub(crate) fn for_test() -> Arc<Self> {
        Arc::new(Self::new(Arc::new(FlowControl::new(&SessionRates::default()))))
    }

    /// Counts a call.
    #[cfg(all(feature = "cluster", feature = "http"))]
    pub(crate) fn begin_call(&self) {
        self.open_call();
    }

    /// Counts a request to the client.
    #[cfg(all(feature = "cluster", feature = "http"))]
    pub(crate) fn begin_question(&self) {
        self.open_question();
    }

    /// Finishes a call with its response.
    #[cfg(all(feature = "cluster", feature = "http"))]
    pub(crate) fn finish_call(&self, response: &str) {
        self.close_call(|out| out.extend_from_slice(format!("{response}\n").as_bytes()));
    }

    /// Returns the number of queued subscriptions.
    pub(in crate::engine) fn pending(&self) -> usize {
        self.contents().pending.len()
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.contents().is_empty()
    }
}

struct Changed;

impl PendingNotifications for Changed {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"changed\n");
    }

    fn is_ended(&self) -> bool {
        false
    }
}

#[test]
fn the_response_of_a_listener_follows_its_pending_notifications() {
    let outbox = Outbox::for_test();
    outbox.open_listener(b"acknowledged\n");
    outbox.enqueue(Arc::new(Changed));
    outbox.close_listener(|out| out.extend_from_slice(b"response\n"));
    let mut written = Vec::new();
    assert!(outbox.drain(&mut written));
    assert_eq!(String::from_utf8(written).unwrap(), "acknowledged\nchanged\nresponse\n");
}

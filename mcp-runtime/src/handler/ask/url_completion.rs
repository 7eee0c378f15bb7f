//! Reports to the client that the interaction on a web page is complete.

use std::sync::Arc;

use crate::debug::debug;
use crate::{mutex::Mutex, revision::encode::Object};

/// The session that received an elicitation. Implementations refer to the session weakly, and keep nothing of it in
/// memory.
pub(crate) trait ElicitationSession: Send + Sync {
    /// Sends a notification that belongs to no request. Returns `false` if the session has ended, or if the client
    /// reads too slowly.
    fn notify(&self, message: &[u8]) -> bool;
}

/// A handle that reports the completion of the interaction on a web page. [`UrlElicitation::with_completion`] returns
/// it.
///
/// Keep it where the code behind the web page can find it, such as in a map with the `state` of an OAuth flow as the
/// key. Dropping it reports nothing.
///
/// See [Completion notifications](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation).
///
/// [`UrlElicitation::with_completion`]: crate::ask::UrlElicitation::with_completion
#[derive(Debug)]
pub struct UrlCompletion(pub(super) Recipient);

impl UrlCompletion {
    /// Sends `notifications/elicitation/complete` to the session that received the elicitation, and to no other. If the
    /// elicitation was sent several times, the notification refers to the last one.
    ///
    /// Over HTTP, the notification is sent on the stream that the client opens with GET, and waits for that stream if
    /// there is none.
    ///
    /// Returns whether a notification was sent. None is sent if the client has not received the elicitation, if it
    /// belongs to a task, if the session has ended, if the client reads too slowly, and in all revisions other than
    /// 2025-11-25.
    pub fn complete(self) -> bool {
        let Some(Received { id, session }) = self.0.0.lock().take() else { return false };
        let mut out = Vec::new();
        let mut message = Object::begin(&mut out);
        message.string("jsonrpc", "2.0");
        message.string("method", "notifications/elicitation/complete");
        let mut params = Object::begin(message.key("params"));
        params.string("elicitationId", &id);
        params.end();
        message.end();
        session.notify(&out)
    }
}

/// The recipient of an elicitation, once it has been sent.
#[derive(Clone, Default)]
pub(crate) struct Recipient(Arc<Mutex<Option<Received>>>);

/// An elicitation that a session has received.
struct Received {
    id: String,
    session: Arc<dyn ElicitationSession>,
}

impl Recipient {
    fn set(&self, id: String, session: Arc<dyn ElicitationSession>) {
        *self.0.lock() = Some(Received { id, session });
    }
}

debug!(Recipient, self, is_known: self.0.lock().is_some());

/// Compares by identity.
impl PartialEq for Recipient {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Recipient {}

/// An encoded elicitation whose completion will be reported.
#[derive(Debug, Clone)]
pub(crate) struct TrackedElicitation {
    pub(super) id: String,
    pub(super) recipient: Recipient,
}

impl TrackedElicitation {
    /// Records the session to which the elicitation has been sent.
    pub(crate) fn received_by(self, session: Arc<dyn ElicitationSession>) {
        self.recipient.set(self.id, session);
    }
}

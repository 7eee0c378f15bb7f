use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::message::Reply;

/// The messages to other replicas that wait for a reply, each of which has a permit.
#[derive(Debug, Default)]
pub(super) struct AwaitedReplies(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last_number: u64,
    by_number: HashMap<u64, Awaited>,
}

#[derive(Debug)]
struct Awaited {
    session: Arc<str>,
    replies: mpsc::Sender<(Reply, Bytes)>,
}

/// A message that waits for a reply until it is dropped.
#[derive(Debug)]
pub(super) struct AwaitedReply {
    table: Arc<AwaitedReplies>,
    pub(super) number: u64,
    replies: mpsc::Receiver<(Reply, Bytes)>,
}

impl AwaitedReplies {
    /// Adds a message to a session. Also returns the numbers of all messages to the session that wait for a reply.
    pub(super) fn add(self: &Arc<Self>, session: &Arc<str>) -> (AwaitedReply, Vec<u64>) {
        let (sender, replies) = mpsc::channel(2);
        let mut table = self.lock();
        table.last_number += 1;
        let number = table.last_number;
        table.by_number.insert(number, Awaited { session: Arc::clone(session), replies: sender });
        let of_session = table.by_number.iter().filter(|(_, awaited)| awaited.session == *session);
        let waiting = of_session.map(|(number, _)| *number).collect();
        (AwaitedReply { table: Arc::clone(self), number, replies }, waiting)
    }

    /// Passes a reply to the message that waits for it.
    pub(super) fn deliver(&self, number: u64, reply: Reply, body: &[u8]) {
        if let Some(awaited) = self.lock().by_number.get(&number) {
            // If replies to repetitions are waiting already, one more has nothing to add.
            let _ = awaited.replies.try_send((reply, Bytes::copy_from_slice(body)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AwaitedReply {
    /// Waits for the next reply.
    pub(super) async fn next(&mut self) -> Option<(Reply, Bytes)> {
        self.replies.recv().await
    }
}

impl Drop for AwaitedReply {
    fn drop(&mut self) {
        self.table.lock().by_number.remove(&self.number);
    }
}

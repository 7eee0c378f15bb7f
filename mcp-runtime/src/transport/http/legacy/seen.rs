use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::message::MessageId;
use crate::engine::Slot;

/// The time for which a sender is remembered after its last message. A replica repeats a message until it has heard
/// nothing for two seconds, and the backend may delay what it hears and what it sends by as long again.
const KEPT: Duration = Duration::from_secs(15);

/// The messages that other replicas have forwarded to a session, so that a repeated message is received once.
///
/// A message names the others that its sender waits for. The sender does not repeat any earlier one that is not among
/// them, so only its copies on the way have to be recognized, which needs no memory: their numbers are lower. The table
/// thus contains what other replicas wait for, each of which has a permit, and no client can send too fast for it.
#[derive(Debug, Default)]
pub(super) struct SeenMessages(Mutex<HashMap<Slot, SentMessages>>);

/// The messages of one sender.
#[derive(Debug)]
struct SentMessages {
    last_seen: Instant,
    /// The highest number of a message that has arrived.
    newest: u64,
    /// What has become of the messages up to that number that the sender waits for.
    waiting: HashMap<u64, Progress>,
}

#[derive(Debug, Clone, Copy)]
enum Progress {
    /// The message has not arrived.
    Expected,
    /// The message is being received.
    Pending,
    Accepted,
    Rejected,
}

/// What is known about a message that arrives.
#[derive(Debug)]
pub(super) enum Seen {
    /// The message has not arrived before.
    New(PendingMessage),
    /// The message is being received.
    Pending,
    Accepted,
    Rejected,
    /// The sender no longer waits for a reply.
    Abandoned,
}

/// A message that is being received. Dropping it records that the message was rejected.
#[derive(Debug)]
pub(super) struct PendingMessage {
    seen: Arc<SeenMessages>,
    id: MessageId,
    progress: Progress,
}

impl SeenMessages {
    /// Registers a message that arrives. `waiting` are the numbers of the messages that its sender waits for, including
    /// this one.
    pub(super) fn register(self: &Arc<Self>, id: MessageId, waiting: &[u64], now: Instant) -> Seen {
        let mut senders = self.lock();
        senders.retain(|_, sent| now.saturating_duration_since(sent.last_seen) <= KEPT);
        let new = || SentMessages { last_seen: now, newest: 0, waiting: HashMap::new() };
        let sent = senders.entry(id.sender).or_insert_with(new);
        sent.last_seen = now;
        if id.number > sent.newest {
            sent.waiting.retain(|number, _| waiting.contains(number));
            let since = waiting.iter().filter(|&&number| number > sent.newest && number <= id.number);
            sent.waiting.extend(since.map(|&number| (number, Progress::Expected)));
            sent.newest = id.number;
        }
        let Some(progress) = sent.waiting.get_mut(&id.number) else { return Seen::Abandoned };
        match progress {
            Progress::Expected => {
                *progress = Progress::Pending;
                Seen::New(PendingMessage { seen: Arc::clone(self), id, progress: Progress::Rejected })
            }
            Progress::Pending => Seen::Pending,
            Progress::Accepted => Seen::Accepted,
            Progress::Rejected => Seen::Rejected,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Slot, SentMessages>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingMessage {
    /// Records that the message was accepted.
    pub(super) fn accept(mut self) {
        self.progress = Progress::Accepted;
    }
}

impl Drop for PendingMessage {
    fn drop(&mut self) {
        let mut senders = self.seen.lock();
        // The sender may have stopped waiting.
        if let Some(progress) = senders.get_mut(&self.id.sender).and_then(|sent| sent.waiting.get_mut(&self.id.number))
        {
            *progress = self.progress;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sender: &str, number: u64) -> MessageId {
        MessageId { sender: Slot::parse(sender).unwrap(), number }
    }

    fn received(seen: Seen) -> PendingMessage {
        let Seen::New(pending) = seen else { panic!("it is not new: {seen:?}") };
        pending
    }

    #[test]
    fn a_repeated_message_is_received_once() {
        let (seen, now) = (Arc::<SeenMessages>::default(), Instant::now());
        let repeat = |number| seen.register(id("1", number), &[1, 2], now);
        let accepted = received(seen.register(id("1", 1), &[1], now));
        assert!(matches!(repeat(1), Seen::Pending));
        accepted.accept();
        assert!(matches!(repeat(1), Seen::Accepted));
        drop(received(repeat(2)));
        assert!(matches!(repeat(2), Seen::Rejected));
        // The messages of another sender have the same numbers.
        assert!(matches!(seen.register(id("2", 1), &[1], now), Seen::New(_)));
        assert!(matches!(seen.register(id("1", 1), &[1], now + KEPT * 2), Seen::New(_)));
    }

    #[test]
    fn messages_may_arrive_in_any_order() {
        let (seen, now) = (Arc::<SeenMessages>::default(), Instant::now());
        received(seen.register(id("1", 3), &[1, 3, 4], now)).accept();
        received(seen.register(id("1", 4), &[1, 4], now)).accept();
        received(seen.register(id("1", 1), &[1], now)).accept();
        // The sender had heard of this message when it sent the last one.
        for (number, is_abandoned) in [(1, false), (2, true), (3, true), (4, false)] {
            let repeated = seen.register(id("1", number), &[number], now);
            assert_eq!(matches!(repeated, Seen::Abandoned), is_abandoned, "{number} {repeated:?}");
            assert_eq!(matches!(repeated, Seen::Accepted), !is_abandoned, "{number} {repeated:?}");
        }
    }

    /// A client may send as fast as it can.
    #[test]
    fn only_what_the_sender_waits_for_is_kept() {
        let (seen, now) = (Arc::<SeenMessages>::default(), Instant::now());
        for number in 1..100_000 {
            received(seen.register(id("1", number), &[number], now)).accept();
        }
        let senders = seen.lock();
        assert_eq!(senders.values().map(|sent| sent.waiting.len()).collect::<Vec<_>>(), [1]);
    }
}

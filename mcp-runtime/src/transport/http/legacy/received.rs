use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The time for which the number of an accepted message is kept. A replica repeats a message until it has heard nothing
/// for two seconds, and the backend may delay what it hears and what it sends by as long again.
const KEPT: Duration = Duration::from_secs(15);

/// The maximum number of accepted messages whose numbers are kept. Further messages are rejected.
const MAX_ACCEPTED: usize = 4096;

/// The numbers of the messages that other replicas have forwarded to a session, so that a repeated message is received
/// once.
#[derive(Debug, Default)]
pub(super) struct Received(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    /// The messages that are being received, whose number is limited over all sessions.
    receiving: HashSet<u64>,
    /// The messages that were accepted, oldest first.
    accepted: VecDeque<(Instant, u64)>,
}

/// What is known about a message.
#[derive(Debug)]
pub(super) enum Receipt<'a> {
    /// The message is new.
    New(Receiving<'a>),
    /// The message is being received.
    Receiving,
    Accepted,
    TooMany,
}

/// A message that is being received.
#[derive(Debug)]
pub(super) struct Receiving<'a> {
    received: &'a Received,
    number: u64,
}

impl Received {
    /// Registers a message.
    pub(super) fn begin(&self, number: u64, now: Instant) -> Receipt<'_> {
        let mut numbers = self.lock();
        while numbers.accepted.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > KEPT) {
            numbers.accepted.pop_front();
        }
        if numbers.accepted.iter().any(|(_, accepted)| *accepted == number) {
            return Receipt::Accepted;
        }
        if numbers.receiving.contains(&number) {
            return Receipt::Receiving;
        }
        if numbers.accepted.len() + numbers.receiving.len() >= MAX_ACCEPTED {
            return Receipt::TooMany;
        }
        numbers.receiving.insert(number);
        Receipt::New(Receiving { received: self, number })
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Receiving<'_> {
    /// Records that the message was accepted. Otherwise, a repetition is received as if it were new.
    pub(super) fn accept(self) {
        self.received.lock().accepted.push_back((Instant::now(), self.number));
    }
}

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        self.received.lock().receiving.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_message_is_received_once() {
        let received = Received::default();
        let now = Instant::now();
        let Receipt::New(rejected) = received.begin(1, now) else { panic!("it is new") };
        assert!(matches!(received.begin(1, now), Receipt::Receiving));
        drop(rejected);
        let Receipt::New(accepted) = received.begin(1, now) else { panic!("it was not accepted") };
        accepted.accept();
        assert!(matches!(received.begin(1, now), Receipt::Accepted));
        assert!(matches!(received.begin(2, now), Receipt::New(_)));
        assert!(matches!(received.begin(1, now + KEPT * 2), Receipt::New(_)));
    }

    #[test]
    fn the_numbers_of_accepted_messages_are_limited() {
        let received = Received::default();
        let max = u64::try_from(MAX_ACCEPTED).unwrap();
        for number in 0..max {
            let Receipt::New(receiving) = received.begin(number, Instant::now()) else { panic!("{number}") };
            receiving.accept();
        }
        assert!(matches!(received.begin(max, Instant::now()), Receipt::TooMany));
        assert!(matches!(received.begin(0, Instant::now()), Receipt::Accepted));
        assert!(matches!(received.begin(max, Instant::now() + KEPT * 2), Receipt::New(_)));
    }
}

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    super::log::{RUNNING_TTL, StreamLog},
    Flaky, LEASE,
    backend::Failure,
    event, notify, replica, rest, texts,
};
use crate::{
    cluster::streams::{ReaderRecord, SessionStreams},
    engine::{Session, Subscriber, Subscriptions},
    registry::{ListKind, ListSet},
    revision,
    transport::http::{
        session::SharedStreams as _,
        sse::events::{GENERAL, Resumption, StreamEvents},
    },
};

/// A session at one replica.
struct SessionCopy {
    session: Arc<Session>,
    streams: Arc<SessionStreams>,
}

impl SessionCopy {
    fn of(backend: &Arc<Flaky>) -> Self {
        Self::subscribed(backend, &Arc::default())
    }

    /// A copy whose client is subscribed to all lists and to the resource `a:b`.
    fn subscribed(backend: &Arc<Flaky>, subscriptions: &Arc<Subscriptions>) -> Self {
        Self::start(backend, subscriptions, Session::for_test())
    }

    fn start(backend: &Arc<Flaky>, subscriptions: &Arc<Subscriptions>, mut session: Session) -> Self {
        let subscriber =
            Subscriber::of_session(subscriptions, &session.outbox, ListSet::listed_in(revision::newest_handshake()));
        subscriber.ready();
        subscriber.subscribe_resource("a:b", &|_| true).unwrap();
        session.subscriber = Some(subscriber);
        let session = Arc::new(session);
        let streams = SessionStreams::start(&replica(backend, LEASE), &"session".into(), &session);
        Self { session, streams }
    }

    async fn open(&self, position: Option<u64>) -> StreamEvents {
        loop {
            match self.streams.resume(position.map(|at| (GENERAL, at))).await {
                Ok(Resumption::Events(events)) => return events,
                Ok(other) => panic!("{other:?} after {position:?}"),
                Err(_) => sleep(Duration::from_secs(1)).await,
            }
        }
    }
}

/// The messages arrive in the order of the log, whichever replica has written them.
#[tokio::test(start_paused = true)]
async fn messages_of_several_replicas_arrive_once_and_in_order() {
    use Failure::{After, Before, Hang};
    const MESSAGES: usize = 8;
    // Of two messages of a replica, the second is appended where the replica expects the end of the log.
    let writer = |number: usize| number / 2 % 2;
    for failures in [&[][..], &[Before], &[After], &[Hang], &[After, Before, After], &[After, After]] {
        for waits in [true, false] {
            let backend = Arc::new(Flaky::default());
            let copies = [(); 2].map(|()| SessionCopy::of(&backend));
            let mut response = copies[0].open(None).await;
            let mut found = Vec::new();
            for number in 0..MESSAGES {
                backend.fail(failures);
                notify(&copies[writer(number)].session.outbox, &number.to_string());
                if waits {
                    found.push(event(&mut response).await);
                }
            }
            while found.len() < MESSAGES {
                found.push(event(&mut response).await);
            }
            assert!(found.is_sorted_by_key(|(position, _)| *position), "{found:?}");
            let of = |replica| {
                found.iter().map(|(_, text)| text.parse::<usize>().unwrap()).filter(move |n| writer(*n) == replica)
            };
            for replica in 0..2 {
                assert!(of(replica).eq((0..MESSAGES).filter(|n| writer(*n) == replica)), "{failures:?} {found:?}");
            }
            // The log contains the same messages.
            let mut resumed = copies[1].open(Some(0)).await;
            for expected in &found {
                assert_eq!(event(&mut resumed).await, *expected, "{failures:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_precede_the_streams_of_a_session_are_sent() {
    let session = Session::for_test();
    notify(&session.outbox, "early");
    let copy = SessionCopy::start(&Arc::new(Flaky::default()), &Arc::default(), session);
    assert_eq!(event(&mut copy.open(None).await).await.1, "early");
}

/// A response whose client reads slowly still has an entry to send when the session ends.
#[tokio::test(start_paused = true)]
async fn a_response_ends_after_the_last_message_of_every_replica() {
    let backend = Arc::new(Flaky::default());
    let copies = [(); 2].map(|()| SessionCopy::of(&backend));
    let mut response = copies[0].open(None).await;
    // Each of the first two is more than half of what may be unread.
    let long = &*"x".repeat(600 << 10);
    for (writer, text) in [(0, long), (0, long), (1, "last")] {
        notify(&copies[writer].session.outbox, text);
        sleep(Duration::from_secs(1)).await;
    }
    copies[0].session.outbox.close();
    sleep(Duration::from_secs(1)).await;
    let events = rest(&mut response).await;
    assert!(texts(&events) == [long, long, "last"], "{} events", events.len());
}

/// The session ends while its replica writes the last message.
#[tokio::test(start_paused = true)]
async fn a_response_ends_after_a_message_that_is_being_written() {
    let backend = Arc::new(Flaky::default());
    let copy = SessionCopy::of(&backend);
    let mut response = copy.open(None).await;
    sleep(Duration::from_secs(1)).await;
    backend.fail(&[Failure::Slow]);
    notify(&copy.session.outbox, "last");
    sleep(Duration::from_millis(1)).await;
    copy.session.outbox.close();
    assert_eq!(texts(&rest(&mut response).await), ["last"]);
}

/// A new stream continues with the first message that the client has not taken from the last one.
#[tokio::test(start_paused = true)]
async fn messages_that_were_not_taken_are_sent_again() {
    const MESSAGES: usize = 5;
    for taken in 0..=MESSAGES {
        let backend = Arc::new(Flaky::default());
        let copies = [(); 2].map(|()| SessionCopy::of(&backend));
        let mut response = copies[0].open(None).await;
        for number in 0..MESSAGES {
            notify(&copies[number % 2].session.outbox, &number.to_string());
        }
        let mut found = Vec::new();
        for _ in 0..taken {
            found.push(event(&mut response).await.1);
        }
        // The other messages are ready, too.
        sleep(Duration::from_secs(1)).await;
        drop(response);
        sleep(Duration::from_secs(1)).await;
        let mut next = copies[1].open(None).await;
        for _ in taken..MESSAGES {
            found.push(event(&mut next).await.1);
        }
        found.sort_unstable();
        assert_eq!(found, ["0", "1", "2", "3", "4"], "{taken} taken");
    }
}

/// A response that was replaced at the same replica may read the last message late, and then ends. The response that has
/// replaced it still receives changes.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_replaced_response_holds_no_changes_back() {
    let backend = Arc::new(Flaky::default());
    let subscriptions = Arc::default();
    let copies = [SessionCopy::subscribed(&backend, &subscriptions), SessionCopy::of(&backend)];
    let replaced = copies[0].open(None).await;
    backend.set_delay(Duration::from_secs(2));
    notify(&copies[1].session.outbox, "read late");
    sleep(Duration::from_secs(1)).await;
    backend.set_delay(Duration::ZERO);
    let mut response = copies[0].open(None).await;
    assert_eq!(event(&mut response).await.1, "read late");
    sleep(Duration::from_secs(2)).await;
    drop(replaced);
    sleep(Duration::from_secs(1)).await;
    subscriptions.lists_changed(ListSet::ALL);
    let (_, changed) = timeout(Duration::from_secs(1), event(&mut response)).await.expect("the change was lost");
    assert!(changed.ends_with("list_changed\"}"), "{changed}");
}

/// Receives notifications of a change of the tools and of an update of `a:b`, in any order. Returns the id of the last one.
async fn both_changes(response: &mut StreamEvents) -> u64 {
    let mut found = [event(response).await, event(response).await];
    found.sort_by(|left, right| left.1.cmp(&right.1));
    let [(one, updated), (other, listed)] = found;
    assert!(updated.contains("resources/updated") && listed.contains("tools/list_changed"), "{updated} {listed}");
    one.max(other)
}

async fn is_silent(response: &mut StreamEvents) -> bool {
    timeout(Duration::from_secs(60), std::future::poll_fn(|cx| response.poll_next(true, cx))).await.is_err()
}

/// Changes are not written to the log: thousands of streams would write the same.
#[tokio::test(start_paused = true)]
async fn changes_need_no_operation_of_the_backend() {
    let (backend, subscriptions) = (Arc::new(Flaky::default()), Arc::default());
    let copy = SessionCopy::subscribed(&backend, &subscriptions);
    let mut response = copy.open(None).await;
    sleep(Duration::from_secs(1)).await;
    let operations = backend.operations();
    for _ in 0..3 {
        subscriptions.lists_changed(ListKind::Tools.into());
        subscriptions.resource_updated("a:b");
        both_changes(&mut response).await;
    }
    assert_eq!(backend.operations(), operations);
}

/// A client whose connection has ended may not have received the last changes. The next response repeats them, unless the
/// client names the last one. Later events have later ids.
#[tokio::test(start_paused = true)]
async fn the_next_response_repeats_changes_that_its_client_may_have_missed() {
    // Whether the first response sent them, and whether the client names none, an earlier or the last event.
    for taken in [true, false] {
        for named in ["none", "earlier", "last"] {
            let (backend, subscriptions) = (Arc::new(Flaky::default()), Arc::default());
            let copy = SessionCopy::subscribed(&backend, &subscriptions);
            let mut first = copy.open(None).await;
            notify(&copy.session.outbox, "before");
            let (before, _) = event(&mut first).await;
            subscriptions.lists_changed(ListKind::Tools.into());
            subscriptions.resource_updated("a:b");
            let last = if taken { both_changes(&mut first).await } else { before };
            sleep(Duration::from_secs(1)).await;
            drop(first);
            sleep(Duration::from_secs(1)).await;
            let mut next = copy
                .open(match named {
                    "none" => None,
                    "earlier" => Some(before),
                    _ => Some(last),
                })
                .await;
            if !(taken && named == "last") {
                both_changes(&mut next).await;
            }
            assert!(is_silent(&mut next).await, "{taken} {named}");
            notify(&copy.session.outbox, "after");
            let (after, text) = event(&mut next).await;
            assert_eq!(text, "after", "{taken} {named}");
            assert!(after > last, "{taken} {named}");
            // Nothing is repeated to a client that has received everything, however often it connects.
            for _ in 0..3 {
                next = copy.open(Some(after)).await;
                assert_eq!(next.start(), after, "{taken} {named}");
                assert!(is_silent(&mut next).await, "{taken} {named}");
            }
            // Only what was not received yet is repeated.
            subscriptions.resource_updated("a:b");
            for _ in 0..2 {
                assert!(event(&mut next).await.1.contains("resources/updated"), "{taken} {named}");
                assert!(is_silent(&mut next).await, "{taken} {named}");
                next = copy.open(Some(after)).await;
            }
        }
    }
}

/// Of two responses at one replica, the earlier one sends no changes, whose connection may be dead.
#[tokio::test(start_paused = true)]
async fn a_replaced_response_takes_no_changes() {
    let (backend, subscriptions) = (Arc::new(Flaky::default()), Arc::default());
    let copy = SessionCopy::subscribed(&backend, &subscriptions);
    let replaced = copy.open(None).await;
    subscriptions.lists_changed(ListKind::Tools.into());
    let mut response = copy.open(None).await;
    subscriptions.resource_updated("a:b");
    both_changes(&mut response).await;
    drop(replaced);
    subscriptions.lists_changed(ListKind::Tools.into());
    subscriptions.resource_updated("a:b");
    both_changes(&mut response).await;
}

/// A response that was replaced waits for the end of the other one, and reads nothing meanwhile.
#[tokio::test(start_paused = true)]
async fn a_replaced_response_no_longer_follows_the_log() {
    let copy = SessionCopy::of(&Arc::new(Flaky::default()));
    let mut replaced = copy.open(None).await;
    assert!(is_silent(&mut replaced).await);
    let before = Arc::strong_count(&copy.streams);
    let _response = copy.open(None).await;
    assert!(is_silent(&mut replaced).await);
    assert_eq!(Arc::strong_count(&copy.streams), before);
}

/// The other replica has heard of the same changes.
#[tokio::test(start_paused = true)]
async fn changes_follow_the_stream_to_another_replica() {
    let (backend, subscriptions) = (Arc::new(Flaky::default()), [Arc::default(), Arc::<Subscriptions>::default()]);
    let copies = [0, 1].map(|index| SessionCopy::subscribed(&backend, &subscriptions[index]));
    let mut response = copies[0].open(None).await;
    let mut last = None;
    for round in 0..6 {
        for subscriptions in &subscriptions {
            subscriptions.lists_changed(ListKind::Tools.into());
            subscriptions.resource_updated("a:b");
        }
        if round % 3 != 1 {
            last = Some(both_changes(&mut response).await);
        }
        drop(response);
        response = copies[(round + 1) % 2].open(last).await;
        // The other replica still has to send them, whatever this one has sent.
        last = Some(both_changes(&mut response).await);
    }
}

/// None of the responses lasts long enough to postpone the time at which the log expires.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_resumed_again_and_again_does_not_expire() {
    let backend = Arc::new(Flaky::default());
    let copy = SessionCopy::of(&backend);
    let mut response = copy.open(None).await;
    notify(&copy.session.outbox, "once");
    let (last, _) = event(&mut response).await;
    for _ in 0..30 {
        assert!(is_silent(&mut response).await);
        response = copy.open(Some(last)).await;
    }
    notify(&copy.session.outbox, "later");
    assert_eq!(event(&mut response).await.1, "later");
}

/// A client without sticky routing, whose connections end regularly.
#[tokio::test(start_paused = true)]
async fn moves_without_changes_notify_of_each_change_once_at_each_replica() {
    let (backend, subscriptions) = (Arc::new(Flaky::default()), [(); 3].map(|()| Arc::<Subscriptions>::default()));
    let copies = [0, 1, 2].map(|index| SessionCopy::subscribed(&backend, &subscriptions[index]));
    for subscriptions in &subscriptions {
        subscriptions.lists_changed(ListKind::Tools.into());
        subscriptions.resource_updated("a:b");
    }
    let mut last = None;
    for (step, copy) in copies.iter().cycle().take(12).enumerate() {
        let mut response = copy.open(last).await;
        if step < copies.len() {
            last = Some(both_changes(&mut response).await);
        } else {
            last = Some(response.start());
        }
        assert!(is_silent(&mut response).await, "{step}");
    }
}

/// Clients choose the positions, with which not every backend can compute.
#[tokio::test(start_paused = true)]
async fn the_backend_is_not_asked_for_a_position_that_no_event_has() {
    let backend = Arc::new(Flaky::default());
    let copy = SessionCopy::of(&backend);
    let _response = copy.open(None).await;
    let operations = backend.operations();
    for stream in [GENERAL, 1 << 32] {
        let resumed = copy.streams.resume(Some((stream, u64::MAX))).await;
        assert!(matches!(resumed, Ok(Resumption::Unknown)), "{resumed:?}");
    }
    assert_eq!(backend.operations(), operations);
}

/// The messages up to the position would be skipped.
#[tokio::test(start_paused = true)]
async fn a_general_stream_is_not_resumed_after_a_position_that_it_has_not_reached() {
    let copy = SessionCopy::of(&Arc::new(Flaky::default()));
    let mut response = copy.open(None).await;
    notify(&copy.session.outbox, "one");
    let (last, _) = event(&mut response).await;
    for (position, is_known) in [(last, true), (last + 1, false), (last + 100, false)] {
        let resumed = copy.streams.resume(Some((GENERAL, position))).await.unwrap();
        assert_eq!(matches!(resumed, Resumption::Events(_)), is_known, "{position} after {last}: {resumed:?}");
    }
}

/// Messages that wait for so long that the log would have expired are lost. Later messages are not.
#[tokio::test(start_paused = true)]
async fn a_general_stream_goes_on_after_a_long_failure() {
    let backend = Arc::new(Flaky::default());
    backend.set_read_only(true);
    let copy = SessionCopy::of(&backend);
    notify(&copy.session.outbox, "lost");
    sleep(RUNNING_TTL * 2).await;
    backend.set_read_only(false);
    let mut response = copy.open(None).await;
    notify(&copy.session.outbox, "kept");
    assert_eq!(event(&mut response).await.1, "kept");
}

/// The outbox keeps the streams as its waker, and they keep the outbox, but only until it is closed.
#[tokio::test(start_paused = true)]
async fn streams_end_with_their_session() {
    for failures in [&[][..], &[Failure::Hang]] {
        let backend = Arc::new(Flaky::default());
        let copy = SessionCopy::of(&backend);
        backend.fail(failures);
        notify(&copy.session.outbox, "last");
        // Begins to write.
        sleep(Duration::from_millis(1)).await;
        copy.session.outbox.close();
        let outbox = Arc::downgrade(&copy.session.outbox);
        drop(copy);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(outbox.strong_count(), 0, "{failures:?}");
    }
}

/// The record is renewed although nothing is sent.
#[tokio::test(start_paused = true)]
async fn the_record_of_a_silent_response_is_renewed() {
    let backend = Arc::new(Flaky::default());
    let (copy, other) = (SessionCopy::of(&backend), replica(&backend, LEASE));
    let response = copy.open(None).await;
    sleep(RUNNING_TTL * 3).await;
    assert_eq!(ReaderRecord::is_read(&other.replica, "session").await, Ok(true));
    drop(response);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(ReaderRecord::is_read(&other.replica, "session").await, Ok(false));
}

/// The backend has lost a log, and another replica begins a new one before or after this replica has noticed that.
#[tokio::test(start_paused = true)]
async fn a_response_continues_with_the_log_that_follows_a_lost_one() {
    for has_noticed in [false, true] {
        let backend = Arc::new(Flaky::default());
        let copies = [(); 2].map(|()| SessionCopy::of(&backend));
        let mut response = copies[0].open(None).await;
        for text in ["one", "two", "three"] {
            // The response already waits for this message. After `three`, it hears of no further message.
            sleep(Duration::from_secs(1)).await;
            backend.set_deaf(!has_noticed && text == "three");
            notify(&copies[0].session.outbox, text);
            assert_eq!(event(&mut response).await.1, text);
        }
        let observer = replica(&backend, LEASE);
        StreamLog::new(observer.replica.backend(), "session", GENERAL).remove().await.unwrap();
        if has_noticed {
            sleep(Duration::from_secs(1)).await;
        }
        notify(&copies[1].session.outbox, "new");
        sleep(RUNNING_TTL).await;
        assert_eq!(event(&mut response).await.1, "new", "{has_noticed}");
    }
}

/// An earlier response waits until no other response carries the stream.
#[tokio::test(start_paused = true)]
async fn a_stream_is_unread_once_its_response_has_failed_or_ended_during_a_failure() {
    for is_announced in [false, true] {
        let backend = Arc::new(Flaky::default());
        let (copy, streams) = (SessionCopy::of(&backend), replica(&backend, LEASE));
        let is_read = async || ReaderRecord::is_read(&streams.replica, "session").await.unwrap();
        let mut response = copy.open(None).await;
        if is_announced {
            let later = copy.open(None).await;
            backend.set_read_only(true);
            drop(later);
            sleep(LEASE / 2).await;
            assert!(is_read().await);
            backend.set_read_only(false);
        } else {
            backend.set_mute(true);
            assert!(copy.streams.resume(None).await.is_err());
            backend.set_mute(false);
        }
        let ended = timeout(LEASE, poll_fn(|cx| response.poll_next(true, cx))).await;
        assert!(matches!(ended, Ok(None)), "{is_announced}");
        assert!(!is_read().await, "{is_announced}");
    }
}

//! The limits, changes and renewals of sessions in the backend.

use std::sync::OnceLock;

use tokio::time::{advance, sleep};

use super::*;
use crate::{
    backend::{BackendFuture, MemoryBackend},
    cluster::session_record::{invalidate, invalidate_missed},
    engine::{Subscriber, Subscriptions},
    mutex::Mutex,
    registry::ListSet,
    revision,
    testing::test_backend::{BackendHook, BackendMethod, BackendOperation, Failing, TestBackend},
};

/// Announces a change of a session whenever its record was read.
#[derive(Debug, Default)]
struct Changing(OnceLock<Arc<Session>>);

impl BackendHook for Changing {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        let is_read = operation.method == BackendMethod::Get && operation.key.starts_with("mcp/1/session/");
        Box::pin(async move {
            let result = run.await;
            self.0.get().into_iter().filter(|_| is_read).for_each(|session| invalidate(session));
            result
        })
    }
}

/// The record may have been read before the change.
#[tokio::test(start_paused = true)]
async fn a_session_that_changes_while_it_is_read_again_is_still_outdated() {
    let interval = Duration::from_secs(60);
    let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(Changing::default()));
    let replica = Arc::new(Replica::new(Arc::clone(&backend) as Arc<dyn Backend>, interval));
    let store = SessionStore::new(replica, interval * 60, interval, 1);
    let session = Arc::new(Session::for_test());
    let stored = store.create("id", &session, "peer".to_owned()).await.unwrap().unwrap();
    let _ = session.shared.set(Box::new(SharedSession::new("id".into(), stored, "")));
    let is_stale = || SharedSession::of(&session).unwrap().is_stale();
    invalidate(&session);
    assert!(store.refresh(&session).await.unwrap());
    assert!(!is_stale(), "nothing has changed meanwhile");
    backend.0.set(Arc::clone(&session)).unwrap();
    invalidate(&session);
    assert!(store.refresh(&session).await.unwrap());
    assert!(is_stale());
}

/// The replica may have missed the messages about both the subscription and a change.
#[tokio::test(start_paused = true)]
async fn a_subscription_whose_message_may_be_missed_counts_as_updated() {
    type Outdate = fn(&Session);
    // A later change of the session makes no difference.
    let outdates: [(Outdate, bool); 3] = [
        (invalidate, false),
        (invalidate_missed, true),
        (
            |session| {
                invalidate_missed(session);
                invalidate(session);
            },
            true,
        ),
    ];
    for (outdate, is_updated) in outdates {
        let interval = Duration::from_secs(60);
        let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
        let store = SessionStore::new(replica, interval * 60, interval, 1);
        let (subscriptions, mut session) = (Arc::<Subscriptions>::default(), Session::for_test());
        let subscriber = Subscriber::of_session(&subscriptions, &session.outbox, revision::newest_handshake());
        session.subscriber = Some(subscriber);
        let session = Arc::new(session);
        let stored = store.create("id", &session, "peer".to_owned()).await.unwrap().unwrap();
        let mut record = stored.record.clone();
        record.apply(&SessionChange::Subscribed("a:b".to_owned())).unwrap();
        record.revision += 1;
        store.write("id", RecordCondition::Version(stored.version), &record).await.unwrap().unwrap();
        let _ = session.shared.set(Box::new(SharedSession::new("id".into(), stored, "")));
        subscriptions.everything_changed(ListSet::ALL);
        outdate(&session);
        assert!(store.refresh(&session).await.unwrap());
        let mut output = Vec::new();
        session.outbox.drain_pending(&mut output);
        let output = String::from_utf8(output).unwrap();
        assert_eq!(output.contains("notifications/resources/updated"), is_updated, "{output}");
    }
}

/// Clients that were active recently keep their sessions.
#[tokio::test(start_paused = true)]
async fn the_session_unused_longest_is_evicted() {
    const SESSIONS: usize = 10;
    let interval = Duration::from_secs(60);
    let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
    let store = SessionStore::new(replica, interval * 60, interval, SESSIONS);
    let create = async |id: &str| store.create(id, &Session::for_test(), "peer".to_owned()).await.unwrap().is_some();
    // Neither the order of the ids nor its opposite.
    let id = |number: usize| (number * 3 % SESSIONS).to_string();
    for number in 0..SESSIONS {
        assert!(create(&id(number)).await);
        sleep(interval).await;
    }
    for oldest in 0..3 {
        assert!(create(&format!("new {oldest}")).await);
        for number in 0..SESSIONS {
            let is_known = store.load(&id(number)).await.unwrap().is_some();
            assert_eq!(is_known, number > oldest, "{number} after {oldest}");
        }
    }
}

/// The sample ends with the first sessions if it begins with one of the last.
#[tokio::test(start_paused = true)]
async fn an_eighth_of_a_sample_is_evicted_wherever_it_begins() {
    const SESSIONS: usize = 2 * EVICTION_SAMPLE;
    for begin in [0, SESSIONS / 2, SESSIONS * 3 / 4, SESSIONS] {
        let interval = Duration::from_secs(60);
        let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
        let store = SessionStore::new(replica, interval * 60, interval, SESSIONS);
        let session = Session::for_test();
        let create = async |id: String| store.create(&id, &session, "peer".to_owned()).await.unwrap().is_some();
        for number in 0..SESSIONS {
            assert!(create(format!("{number:03}")).await);
        }
        sleep(interval * 3).await;
        assert!(create(format!("{begin:03} new")).await);
        let left = store.backend().count(&peer_group("peer")).await.unwrap();
        assert_eq!(left, SESSIONS - EVICTION_SAMPLE / 8 + 1, "{begin}");
    }
}

/// A replica may be using the session until the end of the time after which it is unused.
#[tokio::test(start_paused = true)]
async fn a_session_that_may_be_in_use_is_not_evicted() {
    let interval = Duration::from_secs(60);
    let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
    let store = SessionStore::new(replica, interval * 60, interval, 1);
    let create = async |id: &str| store.create(id, &Session::for_test(), "peer".to_owned()).await.unwrap().is_some();
    assert!(create("first").await);
    advance(store.unused_after).await;
    assert!(!create("second").await);
    advance(Duration::from_millis(1)).await;
    assert!(create("second").await);
}

/// Returns a session of the store, with an id.
async fn opened(store: &SessionStore) -> Session {
    let session = Session::for_test();
    let stored = store.create("id", &session, "peer".to_owned()).await.unwrap().unwrap();
    let _ = session.shared.set(Box::new(SharedSession::new("id".into(), stored, "")));
    session
}

/// Another replica has written the record, or has deleted it.
#[tokio::test(start_paused = true)]
async fn a_session_is_renewed_unless_it_has_ended() {
    for has_ended in [false, true] {
        let (interval, always) = (Duration::from_secs(60), RecordCondition::Always);
        let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
        let store = SessionStore::new(replica, interval * 60, interval, 1);
        let session = opened(&store).await;
        sleep(interval).await;
        let (key, backend) = (session_key("id"), store.backend());
        let record = backend.get(&key).await.unwrap().unwrap();
        if has_ended {
            assert!(backend.delete(&key, always).await.unwrap());
        } else {
            backend.set(&key, always, record.value.to_vec(), interval).await.unwrap();
        }
        assert_eq!(store.renew(&session).await, Ok(!has_ended));
        assert_eq!(session.has_ended(), has_ended);
        sleep(interval * 2).await;
        assert_eq!(store.load("id").await.unwrap().is_some(), !has_ended);
    }
}

/// The URIs that a client has unsubscribed from are announced unless they are long. URIs to which it was not subscribed
/// do not count.
#[tokio::test(start_paused = true)]
async fn announcements_of_changes_are_short() {
    let [short, fitting, long] = [10, MAX_SENT_BYTES - 10, MAX_SENT_BYTES].map(|length| "x".repeat(length));
    for (unsubscribed, is_announced) in
        [(vec![&short], true), (vec![&short, &fitting], true), (vec![&short, &long], false)]
    {
        for is_subscribed in [true, false] {
            let last = Arc::<Mutex<Vec<u8>>>::default();
            let kept = Arc::clone(&last);
            let keep = move |operation: BackendOperation<'_>| {
                if operation.method == BackendMethod::Publish {
                    *kept.lock() = operation.value.to_owned();
                }
                Ok(())
            };
            let backend = TestBackend::<_, MemoryBackend>::new(Failing(keep));
            let replica = Arc::new(Replica::new(Arc::new(backend), Duration::from_secs(60)));
            let store = SessionStore::new(replica, Duration::from_secs(3600), Duration::from_secs(60), 1);
            let session = opened(&store).await;
            let change = async |change: fn(String) -> SessionChange, uris: &[&String]| {
                let changes = uris.iter().map(|uri| SessionMessage::Change(change((*uri).clone())));
                assert!(store.send(&session, changes.collect()).await.unwrap());
            };
            let subscribed = if is_subscribed { unsubscribed.clone() } else { vec![&short] };
            change(SessionChange::Subscribed, &subscribed).await;
            change(SessionChange::Unsubscribed, &unsubscribed).await;
            let published = last.lock().clone();
            let is_short = published.len() < MAX_SENT_BYTES + 200;
            let has_uri = String::from_utf8(published).unwrap().contains(&format!("\"{short}\""));
            let case = format!("{is_subscribed} {}", unsubscribed.len());
            assert_eq!((is_short, has_uri), (true, is_announced || !is_subscribed), "{case}");
        }
    }
}

/// The replica that runs the call may hear no messages for the time of its lease.
#[tokio::test(start_paused = true)]
async fn a_cancellation_is_kept_for_longer_than_a_lease() {
    for lease in [CANCELLATION_TTL / 6, CANCELLATION_TTL * 10] {
        let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), lease));
        let store = SessionStore::new(replica, lease, lease, 1);
        let session = opened(&store).await;
        assert!(store.send(&session, vec![SessionMessage::Cancel("1".to_owned())]).await.unwrap());
        sleep(lease).await;
        assert_eq!(store.cancellations("id").await.unwrap(), ["1"], "{lease:?}");
    }
}

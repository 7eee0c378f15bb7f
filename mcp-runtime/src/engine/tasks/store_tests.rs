//! Tests of the store of tasks with a backend in memory.

use std::{
    future::pending,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use serde_json::json;
use tokio::sync::Notify;

use super::{
    records::TaskWaiter,
    request::TaskReader,
    store::{TaskStore, Updated},
    task::{StoredOutcome, TASKS, Task, TaskKey, TaskStatus, hash, test_key},
};
use crate::{
    backend::{Backend, BackendError, BackendFuture, MemoryBackend, RecordCondition, Records as _, Timestamp},
    cluster::Cluster,
    engine::{limits::TaskLimits, replicas::Replicas},
    testing::test_backend::{BackendHook, BackendMethod, BackendOperation, Failing, TestBackend, unavailable},
};

const SERVER: &str = "files";
const HOUR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(10);
const LIMITS: TaskLimits = TaskLimits { total: 3, per_peer: 2 };

/// Runs every operation. Of an insertion, the response is lost: it fails, or never arrives.
#[derive(Debug, Default)]
struct LostInsertion {
    fails: bool,
}

impl BackendHook for LostInsertion {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        if operation.method != BackendMethod::Insert {
            return run;
        }
        Box::pin(async move {
            run.await?;
            if !self.fails {
                pending::<()>().await;
            }
            Err(BackendError::Unavailable("the response was lost".to_owned()))
        })
    }
}

fn store() -> (Arc<MemoryBackend>, TaskStore) {
    let backend = Arc::new(MemoryBackend::default());
    (Arc::clone(&backend), TaskStore::new(backend, None, SERVER))
}

/// Holds the next change of a task back until the test releases it.
#[derive(Debug, Default)]
struct HeldChange {
    is_armed: AtomicBool,
    begun: Notify,
    released: Notify,
}

impl BackendHook for HeldChange {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        let is_change = operation.method == BackendMethod::Set && operation.key.starts_with(TASKS);
        if !is_change || !self.is_armed.swap(false, Ordering::SeqCst) {
            return run;
        }
        Box::pin(async {
            self.begun.notify_one();
            self.released.notified().await;
            run.await
        })
    }
}

/// Returns a store of a process that shares the backend, and its replica.
fn shared(backend: &Arc<impl Backend>) -> (Arc<dyn Replicas>, TaskStore) {
    let backend = Arc::clone(backend) as Arc<dyn Backend>;
    let replica = Cluster::for_test(Arc::clone(&backend), LEASE);
    (Arc::clone(&replica), TaskStore::new(backend, Some(replica), SERVER))
}

fn key(store: &TaskStore, owner: &str, random: char, created: Timestamp) -> TaskKey {
    test_key(store.owner(owner), random, created)
}

fn task(store: &TaskStore, owner: &str, name: char, ttl: Duration) -> Task {
    Task::new(key(store, owner, name, Timestamp::now()), hash(owner), ttl, Duration::from_secs(1))
}

async fn insert(store: &TaskStore, owner: &str, name: char, limits: TaskLimits) -> Option<Task> {
    let mut task = task(store, owner, name, HOUR);
    store.insert(&mut task, limits).await.ok().map(|()| task)
}

async fn finish(store: &TaskStore, task: &Task, json: &str) -> bool {
    let task = store.read(&task.key).await.unwrap().unwrap();
    let Some(outcome) = store.store_outcome(&task, json).await.unwrap() else { return false };
    let finished = store.update(task, |state| {
        state.status = TaskStatus::Completed;
        state.outcome = Some(outcome.clone());
    });
    matches!(finished.await.unwrap(), Updated::Applied(_))
}

/// Returns the first characters of the ids of an owner's tasks.
async fn names(store: &TaskStore, owner: &str) -> String {
    initials(&store.page(owner, None, 99).await.unwrap().0)
}

fn initials(tasks: &[Task]) -> String {
    tasks.iter().map(|task| &task.id()[..1]).collect()
}

#[tokio::test]
async fn limits_hold_per_peer_and_in_total() {
    let (backend, store) = store();
    for (owner, name, is_inserted) in
        [("a", '1', true), ("a", '2', true), ("a", '3', false), ("b", '4', true), ("c", '5', false)]
    {
        assert_eq!(insert(&store, owner, name, LIMITS).await.is_some(), is_inserted, "{name} of {owner}");
    }
    assert_eq!(backend.count(TASKS).await, Ok(3));
    // An id is used once.
    let (_, store) = self::store();
    let mut task = task(&store, "a", '1', HOUR);
    assert!(store.insert(&mut task.clone(), LIMITS).await.is_ok());
    assert!(store.insert(&mut task, LIMITS).await.is_err());
}

/// The error says what is full, and when to retry.
#[tokio::test]
async fn finished_tasks_count_until_they_expire() {
    let (_, store) = store();
    let first = insert(&store, "a", '1', LIMITS).await.unwrap();
    assert!(finish(&store, &first, "7").await);
    insert(&store, "a", '2', LIMITS).await.unwrap();
    let rejected =
        async |owner, name| store.insert(&mut task(&store, owner, name, HOUR), LIMITS).await.unwrap_err().to_string();
    let of_client = rejected("a", '3').await;
    assert!(of_client.contains("limit is 2 of one client"), "{of_client}");
    let seconds = of_client.rsplit(' ').nth(1).and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (3000..=3601).contains(&seconds)), "{of_client}");
    insert(&store, "b", '4', LIMITS).await.unwrap();
    let in_total = rejected("c", '5').await;
    assert!(in_total.contains("limit is 3 of all clients"), "{in_total}");
    assert_eq!([names(&store, "a").await, names(&store, "b").await], ["12", "4"]);
}

/// The tasks of `a` are stored behind those of `b`.
#[tokio::test]
async fn a_client_with_too_many_tasks_waits_for_the_first_of_its_own_to_expire() {
    let (_, store) = store();
    let limits = TaskLimits { total: 99, per_peer: 2 };
    for (owner, name, minutes) in [("b", '1', 30), ("b", '2', 60), ("a", '3', 10), ("a", '4', 20)] {
        let mut task = task(&store, owner, name, Duration::from_secs(60 * minutes));
        store.insert(&mut task, limits).await.unwrap();
    }
    for (owner, minutes) in [("a", 10), ("b", 30)] {
        let rejected = store.insert(&mut task(&store, owner, '5', HOUR), limits).await.unwrap_err().to_string();
        let seconds = rejected.rsplit(' ').nth(1).and_then(|seconds| seconds.parse::<u64>().ok());
        let expected = 60 * minutes - 30..=60 * minutes + 1;
        assert!(seconds.is_some_and(|seconds| expected.contains(&seconds)), "{owner}: {rejected}");
    }
}

#[tokio::test]
async fn results_beyond_the_memory_of_a_peer_are_rejected_and_others_kept() {
    let (_, store) = store();
    for (name, owner, mebibytes, is_kept) in [('1', "ada", 20, true), ('2', "ada", 13, false), ('3', "eve", 13, true)] {
        let task = insert(&store, owner, name, LIMITS).await.unwrap();
        assert_eq!(finish(&store, &task, &"7".repeat(mebibytes << 20)).await, is_kept, "{name}");
    }
    let (found, _) = store.page("ada", None, 9).await.unwrap();
    assert_eq!(store.outcome(&found[0]).await.unwrap().unwrap().len(), 20 << 20);
}

/// A result that was not stored does not count against its peer.
#[tokio::test]
async fn a_result_that_could_not_be_stored_uses_no_memory() {
    let refusal = Arc::<Mutex<Option<BackendError>>>::default();
    let refuses = Arc::clone(&refusal);
    let backend = TestBackend::<_, MemoryBackend>::new(Failing(move |operation: BackendOperation<'_>| {
        let error = refuses.lock().unwrap().clone().filter(|_| operation.method == BackendMethod::Set);
        error.map_or(Ok(()), Err)
    }));
    let store = TaskStore::new(Arc::new(backend), None, SERVER);
    let task = insert(&store, "ada", '1', LIMITS).await.unwrap();
    let large = "7".repeat(20 << 20);
    for error in [BackendError::Full, BackendError::Unavailable("test".to_owned())] {
        *refusal.lock().unwrap() = Some(error.clone());
        let refused = store.store_outcome(&task, &large).await;
        let expected = if error == BackendError::Full { Ok(None) } else { Err(error) };
        assert_eq!(refused.map(|stored| stored.map(drop)), expected);
    }
    *refusal.lock().unwrap() = None;
    assert!(finish(&store, &task, &large).await);
}

/// The first pauses between the attempts add up to 3.1 seconds.
#[tokio::test(start_paused = true)]
async fn a_request_that_ends_lets_another_one_ask_once_the_backend_responds() {
    let failures = Arc::<AtomicUsize>::default();
    let left = Arc::clone(&failures);
    let backend = TestBackend::<_, MemoryBackend>::new(Failing(move |operation: BackendOperation<'_>| {
        let fails = operation.method == BackendMethod::Set
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails { Err(unavailable()) } else { Ok(()) }
    }));
    let store = Arc::new(TaskStore::new(Arc::new(backend), None, SERVER));
    let task = insert(&store, "a", '1', LIMITS).await.unwrap();
    let mut reader = TaskReader::new(Arc::clone(&store), task.key.clone());
    assert!(reader.claim(task.clone()).await.unwrap().is_some_and(|task| reader.may_ask(&task)));
    failures.store(5, Ordering::SeqCst);
    drop(reader);
    for (seconds, is_held) in [(1, true), (3, false)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(store.read(&task.key).await.unwrap().unwrap().state.reader.is_some(), is_held);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_tasks_are_unknown() {
    let (backend, store) = store();
    let mut task = task(&store, "a", '1', Duration::from_millis(20));
    store.insert(&mut task, LIMITS).await.unwrap();
    let mut changes = store.watch(&task.key).await;
    changes.changed(&task).await;
    std::thread::sleep(Duration::from_millis(30));
    assert!(store.load(&task.key).await.unwrap().is_none());
    tokio::time::advance(Duration::from_millis(30)).await;
    assert_eq!(backend.count(TASKS).await, Ok(0));
}

/// The time to live of a task begins with its creation.
#[test]
fn a_task_that_is_updated_expires_no_later() {
    let mut task = task(&store().1, "a", '1', HOUR);
    let expires = task.expires();
    task.state.updated = task.state.updated.saturating_add(HOUR);
    assert_eq!(task.expires(), expires);
}

#[tokio::test]
async fn only_the_next_version_replaces_a_task() {
    let (_, store) = store();
    let first = insert(&store, "a", '1', LIMITS).await.unwrap();
    let mut changes = store.watch(&first.key).await;
    let next = |task: &Task| {
        let mut state = task.state.clone();
        state.version += 1;
        state
    };
    let second = store.replace(&first, next(&first)).await.unwrap().unwrap();
    assert!(store.replace(&first, next(&first)).await.unwrap().is_none());
    changes.changed(&first).await;
    assert!(pin!(changes.changed(&second)).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(store.replace(&second, next(&second)).await.unwrap().is_some());
    let unknown = task(&store, "a", '2', HOUR);
    assert!(store.replace(&unknown, next(&unknown)).await.unwrap().is_none());
}

#[tokio::test]
async fn pages_contain_the_tasks_of_an_owner_in_the_order_of_their_creation() {
    let (backend, store) = store();
    let limits = TaskLimits { total: 99, per_peer: 9 };
    let now = Timestamp::now().as_unix_millis();
    // Tasks of other owners precede and follow those of `a`, in the order of their hashes.
    let of_others = ["d", "e", "f", "g"].map(|owner| (owner, 'z', 0));
    let of_two = [("a", 'b', 1), ("a", 'c', 1), ("b", 'x', 0), ("b", 'y', 3), ("a", 'a', 2)];
    for (owner, name, millis) in of_two.into_iter().chain(of_others) {
        let key = key(&store, owner, name, Timestamp::from_unix_millis(now + millis));
        let mut task = Task::new(key, String::new(), HOUR, HOUR);
        store.insert(&mut task, limits).await.unwrap();
    }
    let key_at = |name: char, millis: u64| key(&store, "a", name, Timestamp::from_unix_millis(now + millis));
    for (after, size, expected, has_more) in [
        (None, 9, "bca", false),
        (None, 3, "bca", false),
        (None, usize::MAX, "bca", false),
        (None, 2, "bc", true),
        (Some(('b', 1)), 9, "ca", false),
        (Some(('b', 1)), 1, "c", true),
        // The task of a cursor may be gone.
        (Some(('d', 1)), 9, "a", false),
        (Some(('a', 2)), 9, "", false),
    ] {
        let after = after.map(|(name, millis)| key_at(name, millis));
        let (page, last) = store.page("a", after.as_ref(), size).await.unwrap();
        assert_eq!((&*initials(&page), last.is_some()), (expected, has_more), "{after:?} {size}");
        assert!(last.is_none_or(|last| last == page[page.len() - 1].key), "{after:?} {size}");
    }
    assert_eq!(names(&store, "c").await, "");
    // A newer release may have stored a task.
    let unreadable = key_at('c', 1).record();
    for (record, size) in [(unreadable.clone(), 2), (unreadable + "-newer", 3)] {
        let newer = backend.set(&record, RecordCondition::Always, b"newer".to_vec(), HOUR).await.unwrap();
        assert!(newer.is_some());
        let (first, last) = store.page("a", None, size).await.unwrap();
        let (second, _) = store.page("a", last.as_ref(), size).await.unwrap();
        assert_eq!([first, second].map(|page| initials(&page)), ["b", "a"], "{record}");
    }
}

/// Short and long outcomes, and a record that a newer release has written.
#[tokio::test]
async fn outcomes_are_read_as_they_were_stored() {
    let (backend, store) = store();
    for (name, length, is_inline) in [('1', 0, true), ('2', 2046, true), ('3', 2047, false), ('4', 4 << 20, false)] {
        let task = insert(&store, "a", name, TaskLimits::default()).await.unwrap();
        let json = format!("\"{}\"", "é\\".repeat(length / 3) + &"x".repeat(length % 3));
        assert!(finish(&store, &task, &json).await);
        let stored = store.load(&task.key).await.unwrap().unwrap();
        assert_eq!(matches!(stored.state.outcome, Some(StoredOutcome::Inline(_))), is_inline, "{length}");
        assert_eq!(*store.outcome(&stored).await.unwrap().unwrap(), *json.as_bytes(), "{length}");
        let record = backend.get(&task.key.record()).await.unwrap().unwrap();
        assert!(record.value.len() < 6000);
        let newer = String::from_utf8_lossy(&record.value).replace("\"form\":1", "\"form\":2");
        assert!(
            Task::decode(task.key.clone(), &crate::backend::Record::new(newer.into_bytes(), record.version)).is_err()
        );
    }
}

/// A process ends, and two other processes notice it at the same time.
#[tokio::test(start_paused = true)]
async fn a_task_whose_process_is_gone_fails_within_the_lease() {
    let backend = Arc::new(MemoryBackend::default());
    let (gone, first) = shared(&backend);
    let (_ada, second) = shared(&backend);
    let (_bob, third) = shared(&backend);
    let (lost, own) =
        (insert(&first, "a", '1', LIMITS).await.unwrap(), insert(&second, "a", '2', LIMITS).await.unwrap());
    let question = json!({"key": "1", "method": "elicitation/create", "params": "{}", "response": null});
    let asks = first.update(lost, |state| state.inputs = vec![serde_json::from_value(question.clone()).unwrap()]);
    let lost = asks.await.unwrap().task().unwrap();
    tokio::time::sleep(3 * LEASE).await;
    assert_eq!(second.load(&lost.key).await.unwrap().unwrap().state.status, TaskStatus::Working, "it is alive");
    let (mut waits, mut also_waits) = (second.watch(&lost.key).await, third.watch(&lost.key).await);
    // Dropping the replica releases its slot, as if the lease had passed.
    drop((gone, first));
    let began = tokio::time::Instant::now();
    let until_failed = async |store: &TaskStore, changes: &mut TaskWaiter| loop {
        let task = store.load(&lost.key).await.unwrap().unwrap();
        if task.state.status.is_final() {
            return (task.stored, task.state);
        }
        changes.changed(&task).await;
    };
    let (seen, also_seen) = tokio::join!(until_failed(&second, &mut waits), until_failed(&third, &mut also_waits));
    assert_eq!(seen, also_seen);
    assert!(began.elapsed() <= LEASE, "{:?}", began.elapsed());
    let (status, message) = (seen.1.status, seen.1.message.unwrap());
    assert_eq!((status, seen.1.inputs), (TaskStatus::Failed, Vec::new()));
    assert!(message.contains("its function may have run"), "{message}");
    let (listed, _) = third.page("a", None, 9).await.unwrap();
    let statuses: Vec<_> = listed.iter().map(|task| task.state.status).collect();
    assert_eq!(statuses, [TaskStatus::Failed, TaskStatus::Working]);
    assert!(third.load(&own.key).await.unwrap().is_some());
}

/// The process gets a new lease while another process notices that the old lease has expired.
#[tokio::test(start_paused = true)]
async fn a_task_is_not_lost_if_its_process_has_a_new_lease() {
    let backend = Arc::new(TestBackend::<HeldChange>::default());
    let (former, first) = shared(&backend);
    let task = insert(&first, "a", '1', LIMITS).await.unwrap();
    let lease = format!("mcp/1/replica/{}", former.slot().unwrap());
    assert!(backend.delete(&lease, RecordCondition::Always).await.unwrap());
    let (renewed, owner) = shared(&Arc::new(backend.other_process()));
    renewed.join().await.unwrap();
    let (_other, reader) = shared(&backend);
    let renew = async {
        backend.begun.notified().await;
        let task = owner.read(&task.key).await.unwrap().unwrap();
        let updated = owner.update(task, |state| state.runner = owner.runner()).await.unwrap();
        assert!(matches!(updated, Updated::Applied(_)));
        backend.released.notify_one();
    };
    backend.is_armed.store(true, Ordering::SeqCst);
    let (loaded, ()) = tokio::join!(reader.load(&task.key), renew);
    assert_eq!(loaded.unwrap().unwrap().state.status, TaskStatus::Working);
}

/// A process that waits for the end of a task is woken by a change that another process makes.
#[tokio::test(start_paused = true)]
async fn changes_wake_those_who_wait_in_other_processes() {
    let backend = Arc::new(MemoryBackend::default());
    let (_ada, first) = shared(&backend);
    let (_bob, second) = shared(&backend);
    let task = insert(&first, "a", '1', LIMITS).await.unwrap();
    let mut changes = second.watch(&task.key).await;
    let seen = second.load(&task.key).await.unwrap().unwrap();
    let seen = second.begin_watching(seen).await.unwrap().unwrap();
    let began = tokio::time::Instant::now();
    assert!(finish(&first, &task, "7").await);
    changes.changed(&seen).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "a message wakes, not a timer");
    let found = second.load(&second.key("a", task.id()).unwrap()).await.unwrap().unwrap();
    assert_eq!(found.state.status, TaskStatus::Completed);
    // The process that runs a task is woken even if no other process waits.
    let task = insert(&first, "a", '2', LIMITS).await.unwrap();
    let mut changes = first.watch_own(&task.key);
    let began = tokio::time::Instant::now();
    assert!(finish(&second, &task, "7").await);
    changes.changed(&task).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A later waiter does not hide an earlier waiter.
#[tokio::test]
async fn a_task_stays_watched_while_another_process_waits() {
    let backend = Arc::new(MemoryBackend::default());
    let (_ada, first) = shared(&backend);
    let (_bob, second) = shared(&backend);
    let [watched, read] =
        [insert(&first, "a", '1', LIMITS).await.unwrap(), insert(&first, "a", '2', LIMITS).await.unwrap()];
    let watched = first.begin_watching(watched).await.unwrap().unwrap();
    assert!(!watched.state.is_watched, "only the process that runs it waits");
    let watched = second.begin_watching(watched).await.unwrap().unwrap();
    let watched = first.begin_watching(watched).await.unwrap().unwrap();
    let mut reader = TaskReader::new(Arc::new(second), read.key.clone());
    let read = reader.claim(read).await.unwrap().unwrap();
    assert!(watched.state.is_watched && read.state.is_watched);
}

/// A request without the right claims it while a newer request does the same.
#[tokio::test]
async fn an_older_request_does_not_take_the_right_to_ask_from_a_newer_one() {
    let backend = Arc::new(TestBackend::<HeldChange>::default());
    let store = Arc::new(TaskStore::new(Arc::clone(&backend) as Arc<dyn Backend>, None, SERVER));
    let task = insert(&store, "a", '1', LIMITS).await.unwrap();
    let [mut older, mut newer] = [(); 2].map(|()| TaskReader::new(Arc::clone(&store), task.key.clone()));
    let task = older.claim(task).await.unwrap().unwrap();
    let task = older.pass_on(task).await.unwrap().unwrap();
    backend.is_armed.store(true, Ordering::SeqCst);
    let overtake = async {
        backend.begun.notified().await;
        let task = store.read(&task.key).await.unwrap().unwrap();
        assert!(newer.claim(task).await.unwrap().is_some_and(|task| newer.may_ask(&task)));
        backend.released.notify_one();
    };
    let (claimed, ()) = tokio::join!(older.claim(task.clone()), overtake);
    assert!(!older.may_ask(&claimed.unwrap().unwrap()));
    assert!(newer.may_ask(&store.read(&task.key).await.unwrap().unwrap()));
}

#[tokio::test]
async fn the_tasks_of_another_server_are_unknown() {
    let backend = Arc::new(MemoryBackend::default());
    let (replica, store) = shared(&backend);
    let task = insert(&store, "a", '1', LIMITS).await.unwrap();
    let other = TaskStore::new(backend, Some(replica), "mail");
    for (store, is_known) in [(&store, true), (&other, false)] {
        let key = store.key("a", task.id()).unwrap();
        assert_eq!(store.load(&key).await.unwrap().is_some(), is_known);
        assert_eq!(names(store, "a").await, if is_known { "1" } else { "" });
    }
}

/// No process runs a task whose insertion seems to have failed, or was dropped.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_inserted_without_a_response_is_deleted() {
    for fails in [false, true] {
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(LostInsertion { fails }));
        let store = TaskStore::new(backend, None, SERVER);
        let mut new = task(&store, "a", '1', HOUR);
        let inserted = tokio::time::timeout(Duration::from_secs(1), store.insert(&mut new, LIMITS)).await;
        assert_eq!(inserted.is_ok(), fails);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(names(&store, "a").await, "");
    }
}

/// The clock of this process is ahead by more than the task lives.
#[tokio::test]
async fn a_task_of_a_process_with_another_clock_exists_until_it_expires() {
    let backend = Arc::new(TestBackend::<()>::default());
    backend.set_clock_back(Duration::from_secs(70));
    let replica = Cluster::for_test(Arc::clone(&backend) as Arc<dyn Backend>, LEASE);
    let store = TaskStore::new(Arc::clone(&backend) as Arc<dyn Backend>, Some(replica), SERVER);
    let key = key(&store, "a", '1', backend.now().await.unwrap());
    let mut created = Task::new(key, hash("a"), Duration::from_secs(60), Duration::from_secs(1));
    store.insert(&mut created, LIMITS).await.unwrap();
    assert!(store.read(&created.key).await.unwrap().is_some());
    assert!(finish(&store, &created, "{}").await);
    assert_eq!(names(&store, "a").await, "1");
}

/// This process remembers what it has ended.
#[tokio::test]
async fn an_ended_task_exists_only_for_its_owner() {
    let (_replica, store) = shared(&Arc::new(MemoryBackend::default()));
    let task = insert(&store, "a", '1', LIMITS).await.unwrap();
    assert!(finish(&store, &task, "7").await);
    for (owner, is_known) in [("a", true), ("b", false)] {
        let key = store.key(owner, task.id()).unwrap();
        assert_eq!(store.load(&key).await.unwrap().is_some(), is_known, "{owner}");
    }
}

/// This process forgets what it has ended when that expires.
#[tokio::test(start_paused = true)]
async fn an_ended_task_is_unknown_once_it_has_expired() {
    let (_replica, store) = shared(&Arc::new(MemoryBackend::default()));
    let task = insert(&store, "a", '1', LIMITS).await.unwrap();
    assert!(finish(&store, &task, "7").await);
    assert!(store.load(&task.key).await.unwrap().is_some());
    tokio::time::advance(HOUR + Duration::from_secs(1)).await;
    assert!(store.load(&task.key).await.unwrap().is_none());
}

/// The memory for tasks that have ended is bounded.
#[tokio::test(start_paused = true)]
async fn only_the_tasks_that_have_ended_last_are_remembered() {
    let backend = Arc::new(MemoryBackend::default());
    let (_replica, store) = shared(&backend);
    let limits = TaskLimits { total: 999, per_peer: 999 };
    let created = Timestamp::now().as_unix_millis();
    let mut keys = Vec::new();
    for number in 0..300 {
        let key = key(&store, "a", '1', Timestamp::from_unix_millis(created + number));
        let mut task = Task::new(key, String::new(), HOUR, HOUR);
        store.insert(&mut task, limits).await.unwrap();
        assert!(finish(&store, &task, "7").await);
        backend.delete(&task.key.record(), RecordCondition::Always).await.unwrap();
        keys.push(task.key);
    }
    for (at, is_remembered) in [(0, false), (299, true)] {
        assert_eq!(store.load(&keys[at]).await.unwrap().is_some(), is_remembered, "{at}");
    }
}

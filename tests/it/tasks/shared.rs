//! Tasks of servers that share a backend, which may be slow or fail.

use std::fmt;

use mcp_runtime::{
    __private::{BackendHook, BackendMethod, BackendOperation, TestBackend},
    auth::Principal,
    backend::{Backend, BackendError, BackendFuture, MemoryBackend, RecordCondition, Records as _},
};
use mcp_tests::backend::{Health, UnreliableBackend};

use super::*;
use crate::layers::log::Log;

/// Makes operations on records take a while, as over a network. The function decides by the key and the new value which
/// of them fail.
struct RecordFailures<F>(F);

impl<F> fmt::Debug for RecordFailures<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordFailures").finish_non_exhaustive()
    }
}

impl<F: Fn(&str, &[u8]) -> bool + Send + Sync + 'static> BackendHook for RecordFailures<F> {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        if !operation.method.is_record_operation() {
            return run;
        }
        let fails = self.0(operation.key, operation.value);
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            if fails {
                return Err(BackendError::Unavailable("no answer from the secret address".to_owned()));
            }
            run.await
        })
    }
}

/// Returns a backend whose records are slow, and fail if `fails` returns `true` for a key and its new value.
pub(crate) fn failing_backend(fails: impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static) -> Arc<dyn Backend> {
    Arc::new(TestBackend::<_, MemoryBackend>::new(RecordFailures(fails)))
}

/// Returns a backend whose records are slow.
pub(crate) fn slow_backend() -> Arc<dyn Backend> {
    failing_backend(|_, _| false)
}

/// Connects a client of one principal to a new server.
fn connect(server: Server, revision: Revision) -> ValidatingClient {
    let mut client = ValidatingClient::connect(server, revision);
    client.client = client.client.with_extension(Principal::new("ada")).answering(|asked| match asked.message() {
        "Sure?" => json!({"action": "decline"}),
        _ => json!({"action": "accept", "content": {"confirm": true}}),
    });
    client
}

/// Waits for the result of a task.
async fn result(client: &mut ValidatingClient, task: &str) -> Value {
    if !client.is_stateless() {
        return client.task_request("tasks/result", task).await.unwrap();
    }
    client.wait_for_status(task, "completed").await["result"].take()
}

async fn status(client: &mut ValidatingClient, task: &str) -> Value {
    client.task_request("tasks/get", task).await.unwrap()["status"].take()
}

/// The function runs in one server, and the client talks to another.
#[tokio::test]
async fn servers_share_tasks_through_their_backend() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let (backend, gate) = (slow_backend(), Arc::<Gate>::default());
        let new = || connect(server(&gate).backend(backend.clone()), revision);
        let mut clients = [new(), new()];
        for _ in 0..2 {
            clients.reverse();
            let [here, there] = &mut clients;
            // Reading, and waiting for the end.
            let id = here.start_task("work", json!({"label": "it"})).await;
            assert_eq!(status(there, &id).await, "working", "{revision}");
            if !here.is_stateless() {
                let listed = there.request("tasks/list", json!({})).await.unwrap();
                assert!(listed["tasks"].as_array().unwrap().iter().any(|task| task["taskId"] == id), "{listed}");
            }
            gate.open();
            assert_eq!(text(&result(there, &id).await), "it is done", "{revision}");
            assert_eq!(status(here, &id).await, "completed", "{revision}");
            // Answering.
            let id = here.start_task("confirm_delete", json!({"filename": "a"})).await;
            there.wait_for_status(&id, "input_required").await;
            if there.is_stateless() {
                let answers = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
                there.request("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
            }
            assert_eq!(text(&result(there, &id).await), "deleted a", "{revision}");
            assert_eq!(text(&result(here, &id).await), "deleted a", "{revision}");
            // Cancelling.
            let (entered, dropped) = (gate.entered(), gate.dropped());
            let id = here.start_task("work", json!({"label": "it"})).await;
            wait_until(|| gate.entered() == entered + 1).await;
            there.task_request("tasks/cancel", &id).await.unwrap();
            wait_until(|| gate.dropped() == dropped + 1).await;
            assert_eq!(status(here, &id).await, "cancelled", "{revision}");
            // A long result.
            gate.open();
            let id = here.start_task("long_text", json!({"length": 2 << 20})).await;
            assert_eq!(text(&result(there, &id).await).len(), 2 << 20, "{revision}");
            // Failing.
            let id = here.start_task("protocol_error_job", json!({})).await;
            let failed = there.wait_for_status(&id, "failed").await;
            assert_eq!(failed["statusMessage"], "no such job", "{revision}");
        }
    }
}

#[tokio::test]
async fn a_request_for_the_result_asks_the_questions_of_a_task_that_runs_elsewhere() {
    let backend = slow_backend();
    let new = || connect(server(&Arc::default()).backend(backend.clone()), Revision::V2025_11_25);
    let mut clients = [new(), new()];
    for _ in 0..2 {
        clients.reverse();
        let [here, there] = &mut clients;
        let id = here.start_task("confirm_delete", json!({"filename": "a"})).await;
        assert_eq!(text(&result(there, &id).await), "deleted a");
    }
}

#[tokio::test]
async fn a_subscription_reports_changes_of_a_task_that_runs_elsewhere() {
    let (backend, gate) = (slow_backend(), Arc::<Gate>::default());
    let new = || connect(server(&gate).backend(backend.clone()), Revision::V2026_07_28);
    let mut clients = [new(), new()];
    for _ in 0..2 {
        clients.reverse();
        let [here, there] = &mut clients;
        let id = here.start_task("work", json!({"label": "it"})).await;
        sleep(Duration::from_millis(5)).await;
        there.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
        let received = there.wait_for_notifications(2).await;
        let working = &received[1]["params"];
        assert_eq!(working["status"], "working");
        assert_eq!(working["lastUpdatedAt"], working["createdAt"], "a subscription is no update");
        gate.open();
        let received = there.wait_for_notifications(1).await;
        assert_eq!(received[0]["params"]["status"], "completed");
        assert_eq!(text(&received[0]["params"]["result"]), "it is done");
    }
}

/// Clients that read the task or wait for it learn of the failure once the lease has expired.
#[tokio::test]
async fn a_task_fails_if_its_process_was_killed() {
    let (log, _guard) = Log::listen();
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let backend = Arc::new(MemoryBackend::default());
        let lease = Duration::from_secs(1);
        let shared = Arc::clone(&backend);
        // A runtime that ends runs nothing any more, like a process that was killed.
        let started = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let mut client = connect(server(&Arc::default()).backend(shared).lease(lease), revision);
                let ids = [
                    client.start_task("work", json!({"label": "it"})).await,
                    client.start_task("confirm_delete", json!({"filename": "a"})).await,
                ];
                client.wait_for_status(&ids[1], "input_required").await;
                (client, ids)
            })
        });
        let (_killed, [id, asking]) = started.join().unwrap();
        let mut client = connect(server(&Arc::default()).backend(Arc::clone(&backend)).lease(lease), revision);
        let lost = "the task was lost, because the process that ran it has ended: its function may have run";
        if client.is_stateless() {
            client.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
            let received = client.wait_for_notifications(3).await;
            let params = &received[2]["params"];
            assert_eq!((&params["status"], &params["error"]["message"]), (&json!("failed"), &json!(lost)));
        } else {
            let error = client.task_request("tasks/result", &id).await.unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (-32603, lost));
        }
        let failed = client.task_request("tasks/get", &asking).await.unwrap();
        assert_eq!((&failed["status"], &failed["statusMessage"]), (&json!("failed"), &json!(lost)), "{revision}");
        assert!(failed.get("inputRequests").is_none(), "{failed}");
        assert_eq!(log.take("task ended").len(), 2, "each of the tasks");
    }
}

/// With a lease of less than a second, a busy machine would lose tasks.
#[tokio::test(start_paused = true)]
async fn no_lease_is_too_short_or_too_long() {
    for lease in [Duration::ZERO, Duration::MAX] {
        let (backend, gate) = (Arc::<MemoryBackend>::default(), Arc::<Gate>::default());
        let new = || connect(server(&gate).backend(Arc::clone(&backend)).lease(lease), Revision::V2026_07_28);
        let (mut here, mut there) = (new(), new());
        let id = here.start_task("work", json!({"label": "it"})).await;
        assert_eq!(status(&mut there, &id).await, "working", "{lease:?}");
        gate.open();
        assert_eq!(text(&result(&mut there, &id).await), "it is done", "{lease:?}");
    }
}

/// If no message arrives, everything is noticed within a part of the lease.
#[tokio::test]
async fn lost_messages_delay_only() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let gate = Arc::<Gate>::default();
        let first = Arc::new(UnreliableBackend::default());
        let second = Arc::new(first.other_process());
        let lease = Duration::from_secs(1);
        let new = |backend: &Arc<UnreliableBackend>| {
            connect(server(&gate).backend(Arc::clone(backend)).lease(lease), revision)
        };
        let (mut here, mut there) = (new(&first), new(&second));
        let cancelled = here.start_task("work", json!({"label": "it"})).await;
        let id = here.start_task("work", json!({"label": "it"})).await;
        wait_until(|| gate.entered() == 2).await;
        let waits = (!there.is_stateless()).then(|| there.send("tasks/result", json!({"taskId": id})));
        assert_eq!(status(&mut there, &id).await, "working");
        first.set_health(Health::Deaf);
        second.set_health(Health::Deaf);
        there.task_request("tasks/cancel", &cancelled).await.unwrap();
        wait_until(|| gate.dropped() == 1).await;
        gate.open();
        let result = match waits {
            Some(waits) => there.answer(waits, "tasks/result").await.unwrap(),
            None => result(&mut there, &id).await,
        };
        assert_eq!(text(&result), "it is done", "{revision}");
    }
}

/// The processes take new leases when the backend is back. Until then, each may ask about the tasks of the other one and about
/// its own ones.
#[tokio::test]
async fn a_task_outlives_an_outage_in_which_all_leases_end() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let gate = Arc::<Gate>::default();
        let first = Arc::new(UnreliableBackend::default());
        let second = Arc::new(first.other_process());
        let lease = Duration::from_secs(1);
        let new = |backend: &Arc<UnreliableBackend>| {
            connect(server(&gate).backend(Arc::clone(backend)).lease(lease), revision)
        };
        let (mut here, mut there) = (new(&first), new(&second));
        let id = here.start_task("work", json!({"label": "it"})).await;
        let own = there.start_task("work", json!({"label": "it"})).await;
        wait_until(|| gate.entered() == 2).await;
        assert_eq!(status(&mut there, &id).await, "working");
        [&first, &second].into_iter().for_each(|backend| backend.set_health(Health::Failing));
        sleep(lease * 3 / 2).await;
        [&first, &second].into_iter().for_each(|backend| backend.set_health(Health::Up));
        let start = std::time::Instant::now();
        while start.elapsed() < lease * 2 {
            let read = [
                here.task_request("tasks/get", &id).await,
                there.task_request("tasks/get", &id).await,
                there.task_request("tasks/get", &own).await,
            ];
            for task in read.into_iter().flatten() {
                assert_eq!(task["status"], "working", "{revision}: {task}");
            }
            sleep(lease / 4).await;
        }
        // Each of the two functions passes once.
        gate.open();
        gate.open();
        for (client, id) in [(&mut here, &id), (&mut there, &own)] {
            client.wait_for_status(id, "completed").await;
        }
    }
}

/// The function goes on while the backend is gone, and its result is stored when it is back.
#[tokio::test]
async fn a_result_outlives_a_failure_of_the_backend() {
    for panics in [false, true] {
        let is_down = Arc::new(AtomicUsize::new(0));
        let failed = Arc::new(AtomicUsize::new(0));
        let (down, failures) = (Arc::clone(&is_down), Arc::clone(&failed));
        let backend = failing_backend(move |key, value| {
            let fails = down.load(Ordering::SeqCst) == 1 && !key.starts_with("mcp/1/replica");
            failures.fetch_add(usize::from(fails), Ordering::SeqCst);
            assert!(!(fails && panics && is_outcome(value)), "a bug in the backend");
            fails
        });
        let gate = Arc::<Gate>::default();
        let mut client = connect(server(&gate).backend(backend), Revision::V2026_07_28);
        let id = client.start_task("work", json!({"label": "it"})).await;
        is_down.store(1, Ordering::SeqCst);
        let other = format!("{}00000000000", "x".repeat(32));
        let error = client.task_request("tasks/get", &other).await.unwrap_err();
        assert_eq!((error.code, error.message.contains("secret")), (-32603, false), "{error:?}");
        let before = failed.load(Ordering::SeqCst);
        gate.open();
        wait_until(|| failed.load(Ordering::SeqCst) > before).await;
        is_down.store(0, Ordering::SeqCst);
        assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "it is done", "{panics}");
    }
}

/// The backend is not flooded while it fails, and operators learn of it once.
#[tokio::test(start_paused = true)]
async fn attempts_to_store_a_result_become_rare() {
    let (log, _guard) = Log::listen();
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&attempts);
    let backend = failing_backend(move |_, value| {
        count.fetch_add(usize::from(is_outcome(value)), Ordering::SeqCst);
        is_outcome(value)
    });
    let gate = Arc::<Gate>::default();
    gate.open();
    let mut client = connect(server(&gate).backend(backend), Revision::V2026_07_28);
    client.start_task("work", json!({"label": "it"})).await;
    sleep(Duration::from_secs(10)).await;
    let attempts = attempts.load(Ordering::SeqCst);
    assert!((3..20).contains(&attempts), "{attempts}");
    assert_eq!(log.take("cannot store the outcome of a task").len(), 1);
}

/// A subscriber is notified once the backend responds, and after a short failure soon. A task that has ended is not read
/// again.
#[tokio::test(start_paused = true)]
async fn a_subscription_outlives_failures_of_the_backend() {
    let (log, _guard) = Log::listen();
    let (failing, reads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (failures, count) = (Arc::clone(&failing), Arc::clone(&reads));
    let backend = failing_backend(move |key, value| {
        let is_read = key.starts_with("mcp/1/task:") && value.is_empty();
        count.fetch_add(usize::from(is_read), Ordering::SeqCst);
        is_read && failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    });
    let gate = Arc::<Gate>::default();
    let mut client = connect(server(&gate).backend(backend), Revision::V2026_07_28);
    let id = client.start_task("work", json!({"label": "it"})).await;
    failing.store(7, Ordering::SeqCst);
    client.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(client.notifications().len(), 1, "the acknowledgement");
    sleep(Duration::from_secs(18)).await;
    assert_eq!(client.notifications()[0]["params"]["status"], "working");
    assert_eq!(log.take("the backend failed, retrying to send notifications about a task").len(), 1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(client.notifications(), [] as [Value; 0], "nothing has changed");
    failing.store(1, Ordering::SeqCst);
    gate.open();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(client.notifications()[0]["params"]["status"], "completed");
    let before = reads.load(Ordering::SeqCst);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(reads.load(Ordering::SeqCst), before);
}

/// The backend fails when the task expires.
#[tokio::test(start_paused = true)]
async fn a_task_that_has_expired_is_not_read_again() {
    let (is_down, reads) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (down, count) = (Arc::clone(&is_down), Arc::clone(&reads));
    let backend = failing_backend(move |key, value| {
        let is_read = key.starts_with("mcp/1/task:") && value.is_empty();
        count.fetch_add(usize::from(is_read), Ordering::SeqCst);
        is_read && down.load(Ordering::SeqCst) == 1
    });
    let gate = Arc::<Gate>::default();
    let server = server(&gate).backend(backend).task_ttl(Duration::from_secs(60));
    let mut client = connect(server, Revision::V2026_07_28);
    client.start_task("work", json!({"label": "it"})).await;
    is_down.store(1, Ordering::SeqCst);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(gate.dropped(), 1);
    let before = reads.load(Ordering::SeqCst);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(reads.load(Ordering::SeqCst), before);
}

/// A function may report more often than a backend should be written to.
#[tokio::test(start_paused = true)]
async fn status_messages_are_stored_at_a_limited_rate() {
    /// Report a hundred steps within a second.
    #[tool(task)]
    async fn reports_steps(ctx: &Context) {
        for step in 1..=100 {
            ctx.progress(step, 100, format!("step {step}"));
            sleep(Duration::from_millis(10)).await;
        }
    }

    let stored = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&stored);
    let backend = failing_backend(move |_, value| {
        count.fetch_add(usize::from(String::from_utf8_lossy(value).contains("step ")), Ordering::SeqCst);
        false
    });
    let server = server(&Arc::default()).with::<reports_steps>().backend(backend);
    let mut client = connect(server, Revision::V2026_07_28);
    let id = client.start_task("reports_steps", json!({})).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&mut client, &id).await, "completed");
    let stored = stored.load(Ordering::SeqCst);
    assert!((5..=15).contains(&stored), "{stored}");
}

/// Delays the storage of large results until the gate opens.
#[derive(Debug)]
struct DelayedResults(Arc<Gate>);

impl BackendHook for DelayedResults {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        if !(operation.method == BackendMethod::Set && operation.key.starts_with("mcp/1/task-result/")) {
            return run;
        }
        Box::pin(async move {
            self.0.pass().await;
            run.await
        })
    }
}

#[tokio::test]
async fn a_result_that_a_cancellation_overtakes_is_deleted() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let (gate, stored) = (Arc::<Gate>::default(), Arc::<Gate>::default());
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(DelayedResults(Arc::clone(&stored))));
        let mut client = connect(server(&gate).backend(Arc::clone(&backend)), revision);
        let id = client.start_task("long_text", json!({"length": 3000})).await;
        gate.open();
        wait_until(|| stored.entered() == 1).await;
        client.task_request("tasks/cancel", &id).await.unwrap();
        stored.open();
        client.run_another_task().await;
        assert_eq!((stored.permits.available_permits(), stored.dropped()), (0, 0), "{revision}: it was stored");
        assert!(backend.get(&format!("mcp/1/task-result/{id}")).await.unwrap().is_none(), "{revision}");
        assert_eq!(status(&mut client, &id).await, "cancelled", "{revision}");
    }
}

/// A client must not take a result that is gone for an empty one.
#[tokio::test]
async fn a_task_whose_result_is_gone_is_unknown() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let (backend, gate) = (Arc::new(MemoryBackend::default()), Arc::<Gate>::default());
        let mut client = connect(server(&gate).backend(Arc::clone(&backend)), revision);
        gate.open();
        let id = client.start_task("long_text", json!({"length": 3000})).await;
        assert_eq!(text(&result(&mut client, &id).await).len(), 3000, "{revision}");
        assert!(backend.delete(&format!("mcp/1/task-result/{id}"), RecordCondition::Always).await.unwrap());
        let method = if client.is_stateless() { "tasks/get" } else { "tasks/result" };
        let error = client.task_request(method, &id).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (-32602, "invalid params: task not found or expired"), "{revision}");
    }
}

fn is_outcome(value: &[u8]) -> bool {
    String::from_utf8_lossy(value).contains("outcome")
}

#[tokio::test(start_paused = true)]
async fn a_question_is_stored_once_the_backend_responds() {
    let begun = tokio::time::Instant::now();
    let backend = failing_backend(move |_, value| {
        String::from_utf8_lossy(value).contains("elicitation/create") && begun.elapsed() < Duration::from_secs(3)
    });
    let mut client = connect(server(&Arc::default()).backend(backend), Revision::V2026_07_28);
    let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
    for _ in 0..10 {
        sleep(Duration::from_secs(1)).await;
    }
    client.wait_for_status(&id, "input_required").await;
}

#[tokio::test(start_paused = true)]
async fn a_task_fails_if_its_question_cannot_be_stored() {
    for (panics, message) in
        [(false, "the state of the task could not be stored"), (true, "`confirm_delete` failed: internal error")]
    {
        let asks = |value: &[u8]| String::from_utf8_lossy(value).contains("elicitation/create");
        let backend = failing_backend(move |_, value| {
            assert!(!(panics && asks(value)), "a bug in the backend");
            asks(value)
        });
        let mut client = connect(server(&Arc::default()).backend(backend), Revision::V2026_07_28);
        let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
        for _ in 0..10 {
            sleep(Duration::from_secs(1)).await;
        }
        let failed = client.wait_for_status(&id, "failed").await;
        assert_eq!(failed["error"], json!({"code": -32603, "message": message}), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_goes_on_if_its_status_message_cannot_be_stored() {
    for outage in [Duration::from_secs(20), Duration::MAX] {
        let begun = tokio::time::Instant::now();
        let backend = failing_backend(move |_, value| {
            String::from_utf8_lossy(value).contains("the first third") && begun.elapsed() < outage
        });
        let gate = Arc::<Gate>::default();
        let mut client = connect(server(&gate).backend(backend), Revision::V2026_07_28);
        let id = client.start_task("progress", json!({})).await;
        for _ in 0..40 {
            sleep(Duration::from_secs(1)).await;
        }
        let task = client.wait_for_status(&id, "working").await;
        let is_over = begun.elapsed() >= outage;
        assert_eq!(task["statusMessage"] == "the first third", is_over, "{task}");
        (0..2).for_each(|_| gate.open());
        client.wait_for_status(&id, "completed").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_goes_on_while_its_record_is_written() {
    /// Report progress between two gates, and pass another one.
    #[tool(task)]
    async fn passes_gates(gate: &Arc<Gate>, ctx: &Context) {
        gate.pass().await;
        ctx.progress(1, 2, "half");
        gate.pass().await;
        gate.pass().await;
    }

    let (backend, gate) = (Arc::new(UnreliableBackend::default()), Arc::<Gate>::default());
    let server = server(&gate).with::<passes_gates>().backend(Arc::clone(&backend));
    let mut client = connect(server, Revision::V2026_07_28);
    let id = client.start_task("passes_gates", json!({})).await;
    wait_until(|| gate.entered() == 1).await;
    backend.set_health(Health::Late(Duration::from_millis(600)));
    for entered in 2..=3 {
        gate.open();
        sleep(Duration::from_millis(200)).await;
        assert_eq!(gate.entered(), entered, "the message is still being stored");
    }
    gate.open();
    backend.set_health(Health::Up);
    client.wait_for_status(&id, "completed").await;
}

/// A function that never waits for anything uses up the budget of each poll.
#[tokio::test]
async fn a_function_that_is_always_ready_can_be_cancelled() {
    /// Count the function as one that waits, and do not end.
    #[tool(task)]
    async fn spins(gate: &Arc<Gate>) {
        let _dropped = DropCounter(gate);
        loop {
            tokio::task::consume_budget().await;
        }
    }

    let gate = Arc::<Gate>::default();
    let mut client = connect(server(&gate).with::<spins>().backend(slow_backend()), Revision::V2026_07_28);
    let id = client.start_task("spins", json!({})).await;
    client.task_request("tasks/cancel", &id).await.unwrap();
    wait_until(|| gate.dropped() == 1).await;
}

/// The question is already stored, so only the message is concerned.
#[tokio::test(start_paused = true)]
async fn a_question_waits_although_a_status_message_cannot_be_stored() {
    /// Ask, and report progress before the response.
    #[tool(task)]
    async fn asks_and_reports(gate: &Arc<Gate>, ctx: &Context) -> Result<bool, Fault> {
        let report = async {
            gate.pass().await;
            ctx.progress(1, 2, "the first third");
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answer = ctx.elicit::<Name>("user_name", "Who are you?") => Ok(answer?.is_accepted()),
            () = report => Ok(false),
        }
    }

    let backend = failing_backend(|_, value| String::from_utf8_lossy(value).contains("the first third"));
    let gate = Arc::<Gate>::default();
    let server = server(&gate).with::<asks_and_reports>().backend(backend);
    let mut client = connect(server, Revision::V2026_07_28);
    let id = client.start_task("asks_and_reports", json!({})).await;
    client.wait_for_status(&id, "input_required").await;
    gate.open();
    for _ in 0..40 {
        sleep(Duration::from_secs(1)).await;
    }
    client.wait_for_status(&id, "input_required").await;
}

#[tokio::test]
async fn the_reason_of_a_backend_failure_is_not_sent_to_the_client() {
    let backend = failing_backend(|_, _| true);
    let mut client = ValidatingClient::connect(server(&Arc::default()).backend(backend), Revision::V2025_11_25);
    let call = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
    let task = json!({"taskId": format!("{}00000000000", "x".repeat(32))});
    for (method, params) in [
        ("tools/call", &call),
        ("tasks/get", &task),
        ("tasks/result", &task),
        ("tasks/cancel", &task),
        ("tasks/list", &json!({})),
    ] {
        let error = client.request(method, params.clone()).await.unwrap_err();
        let message = "the server cannot reach the state that it shares with other processes: retry later";
        assert_eq!((error.code, error.message.as_str()), (-32603, message), "{method}");
    }
}

/// The record of a task is a small object, and its key reveals nothing about its owner.
#[tokio::test]
async fn a_backend_learns_no_principals() {
    let backend = Arc::new(MemoryBackend::default());
    let gate = Arc::<Gate>::default();
    let mut client = connect(server(&gate).backend(Arc::clone(&backend)), Revision::V2026_07_28);
    client.start_task("work", json!({"label": "it"})).await;
    let shared: &dyn Backend = &backend;
    let [(name, record)] = &shared.list("mcp/1/task", None, 9).await.unwrap()[..] else { panic!("not one task") };
    let value = String::from_utf8_lossy(&record.value);
    assert!(value.len() < 300 && !name.contains("ada") && !value.contains("ada"), "{name}: {value}");
}

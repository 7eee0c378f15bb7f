//! The end of tasks: expiry, cancellation, shutdown and failing stores.

use mcp_runtime::auth::Principal;

use super::*;
use crate::layers::log::Log;

#[tokio::test]
async fn an_expired_task_is_dropped_and_unknown() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let gate = Arc::<Gate>::default();
        let mut client = ValidatingClient::connect(server(&gate).task_ttl(Duration::from_millis(50)), revision);
        let id = client.start_task("work", json!({"label": "it"})).await;
        let waiting =
            mcp_tests::expected(revision).session_tasks.then(|| client.send("tasks/result", json!({"taskId": id})));
        wait_until(|| gate.dropped() == 1).await;
        sleep(Duration::from_millis(5)).await;
        assert_eq!(client.task_request("tasks/get", &id).await.unwrap_err().code, -32602, "{revision}");
        if let Some(waiting) = waiting {
            assert_eq!(client.answer(waiting, "tasks/result").await.unwrap_err().code, -32602);
        }
    }
}

#[tokio::test]
async fn the_ttl_of_a_client_is_capped() {
    const DAY: u64 = 24 * 3600 * 1000;

    let limited = |server: Server, default| {
        let server = server.task_ttl(Duration::from_secs(default)).max_task_ttl(Duration::from_secs(2));
        server.task_poll_interval(Duration::from_secs(10))
    };
    for (default, requested, ttl) in [
        (Some(1), Some(json!(1500)), 1500),
        (Some(1), Some(json!(1500.0)), 1500),
        (Some(1), Some(json!(DAY)), 2000),
        (Some(1), Some(json!(null)), 1000),
        (Some(1), None, 1000),
        (Some(3), None, 2000),
        (None, Some(json!(DAY)), DAY),
        (None, Some(json!(DAY + 1)), DAY),
        (None, Some(json!(1e30)), DAY),
        (None, None, DAY / 24),
    ] {
        let server = server(&Arc::default());
        let is_limited = default.is_some();
        let server = if let Some(default) = default { limited(server, default) } else { server };
        let mut client = ValidatingClient::connect(server, Revision::V2025_11_25);
        let mut params = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
        if let Some(requested) = &requested {
            params["task"]["ttl"] = requested.clone();
        }
        let task = &client.request("tools/call", params).await.unwrap()["task"];
        let interval = if is_limited { 10_000 } else { 1000 };
        assert_eq!((&task["ttl"], &task["pollInterval"]), (&json!(ttl), &json!(interval)), "{requested:?}");
    }
}

#[tokio::test]
async fn a_task_outlives_its_connection_but_not_its_server() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let gate = Arc::<Gate>::default();
        let server = server(&gate).build().unwrap();
        let mut client = ValidatingClient {
            client: server.test_client(revision),
            official: None,
            capabilities: json!({"extensions": {EXTENSION: {}}}),
        };
        client.start_task("work", json!({"label": "it"})).await;
        wait_until(|| gate.entered() == 1).await;
        drop(client);
        let mut another = ValidatingClient {
            client: server.test_client(revision),
            official: None,
            capabilities: json!({"extensions": {EXTENSION: {}}}),
        };
        another.run_another_task().await;
        assert_eq!(gate.dropped(), 0, "{revision}: the task ended with its connection");
        drop((another, server));
        wait_until(|| gate.dropped() == 1).await;
    }
}

/// A function that runs on a thread cannot be dropped.
#[tokio::test]
async fn a_cancelled_task_stays_cancelled_if_its_function_finishes() {
    /// Hold a thread until the gate opens, even if the task is cancelled.
    #[tool(task, blocking)]
    fn hold(gate: &Arc<Gate>) -> &'static str {
        gate.entered.fetch_add(1, Ordering::SeqCst);
        for _ in 0..10_000 {
            if let Ok(permit) = gate.permits.try_acquire() {
                permit.forget();
                return "held";
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        "the gate never opens"
    }

    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let gate = Arc::<Gate>::default();
        let mut client = ValidatingClient::connect(server(&gate).with::<hold>(), revision);
        let id = client.start_task("hold", json!({})).await;
        wait_until(|| gate.entered() == 1).await;
        client.task_request("tasks/cancel", &id).await.unwrap();
        let cancelled = client.task_request("tasks/get", &id).await.unwrap();
        assert_eq!(cancelled["status"], "cancelled", "{revision}");
        gate.open();
        wait_until(|| gate.permits.available_permits() == 0).await;
        let another = client.start_task("hold", json!({})).await;
        gate.open();
        client.wait_for_status(&another, "completed").await;
        assert_eq!(client.task_request("tasks/get", &id).await.unwrap(), cancelled, "{revision}");
        if mcp_tests::expected(revision).session_tasks {
            assert_eq!(client.task_request("tasks/result", &id).await.unwrap_err().code, -32602);
            let notifications = client.notifications();
            let of_task = notifications.iter().map(|message| &message["params"]).filter(|it| it["taskId"] == id);
            let statuses: Vec<_> = of_task.map(|params| params["status"].clone()).collect();
            assert_eq!(statuses, ["cancelled"]);
        }
    }
}

/// `lastUpdatedAt` changes with the status, and not when a client asks for it.
#[tokio::test]
async fn the_time_of_the_last_update_changes_with_the_status() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let gate = Arc::<Gate>::default();
        let mut client = ValidatingClient::connect(server(&gate), revision);
        for cancels in [false, true] {
            let id = client.start_task("work", json!({"label": "it"})).await;
            let working = client.task_request("tasks/get", &id).await.unwrap();
            assert_eq!(working["lastUpdatedAt"], working["createdAt"], "{revision}");
            sleep(Duration::from_millis(5)).await;
            client.run_another_task().await;
            assert_eq!(client.task_request("tasks/get", &id).await.unwrap(), working, "{revision}");
            let status = if cancels { "cancelled" } else { "completed" };
            if cancels {
                client.task_request("tasks/cancel", &id).await.unwrap();
            } else {
                gate.open();
            }
            let ended = client.wait_for_status(&id, status).await;
            assert_eq!(ended["createdAt"], working["createdAt"], "{revision}");
            let time = |task: &Value| task["lastUpdatedAt"].as_str().unwrap().to_owned();
            assert!(time(&ended) > time(&working), "{revision}: {ended}");
            sleep(Duration::from_millis(5)).await;
            assert_eq!(client.wait_for_status(&id, status).await, ended, "{revision}");
        }
    }
}

#[tokio::test]
async fn task_ids_cannot_be_guessed() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let mut client = ValidatingClient::connect(server(&Arc::default()), revision);
        let mut ids = Vec::new();
        for _ in 0..100 {
            ids.push(client.start_task("protocol_error_job", json!({})).await);
        }
        mcp_tests::assert_unguessable(&ids);
    }
}

#[tokio::test]
async fn cancelling_the_call_does_not_cancel_its_task() {
    let gate = Arc::<Gate>::default();
    let mut client = ValidatingClient::connect(server(&gate), Revision::V2026_07_28);
    let id = client.start_task("work", json!({"label": "it"})).await;
    for request in 1..5 {
        client.client.notify("notifications/cancelled", json!({"requestId": request}));
    }
    gate.open();
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "it is done");
}

#[tokio::test]
async fn a_question_of_a_task_has_a_timeout_of_its_own() {
    /// Ask with a short timeout, and continue without the answer.
    #[tool(task)]
    async fn impatient_question(ctx: &Context, gate: &Arc<Gate>) -> String {
        use mcp_runtime::ask::Ask;

        let question = Elicitation::<Confirm>::new("confirm", "Sure?").timeout(Duration::from_millis(20));
        let answer = ctx.ask(question).await;
        gate.pass().await;
        match answer {
            Err(Fault::AnswerTimeout { key, .. }) => format!("no {key}"),
            other => format!("{other:?}"),
        }
    }

    let gate = Arc::<Gate>::default();
    let server = Server::empty("impatient", "1.0.0").with::<impatient_question>().with_state(Arc::clone(&gate));
    let mut client = ValidatingClient::connect(server, Revision::V2026_07_28);
    let id = client.start_task("impatient_question", json!({})).await;
    wait_until(|| gate.entered() == 1).await;
    // The question is withdrawn while the function goes on.
    let working = client.wait_for_status(&id, "working").await;
    assert_eq!(working.get("inputRequests"), None, "{working}");
    gate.open();
    let completed = client.wait_for_status(&id, "completed").await;
    assert_eq!(text(&completed["result"]), "no confirm");
}

#[tokio::test]
async fn a_task_that_is_cancelled_or_times_out_cancels_its_context() {
    type Seen = tokio::sync::watch::Sender<Option<bool>>;

    /// Work in a spawned task, which learns of the end of the call from its context.
    async fn work(ctx: &Context, seen: &Seen) {
        let (ctx, seen) = (ctx.clone(), seen.clone());
        tokio::spawn(async move {
            ctx.ended().await;
            seen.send_replace(Some(ctx.is_cancelled()));
        });
        std::future::pending::<()>().await;
    }

    /// Work until the task is cancelled.
    #[tool(task)]
    async fn spawns(ctx: &Context, seen: &Seen) {
        work(ctx, seen).await;
    }

    /// Work until the timeout.
    #[tool(task, timeout = "20ms")]
    async fn spawns_briefly(ctx: &Context, seen: &Seen) {
        work(ctx, seen).await;
    }

    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        for name in ["spawns", "spawns_briefly"] {
            let seen = Seen::default();
            let server = Server::empty("spawning", "1.0.0").with::<spawns>().with::<spawns_briefly>();
            let mut client = ValidatingClient::connect(server.with_state(seen.clone()), revision);
            let id = client.start_task(name, json!({})).await;
            if name == "spawns" {
                client.task_request("tasks/cancel", &id).await.unwrap();
            }
            let mut seen = seen.subscribe();
            let cancelled = tokio::time::timeout(Duration::from_secs(10), seen.wait_for(Option::is_some)).await;
            assert_eq!(*cancelled.expect("the context never ends").unwrap(), Some(true), "{revision} {name}");
        }
    }
}

/// A layer sees the whole function, even if the call becomes a task halfway through.
#[tokio::test]
async fn layers_wrap_tasks() {
    let gate = Arc::<Gate>::default();
    let ended = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ended);
    let counted = mcp_runtime::layers::from_fn(move |call, next| {
        let ended = Arc::clone(&counter);
        async move {
            let outcome = next.run(call).await;
            ended.fetch_add(1, Ordering::SeqCst);
            outcome
        }
    });
    let mut client = ValidatingClient::connect(server(&gate).layer(counted), Revision::V2026_07_28);
    let id = client.start_task("work", json!({"label": "it"})).await;
    wait_until(|| gate.entered() == 1).await;
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    gate.open();
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "it is done");
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let call = json!({"name": "ask_then_work", "inputResponses": answers});
    let created = client.request("tools/call", call).await.unwrap();
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(
        (client.wait_for_status(id, "working").await["status"].as_str(), ended.load(Ordering::SeqCst)),
        (Some("working"), 1)
    );
    gate.open();
    client.wait_for_status(id, "input_required").await;
    let answers = json!({"user_name": {"action": "accept", "content": {"confirm": true}}});
    client.request("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
    assert_eq!(text(&client.wait_for_status(id, "completed").await["result"]), "worked for Alice");
    assert_eq!(ended.load(Ordering::SeqCst), 2);
    // A layer is dropped with its function.
    let id = client.start_task("work", json!({"label": "it"})).await;
    wait_until(|| gate.entered() == 3).await;
    client.task_request("tasks/cancel", &id).await.unwrap();
    wait_until(|| gate.dropped() == 1).await;
    assert_eq!(ended.load(Ordering::SeqCst), 2);
    let id = client.start_task("panics", json!({})).await;
    assert_eq!(client.wait_for_status(&id, "failed").await["error"]["message"], "`panics` failed: internal error");
}

/// Operators can follow each task. The log does not contain whole ids, which give access to tasks.
#[tokio::test]
async fn the_events_of_tasks_are_logged() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        for (end, status) in [("finish", "completed"), ("cancel", "cancelled"), ("expire", "expired")] {
            let (log, _guard) = Log::listen();
            let gate = Arc::<Gate>::default();
            let ttl = Duration::from_millis(if end == "expire" { 50 } else { 60_000 });
            let mut client = ValidatingClient::connect(server(&gate).task_ttl(ttl), revision);
            let id = client.start_task("work", json!({"label": "it"})).await;
            let created = log.take("task created");
            let short = &id[..8];
            assert_eq!(created.len(), 1, "{created:?}");
            assert!(created[0].contains(&format!("name=\"work\" id=\"1\" task={short:?}")), "{created:?}");
            match end {
                "finish" => gate.open(),
                "cancel" => drop(client.task_request("tasks/cancel", &id).await.unwrap()),
                _ => {}
            }
            let mut ended = Vec::new();
            while ended.is_empty() {
                sleep(Duration::from_millis(1)).await;
                ended = log.take("task ended");
            }
            assert_eq!(ended.len(), 1, "{ended:?}");
            assert!(ended[0].contains(&format!("task={short:?} status={status:?}")), "{revision}: {ended:?}");
            assert!(!created[0].contains(&id) && !ended[0].contains(&id), "{revision}");
        }
    }
}

/// Operators can see who reads and cancels tasks, and who tries to.
#[tokio::test]
async fn requests_about_tasks_are_logged() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let (log, _guard) = Log::listen();
        let gate = Arc::<Gate>::default();
        let mut client = ValidatingClient::connect(server(&gate), revision);
        client.client = client.client.with_extension(Principal::new("ada"));
        let id = client.start_task("work", json!({"label": "secret"})).await;
        assert!(log.take("task created")[0].contains("principal=\"ada\""));
        let (short, long) = (&id[..8], format!("{}é{id}", &id[..7]));
        let reads = if mcp_tests::expected(revision).session_tasks { "tasks/result" } else { "tasks/get" };
        for (method, task, expected) in [
            ("tasks/get", &id, format!("task request answered method=\"tasks/get\" task={short:?}")),
            ("tasks/get", &long, format!("task request refused method=\"tasks/get\" task=\"{}é\"", &id[..7])),
            (reads, &id, format!("task request answered method={reads:?} task={short:?}")),
            ("tasks/cancel", &long, format!("task request refused method=\"tasks/cancel\" task=\"{}é\"", &id[..7])),
        ] {
            if method == reads {
                gate.open();
            }
            let _ = client.task_request(method, task).await;
            let logged = log.take("task request").concat();
            assert!(logged.starts_with(&expected) && logged.contains("principal=\"ada\""), "{revision}: {logged}");
            assert!(!logged.contains(&id) && !logged.contains("secret"), "{revision}: {logged}");
        }
    }
}

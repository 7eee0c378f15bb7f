//! Runs the function of a task and keeps its record up to date.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

use super::{
    arguments::ArgumentsPermit,
    client::TaskClient,
    encode::log_id,
    errors,
    inbox::{InboxUpdate, truncated},
    update::{Updated, set_status, update},
};
use crate::{
    backend::{TaskOutcome, TaskRecord, TaskStatus, TaskStore, TaskStoreError, Timestamp},
    engine::call::{callee::Callee, guard::GuardedCall},
    error::Fault,
    handler::{CallFuture, Context, Encoding, Finished},
    jsonrpc::{Id, raw},
};

/// The minimum time between two updates that change only the status message.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(100);

/// The number of times that the runner tries to mark a task as failed while its store fails.
const MAX_ATTEMPTS: u32 = 6;
/// The delay after the first attempt. It doubles with every attempt.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The output of a function, or `None` if it timed out.
type Output = Option<Result<Finished, Fault>>;

/// A call that runs as a task: everything except its future.
pub(crate) struct Job {
    pub(crate) encoding: Arc<Encoding>,
    /// The id of the request that created the task, for the log.
    pub(crate) id: Id<'static>,
    pub(crate) callee: Callee,
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) forwards_log: bool,
    /// Whether layers wrap the function. If so, they guard it themselves.
    pub(crate) is_layered: bool,
    pub(crate) client: Arc<TaskClient>,
}

impl Job {
    /// Marks the call as a task, which no longer belongs to its connection.
    pub(super) fn accept(&self) {
        if let Some(context) = &self.context {
            context.detach();
        }
        self.client.inbox().accept();
    }

    /// Returns the final state of the task, decoded from the response that a plain call would have received.
    fn final_state(&self, output: Output) -> FinalState {
        let finished = output.unwrap_or_else(|| Ok(self.callee.timed_out(&self.encoding, &self.id)));
        let mut response = Vec::new();
        self.callee.write_response(&mut response, &self.encoding, &self.id, finished);
        FinalState::decode(std::str::from_utf8(&response).unwrap_or_default())
    }
}

/// The members of the record that are set when a task finishes.
struct FinalState {
    status: TaskStatus,
    message: Option<String>,
    outcome: TaskOutcome,
}

impl FinalState {
    fn decode(response: &str) -> Self {
        let member = |name: &str| raw::members(response).find_map(|(member, json)| (member == name).then_some(json));
        let Some(error) = member("error") else {
            let result = member("result").unwrap_or("{}");
            let outcome = TaskOutcome::Result(result.into());
            return Self { status: TaskStatus::Completed, message: tool_error_text(result), outcome };
        };
        let message = raw::members(error).find(|(name, _)| name == "message").and_then(|(_, json)| raw::string(json));
        let outcome = TaskOutcome::Error(error.into());
        Self { status: TaskStatus::Failed, message: message.map(|message| truncated(&message)), outcome }
    }
}

/// Returns the text of a result that is a tool error.
fn tool_error_text(result: &str) -> Option<String> {
    raw::members(result).find(|(name, json)| name == "isError" && *json == "true")?;
    let (_, content) = raw::members(result).find(|(name, _)| name == "content")?;
    let texts = raw::elements(content).flat_map(raw::members).filter(|(name, _)| name == "text");
    texts.filter_map(|(_, json)| raw::string(json)).next().map(|text| truncated(&text))
}

/// The runner of one task, which polls its function and updates its record.
pub(super) struct Runner {
    store: Arc<dyn TaskStore>,
    /// The record as it was inserted.
    task: TaskRecord,
    job: Job,
    _arguments: ArgumentsPermit,
}

/// An event that wakes the runner.
enum Event {
    Finished(Output),
    InboxChanged,
    RecordChanged,
    Expired,
}

impl Runner {
    pub(super) fn new(store: Arc<dyn TaskStore>, task: TaskRecord, job: Job, arguments: ArgumentsPermit) -> Self {
        Self { store, task, job, _arguments: arguments }
    }

    /// Runs the function until it finishes, or until its task is cancelled or expires.
    pub(super) async fn run(self, running: CallFuture) {
        let Err(error) = self.try_run(running).await else { return };
        tracing::error!(%error, "the task store failed, ending the task");
        for attempt in 0..MAX_ATTEMPTS {
            if self.mark_failed().await.is_ok() {
                return;
            }
            sleep(FIRST_DELAY * 2_u32.pow(attempt)).await;
        }
    }

    /// Records that the task failed because of its store.
    async fn mark_failed(&self) -> Result<(), TaskStoreError> {
        let Some(task) = self.store.load(&self.task.id).await? else { return Ok(()) };
        let fault = errors::store_unavailable();
        let finished = Finished { body: Vec::new(), outcome: Err(fault.into()) };
        self.finish(task, Some(Ok(finished))).await
    }

    /// Records the output of the function.
    async fn finish(&self, task: TaskRecord, output: Output) -> Result<(), TaskStoreError> {
        let FinalState { status, message, outcome } = self.job.final_state(output);
        let updated = update(&*self.store, task, |task| {
            task.inputs.clear();
            task.status = status;
            task.message.clone_from(&message);
            task.outcome = Some(outcome.clone());
        });
        if let Updated::Applied(task) | Updated::Finished(task) = updated.await? {
            self.job.client.notify_status(&task);
            self.log_end(task.status.as_str());
        }
        Ok(())
    }

    async fn try_run(&self, running: CallFuture) -> Result<(), TaskStoreError> {
        let Job { callee, context, client, .. } = &self.job;
        let end_guard = EndGuard(context.clone());
        let guarded = if self.job.is_layered {
            GuardedCall::layer(running, callee.name)
        } else {
            GuardedCall::new(running, context.clone(), self.job.forwards_log, callee.name)
        };
        let mut work = Box::pin(callee.run_with_timeout(guarded.with_slow_warning(), context.as_deref(), &self.job.id));
        let mut task = self.task.clone();
        let mut expiry = pin!(sleep(task.expires().saturating_duration_since(Timestamp::now())));
        let mut message_delay = pin!(sleep(Duration::ZERO));
        let output = loop {
            let event = self.next_event(&task, work.as_mut(), expiry.as_mut(), message_delay.as_mut()).await?;
            let latest = match event {
                Event::Finished(output) => break output,
                Event::Expired => None,
                Event::InboxChanged => Some(task.clone()),
                Event::RecordChanged => self.store.load(&task.id).await?,
            };
            let Some(latest) = latest else {
                self.log_end("expired");
                return Ok(());
            };
            let before = task.status;
            let is_finished;
            (task, is_finished) = match exchange(&*self.store, latest, client).await? {
                Updated::Applied(task) => (task, false),
                Updated::Finished(task) => (task, true),
                Updated::Expired => {
                    self.log_end("expired");
                    return Ok(());
                }
            };
            if task.status != before {
                client.notify_status(&task);
            }
            if is_finished {
                self.log_end(task.status.as_str());
                return Ok(());
            }
        };
        end_guard.finish(output.is_none());
        self.finish(task, output).await
    }

    /// Polls the function and waits for the next event.
    async fn next_event(
        &self,
        task: &TaskRecord,
        mut work: Pin<&mut impl Future<Output = Output>>,
        mut expiry: Pin<&mut Sleep>,
        mut message_delay: Pin<&mut Sleep>,
    ) -> Result<Event, TaskStoreError> {
        let inbox = self.job.client.inbox();
        let mut questions_changed = pin!(inbox.questions_changed.notified());
        let mut message_changed = pin!(inbox.message_changed.notified());
        let mut record_changed = self.store.changed(&task.id, task.version);
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(Event::Finished(output)));
            }
            if questions_changed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(Event::InboxChanged));
            }
            let may_update_message = message_delay.is_elapsed() || message_delay.as_mut().poll(cx).is_ready();
            if may_update_message && message_changed.as_mut().poll(cx).is_ready() {
                message_delay.as_mut().reset(Instant::now() + MESSAGE_INTERVAL);
                return Poll::Ready(Ok(Event::InboxChanged));
            }
            if let Poll::Ready(changed) = record_changed.as_mut().poll(cx) {
                return Poll::Ready(changed.map(|()| Event::RecordChanged));
            }
            expiry.as_mut().poll(cx).map(|()| Ok(Event::Expired))
        })
        .await
    }

    fn log_end(&self, status: &str) {
        let (name, task) = (self.job.callee.name, log_id(&self.task.id));
        tracing::info!(name, id = self.job.id.as_json(), task, status, "task ended");
    }
}

/// Moves the function's questions and status message from the inbox to the record, and the client's responses from the
/// record to the function.
async fn exchange(store: &dyn TaskStore, task: TaskRecord, client: &TaskClient) -> Result<Updated, TaskStoreError> {
    let InboxUpdate { asked, withdrawn, message } = client.inbox().take_update();
    let mut responses = Vec::new();
    let updated = update(store, task, |task| {
        responses.clear();
        task.inputs.extend(asked.iter().cloned());
        task.inputs.retain_mut(|input| match input.response.take() {
            Some(response) => {
                responses.push((std::mem::take(&mut input.key), response));
                false
            }
            None => !withdrawn.contains(&input.key),
        });
        if message.is_some() {
            task.message.clone_from(&message);
        }
        set_status(task);
    })
    .await?;
    if let Updated::Applied(_) = updated {
        responses.into_iter().for_each(|(key, response)| client.inbox().respond(&key, response));
    }
    Ok(updated)
}

/// A guard that ends the function's context, however the task ends.
struct EndGuard(Option<Arc<Context>>);

impl EndGuard {
    /// Ends the context after the function has finished or timed out.
    fn finish(mut self, timed_out: bool) {
        if let Some(context) = self.0.take() {
            context.attach();
            if timed_out {
                context.cancel();
            } else {
                context.end();
            }
        }
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(context) = self.0.take() {
            context.attach();
            context.cancel();
        }
    }
}

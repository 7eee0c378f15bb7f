//! Runs the function of a task and keeps its record up to date.

use std::{
    collections::HashMap,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::unconstrained,
    time::{Instant, Sleep, sleep},
};

use super::{
    LOG_TARGET,
    client::{InboxUpdate, TaskClient, truncated},
    records::TaskWaiter,
    store::{BytePermit, TaskStore, Updated},
    task::{StoredOutcome, Task, TaskError, TaskState, TaskStatus, result_too_large},
};
use crate::{
    backend::{BackendError, Backoff},
    counters::{Counted, Counter},
    engine::{
        call::{response, running::GuardedCall},
        request::operation::{CANCELLED, Ending, Operation},
    },
    error::Fault,
    handler::{Call, CallFuture, Context, Finished, ResultKind},
    random::log_id,
    revision::Dialect,
    stdx::{OnDrop, race, until_panic},
};

/// The minimum time between two updates that change only the status message.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(100);

/// How often a failed update of the record is tried again. If a question or a response still cannot be stored, the task
/// fails.
const MAX_RETRIES: u32 = 6;

/// How a task ends.
struct FinalState {
    status: TaskStatus,
    message: Option<String>,
    is_tool_error: bool,
    /// The result or the error, as JSON.
    outcome: String,
    ending: Ending,
}

impl FinalState {
    /// Returns the final state for the outcome that a plain call would have sent to its client.
    fn new(call: &Call, finished: Finished) -> Self {
        let (kind, result) = match call.result(finished) {
            Ok(result) => result,
            Err(fault) => {
                let mut error = Vec::new();
                response::write_error_object(&mut error, call.encoding.dialect, &fault);
                let (message, outcome) = (Some(truncated(&fault.to_string())), json(error));
                let ending = call.failed(fault);
                return Self { status: TaskStatus::Failed, message, is_tool_error: false, outcome, ending };
            }
        };
        let ending = call.ending(&kind);
        let error = match kind {
            ResultKind::ToolError(text) => Some(text),
            ResultKind::Complete | ResultKind::InputRequired | ResultKind::TaskCreated => None,
        };
        let message = error.as_deref().filter(|text| !text.is_empty()).map(truncated);
        Self { status: TaskStatus::Completed, message, is_tool_error: error.is_some(), outcome: json(result), ending }
    }
}

fn json(encoded: Vec<u8>) -> String {
    String::from_utf8(encoded).unwrap_or_default()
}

/// The runner of one task, which polls its function and updates its record.
pub(super) struct Runner {
    pub(super) store: Arc<TaskStore>,
    /// The task as it was inserted.
    pub(super) task: Task,
    pub(super) context: Context,
    pub(super) client: Arc<TaskClient>,
    pub(super) _arguments: BytePermit,
}

impl Runner {
    /// Runs the function until it finishes, or until its task is cancelled or expires. `changes` must exist before anybody
    /// knows the id of the task, so that no change is missed.
    pub(super) async fn run(self, changes: TaskWaiter, running: CallFuture, operation: Operation) {
        let (mut end, mut latest) = match until_panic(pin!(self.run_function(changes, running))).await {
            Ok(Ok(Some(ended))) => ended,
            Ok(Ok(None)) => return operation.end(self.dialect(), &Ending::Failed(CANCELLED)),
            Ok(Err(error)) => {
                tracing::error!(%error, task = log_id(self.task.id()), "the backend failed, ending a task");
                (self.failed(Fault::internal("the state of the task could not be stored")), None)
            }
            // A panic of the function is one of its outcomes. This one comes from the backend or the log.
            Err(panic) => (self.failed(self.context.call().panic_fault(&*panic)), None),
        };
        operation.end(self.dialect(), &end.ending);
        let (mut backoff, mut outcome) = (Backoff::default(), None);
        // Only this runner can end the task. If the backend fails for longer than the task exists, it has expired.
        loop {
            let finished = until_panic(pin!(self.finish(latest.take(), &mut end, &mut outcome))).await;
            let panicked = |_| Err(BackendError::Unavailable("it panicked".to_owned()).into());
            let Err(error) = finished.unwrap_or_else(panicked) else { return };
            if backoff.is_reset() {
                tracing::warn!(%error, task = log_id(self.task.id()), "cannot store the outcome of a task: retrying");
            }
            backoff.wait().await;
        }
    }

    fn dialect(&self) -> &'static Dialect {
        self.context.call().encoding.dialect
    }

    fn failed(&self, fault: Fault) -> FinalState {
        FinalState::new(self.context.call(), Finished::failed(fault))
    }

    /// Records how the task ended. Reads the task first if its latest state is unknown. Stores the outcome unless an
    /// earlier attempt has done so.
    async fn finish(
        &self,
        latest: Option<Task>,
        end: &mut FinalState,
        outcome: &mut Option<StoredOutcome>,
    ) -> Result<(), TaskError> {
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                let stored = self.store.store_outcome(&self.task, &end.outcome).await?;
                outcome.insert(stored.unwrap_or_else(|| {
                    *end = self.failed(result_too_large());
                    StoredOutcome::Inline(end.outcome.clone())
                }))
            }
        };
        let latest = match latest {
            Some(latest) => Some(latest),
            None => self.store.read(&self.task.key).await?,
        };
        let ended = match latest {
            Some(task) => {
                let update = self.store.update(task, |state| {
                    state.inputs.clear();
                    state.status = end.status;
                    state.message.clone_from(&end.message);
                    state.is_tool_error = end.is_tool_error;
                    state.outcome = Some(outcome.clone());
                });
                update.await?.task()
            }
            None => None,
        };
        let is_separate = |outcome: &StoredOutcome| matches!(outcome, StoredOutcome::Separate { .. });
        let is_named = ended.as_ref().and_then(|task| task.state.outcome.as_ref()).is_some_and(is_separate);
        if is_separate(outcome) && !is_named {
            self.store.delete_outcome(&self.task.key).await;
        }
        if let Some(task) = &ended {
            self.client.notify_status(task);
        }
        let status = ended.map_or("expired", |task| task.state.status.as_str());
        self.log_end(status);
        Ok(())
    }

    /// Runs the function while keeping its record up to date. Returns how the task ends and its latest state, if that is
    /// known, or `None` if the task was cancelled, was lost or has expired.
    async fn run_function(
        &self,
        changes: TaskWaiter,
        running: CallFuture,
    ) -> Result<Option<(FinalState, Option<Task>)>, TaskError> {
        let (context, call) = (&self.context, self.context.call());
        let lifetime = &context.shared().lifetime;
        // The call is cancelled unless the function finishes, however the task ends.
        let cancel = OnDrop(|| {
            lifetime.set_detached(false);
            if !lifetime.has_ended() {
                lifetime.cancel();
            }
        });
        let guarded = GuardedCall::new(running, context.clone()).with_slow_warning();
        let mut work = Box::pin(context.run_within(call.declared_timeout(), guarded));
        let mut latest = Some(self.task.clone());
        // Even if the function uses up the budget of each poll, its record is kept up to date.
        let output = match race(&mut work, unconstrained(self.keep_record(&mut latest, changes))).await {
            Ok(output) => output,
            Err(ended) => return ended.map(|()| None),
        };
        if output.is_some() {
            lifetime.set_detached(false);
            lifetime.complete();
        }
        drop(cancel);
        let finished = output.unwrap_or_else(|| call.timed_out(call.declared_timeout()));
        Ok(Some((FinalState::new(call, finished), latest)))
    }

    /// Exchanges questions and responses between the function and its client until the task is cancelled, is lost or
    /// expires. `latest` is `None` only while the record may be changing.
    async fn keep_record(&self, latest: &mut Option<Task>, mut changes: TaskWaiter) -> Result<(), TaskError> {
        let mut count = Counted::new(Counter::WorkingTasks);
        let mut message_delay = pin!(sleep(Duration::ZERO));
        while let Some(task) = &*latest {
            let before = task.state.status;
            let read = if self.next_change(task, &mut changes, message_delay.as_mut()).await {
                latest.take()
            } else {
                match self.store.read(&task.key).await {
                    Ok(read) => read,
                    // Without this case, the runner would read the record again and again.
                    Err(_) if self.store.has_expired(task) => None,
                    Err(error) => {
                        // The function goes on. The record is read again after a while.
                        tracing::debug!(%error, task = log_id(task.id()), "cannot read a task");
                        latest.take()
                    }
                }
            };
            *latest = None;
            let exchanged = match read {
                Some(read) => exchange(&self.store, read, &self.client).await?,
                None => Updated::Expired,
            };
            let (task, is_finished) = match exchanged {
                Updated::Applied(task) => (task, false),
                Updated::Finished(task) => (task, true),
                Updated::Expired => {
                    self.log_end("expired");
                    return Ok(());
                }
            };
            if task.state.status != before {
                let is_waiting = task.state.status == TaskStatus::InputRequired;
                count.set(if is_waiting { Counter::InputRequiredTasks } else { Counter::WorkingTasks });
                self.client.notify_status(&task);
            }
            if is_finished {
                self.log_end(task.state.status.as_str());
                return Ok(());
            }
            *latest = Some(task);
        }
        Ok(())
    }

    /// Waits for a change of the inbox or of the record. Returns whether the inbox has changed.
    async fn next_change(&self, task: &Task, changes: &mut TaskWaiter, mut message_delay: Pin<&mut Sleep>) -> bool {
        let inbox = &self.client.inbox;
        let message_changed = async {
            message_delay.as_mut().await;
            inbox.message_changed.notified().await;
        };
        let inbox_changed = race(inbox.questions_changed.notified(), message_changed);
        let changed = race(inbox_changed, changes.changed(task)).await;
        if let Ok(Err(())) = changed {
            message_delay.reset(Instant::now() + MESSAGE_INTERVAL);
        }
        changed.is_ok()
    }

    fn log_end(&self, status: &str) {
        let (name, task) = (&*self.context.call().name, log_id(self.task.id()));
        let counter = match status {
            "completed" => Counter::CompletedTasks,
            "failed" => Counter::FailedTasks,
            "cancelled" => Counter::CancelledTasks,
            _ => Counter::ExpiredTasks,
        };
        counter.count();
        tracing::info!(target: LOG_TARGET, name, id = self.context.request_id(), task, status, "task ended");
    }
}

/// Moves the function's questions and status message from the inbox to the record, and the client's responses from the
/// record to the function. If the backend fails, tries again for a while. If it still fails, a later update stores the
/// status message.
///
/// # Errors
///
/// Fails if a question, its withdrawal or a response could not be stored.
async fn exchange(store: &TaskStore, task: Task, client: &TaskClient) -> Result<Updated, TaskError> {
    let InboxUpdate { asked, withdrawn, message } = client.inbox.take_update();
    let runner = store.runner();
    // Kept over all attempts: one that seems to fail may have removed the responses from the record.
    let mut responses = HashMap::new();
    let (mut backoff, mut retries) = (Backoff::default(), 0..MAX_RETRIES);
    let updated = loop {
        let attempt = store.update(task.clone(), |state: &mut TaskState| {
            let new = asked.iter().filter(|new| !state.inputs.iter().any(|input| input.key == new.key));
            let new: Vec<_> = new.filter(|new| !responses.contains_key(&new.key)).cloned().collect();
            state.inputs.extend(new);
            state.inputs.retain_mut(|input| match input.response.take() {
                Some(response) => {
                    responses.insert(std::mem::take(&mut input.key), response);
                    false
                }
                None => !withdrawn.contains(&input.key),
            });
            if message.is_some() {
                state.message.clone_from(&message);
            }
            // The process may have a new lease.
            state.runner = runner.or(state.runner);
            state.set_unfinished_status();
        });
        match attempt.await {
            Err(TaskError::Backend(_)) if retries.next().is_some() => backoff.wait().await,
            updated => break updated,
        }
    };
    match updated {
        Ok(Updated::Applied(_)) => {
            responses.into_iter().for_each(|(key, response)| client.inbox.respond(&key, response));
        }
        Err(error) if asked.is_empty() && withdrawn.is_empty() && responses.is_empty() => {
            tracing::debug!(%error, task = log_id(task.id()), "cannot update a task");
            client.inbox.restore_message(message);
            return Ok(Updated::Applied(task));
        }
        _ => {}
    }
    updated
}

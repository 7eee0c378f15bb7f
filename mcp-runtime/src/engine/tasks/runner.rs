//! Runs the function of a task, and keeps its record true.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    record::{Changed, change, set_status},
    side::{News, Side, shortened},
};
use crate::{
    backend::{TaskOutcome, TaskRecord, TaskStatus, TaskStore, TaskStoreError, time::now},
    engine::call::{callee::Callee, guard::GuardedCall},
    error::Fault,
    handler::{Context, Encoding, Finished, Running},
    jsonrpc::{Id, raw},
};

/// The least time between two changes of a record that only say how far the task is.
const NOTE_INTERVAL: Duration = Duration::from_millis(100);

/// How often a store that failed is tried again, and after which time first; each time is twice the one before.
const TRIES: u32 = 6;
const FIRST_TRY: Duration = Duration::from_millis(100);

/// What the function of a task is run with.
pub(super) struct Job {
    pub(super) encoding: Arc<Encoding>,
    /// The id of the request that made it, as log files know it.
    pub(super) id: Id<'static>,
    pub(super) callee: Callee,
    pub(super) context: Option<Arc<Context>>,
    pub(super) forwards_log: bool,
    /// Whether layers stand around the function, which has a guard of its own then.
    pub(super) is_layered: bool,
    pub(super) side: Arc<Side>,
}

impl Job {
    /// Says that what was a call is a task from now on.
    pub(super) fn begin(&self) {
        if let Some(context) = &self.context {
            context.detach();
        }
        self.side.desk().begin();
    }

    /// Reads what the function came to from the response that a plain call would have got.
    fn outcome(&self, finished: Option<Result<Finished, Fault>>) -> Outcome {
        let finished = finished.unwrap_or_else(|| Ok(self.callee.timed_out(&self.encoding, &self.id)));
        let mut response = Vec::new();
        self.callee.finish(&mut response, &self.encoding, &self.id, finished);
        Outcome::read(std::str::from_utf8(&response).unwrap_or_default())
    }
}

/// How a task ends.
struct Outcome {
    status: TaskStatus,
    message: Option<String>,
    json: TaskOutcome,
}

impl Outcome {
    fn read(response: &str) -> Self {
        let member = |name: &str| raw::members(response).find_map(|(member, json)| (member == name).then_some(json));
        let Some(error) = member("error") else {
            let result = member("result").unwrap_or("{}");
            let json = TaskOutcome::Returned(result.into());
            return Self { status: TaskStatus::Completed, message: tool_error(result), json };
        };
        let message = raw::members(error).find(|(name, _)| name == "message").and_then(|(_, json)| raw::string(json));
        let json = TaskOutcome::Failed(error.into());
        Self { status: TaskStatus::Failed, message: message.map(|message| shortened(&message)), json }
    }
}

/// What a tool says that failed.
fn tool_error(result: &str) -> Option<String> {
    raw::members(result).find(|(name, json)| name == "isError" && *json == "true")?;
    let (_, content) = raw::members(result).find(|(name, _)| name == "content")?;
    let texts = raw::elements(content).flat_map(raw::members).filter(|(name, _)| name == "text");
    texts.filter_map(|(_, json)| raw::string(json)).next().map(|text| shortened(&text))
}

/// The function of one task, running.
pub(super) struct Runner {
    store: Arc<dyn TaskStore>,
    /// As it was made.
    task: TaskRecord,
    job: Job,
}

/// What the runner was woken by.
enum Event {
    Finished(Option<Result<Finished, Fault>>),
    /// The function did something.
    News,
    /// Somebody changed the record.
    Changed,
    Expired,
}

impl Runner {
    pub(super) fn new(store: Arc<dyn TaskStore>, task: TaskRecord, job: Job) -> Self {
        Self { store, task, job }
    }

    /// Runs the function to its end, or to the task's.
    pub(super) async fn run(self, running: Running) {
        let Err(error) = self.try_run(running).await else { return };
        tracing::error!(%error, "the store of tasks failed, so that a task was ended");
        for attempt in 0..TRIES {
            if self.give_up().await.is_ok() {
                return;
            }
            sleep(FIRST_TRY * 2_u32.pow(attempt)).await;
        }
    }

    /// Says in the record that the task has failed with its store.
    async fn give_up(&self) -> Result<(), TaskStoreError> {
        let Some(task) = self.store.load(&self.task.id).await? else { return Ok(()) };
        let fault = Fault::internal("the tasks cannot be reached");
        let finished = Finished { body: Vec::new(), outcome: Err(fault.into()) };
        self.end(task, Some(Ok(finished))).await
    }

    /// Writes what the function came to.
    async fn end(&self, task: TaskRecord, finished: Option<Result<Finished, Fault>>) -> Result<(), TaskStoreError> {
        let Outcome { status, message, json } = self.job.outcome(finished);
        let ended = change(&*self.store, task, |task| {
            task.inputs.clear();
            task.status = status;
            task.message.clone_from(&message);
            task.outcome = Some(json.clone());
        });
        if let Changed::Done(task) | Changed::Ended(task) = ended.await? {
            self.job.side.tell(&task);
        }
        Ok(())
    }

    async fn try_run(&self, running: Running) -> Result<(), TaskStoreError> {
        let Self { store, task, job } = self;
        let mut task = task.clone();
        let Job { callee, context, side, .. } = job;
        let ending = Ending(context.clone());
        let guarded = match job.is_layered {
            true => GuardedCall::layer(running, callee.name),
            false => GuardedCall::new(running, context.clone(), job.forwards_log, callee.name),
        };
        let mut work = Box::pin(callee.wait(guarded.complaining(), context.as_deref(), &job.id));
        let mut expiry = pin!(sleep(Duration::from_millis(task.expires().saturating_sub(now()))));
        let mut quiet = pin!(sleep(Duration::ZERO));
        let finished = loop {
            let event = {
                let desk = side.desk();
                let (mut asked, mut noted) = (pin!(desk.asked.notified()), pin!(desk.noted.notified()));
                let mut changed = store.changed(&task.id, task.version);
                poll_fn(|cx| {
                    if let Poll::Ready(finished) = work.as_mut().poll(cx) {
                        return Poll::Ready(Ok(Event::Finished(finished)));
                    }
                    if asked.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Ok(Event::News));
                    }
                    let is_quiet = quiet.is_elapsed() || quiet.as_mut().poll(cx).is_ready();
                    if is_quiet && noted.as_mut().poll(cx).is_ready() {
                        quiet.as_mut().reset(Instant::now() + NOTE_INTERVAL);
                        return Poll::Ready(Ok(Event::News));
                    }
                    if let Poll::Ready(changed) = changed.as_mut().poll(cx) {
                        return Poll::Ready(changed.map(|()| Event::Changed));
                    }
                    expiry.as_mut().poll(cx).map(|()| Ok(Event::Expired))
                })
                .await?
            };
            let seen = match event {
                Event::Finished(finished) => break finished,
                Event::Expired => None,
                Event::News => Some(task.clone()),
                Event::Changed => store.load(&task.id).await?,
            };
            let Some(seen) = seen else {
                tracing::debug!(name = callee.name, id = job.id.as_json(), "a task's time is over");
                return Ok(());
            };
            let before = task.status;
            let changed = exchange(&**store, seen, side).await?;
            let is_over = !matches!(changed, Changed::Done(_));
            let Some(after) = changed.into_task() else { return Ok(()) };
            task = after;
            if task.status != before {
                side.tell(&task);
            }
            if is_over {
                tracing::debug!(name = callee.name, id = job.id.as_json(), "a task was ended by its client");
                return Ok(());
            }
        };
        ending.finish(finished.is_none());
        self.end(task, finished).await
    }
}

/// Tells the record what the function did, and the function what its client answered.
async fn exchange(store: &dyn TaskStore, task: TaskRecord, side: &Side) -> Result<Changed, TaskStoreError> {
    let News { asked, withdrawn, note } = side.desk().take_news();
    let mut answers = Vec::new();
    let changed = change(store, task, |task| {
        answers.clear();
        task.inputs.extend(asked.iter().cloned());
        task.inputs.retain_mut(|input| match input.answer.take() {
            Some(answer) => {
                answers.push((std::mem::take(&mut input.key), answer));
                false
            }
            None => !withdrawn.contains(&input.key),
        });
        if note.is_some() {
            task.message.clone_from(&note);
        }
        set_status(task);
    })
    .await?;
    if let Changed::Done(_) = changed {
        answers.into_iter().for_each(|(key, answer)| side.desk().answer(&key, answer));
    }
    Ok(changed)
}

/// Tells a function that its task is over, however it ends.
struct Ending(Option<Arc<Context>>);

impl Ending {
    /// Says that the function has ended, or that it was given up.
    fn finish(mut self, is_cancelled: bool) {
        if let Some(context) = self.0.take() {
            context.attach();
            match is_cancelled {
                true => context.cancel(),
                false => context.end(),
            }
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(context) = self.0.take() {
            context.attach();
            context.cancel();
        }
    }
}
